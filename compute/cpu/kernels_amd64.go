//go:build !purego

package cpu

import "golang.org/x/sys/cpu"

// archImplementations lists the amd64 tables, best first.
func archImplementations() []implementation {
	x := &cpu.X86
	return []implementation{
		{"avx512", x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VNNI && x.HasFMA, avx512Kernels},
		{"avx2", x.HasAVX2 && x.HasFMA && x.HasF16C, avx2Kernels},
	}
}
