package vocab

import "surmise/compute/canon"

// generic is the plain Go implementation and the definition of all others.
var generic = kernels{
	name: "generic", scale: scaleGeneric, max: maxGeneric, mass: massGeneric,
	weights: weightsGeneric, race: raceGeneric, collect: collectGeneric,
}

// Weight returns trunc(exp(d)·2³⁰) for d ≤ 0, by the exp of package canon: the
// mass of a token whose logit lies −d below the maximum. d < −[Depth] gives 0.
func Weight(d float32) uint32 {
	if !(d >= -Depth) {
		return 0
	}
	return uint32(int32(canon.Exp(d) * One))
}

func maxGeneric(bm, z []float32) (float32, bool) {
	all, nan := negInf, false
	for b := range bm {
		m := negInf
		for _, v := range z[b*Block : min((b+1)*Block, len(z))] {
			if v > m {
				m = v
			} else if v != v {
				nan = true
			}
		}
		bm[b] = m + 0 // −0 becomes +0
		all = maxOf2(all, bm[b])
	}
	return all, nan
}

func scaleGeneric(dst, bm, z []float32, s float32) (float32, bool) {
	for i, v := range z {
		dst[i] = v * s
	}
	return maxGeneric(bm, dst[:len(z)])
}

func massGeneric(z, bm []float32, max, lo float32) (mass uint64, count int) {
	for b, m := range bm {
		if m < lo {
			continue
		}
		for _, v := range z[b*Block : min((b+1)*Block, len(z))] {
			if v >= lo {
				mass += uint64(Weight(v - max))
				count++
			}
		}
	}
	return mass, count
}

func weightsGeneric(dst []uint32, z, bm []float32, max, lo float32) {
	for b, m := range bm {
		end := min((b+1)*Block, len(z))
		d := dst[b*Block : end]
		if m < lo {
			clear(d)
			continue
		}
		for i, v := range z[b*Block : end] {
			d[i] = 0
			if v >= lo {
				d[i] = Weight(v - max)
			}
		}
	}
}

func collectGeneric(ids []int32, z, bm []float32, first int32, lo float32) int {
	n := 0
	for b, m := range bm {
		if m < lo {
			continue
		}
		for i, v := range z[b*Block : min((b+1)*Block, len(z))] {
			if v >= lo {
				ids[n] = first + int32(b*Block+i)
				n++
			}
		}
	}
	return n
}

// Constants of limit: a float32 whose bits, read as an integer, are
// raceScale·d + raceBias lies between 2³¹·exp(d) and 1.07 times that, because a
// chord of 2^x lies above the curve. The bias holds (127 + 31)·2²³ and a margin
// of 2⁻¹⁰ for the roundings on the way.
const (
	raceScale float32 = 12102203.161561485
	raceBias  float32 = (127+31)*(1<<23) + 1<<13
	raceClamp float32 = 60
)

func raceGeneric(ids []int32, words []uint32, z, bm []float32, first int32, r Race) int {
	n := 0
	var w [Block]uint32
	for b, m := range bm {
		if m < r.Lo {
			continue
		}
		base := first + int32(b*Block)
		r.Noise.block(&w, base)
		for i, v := range z[b*Block : min((b+1)*Block, len(z))] {
			if v >= r.Lo && float32(int32(w[i]>>1)) <= raceLimit(v, r) {
				ids[n], words[n] = base+int32(i), w[i]
				n++
			}
		}
	}
	return n
}
