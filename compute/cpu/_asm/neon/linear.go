package main

import (
	"fmt"

	"surmise/compute/cpu/_asm/layout"
)

const tile = 4 // most rows of a linear tile

// linearTile is the code for k rows and 4·width outputs; a group is worked off
// in 4/width passes. Weights become signed bytes for SDOT: those of up to 6
// bits are small enough as they are and have their offset taken out at the end.
//
//	V0–V7    outputs, width a row
//	V8–V15   integer sums, width a row
//	V16–V19  activations of the current half block, then the records' ends
//	V20–V23  weights; later scales and minima
//	V24–V25  high bits; later sub-scales
//	V26–V27  temporaries
//	V28–V29  masks
//	V30–V31  sub-scales of minima; for Q6_K the first half's sums are V4–V7
type linearTile struct {
	*asm
	layout.Format
	k     int
	width V
}

// General registers of a linear tile.
const (
	rDst, rLdd, rW, rS, rBias, rX, rGroups = R(0), R(1), R(2), R(3), R(4), R(5), R(6)
	rPass                                  = R(7) // 4 · the first output of this pass
	rWalkW, rWalkS, rWalkB, rRow           = R(8), R(9), R(10), R(11)
	rBlocks, rOut, rCount                  = R(12), R(13), R(14)
)

// linear makes one function per format with a variant per number of rows.
func (a *asm) linear(f layout.Format) {
	a.function(fmt.Sprintf("linear%sNEON", f.Name), "multiplies groups of 16 weight rows by a tile of 1 to 4 activation rows.",
		"dst *float32, ldd int, w *byte, s *byte, bias *float32, x *byte, blocks int, groups int, rows int", "")
	a.load(map[R]string{rDst: "dst", rLdd: "ldd", rW: "w", rS: "s", rBias: "bias", rX: "x", rGroups: "groups", rCount: "rows"})
	a.op("LSL $2, %v", rLdd)
	if f.Bits != 8 {
		a.fetch("nibbles", 28)
	} else {
		a.fetch("sign8", 28)
	}
	if f.Bits == 5 {
		a.fetch("fifth", 29)
	} else if f.Bits == 6 {
		a.fetch("sixth", 29)
	}
	for k := 1; k < tile; k++ {
		a.op("CMP $%d, %v", k, rCount)
		a.op("BEQ rows%d", k)
	}
	width := V(2)
	if f.Scales == layout.ScaleSuper6 {
		width = 1
	}
	for k := tile; k >= 1; k-- {
		a.label("rows%d", k)
		l := linearTile{asm: a, Format: f, k: k, width: width}
		l.emit()
	}
}

func (l *linearTile) out(r int, i V) V { return V(r)*l.width + i }
func (l *linearTile) sum(r int, i V) V { return 8 + V(r)*l.width + i }
func (l *linearTile) act(r int) V      { return 16 + V(r) }

func (l *linearTile) emit() {
	passBytes := int(16 * l.width)
	l.label("group%d", l.k)
	l.op("MOVD $0, %v", rPass)
	l.label("pass%d", l.k)
	for r := range l.k {
		for i := range l.width {
			l.zero(l.out(r, i))
		}
	}
	l.op("ADD %v, %v, %v", rPass, rW, rWalkW)
	l.op("MOVD %v, %v", rX, rRow)
	l.op("MOVD %s, %v", l.arg("blocks"), rBlocks)
	l.startScales()
	if l.Super() {
		l.label("super%d", l.k)
		l.op("MOVD $8, %v", rCount)
		l.label("block%d", l.k)
		l.superBlock()
		l.op("SUBS $1, %v", rCount)
		l.op("BNE block%d", l.k)
		l.nextSuper()
		l.op("SUBS $8, %v", rBlocks)
		l.op("BNE super%d", l.k)
	} else {
		l.label("block%d", l.k)
		l.block()
		l.op("SUBS $1, %v", rBlocks)
		l.op("BNE block%d", l.k)
	}
	l.store()
	l.addImm(passBytes, rPass)
	l.op("CMP $64, %v", rPass)
	l.op("BNE pass%d", l.k)
	// The walks have ended at the next group, but for this pass's offset.
	l.op("SUB $%d, %v, %v", 64-passBytes, rWalkW, rW)
	l.endScales(64 - passBytes)
	l.addImm(64, rBias)
	l.addImm(64, rDst)
	l.op("SUBS $1, %v", rGroups)
	l.op("BNE group%d", l.k)
	l.op("RET")
}

