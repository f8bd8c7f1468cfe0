//go:build !purego

package cpu

//go:generate go run -C _asm ./probe -pkg cpu -out ../probe_amd64.s -stubs ../probe_stubs_amd64.go

// archProbe gives the loops of an instruction set.
func archProbe(name string) (probeKernels, bool) {
	switch name {
	case "avx512":
		return probeKernels{
			read:  func(p []byte) { probeReadAVX512(&p[0], len(p)) },
			bytes: probeBytesAVX512, byteMACs: 24 * 64, byteLoops: 1 << 12,
			float: probeFloatAVX512, floatMACs: 24 * 16, floatLoops: 1 << 12,
		}, true
	case "avx2":
		return probeKernels{
			read:  func(p []byte) { probeReadAVX2(&p[0], len(p)) },
			bytes: probeBytesAVX2, byteMACs: 10 * 32, byteLoops: 1 << 13,
			float: probeFloatAVX2, floatMACs: 10 * 8, floatLoops: 1 << 13,
		}, true
	}
	return probeKernels{}, false
}
