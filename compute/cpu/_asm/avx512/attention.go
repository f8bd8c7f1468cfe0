package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"surmise/compute/cpu/_asm/layout"
)

// variants makes a branch for every number of pairs and of vectors, and calls
// emit for each.
func variants(pairsReg, vectorsReg reg.GPVirtual, emit func(p, n int)) {
	sizes := []int{1, 2, 4}
	for p := 1; p <= layout.Pairs; p++ {
		CMPQ(pairsReg, Imm(uint64(p)))
		JEQ(LabelRef(fmt.Sprintf("pairs%d", p)))
	}
	RET()
	for p := 1; p <= layout.Pairs; p++ {
		Label(fmt.Sprintf("pairs%d", p))
		for _, n := range sizes[:2] {
			CMPQ(vectorsReg, Imm(uint64(n)))
			JEQ(LabelRef(fmt.Sprintf("tile%d_%d", p, n)))
		}
		for i := range sizes {
			n := sizes[len(sizes)-1-i]
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

// scores makes q·K for up to 6 pairs and 1, 2 or 4 groups of 16 positions.
func scores(e element) {
	name := fmt.Sprintf("scores%sAVX512", e.name)
	TEXT(name, NOSPLIT, "func(s *float32, q *float32, k *byte, ahead *byte, dim int, groups int, pairs int)")
	Doc(name + " computes the scores of 1, 2 or 4 groups of 16 positions for 1 to 6 pairs.")
	a := args("s", "q", "k", "ahead", "dim", "groups", "pairs")
	s, q, k, ahead, dim := a[0], a[1], a[2], a[3], a[4]
	stride, k3 := GP64(), GP64()
	MOVQ(dim, stride)
	IMUL3Q(U32(lanes*e.size), stride, stride)
	LEAQ(indexed(k, stride, 2), k3)
	ADDQ(stride, k3)
	src := []Mem{at(k, 0), indexed(k, stride, 1), indexed(k, stride, 2), at(k3, 0)}
	variants(a[6], a[5], func(p, n int) {
		acc, key := zmms(p*n), zmms(n)
		for _, v := range acc {
			VPXORD(v, v, v)
		}
		loop := fmt.Sprintf("dim%d_%d", p, n)
		Label(loop)
		for g := range n {
			e.load(src[g], key[g])
			for i := range p {
				VFMADD231PS_BCST(at(q, i*layout.QueryLd), key[g], acc[i*n+g])
			}
		}
		ADDQ(U32(lanes*e.size), k)
		if n == 4 {
			ADDQ(U32(lanes*e.size), k3)
		}
		fetch(ahead, n*lanes*e.size)
		ADDQ(U32(n*lanes*e.size), ahead)
		ADDQ(Imm(4), q)
		DECQ(dim)
		JNZ(LabelRef(loop))
		for i := range p {
			for g := range n {
				VMOVUPS(acc[i*n+g], at(s, i*layout.ScoreLd+g*vec))
			}
		}
		done()
	})
}

// values adds n positions to 1, 2 or 4 vectors of dimensions of up to 6 pairs.
func values(e element) {
	name := fmt.Sprintf("values%sAVX512", e.name)
	TEXT(name, NOSPLIT, "func(o *float32, e *float32, v *byte, ahead *byte, dim int, n int, vectors int, pairs int)")
	Doc(name+" adds n positions' values, weighted by e, to 1, 2 or 4 vectors of 16 dimensions", "of 1 to 6 pairs.")
	a := args("o", "e", "v", "ahead", "dim", "n", "vectors", "pairs")
	o, w, v, ahead, dim, n := a[0], a[1], a[2], a[3], a[4], a[5]
	stride := GP64()
	MOVQ(dim, stride)
	IMUL3Q(U32(e.size), stride, stride)
	SHLQ(Imm(2), dim)
	variants(a[7], a[6], func(p, vectors int) {
		acc, val := zmms(p*vectors), zmms(vectors)
		out := GP64()
		MOVQ(o, out)
		for i := range p {
			for g := range vectors {
				VMOVUPS(at(out, g*vec), acc[i*vectors+g])
			}
			ADDQ(dim, out)
		}
		loop := fmt.Sprintf("pos%d_%d", p, vectors)
		Label(loop)
		for g := range vectors {
			e.load(at(v, g*lanes*e.size), val[g])
			for i := range p {
				VFMADD231PS_BCST(at(w, i*layout.ScoreLd), val[g], acc[i*vectors+g])
			}
		}
		fetch(ahead, vectors*lanes*e.size)
		ADDQ(stride, ahead)
		ADDQ(stride, v)
		ADDQ(Imm(4), w)
		DECQ(n)
		JNZ(LabelRef(loop))
		for i := range p {
			for g := range vectors {
				VMOVUPS(acc[i*vectors+g], at(o, g*vec))
			}
			ADDQ(dim, o)
		}
		done()
	})
}

// softmax works on whole vectors, whose lanes outside of [lo, hi) the caller
// has set to −Inf: they cannot be the maximum and weigh exp(−Inf) = 0.
func softmax() {
	TEXT("softmaxAVX512", NOSPLIT, "func(s *float32, vectors int) (m, l float32)")
	Doc("softmaxAVX512 turns scores into weights exp(s − m) and returns m and their sum l.")
	a := args("s", "vectors")
	s, n := a[0], a[1]
	m, l, x := ZMM(), ZMM(), ZMM()
	isNaN, k := GP32(), K()
	i, p := GP64(), GP64()
	VBROADCASTSS(negInf, m)
	XORL(isNaN, isNaN)
	MOVQ(n, i)
	MOVQ(s, p)
	Label("max")
	bits := GP32()
	VMOVUPS(at(p, 0), x)
	VCMPPS(Imm(3), x, x, k) // unordered
	KMOVW(k, bits)
	ORL(bits, isNaN)
	VMAXPS(x, m, m)
	ADDQ(Imm(vec), p)
	DECQ(i)
	JNZ(LabelRef("max"))
	foldMax(m, VMAXPS)
	TESTL(isNaN, isNaN)
	JZ(LabelRef("ordered"))
	VMOVSS(nan, m.AsX())
	Label("ordered")
	ret := m.AsX()
	Store(ret, ReturnIndex(0))
	VBROADCASTSS(m.AsX(), m)
	VPXORD(l, l, l)
	Label("exp")
	y := ZMM()
	VMOVUPS(at(s, 0), y)
	VSUBPS(m, y, y)
	exp(y, false)
	VMOVUPS(y, at(s, 0))
	VADDPS(y, l, l)
	ADDQ(Imm(vec), s)
	DECQ(n)
	JNZ(LabelRef("exp"))
	fold(l)
	Store(l.AsX(), ReturnIndex(1))
	done()
}

// combine joins chunks, 4 vectors of dimensions at a time; the weights of the
// chunks are worked out anew for each.
func combine() {
	TEXT("combineAVX512", NOSPLIT, "func(dst *float32, m *float32, l *float32, o *float32, stride int, chunks int, top float32, vectors int)")
	Doc("combineAVX512 joins the chunks of one head for 1 or 4 vectors of 16 dimensions.")
	a := args("dst", "m", "l", "o", "stride", "chunks")
	dst, m, l, o, stride, n := a[0], a[1], a[2], a[3], a[4], a[5]
	SHLQ(Imm(2), stride)
	top := ZMM()
	t := Load(Param("top"), XMM())
	VBROADCASTSS(t, top)
	vectors := Load(Param("vectors"), GP64())
	CMPQ(vectors, Imm(1))
	JEQ(LabelRef("one"))
	for _, v := range []int{4, 1} {
		if v == 1 {
			Label("one")
		}
		acc, total, w := zmms(v), ZMM(), ZMM()
		for _, r := range append(acc, total) {
			VPXORD(r, r, r)
		}
		loop := fmt.Sprintf("chunk%d", v)
		Label(loop)
		VBROADCASTSS(at(m, 0), w)
		VSUBPS(top, w, w)
		exp(w, false)
		VFMADD231PS_BCST(at(l, 0), w, total)
		for i, r := range acc {
			VFMADD231PS(at(o, i*vec), w, r)
		}
		ADDQ(Imm(4), m)
		ADDQ(Imm(4), l)
		ADDQ(stride, o)
		DECQ(n)
		JNZ(LabelRef(loop))
		zero := ZMM()
		VPXORD(zero, zero, zero)
		VBROADCASTSS(one, w)
		VDIVPS(total, w, w)
		for i, r := range acc {
			VMULPS(w, r, r)
			VADDPS(zero, r, r) // −0 is +0
			VMOVUPS(r, at(dst, i*vec))
		}
		done()
	}
}