// startScales sets the walk over scales to this pass's outputs.
func (l *linearTile) startScales() {
	if l.Scales == layout.ScaleFloatMin {
		l.op("ADD %v, %v, %v", rPass, rS, rWalkS)
		return
	}
	l.op("ADD %v>>1, %v, %v", rPass, rS, rWalkS)
	if l.Super() {
		l.op("ADD %v>>2, %v, %v", rPass, rS, rWalkB)
		l.addImm(l.head(), rWalkB)
	}
}

// endScales leaves in rS where the next group's scales begin.
func (l *linearTile) endScales(pass int) {
	if l.Scales != layout.ScaleFloatMin {
		pass /= 2
	}
	l.op("SUB $%d, %v, %v", pass, rWalkS, rS)
}

// head is the size of what precedes a super-block's byte scales.
func (l *linearTile) head() int {
	if l.Scales == layout.ScaleSuper6 {
		return 32
	}
	return 64
}

func (l *linearTile) nextSuper() {
	l.addImm(l.head()+256, rWalkS)
	l.addImm(l.head(), rWalkB)
}

func (l *linearTile) store() {
	l.op("ADD %v, %v, %v", rPass, rBias, rOut)
	for i := range l.width {
		l.ldq(rOut, int(16*i), 26+i)
	}
	l.op("ADD %v, %v, %v", rPass, rDst, rOut)
	for r := range l.k {
		for i := range l.width {
			l.fadd(l.out(r, i), l.out(r, i), 26+i)
			l.stq(l.out(r, i), rOut, int(16*i))
		}
		if r+1 < l.k {
			l.op("ADD %v, %v", rLdd, rOut)
		}
	}
}

// next moves on to the next block.
func (l *linearTile) next() {
	l.addImm(l.BlockBytes(), rWalkW)
	l.addImm(layout.RecordBytes*l.k, rRow)
}

// clear zeroes the integer sums.
func (l *linearTile) clear() {
	for r := range l.k {
		for i := range l.width {
			l.zero(l.sum(r, i))
		}
	}
}

// steps adds the four steps t … t+3 of four columns each.
func (l *linearTile) steps(t int) {
	for r := range l.k {
		l.ldq(rRow, r*layout.RecordBytes+4*t, l.act(r))
	}
	for i := range l.width {
		switch l.Bits {
		case 5:
			l.ldq(rWalkW, int(4*64+16*i), 24+i)
		case 6:
			l.ldq(rWalkW, int(4*64+16*i)+t/4*64, 24+i)
		}
	}
	for s := t; s < t+4; s++ {
		for i := range l.width {
			l.weights(s, i)
		}
		for r := range l.k {
			for i := range l.width {
				l.sdot(l.sum(r, i), l.register(s, i), l.act(r), s%4)
			}
		}
	}
}

// register holds step t's weights of vector i.
func (l *linearTile) register(t int, i V) V { return 20 + 2*V(t%2) + i }

// weights unpacks step t; even steps also keep the high nibbles for the next.
func (l *linearTile) weights(t int, i V) {
	w := l.register(t, i)
	if l.Bits == 8 {
		l.ldq(rWalkW, t*64+int(16*i), w)
		l.eor(w, w, 28)
		return
	}
	if t%2 == 0 {
		l.ldq(rWalkW, t/2*64+int(16*i), w)
		l.ushr16(l.register(t+1, i), w, 4)
		l.and(w, w, 28)
	}
	if l.Bits == 4 {
		return
	}
	_, shift := l.HighLine(t)
	switch {
	case shift > 0:
		l.shl16(26, 24+i, shift)
		l.and(26, 26, 29)
	case shift < 0:
		l.ushr16(26, 24+i, -shift)
		l.and(26, 26, 29)
	default:
		l.and(26, 24+i, 29)
	}
	l.orr(w, w, 26)
}

