//go:build !purego

package cpu

import "golang.org/x/sys/cpu"

//go:generate go run -C _asm ./avx512 -pkg cpu -out ../avx512_amd64.s -stubs ../avx512_stubs_amd64.go
//go:generate go run -C _asm ./avx2 -pkg cpu -out ../avx2_amd64.s -stubs ../avx2_stubs_amd64.go

// archImplementations lists the amd64 tables, best first.
func archImplementations() []implementation {
	x := &cpu.X86
	return []implementation{
		{"avx512", x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VNNI && x.HasFMA, avx512Kernels},
		{"avx2", x.HasAVX2 && x.HasFMA && x.HasF16C, avx2Kernels},
	}
}
