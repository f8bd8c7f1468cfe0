package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"surmise/compute/cpu/_asm/layout"
)

// vectorsOf are the vectors of 16 lanes a variant takes for p pairs: enough
// chains to hide an fma's latency, no more than 12 registers.
func vectorsOf(p int) []int {
	switch p {
	case 1:
		return []int{4, 2, 1}
	case 2, 3:
		return []int{2, 1}
	}
	return []int{1}
}

// variants makes a branch for every number of pairs and of vectors, and calls
// emit for each.
func variants(pairs, vectors reg.GPVirtual, emit func(p, n int)) {
	for p := 1; p <= layout.Pairs; p++ {
		CMPQ(pairs, Imm(uint64(p)))
		JEQ(LabelRef(fmt.Sprintf("pairs%d", p)))
	}
	RET()
	for p := 1; p <= layout.Pairs; p++ {
		Label(fmt.Sprintf("pairs%d", p))
		sizes := vectorsOf(p)
		for _, n := range sizes[1:] {
			CMPQ(vectors, Imm(uint64(n)))
			JEQ(LabelRef(fmt.Sprintf("tile%d_%d", p, n)))
		}
		for _, n := range sizes {
			Label(fmt.Sprintf("tile%d_%d", p, n))
			emit(p, n)
		}
	}
}

// fetch asks for the cache lines of n bytes, in the second-level cache: there are
// too few places for lines on their way to the first.
func fetch(p reg.GPVirtual, n int) {
	for i := 0; i < n; i += 64 {
		PREFETCHT1(at(p, i))
	}
}

// scores makes q·K for up to 6 pairs and some groups of 16 positions.
func scores(e element) {
	name := fmt.Sprintf("scores%sAVX2", e.name)
	TEXT(name, NOSPLIT, "func(s *float32, q *float32, k *byte, ahead *byte, dim int, groups int, pairs int)")
	Doc(name+" computes the scores of 1, 2 (up to 3 pairs) or 4 (1 pair) groups of 16 positions", "for 1 to 6 pairs.")
	a := args("s", "q", "k", "ahead", "dim", "groups", "pairs")
	s, q, k, ahead, dim := a[0], a[1], a[2], a[3], a[4]
	stride, k3 := GP64(), GP64()
	IMUL3Q(U32(2*lanes*e.size), dim, stride)
	LEAQ(indexed(k, stride, 2), k3)
	ADDQ(stride, k3)
	src := []Mem{at(k, 0), indexed(k, stride, 1), indexed(k, stride, 2), at(k3, 0)}
	variants(a[6], a[5], func(p, n int) {
		acc, key, b := ymms(2*p*n), YMM(), YMM()
		for _, v := range acc {
			VXORPS(v, v, v)
		}
		loop := fmt.Sprintf("dim%d_%d", p, n)
		Label(loop)
		key2 := YMM()
		for g := range n {
			e.load(src[g], key)
			e.load(src[g].Offset(lanes*e.size), key2)
			for i := range p {
				VBROADCASTSS(at(q, i*layout.QueryLd), b)
				VFMADD231PS(b, key, acc[2*(i*n+g)])
				VFMADD231PS(b, key2, acc[2*(i*n+g)+1])
			}
		}
		ADDQ(U32(2*lanes*e.size), k)
		if n == 4 {
			ADDQ(U32(2*lanes*e.size), k3)
		}
		fetch(ahead, n*2*lanes*e.size)
		ADDQ(U32(n*2*lanes*e.size), ahead)
		ADDQ(Imm(4), q)
		DECQ(dim)
		JNZ(LabelRef(loop))
		for i := range p {
			for g := range 2 * n {
				VMOVUPS(acc[2*i*n+g], at(s, i*layout.ScoreLd+g*vec))
			}
		}
		done()
	})
}

// values adds n positions to some vectors of 16 dimensions of up to 6 pairs.
func values(e element) {
	name := fmt.Sprintf("values%sAVX2", e.name)
	TEXT(name, NOSPLIT, "func(o *float32, e *float32, v *byte, ahead *byte, dim int, n int, vectors int, pairs int)")
	Doc(name+" adds n positions' values, weighted by e, to 1, 2 (up to 3 pairs) or 4 (1 pair)", "vectors of 16 dimensions of 1 to 6 pairs.")
	a := args("o", "e", "v", "ahead", "dim", "n", "vectors", "pairs")
	o, w, v, ahead, dim, n := a[0], a[1], a[2], a[3], a[4], a[5]
	stride := GP64()
	IMUL3Q(U32(e.size), dim, stride)
	SHLQ(Imm(2), dim)
	variants(a[7], a[6], func(p, vectors int) {
		acc, val, val2, b := ymms(2*p*vectors), YMM(), YMM(), YMM()
		out := GP64()
		MOVQ(o, out)
		for i := range p {
			for g := range 2 * vectors {
				VMOVUPS(at(out, g*vec), acc[2*i*vectors+g])
			}
			ADDQ(dim, out)
		}
		loop := fmt.Sprintf("pos%d_%d", p, vectors)
		Label(loop)
		for g := range vectors {
			e.load(at(v, 2*g*lanes*e.size), val)
			e.load(at(v, (2*g+1)*lanes*e.size), val2)
			for i := range p {
				VBROADCASTSS(at(w, i*layout.ScoreLd), b)
				VFMADD231PS(b, val, acc[2*(i*vectors+g)])
				VFMADD231PS(b, val2, acc[2*(i*vectors+g)+1])
			}
		}
		fetch(ahead, vectors*2*lanes*e.size)
		ADDQ(stride, ahead)
		ADDQ(stride, v)
		ADDQ(Imm(4), w)
		DECQ(n)
		JNZ(LabelRef(loop))
		for i := range p {
			for g := range 2 * vectors {
				VMOVUPS(acc[2*i*vectors+g], at(o, g*vec))
			}
			ADDQ(dim, o)
		}
		done()
	})
}

