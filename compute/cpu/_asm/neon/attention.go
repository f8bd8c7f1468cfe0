package main

import (
	"fmt"

	"surmise/compute/cpu/_asm/layout"
)

// vectorsOf are the vectors of 16 lanes a variant takes for p pairs; four
// registers each, no more than 24.
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
func (a *asm) variants(pairs, vectors R, emit func(p, n int)) {
	for p := 1; p <= layout.Pairs; p++ {
		a.op("CMP $%d, %v", p, pairs)
		a.op("BEQ pairs%d", p)
	}
	a.op("RET")
	for p := 1; p <= layout.Pairs; p++ {
		a.label("pairs%d", p)
		sizes := vectorsOf(p)
		for _, n := range sizes[1:] {
			a.op("CMP $%d, %v", n, vectors)
			a.op("BEQ tile%dx%d", p, n)
		}
		for _, n := range sizes {
			a.label("tile%dx%d", p, n)
			emit(p, n)
			a.op("RET")
		}
	}
}

// prefetch asks for the cache lines of n bytes.
func (a *asm) prefetch(p R, n int) {
	for i := 0; i < n; i += 64 {
		a.op("PRFM %d(%v), PLDL2KEEP", i, p)
	}
}

// scores makes q·K for up to 6 pairs and some groups of 16 positions: sums in
// V0–V23, keys in V24–V27, q in V28–V30.
func (a *asm) scores(e element) {
	a.function(fmt.Sprintf("scores%sNEON", e.name),
		"computes the scores of 1, 2 (up to 3 pairs) or 4 (1 pair) groups of 16\n// positions for 1 to 6 pairs.",
		"s *float32, q *float32, k *byte, ahead *byte, dim int, groups int, pairs int", "")
	a.load(map[R]string{0: "s", 1: "q", 2: "k", 3: "dim", 4: "groups", 5: "pairs", 9: "ahead"})
	bases := []R{2, 6, 7, 8}
	for g := 1; g < 4; g++ {
		a.op("ADD R3<<%d, %v, %v", log2(16*e.size), bases[g-1], bases[g])
	}
	a.variants(5, 4, func(p, n int) {
		for i := range V(4 * p * n) {
			a.zero(i)
		}
		loop := loopLabel(p, "x", n)
		a.label("%s", loop)
		for g := range n {
			e.load(a, bases[g], 0, 24, 31)
			for i := range p {
				q := 28 + V(i%3)
				a.lds(1, i*layout.QueryLd, q)
				for v := range V(4) {
					a.fmlaElem(V(4*(i*n+g))+v, 24+v, q, 0)
				}
			}
			a.addImm(16*e.size, bases[g])
		}
		a.prefetch(9, n*16*e.size)
		a.addImm(n*16*e.size, 9)
		a.addImm(4, 1)
		a.op("SUBS $1, R3")
		a.op("BNE %s", loop)
		for i := range p {
			for v := range 4 * n {
				a.stq(V(4*i*n+v), 0, 16*v)
			}
			a.addImm(layout.ScoreLd, 0)
		}
	})
}

func log2(n int) int {
	i := 0
	for n > 1 {
		n, i = n/2, i+1
	}
	return i
}

// values adds n positions to some vectors of 16 dimensions of up to 6 pairs:
// sums in V0–V23, values in V24–V27, a weight in V28.
func (a *asm) values(e element) {
	a.function(fmt.Sprintf("values%sNEON", e.name),
		"adds n positions' values, weighted by e, to 1, 2 (up to 3 pairs) or 4\n// (1 pair) vectors of 16 dimensions of 1 to 6 pairs.",
		"o *float32, e *float32, v *byte, ahead *byte, dim int, n int, vectors int, pairs int", "")
	a.load(map[R]string{0: "o", 1: "e", 2: "v", 3: "dim", 4: "n", 5: "vectors", 6: "pairs", 9: "ahead"})
	a.op("LSL $%d, R3, R7", log2(e.size)) // bytes of a position
	a.op("LSL $2, R3")                    // bytes of a pair's sums
	a.variants(6, 5, func(p, n int) {
		a.op("MOVD R0, R8")
		for i := range p {
			for v := range 4 * n {
				a.ldq(8, 16*v, V(4*i*n+v))
			}
			a.op("ADD R3, R8")
		}
		loop := loopLabel(p, "x", n)
		a.label("%s", loop)
		for g := range n {
			e.load(a, 2, 16*g*e.size, 24, 31)
			for i := range p {
				a.lds(1, i*layout.ScoreLd, 28)
				for v := range V(4) {
					a.fmlaElem(V(4*(i*n+g))+v, 24+v, 28, 0)
				}
			}
		}
		a.prefetch(9, n*16*e.size)
		a.op("ADD R7, R9")
		a.op("ADD R7, R2")
		a.addImm(4, 1)
		a.op("SUBS $1, R4")
		a.op("BNE %s", loop)
		for i := range p {
			for v := range 4 * n {
				a.stq(V(4*i*n+v), 0, 16*v)
			}
			a.op("ADD R3, R0")
		}
	})
}

