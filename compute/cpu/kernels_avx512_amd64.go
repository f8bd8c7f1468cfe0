//go:build !purego

package cpu

import (
	"unsafe"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/compute/canon"
)

// avx512Kernels is the table for processors with AVX-512 and VNNI. What does not
// fill whole vectors is left to the generic loops.
func avx512Kernels() *kernels {
	k := genericKernels()
	k.name, k.tile, k.floatTile = "avx512", 8, 6
	for typ, f := range map[checkpoint.Type]linearASM{
		checkpoint.Q8_0: linearQ8AVX512,
		checkpoint.Q4_0: linearQ4AVX512,
		checkpoint.Q4_1: linearQ4MinAVX512,
		checkpoint.Q5_0: linearQ5AVX512,
		checkpoint.Q5_1: linearQ5MinAVX512,
		checkpoint.Q4_K: linearQ4KAVX512,
		checkpoint.Q5_K: linearQ5KAVX512,
		checkpoint.Q6_K: linearQ6KAVX512,
		checkpoint.MLX4: linearMLX4AVX512,
		checkpoint.MLX8: linearMLX8AVX512,
	} {
		k.linear[typ] = f.kernel()
	}
	k.linearFloat[checkpoint.F32] = linearFloatASM(linearFloatAVX512).kernel()
	k.linearFloat[checkpoint.F16] = linearFloatASM(linearHalfAVX512).kernel()
	k.linearFloat[checkpoint.BF16] = linearFloatASM(linearBFloatAVX512).kernel()
	k.quantize = quantizeWithAVX512
	k.norm, k.rotary, k.gate = normWithAVX512, rotaryWithAVX512, gateWithAVX512
	k.add, k.scale, k.argmax, k.toHalf = addWithAVX512, scaleWithAVX512, argmaxWithAVX512, toHalfWithAVX512
	k.scoresHalf, k.scoresFloat = scoresHalfWithAVX512, scoresFloatWithAVX512
	k.valuesHalf, k.valuesFloat = valuesHalfWithAVX512, valuesFloatWithAVX512
	k.softmax, k.combine = softmaxWithAVX512, combineWithAVX512
	return k
}

func quantizeWithAVX512(dst []record, stride int, x []float32) {
	n := len(x) / blockCols
	if n == 0 {
		return
	}
	_ = dst[(n-1)*stride]
	quantizeAVX512((*byte)(unsafe.Pointer(&dst[0])), stride*recordBytes, &x[0], n)
}

func normWithAVX512(dst, x, w []float32, eps float32) {
	n := len(x)
	if n == 0 || n%16 != 0 {
		canon.Norm(dst, x, w, eps)
		return
	}
	_, _ = dst[n-1], w[n-1]
	normAVX512(&dst[0], &x[0], &w[0], n/16, float32(n), eps)
}

func rotaryWithAVX512(x, cos, sin []float32) {
	n := len(cos)
	if n == 0 || n%16 != 0 {
		canon.Rotary(x, cos, sin)
		return
	}
	_, _ = x[2*n-1], sin[n-1]
	rotaryAVX512(&x[0], n, &cos[0], &sin[0])
}

func gateWithAVX512(dst, g, u []float32, act compute.Activation) {
	n := len(g) &^ 15
	if n > 0 {
		_, _ = dst[n-1], u[n-1]
		switch act {
		case compute.SiLU:
			gateSiLUAVX512(&dst[0], &g[0], &u[0], n/16)
		case compute.GELUTanh:
			gateGELUTanhAVX512(&dst[0], &g[0], &u[0], n/16)
		case compute.Sigmoid:
			gateSigmoidAVX512(&dst[0], &g[0], &u[0], n/16)
		}
	}
	gateGeneric(dst[n:], g[n:], u[n:], act)
}

func addWithAVX512(dst, a, b []float32) {
	n := len(a) &^ 15
	if n > 0 {
		_, _ = dst[n-1], b[n-1]
		addAVX512(&dst[0], &a[0], &b[0], n/16)
	}
	addGeneric(dst[n:], a[n:], b[n:])
}

