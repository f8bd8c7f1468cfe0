//go:build !purego && (amd64 || arm64)

package cpu

import (
	"math"
	"unsafe"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/compute/canon"
)

//go:generate go run -C _asm ./avx512 -pkg cpu -out ../avx512_amd64.s -stubs ../avx512_stubs_amd64.go
//go:generate go run -C _asm ./avx2 -pkg cpu -out ../avx2_amd64.s -stubs ../avx2_stubs_amd64.go
//go:generate go run -C _asm ./neon -out ../neon_arm64.s -stubs ../neon_stubs_arm64.go

// assembly is what an instruction set implements in assembly. Vectors are of 16
// values for all of them, whatever the width of a register. kernels makes a
// table of it: it checks lengths before each call, since a wrong one would not
// panic there, and leaves to the generic loops what does not fill vectors.
type assembly struct {
	name            string
	tile, floatTile int // the most rows of a linear tile
	// fourRows is the most rows for which linearFloat takes four groups.
	fourRows int
	// vectors is how many vectors of positions or dimensions, of the n that are
	// left, an attention kernel takes at once for so many pairs.
	vectors func(pairs, n int) int

	linear      map[checkpoint.Type]linearASM
	linearFloat map[checkpoint.Type]linearFloatASM

	quantize                func(dst *byte, stride int, x *float32, blocks int)
	norm                    func(dst, x, w *float32, vectors int, n, eps float32)
	rotary                  func(x *float32, half int, cos, sin *float32)
	silu, geluTanh, sigmoid func(dst, x, u *float32, vectors int)
	add                     func(dst, a, b *float32, vectors int)
	scale                   func(dst, a *float32, s float32, vectors int)
	argmax                  func(x *float32, vectors int) (index int32, value float32)
	toHalf                  func(dst *uint16, x *float32, vectors int)

	scoresHalf, scoresFloat scoresASM
	valuesHalf, valuesFloat valuesASM
	softmax                 func(s *float32, vectors int) (m, l float32)
	// combine takes 1 or 4 vectors.
	combine func(dst, m, l, o *float32, stride, chunks int, top float32, vectors int)
}

// linearASM multiplies groups of quantized weights: w and s point to the first
// group's weights and scales, groups follow each other, dst's rows are ldd
// values apart.
type linearASM func(dst *float32, ldd int, w, s *byte, bias *float32, x *byte, blocks, groups, rows int)

// linearFloatASM is the same for float weights: one group, or four that are
// stride bytes apart.
type linearFloatASM func(dst *float32, ldd int, w *byte, stride int, bias, x *float32, in, four, rows int)

// scoresASM and valuesASM work on one page. For every byte of it they ask for
// the byte as far behind ahead.
type (
	scoresASM func(s, q *float32, k, ahead *byte, dim, groups, pairs int)
	valuesASM func(o, e *float32, v, ahead *byte, dim, n, vectors, pairs int)
)

const (
	vector      = 16
	recordBytes = int(unsafe.Sizeof(record{}))
)

func (a *assembly) kernels() *kernels {
	k := genericKernels()
	k.name, k.tile, k.floatTile = a.name, a.tile, a.floatTile
	for typ, f := range a.linear {
		k.linear[typ] = f.kernel()
	}
	for typ, f := range a.linearFloat {
		k.linearFloat[typ] = f.kernel(a.fourRows)
	}
	k.quantize, k.norm, k.rotary, k.argmax, k.toHalf = a.quantizeRow, a.normRow, a.rotaryHead, a.argmaxRow, a.toHalfRow
	k.gate, k.add, k.scale = a.gateRow, a.addRow, a.scaleRow
	k.scoresHalf, k.scoresFloat = scoresKernel[uint16](a, a.scoresHalf), scoresKernel[float32](a, a.scoresFloat)
	k.valuesHalf = valuesKernel(a, a.valuesHalf, valuesHalfGeneric)
	k.valuesFloat = valuesKernel(a, a.valuesFloat, valuesFloatGeneric)
	k.softmax, k.combine = a.softmaxChunk, a.combineHead
	return k
}