// softmax works on whole vectors of 16, whose lanes outside of [lo, hi) the
// caller has set to −Inf: they cannot be the maximum and weigh exp(−Inf) = 0.
// FMAX hands a NaN on.
func (a *asm) softmax() {
	a.function("softmaxNEON", "turns scores into weights exp(s − m) and returns m and their sum l.",
		"s *float32, vectors int", "m float32, l float32")
	a.load(map[R]string{0: "s", 1: "vectors"})
	a.loadExp()
	a.fetch("negInf", 4)
	a.op("MOVD R0, R2")
	a.op("LSL $2, R1, R3") // registers
	a.op("MOVD R3, R4")
	a.label("max")
	a.ldq(2, 0, 5)
	a.fmax(4, 4, 5)
	a.addImm(16, 2)
	a.op("SUBS $1, R4")
	a.op("BNE max")
	a.fmaxv(4, 4)
	a.op("FMOVS F4, %s", a.arg("m"))
	a.dup(4, 4, 0)
	for i := range V(4) {
		a.zero(i)
	}
	a.label("exp")
	for i := range V(4) {
		a.ldq(0, int(16*i), 5)
		a.fsub(5, 5, 4)
		a.exp(5, 6, 7, 8, 9)
		a.stq(5, 0, int(16*i))
		a.fadd(i, i, 5)
	}
	a.addImm(64, 0)
	a.op("SUBS $1, R1")
	a.op("BNE exp")
	a.fold(0, 5)
	a.op("FMOVS F0, %s", a.arg("l"))
	a.op("RET")
}

// combine joins chunks for one vector of 16 dimensions, or four times one.
func (a *asm) combine() {
	a.function("combineNEON", "joins the chunks of one head for 1 or 4 vectors of 16 dimensions.",
		"dst *float32, m *float32, l *float32, o *float32, stride int, chunks int, top float32, vectors int", "")
	a.load(map[R]string{0: "dst", 4: "stride", 7: "vectors"})
	a.op("FMOVS %s, F14", a.arg("top"))
	a.dup(14, 14, 0)
	a.op("LSL $2, R4")
	a.loadExp()
	a.op("MOVD %s, R3", a.arg("o"))
	a.label("vector")
	a.load(map[R]string{1: "m", 2: "l", 5: "chunks"})
	a.op("MOVD R3, R6")
	for i := range V(5) {
		a.zero(i)
	}
	a.label("chunk")
	a.lds(1, 0, 5)
	a.dup(5, 5, 0)
	a.fsub(5, 5, 14)
	a.exp(5, 6, 7, 8, 9)
	a.lds(2, 0, 6)
	a.fmlaElem(4, 5, 6, 0)
	for i := range V(4) {
		a.ldq(6, int(16*i), 6)
		a.fmla(i, 5, 6)
	}
	a.addImm(4, 1)
	a.addImm(4, 2)
	a.op("ADD R4, R6")
	a.op("SUBS $1, R5")
	a.op("BNE chunk")
	a.fdiv(4, cC1, 4)
	a.zero(6)
	for i := range V(4) {
		a.fmul(i, i, 4)
		a.fadd(i, i, 6) // −0 is +0
		a.stq(i, 0, int(16*i))
	}
	a.addImm(64, 0)
	a.addImm(64, 3)
	a.op("SUBS $1, R7")
	a.op("BNE vector")
	a.op("RET")
}