func scaleWithAVX512(dst, a []float32, s float32) {
	n := len(a) &^ 15
	if n > 0 {
		_ = dst[n-1]
		scaleAVX512(&dst[0], &a[0], s, n/16)
	}
	scaleGeneric(dst[n:], a[n:], s)
}

func toHalfWithAVX512(dst []uint16, x []float32) {
	n := len(x) &^ 15
	if n > 0 {
		_ = dst[n-1]
		toHalfAVX512(&dst[0], &x[0], n/16)
	}
	toHalfGeneric(dst[n:], x[n:])
}

func argmaxWithAVX512(x []float32) int32 {
	n := len(x) &^ 15
	if n == 0 {
		return canon.Argmax(x)
	}
	var value [16]float32
	var index [16]int32
	if argmaxAVX512(&x[0], n/16, &value, &index) != 0 {
		return -1
	}
	return finishArgmax(x, value[:], index[:], n)
}

func scoresHalfWithAVX512(s, q []float32, k []uint16, pairs, dim, groups int) {
	_, _, _ = s[(pairs-1)*chunkSize+groups*groupRows-1], q[pairs*dim-1], k[groups*dim*groupRows-1]
	for g := 0; g < groups; {
		n := vectorRun(groups - g)
		scoresHalfAVX512(&s[g*groupRows], &q[0], (*byte)(unsafe.Pointer(&k[g*dim*groupRows])), dim, n, pairs)
		g += n
	}
}

func scoresFloatWithAVX512(s, q, k []float32, pairs, dim, groups int) {
	_, _, _ = s[(pairs-1)*chunkSize+groups*groupRows-1], q[pairs*dim-1], k[groups*dim*groupRows-1]
	for g := 0; g < groups; {
		n := vectorRun(groups - g)
		scoresFloatAVX512(&s[g*groupRows], &q[0], (*byte)(unsafe.Pointer(&k[g*dim*groupRows])), dim, n, pairs)
		g += n
	}
}

func valuesHalfWithAVX512(o, e []float32, v []uint16, pairs, dim, n int) {
	if dim%16 != 0 {
		valuesHalfGeneric(o, e, v, pairs, dim, n)
		return
	}
	_, _, _ = o[pairs*dim-1], e[(pairs-1)*chunkSize+n-1], v[n*dim-1]
	for d := 0; d < dim; {
		vectors := vectorRun((dim - d) / 16)
		valuesHalfAVX512(&o[d], &e[0], (*byte)(unsafe.Pointer(&v[d])), dim, n, vectors, pairs)
		d += 16 * vectors
	}
}

func valuesFloatWithAVX512(o, e, v []float32, pairs, dim, n int) {
	if dim%16 != 0 {
		valuesFloatGeneric(o, e, v, pairs, dim, n)
		return
	}
	_, _, _ = o[pairs*dim-1], e[(pairs-1)*chunkSize+n-1], v[n*dim-1]
	for d := 0; d < dim; {
		vectors := vectorRun((dim - d) / 16)
		valuesFloatAVX512(&o[d], &e[0], (*byte)(unsafe.Pointer(&v[d])), dim, n, vectors, pairs)
		d += 16 * vectors
	}
}

func softmaxWithAVX512(s []float32, lo, hi int) (m, l float32) {
	first, end := hideScores(s, lo, hi)
	m = softmaxAVX512(&s[first], (end-first)/16, &l)
	return m, l
}

func combineWithAVX512(dst, m, l, o []float32, stride int) {
	n, dim := len(m), len(dst)
	if n == 0 || dim%16 != 0 {
		combineGeneric(dst, m, l, o, stride)
		return
	}
	_, _ = l[n-1], o[(n-1)*stride+dim-1]
	top := maxOf(m)
	for d := 0; d < dim; {
		vectors := 4
		if dim-d < 64 {
			vectors = 1
		}
		combineAVX512(&dst[d], &m[0], &l[0], &o[d], stride, n, top, vectors)
		d += 16 * vectors
	}
}