// softmax works on whole vectors of 16, whose lanes outside of [lo, hi) the
// caller has set to −Inf: they cannot be the maximum and weigh exp(−Inf) = 0.
func softmax() {
	TEXT("softmaxAVX2", NOSPLIT, "func(s *float32, vectors int) (m, l float32)")
	Doc("softmaxAVX2 turns scores into weights exp(s − m) and returns m and their sum l.")
	a := args("s", "vectors")
	s, n := a[0], a[1]
	m, isNaN, x, l := YMM(), YMM(), YMM(), ymms(2)
	i, p, bits := GP64(), GP64(), GP32()
	VMOVUPS(negInf, m)
	VXORPS(isNaN, isNaN, isNaN)
	MOVQ(n, i)
	MOVQ(s, p)
	Label("max")
	for h := range l {
		u := YMM()
		VMOVUPS(at(p, h*vec), x)
		VCMPPS(Imm(3), x, x, u) // unordered
		VORPS(u, isNaN, isNaN)
		VMAXPS(x, m, m)
	}
	ADDQ(U32(2*vec), p)
	DECQ(i)
	JNZ(LabelRef("max"))
	foldMax(m, VMAXPS)
	VMOVMSKPS(isNaN, bits)
	TESTL(bits, bits)
	JZ(LabelRef("ordered"))
	VMOVSS(nan, m.AsX())
	Label("ordered")
	Store(m.AsX(), ReturnIndex(0))
	VBROADCASTSS(m.AsX(), m)
	for _, v := range l {
		VXORPS(v, v, v)
	}
	Label("exp")
	for h, v := range l {
		y := YMM()
		VMOVUPS(at(s, h*vec), y)
		VSUBPS(m, y, y)
		exp(y, false)
		VMOVUPS(y, at(s, h*vec))
		VADDPS(y, v, v)
	}
	ADDQ(U32(2*vec), s)
	DECQ(n)
	JNZ(LabelRef("exp"))
	fold(l[0], l[1])
	Store(l[0].AsX(), ReturnIndex(1))
	done()
}

// combine joins chunks, some vectors of 16 dimensions at a time; the weights of
// the chunks are worked out anew for each.
func combine() {
	TEXT("combineAVX2", NOSPLIT, "func(dst *float32, m *float32, l *float32, o *float32, stride int, chunks int, top float32, vectors int)")
	Doc("combineAVX2 joins the chunks of one head for 1 or 4 vectors of 16 dimensions.")
	a := args("dst", "m", "l", "o", "stride", "chunks")
	dst, m, l, o, stride, n := a[0], a[1], a[2], a[3], a[4], a[5]
	SHLQ(Imm(2), stride)
	top := YMM()
	t := Load(Param("top"), XMM())
	VBROADCASTSS(t, top)
	vectors := Load(Param("vectors"), GP64())
	CMPQ(vectors, Imm(1))
	JEQ(LabelRef("one"))
	for _, v := range []int{4, 1} {
		if v == 1 {
			Label("one")
		}
		acc, total, w, b := ymms(2*v), YMM(), YMM(), YMM()
		for _, r := range append(acc, total) {
			VXORPS(r, r, r)
		}
		loop := fmt.Sprintf("chunk%d", v)
		Label(loop)
		VBROADCASTSS(at(m, 0), w)
		VSUBPS(top, w, w)
		exp(w, false)
		VBROADCASTSS(at(l, 0), b)
		VFMADD231PS(b, w, total)
		for i, r := range acc {
			VFMADD231PS(at(o, i*vec), w, r)
		}
		ADDQ(Imm(4), m)
		ADDQ(Imm(4), l)
		ADDQ(stride, o)
		DECQ(n)
		JNZ(LabelRef(loop))
		VXORPS(b, b, b)
		VMOVUPS(one, w)
		VDIVPS(total, w, w)
		for i, r := range acc {
			VMULPS(w, r, r)
			VADDPS(b, r, r) // −0 is +0
			VMOVUPS(r, at(dst, i*vec))
		}
		done()
	}
}