func (f linearASM) kernel() func(dst []float32, ldd int, w *packedMatrix, g, ng int, acts []record, rows int) {
	return func(dst []float32, ldd int, w *packedMatrix, g, ng int, acts []record, rows int) {
		_, _, _ = dst[(rows-1)*ldd+ng*groupRows-1], acts[rows*w.blocks-1], w.bias[(g+ng)*groupRows-1]
		_, _ = w.weights[(g+ng)*w.weightStride-1], w.scales[(g+ng)*w.scaleStride-1]
		f(&dst[0], ldd, &w.weights[g*w.weightStride], &w.scales[g*w.scaleStride], &w.bias[g*groupRows],
			(*byte)(unsafe.Pointer(&acts[0])), w.blocks, ng, rows)
	}
}

func (f linearFloatASM) kernel(fourRows int) func(dst []float32, ldd int, w *packedMatrix, g, ng int, x []float32, rows int) {
	return func(dst []float32, ldd int, w *packedMatrix, g, ng int, x []float32, rows int) {
		_, _, _ = dst[(rows-1)*ldd+ng*groupRows-1], x[rows*w.in-1], w.bias[(g+ng)*groupRows-1]
		_ = w.weights[(g+ng)*w.weightStride-1]
		for i := 0; i < ng; {
			n, four := 1, 0
			if rows <= fourRows && ng-i >= 4 {
				n, four = 4, 1
			}
			f(&dst[i*groupRows], ldd, &w.weights[(g+i)*w.weightStride], w.weightStride, &w.bias[(g+i)*groupRows], &x[0], w.in, four, rows)
			i += n
		}
	}
}

func (a *assembly) quantizeRow(dst []record, stride int, x []float32) {
	n := len(x) / blockCols
	if n == 0 {
		return
	}
	_ = dst[(n-1)*stride]
	a.quantize((*byte)(unsafe.Pointer(&dst[0])), stride*recordBytes, &x[0], n)
}

func (a *assembly) normRow(dst, x, w []float32, eps float32) {
	n := len(x)
	if n == 0 || n%vector != 0 {
		canon.Norm(dst, x, w, eps)
		return
	}
	_, _ = dst[n-1], w[n-1]
	a.norm(&dst[0], &x[0], &w[0], n/vector, float32(n), eps)
}

func (a *assembly) rotaryHead(x, cos, sin []float32) {
	n := len(cos)
	if n == 0 || n%vector != 0 {
		canon.Rotary(x, cos, sin)
		return
	}
	_, _ = x[2*n-1], sin[n-1]
	a.rotary(&x[0], n, &cos[0], &sin[0])
}

func (a *assembly) gateRow(dst, g, u []float32, act compute.Activation) {
	n := len(g) / vector * vector
	if n > 0 {
		_, _ = dst[n-1], u[n-1]
		switch act {
		case compute.SiLU:
			a.silu(&dst[0], &g[0], &u[0], n/vector)
		case compute.GELUTanh:
			a.geluTanh(&dst[0], &g[0], &u[0], n/vector)
		case compute.Sigmoid:
			a.sigmoid(&dst[0], &g[0], &u[0], n/vector)
		}
	}
	gateGeneric(dst[n:], g[n:], u[n:], act)
}

func (a *assembly) addRow(dst, x, y []float32) {
	n := len(x) / vector * vector
	if n > 0 {
		_, _ = dst[n-1], y[n-1]
		a.add(&dst[0], &x[0], &y[0], n/vector)
	}
	addGeneric(dst[n:], x[n:], y[n:])
}

