package canon

import "math"

// BlockSize is the number of values that share an activation's scale.
const BlockSize = 32

// Acts is a row of activations quantized in blocks of 32.
type Acts struct {
	Q     []int8    // BlockSize for each block
	Scale []float32 // of each block
	Sum   []int32   // ΣQ of each block
}

// Quantize turns a row into int8 blocks: s = amax/127, q = roundToEven(x·(127/amax)).
// A block whose amax is below 1e-30 is all zeros with scale 0; one whose amax is
// not finite has scale NaN and zeros, so that the NaN stays visible. len(x) is a
// multiple of 32.
func Quantize(x []float32) Acts {
	n := len(x) / BlockSize
	a := Acts{Q: make([]int8, len(x)), Scale: make([]float32, n), Sum: make([]int32, n)}
	for b := range n {
		a.Scale[b] = quantizeBlock(a.Q[b*BlockSize:][:BlockSize], x[b*BlockSize:][:BlockSize])
		for _, q := range a.Q[b*BlockSize:][:BlockSize] {
			a.Sum[b] += int32(q)
		}
	}
	return a
}

func quantizeBlock(q []int8, x []float32) float32 {
	var amax float32
	for _, v := range x {
		amax = max(amax, math.Float32frombits(math.Float32bits(v)&^(1<<31)))
	}
	if amax-amax != 0 { // infinite or NaN
		return float32(math.NaN())
	}
	if amax < 1e-30 {
		return 0
	}
	inv := 127 / amax
	for i, v := range x {
		q[i] = int8(math.RoundToEven(float64(float32(v * inv))))
	}
	return amax / 127
}

// Dot is the float dot product: acc = fma(w[i], x[i], acc), i ascending; a sum
// of −0 is +0.
func Dot(w, x []float32) float32 {
	var acc float32
	for i, v := range w {
		acc = FMA(v, x[i], acc)
	}
	return acc + 0
}

// DotBlocks is the quantized dot product of a row of weights and a row of
// activations, blocks ascending. For each block, with isum = Σ q·x and the
// integer sub-scales folded in (exact in int32):
//
//	acc = acc + float32(isum)·(ws·xs)
//	acc = acc − wmin·(xs·float32(msub·xsum))    formats with a minimum
//
// every operation rounded to float32; a sum of −0 is +0.
func DotBlocks(w []Block, x Acts) float32 {
	var acc float32
	for b := range w {
		blk, q, xs := &w[b], x.Q[b*BlockSize:][:BlockSize], x.Scale[b]
		var half [2]int32
		for i, v := range q {
			half[i/16] += int32(blk.Q[i]) * int32(v)
		}
		isum := half[0]*blk.Sub[0] + half[1]*blk.Sub[1]
		t := float32(blk.Scale * xs)
		acc += float32(float32(isum) * t)
		if blk.HasMin {
			u := float32(xs * float32(blk.MinSub*x.Sum[b]))
			acc -= float32(blk.Min * u)
		}
	}
	return acc + 0
}