// ends loads the rows' scale, sum, first and total to where their activations were.
func (l *linearTile) ends() {
	for r := range l.k {
		l.ldq(rRow, r*layout.RecordBytes+layout.Scale, l.act(r))
	}
}

// Words of a record's end.
const (
	wScale = 0
	wSum   = (layout.Sum - layout.Scale) / 4
	wFirst = (layout.First - layout.Scale) / 4
	wTotal = (layout.Total - layout.Scale) / 4
)

// takeOffset takes the weights' offset out again, for the whole block or for
// half h of it, and makes the sums floats.
func (l *linearTile) takeOffset(r, h int) {
	l.dup(26, l.act(r), wSum)
	switch {
	case l.Offset == 8:
		l.sshr4(26, 26, 4)
	case l.Offset == 16:
		l.sshr4(26, 26, 3)
	case l.Offset == 32 && h == 0:
		l.dup(26, l.act(r), wFirst)
	case l.Offset == 32:
		l.sshr4(26, 26, 2)
		l.dup(27, l.act(r), wFirst)
		l.sub4(26, 26, 27)
	}
	for i := range l.width {
		v := l.sum(r, i)
		switch {
		case l.Bits == 8 && l.Offset == 0: // made signed, which took 128 off
			l.sub4(v, v, 26)
		case l.Bits != 8 && l.Offset != 0:
			l.add4(v, v, 26)
		}
		l.scvtf(v, v)
	}
}

// loadHalves widens this pass's f16 at disp to v, v+1.
func (l *linearTile) loadHalves(disp int, v V) {
	if l.width == 1 {
		l.ldd(rWalkS, disp, v)
		l.fcvtl(v, v)
		return
	}
	l.ldq(rWalkS, disp, 26)
	l.fcvtl(v, 26)
	l.fcvtl2(v+1, 26)
}

// loadBytes widens this pass's byte scales at disp to floats.
func (l *linearTile) loadBytes(disp int, v V, signed bool) {
	low, wide, wide2 := l.uxtlB, l.uxtlH, l.uxtl2H
	if signed {
		low, wide, wide2 = l.sxtlB, l.sxtlH, l.sxtl2H
	}
	if l.width == 1 {
		l.lds(rWalkB, disp, v)
		low(v, v)
		wide(v, v)
	} else {
		l.ldd(rWalkB, disp, 26)
		low(26, 26)
		wide(v, 26)
		wide2(v+1, 26)
	}
	for i := range l.width {
		l.scvtf(v+i, v+i)
	}
}

func (l *linearTile) block() {
	l.clear()
	l.steps(0)
	l.steps(4)
	l.ends()
	for r := range l.k {
		l.takeOffset(r, 0)
	}
	size := 32
	switch l.Scales {
	case layout.ScaleHalf:
		l.loadHalves(0, 20)
		l.accumulate()
	case layout.ScaleHalfMin:
		size = 64
		l.loadHalves(0, 20)
		l.accumulate()
		l.loadHalves(32, 22)
		l.minima()
	case layout.ScaleFloatMin:
		size = 128
		for i := range l.width {
			l.ldq(rWalkS, int(16*i), 20+i)
			l.ldq(rWalkS, int(64+16*i), 22+i)
		}
		l.accumulate()
		l.minima()
	}
	l.addImm(size, rWalkS)
	l.next()
}

// accumulate is out = out + sum·(d·scale), d in V20, V21.
func (l *linearTile) accumulate() {
	for r := range l.k {
		for i := range l.width {
			l.fmulElem(26, 20+i, l.act(r), wScale)
			l.fmul(26, l.sum(r, i), 26)
			l.fadd(l.out(r, i), l.out(r, i), 26)
		}
	}
}

// minima is out = out − min·total, min in V22, V23.
func (l *linearTile) minima() {
	for r := range l.k {
		for i := range l.width {
			l.fmulElem(26, 22+i, l.act(r), wTotal)
			l.fsub(l.out(r, i), l.out(r, i), 26)
		}
	}
}

