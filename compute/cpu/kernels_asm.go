//go:build !purego && (amd64 || arm64)

package cpu

import (
	"math"
	"unsafe"
)

// What the tables in assembly share: checks of lengths before a call, since a
// wrong one would not panic there, and the parts that are not worth assembly.

const recordBytes = int(unsafe.Sizeof(record{}))

// linearASM is the signature of the assembly behind a quantized linear kernel:
// w and s point to the first group's weights and scales, groups follow each
// other, and dst's rows are ldd values apart.
type linearASM func(dst *float32, ldd int, w, s *byte, bias *float32, x *byte, blocks, groups, rows int)

func (f linearASM) kernel() func(dst []float32, ldd int, w *packedMatrix, g, ng int, acts []record, rows int) {
	return func(dst []float32, ldd int, w *packedMatrix, g, ng int, acts []record, rows int) {
		_, _, _ = dst[(rows-1)*ldd+ng*groupRows-1], acts[rows*w.blocks-1], w.bias[(g+ng)*groupRows-1]
		_ = w.weights[(g+ng)*w.weightStride-1]
		f(&dst[0], ldd, &w.weights[g*w.weightStride], &w.scales[g*w.scaleStride], &w.bias[g*groupRows],
			(*byte)(unsafe.Pointer(&acts[0])), w.blocks, ng, rows)
	}
}

// linearFloatASM is the same for float weights: one group, or four that are
// stride bytes apart.
type linearFloatASM func(dst *float32, ldd int, w *byte, stride int, bias, x *float32, in, four, rows int)

func (f linearFloatASM) kernel() func(dst []float32, ldd int, w *packedMatrix, g, ng int, x []float32, rows int) {
	return func(dst []float32, ldd int, w *packedMatrix, g, ng int, x []float32, rows int) {
		_, _, _ = dst[(rows-1)*ldd+ng*groupRows-1], x[rows*w.in-1], w.bias[(g+ng)*groupRows-1]
		_ = w.weights[(g+ng)*w.weightStride-1]
		for i := 0; i < ng; {
			n, four := 1, 0
			if ng-i >= 4 {
				n, four = 4, 1
			}
			f(&dst[i*groupRows], ldd, &w.weights[(g+i)*w.weightStride], w.weightStride, &w.bias[(g+i)*groupRows], &x[0], w.in, four, rows)
			i += n
		}
	}
}

// vectorRun is the largest number of vectors an attention kernel takes of n.
func vectorRun(n int) int {
	switch {
	case n >= 4:
		return 4
	case n >= 2:
		return 2
	}
	return 1
}

// hideScores sets what lies outside of lo ≤ j < hi in the first and the last
// vector to −Inf: it cannot be the maximum, and exp(−Inf) adds +0 to a sum. It
// returns the range of whole vectors.
func hideScores(s []float32, lo, hi int) (first, end int) {
	first, end = lo&^(groupRows-1), (hi+groupRows-1)&^(groupRows-1)
	_ = s[end-1]
	hidden := float32(math.Inf(-1))
	for j := first; j < lo; j++ {
		s[j] = hidden
	}
	for j := hi; j < end; j++ {
		s[j] = hidden
	}
	return first, end
}

func maxOf(x []float32) float32 {
	top := float32(math.Inf(-1))
	for _, v := range x {
		top = max(top, v)
	}
	return top
}

// finishArgmax joins the lanes of argmax and the values from n on.
func finishArgmax(x, value []float32, index []int32, n int) int32 {
	best := index[0]
	top := value[0]
	for i, v := range value {
		if v > top || v == top && index[i] < best {
			top, best = v, index[i]
		}
	}
	for i := n; i < len(x); i++ {
		if x[i] != x[i] {
			return -1
		}
		if x[i] > top {
			top, best = x[i], int32(i)
		}
	}
	return best
}