func (a *assembly) scaleRow(dst, x []float32, s float32) {
	n := len(x) / vector * vector
	if n > 0 {
		_ = dst[n-1]
		a.scale(&dst[0], &x[0], s, n/vector)
	}
	scaleGeneric(dst[n:], x[n:], s)
}

func (a *assembly) toHalfRow(dst []uint16, x []float32) {
	n := len(x) / vector * vector
	if n > 0 {
		_ = dst[n-1]
		a.toHalf(&dst[0], &x[0], n/vector)
	}
	toHalfGeneric(dst[n:], x[n:])
}

func (a *assembly) argmaxRow(x []float32) int32 {
	n := len(x) / vector * vector
	if n == 0 {
		return canon.Argmax(x)
	}
	best, top := a.argmax(&x[0], n/vector)
	if best < 0 {
		return -1
	}
	for i, v := range x[n:] {
		if v != v {
			return -1
		}
		if v > top {
			best, top = int32(n+i), v
		}
	}
	return best
}

func scoresKernel[T uint16 | float32](a *assembly, f scoresASM) func(s, q []float32, k, ahead []T, pairs, dim, groups int) {
	return func(s, q []float32, k, ahead []T, pairs, dim, groups int) {
		n := groups * dim * groupRows
		_, _, _ = s[(pairs-1)*chunkSize+groups*groupRows-1], q[(pairs-1)*queryStride+dim-1], k[n-1]
		if len(ahead) < n {
			ahead = k
		}
		for g := 0; g < groups; {
			n, at := a.vectors(pairs, groups-g), g*dim*groupRows
			f(&s[g*groupRows], &q[0], bytesAt(k, at), bytesAt(ahead, at), dim, n, pairs)
			g += n
		}
	}
}

func valuesKernel[T uint16 | float32](a *assembly, f valuesASM, generic func(o, e []float32, v, ahead []T, pairs, dim, n int)) func(o, e []float32, v, ahead []T, pairs, dim, n int) {
	return func(o, e []float32, v, ahead []T, pairs, dim, n int) {
		if dim%vector != 0 {
			generic(o, e, v, ahead, pairs, dim, n)
			return
		}
		_, _, _ = o[pairs*dim-1], e[(pairs-1)*chunkSize+n-1], v[n*dim-1]
		if len(ahead) < n*dim {
			ahead = v
		}
		for d := 0; d < dim; {
			vectors := a.vectors(pairs, (dim-d)/vector)
			f(&o[d], &e[0], bytesAt(v, d), bytesAt(ahead, d), dim, n, vectors, pairs)
			d += vector * vectors
		}
	}
}

func bytesAt[T any](s []T, i int) *byte { return (*byte)(unsafe.Pointer(&s[i])) }

// softmaxChunk sets what lies outside of lo ≤ j < hi in the first and the last
// vector to −Inf: it cannot be the maximum, and exp(−Inf) adds +0 to a sum.
func (a *assembly) softmaxChunk(s []float32, lo, hi int) (m, l float32) {
	first, end := lo/vector*vector, (hi+vector-1)/vector*vector
	_ = s[end-1]
	hidden := float32(math.Inf(-1))
	for j := first; j < lo; j++ {
		s[j] = hidden
	}
	for j := hi; j < end; j++ {
		s[j] = hidden
	}
	return a.softmax(&s[first], (end-first)/vector)
}

func (a *assembly) combineHead(dst, m, l, o []float32, stride int) {
	n, dim := len(m), len(dst)
	if n == 0 || dim%vector != 0 {
		combineGeneric(dst, m, l, o, stride)
		return
	}
	_, _ = l[n-1], o[(n-1)*stride+dim-1]
	top := float32(math.Inf(-1))
	for _, v := range m {
		top = max(top, v)
	}
	for d := 0; d < dim; {
		vectors := 4
		if dim-d < 4*vector {
			vectors = 1
		}
		a.combine(&dst[d], &m[0], &l[0], &o[d], stride, n, top, vectors)
		d += vector * vectors
	}
}