func (l *linearTile) superBlock() {
	if l.Scales == layout.ScaleSuper6 {
		l.halves()
	} else {
		l.clear()
		l.steps(0)
		l.steps(4)
		l.ends()
		l.loadBytes(0, 24, false)
		for r := range l.k {
			l.takeOffset(r, 0)
			for i := range l.width {
				l.fmul(l.sum(r, i), l.sum(r, i), 24+i)
			}
		}
		l.loadHalves(0, 20)
		l.accumulate()
		l.loadBytes(16, 30, false)
		l.loadHalves(32, 22)
		l.subMinima()
	}
	l.addImm(32, rWalkB)
	l.next()
}

// subMinima is out = out − min·(scale·(sub·Σq)), min in V22, V23, sub in V30,
// V31, worked out with the sign of −Σq.
func (l *linearTile) subMinima() {
	for r := range l.k {
		l.dup(27, l.act(r), wSum)
		l.sshr4(27, 27, 7)
		l.scvtf(27, 27)
		for i := range l.width {
			l.fmul(26, 30+i, 27)
			l.fmulElem(26, 26, l.act(r), wScale)
			l.fmul(26, 22+i, 26)
			l.fadd(l.out(r, i), l.out(r, i), 26)
		}
	}
}

// halves adds a block of Q6_K, whose two halves have scales of their own. Its
// outputs take V0–V3 only, so that the first half's sums fit V4–V7.
func (l *linearTile) halves() {
	for h := range 2 {
		l.clear()
		l.steps(4 * h)
		l.ends()
		l.loadBytes(16*h, 30, true)
		for r := range l.k {
			l.takeOffset(r, h)
			if h == 0 {
				l.fmul(4+V(r), l.sum(r, 0), 30)
				continue
			}
			l.fmla(4+V(r), l.sum(r, 0), 30) // exact: all are integers below 2²⁴
			l.move(l.sum(r, 0), 4+V(r))
		}
	}
	l.loadHalves(0, 20)
	l.accumulate()
}

// linearFloat makes the functions for float weights: 1 row and four groups, or
// 1 to 4 rows and one group. Outputs are V0–V15, weights V16–V19, x V20.
func (a *asm) linearFloat(e element) {
	a.function(fmt.Sprintf("linear%sNEON", e.name),
		"multiplies one group of 16 weight rows by a tile of 1 to 4 rows of x, or,\n// if four is not 0, four groups that are stride bytes apart by one row.",
		"dst *float32, ldd int, w *byte, stride int, bias *float32, x *float32, in int, four int, rows int", "")
	a.load(map[R]string{0: "dst", 1: "ldd", 2: "w", 3: "stride", 4: "bias", 5: "x", 6: "in", 7: "four", 8: "rows"})
	a.op("LSL $2, R1")
	a.op("CBNZ R7, fours")
	for k := 1; k < tile; k++ {
		a.op("CMP $%d, R8", k)
		a.op("BEQ rows%d", k)
	}
	for k := tile; k >= 1; k-- {
		a.label("rows%d", k)
		a.floatTile(e, k, 1)
	}
	a.label("fours")
	a.floatTile(e, 1, 4)
}

func (a *asm) floatTile(e element, k, groups int) {
	for i := range V(4 * k * groups) {
		a.zero(i)
	}
	bases := []R{2, 9, 10, 11}
	for g := 1; g < groups; g++ {
		a.op("ADD R3, %v, %v", bases[g-1], bases[g])
	}
	loop := loopLabel(k, "x", groups)
	a.label("%s", loop)
	words := a.scalars(5, 0, k, 20)
	for g := range groups {
		e.load(a, bases[g], 0, 16, 24)
		for r := range k {
			for i := range V(4) {
				a.fmlaElem(V(4*(r*groups+g))+i, 16+i, words[r].v, words[r].i)
			}
		}
		a.addImm(16*e.size, bases[g])
	}
	a.addImm(4*k, 5)
	a.op("SUBS $1, R6")
	a.op("BNE %s", loop)
	for r := range k {
		for i := range 4 * groups {
			v := V(4*r*groups + i)
			a.ldq(4, 16*i, 16)
			a.fadd(v, v, 16)
			a.stq(v, 0, 16*i)
		}
		if r+1 < k {
			a.op("ADD R1, R0")
		}
	}
	a.op("RET")
}
