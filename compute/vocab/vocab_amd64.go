//go:build amd64 && !purego

package vocab

import (
	"math/bits"

	"golang.org/x/sys/cpu"
)

// implementations lists what this machine can run, the fastest first.
func implementations() []*kernels {
	var list []*kernels
	x := &cpu.X86
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasPOPCNT {
		list = append(list, &avx512)
	}
	if x.HasAVX2 && x.HasFMA && x.HasPOPCNT {
		list = append(list, &avx2)
	}
	return append(list, &generic)
}

var active = implementations()[0]

const purego = false

var avx512 = kernels{
	name:    "avx512",
	max:     maxASM(maxAVX512),
	scale:   scaleASM(scaleAVX512),
	mass:    massASM(massAVX512),
	weights: weightsASM(weightsAVX512),
	collect: func(ids []int32, z, bm []float32, first int32, lo float32) int {
		if len(bm) == 0 {
			return 0
		}
		_, _ = z[len(bm)*Block-1], ids[len(z)+15]
		return collectAVX512(&ids[0], &z[0], &bm[0], len(bm), first, lo)
	},
	race: func(ids []int32, words []uint32, z, bm []float32, first int32, r Race) int {
		if len(bm) == 0 {
			return 0
		}
		_, _, _ = z[len(bm)*Block-1], ids[len(z)+15], words[len(z)+15]
		a := r.args()
		return raceAVX512(&ids[0], &words[0], &z[0], &bm[0], len(bm), first, &a.keys[0])
	},
}

var avx2 = kernels{
	name:    "avx2",
	max:     maxASM(maxAVX2),
	scale:   scaleASM(scaleAVX2),
	mass:    massASM(massAVX2),
	weights: weightsASM(weightsAVX2),
	collect: collectMasks,
	race:    raceMasks,
}

// maskRun is the number of blocks whose masks are made by one call.
const maskRun = 32

// collectMasks turns the masks of collectAVX2 into ids.
func collectMasks(ids []int32, z, bm []float32, first int32, lo float32) (n int) {
	var m [maskRun]uint64
	for b := 0; b < len(bm); b += maskRun {
		end := min(b+maskRun, len(bm))
		_ = z[end*Block-1]
		collectAVX2(&m[0], &z[b*Block], &bm[b], end-b, lo)
		for i, mask := range m[:end-b] {
			for ; mask != 0; mask &= mask - 1 {
				ids[n] = first + int32((b+i)*Block+bits.TrailingZeros64(mask))
				n++
			}
		}
	}
	return n
}

// raceMasks turns the masks of raceAVX2 into ids and words.
func raceMasks(ids []int32, words []uint32, z, bm []float32, first int32, r Race) (n int) {
	var m [maskRun]uint64
	a := r.args()
	for b := 0; b < len(bm); b += maskRun {
		end := min(b+maskRun, len(bm))
		_ = z[end*Block-1]
		raceAVX2(&m[0], &z[b*Block], &bm[b], end-b, first+int32(b*Block), &a.keys[0])
		for i, mask := range m[:end-b] {
			for ; mask != 0; mask &= mask - 1 {
				id := first + int32((b+i)*Block+bits.TrailingZeros64(mask))
				ids[n], words[n] = id, r.Noise.Word(id)
				n++
			}
		}
	}
	return n
}

// raceArgs is what the assembly reads: the key schedule, then the rest of the
// counter and the bounds.
type raceArgs struct {
	keys                      [20]uint32
	position, sample, purpose uint32
	invT, best, lo            float32
}

func (r *Race) args() raceArgs {
	a := raceArgs{
		position: r.Noise.Position, sample: r.Noise.Sample, purpose: r.Noise.Purpose,
		invT: r.InvT, best: r.Best, lo: r.Lo,
	}
	k := r.Noise.key()
	for i := range 10 {
		a.keys[2*i], a.keys[2*i+1] = k[0], k[1]
		k[0] += philoxW0
		k[1] += philoxW1
	}
	return a
}

// The adapters check lengths, since a wrong one would not panic in assembly.

func maxASM(f func(bm, z *float32, blocks int) (float32, int)) func(bm, z []float32) (float32, bool) {
	return func(bm, z []float32) (float32, bool) {
		if len(bm) == 0 {
			return negInf, false
		}
		_ = z[len(bm)*Block-1]
		m, nan := f(&bm[0], &z[0], len(bm))
		return m, nan != 0
	}
}

func scaleASM(f func(dst, bm, z *float32, blocks int, s float32) (float32, int)) func(dst, bm, z []float32, s float32) (float32, bool) {
	return func(dst, bm, z []float32, s float32) (float32, bool) {
		if len(bm) == 0 {
			return negInf, false
		}
		_, _ = z[len(bm)*Block-1], dst[len(bm)*Block-1]
		m, nan := f(&dst[0], &bm[0], &z[0], len(bm), s)
		return m, nan != 0
	}
}

func massASM(f func(z, bm *float32, blocks int, max, lo float32) (uint64, int)) func(z, bm []float32, max, lo float32) (uint64, int) {
	return func(z, bm []float32, max, lo float32) (uint64, int) {
		if len(bm) == 0 {
			return 0, 0
		}
		_ = z[len(bm)*Block-1]
		return f(&z[0], &bm[0], len(bm), max, lo)
	}
}

func weightsASM(f func(dst *uint32, z, bm *float32, blocks int, max, lo float32)) func(dst []uint32, z, bm []float32, max, lo float32) {
	return func(dst []uint32, z, bm []float32, max, lo float32) {
		if len(bm) == 0 {
			return
		}
		_, _ = z[len(bm)*Block-1], dst[len(bm)*Block-1]
		f(&dst[0], &z[0], &bm[0], len(bm), max, lo)
	}
}
