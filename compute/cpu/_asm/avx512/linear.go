package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"surmise/compute/cpu/_asm/layout"
)

// linear makes one function per format with a variant per number of rows.
func linear(f layout.Format) {
	name := fmt.Sprintf("linear%sAVX512", f.Name)
	TEXT(name, NOSPLIT, "func(dst *float32, ldd int, w *byte, s *byte, bias *float32, x *byte, blocks int, groups int, rows int)")
	Doc(name + " multiplies groups of 16 weight rows by a tile of 1 to 8 activation rows.")
	a := args("dst", "ldd", "w", "s", "bias", "x", "blocks", "groups", "rows")
	SHLQ(Imm(2), a[1])
	for k := 1; k < layout.Tile; k++ {
		CMPQ(a[8], Imm(uint64(k)))
		JEQ(LabelRef(fmt.Sprintf("rows%d", k)))
	}
	for k := layout.Tile; k >= 1; k-- {
		l := linearTile{
			Format: f, k: k,
			dst: a[0], ldd: a[1], w: a[2], s: a[3], bias: a[4], x: a[5], blocks: a[6], groups: a[7],
		}
		Label(fmt.Sprintf("rows%d", k))
		l.emit()
	}
}

// linearTile is the code for k rows.
type linearTile struct {
	layout.Format
	k int

	dst, ldd, w, s, bias, x, blocks, groups reg.GPVirtual

	row  reg.GPVirtual    // the current block's records
	acc  []reg.VecVirtual // 16 outputs of each row
	isum [][]reg.VecVirtual
	low  reg.VecVirtual // mask of nibbles

	d, min reg.VecVirtual // scales and minima of 16 outputs
	// sub is the integer scale of the block (of its current half), subMin that
	// of the minimum, as floats: their products with the sums are exact.
	sub, subMin reg.VecVirtual
	part        []reg.VecVirtual // Q6_K: the first half's scaled sums
}

func (l *linearTile) label(s string) string { return fmt.Sprintf("%s%d", s, l.k) }

func (l *linearTile) emit() {
	l.row = GP64()
	n, o := GP64(), GP64()
	l.acc = zmms(l.k)
	// Few rows have too few chains to hide the latency of a dot product: sum in
	// several registers.
	split := 1
	if l.k <= 3 {
		split = []int{4, 2, 2}[l.k-1]
	}
	l.isum = make([][]reg.VecVirtual, l.k)
	for r := range l.isum {
		l.isum[r] = zmms(split)
	}
	if l.Bits != 8 {
		l.low = ZMM()
		VPBROADCASTD(nibbles, l.low)
	}
	Label(l.label("group"))
	for _, v := range l.acc {
		VPXORD(v, v, v)
	}
	MOVQ(l.x, l.row)
	MOVQ(l.blocks, n)
	if l.Super() {
		l.superLoop(n)
	} else {
		Label(l.label("block"))
		l.loadScales()
		l.block()
		DECQ(n)
		JNZ(LabelRef(l.label("block")))
	}
	VMOVUPS(at(l.bias, 0), l.isum[0][0])
	MOVQ(l.dst, o)
	for r, v := range l.acc {
		VADDPS(l.isum[0][0], v, v)
		VMOVUPS(v, at(o, 0))
		if r+1 < l.k {
			ADDQ(l.ldd, o)
		}
	}
	ADDQ(Imm(vec), l.bias)
	ADDQ(Imm(vec), l.dst)
	DECQ(l.groups)
	JNZ(LabelRef(l.label("group")))
	done()
}

// superLoop goes over super-blocks of 8 blocks.
func (l *linearTile) superLoop(n reg.GPVirtual) {
	b := GP64()
	l.d, l.sub = ZMM(), ZMM()
	Label(l.label("super"))
	VCVTPH2PS(at(l.s, 0), l.d)
	if l.Scales == layout.ScaleSuper {
		l.min, l.subMin = ZMM(), ZMM()
		VCVTPH2PS(at(l.s, 32), l.min)
		ADDQ(Imm(32), l.s)
	}
	ADDQ(Imm(32), l.s)
	MOVQ(U32(8), b)
	Label(l.label("block"))
	if l.Scales == layout.ScaleSuper {
		VPMOVZXBD(at(l.s, 0), l.sub)
		VPMOVZXBD(at(l.s, 16), l.subMin)
		VCVTDQ2PS(l.sub, l.sub)
		VCVTDQ2PS(l.subMin, l.subMin)
		VMULPS_BCST(minusInv128, l.subMin, l.subMin) // the records hold −128·Σq
	}
	l.block()
	ADDQ(Imm(32), l.s)
	DECQ(b)
	JNZ(LabelRef(l.label("block")))
	SUBQ(Imm(8), n)
	JNZ(LabelRef(l.label("super")))
}

// loadScales widens the scales of a block and moves on.
func (l *linearTile) loadScales() {
	l.d = ZMM()
	switch l.Scales {
	case layout.ScaleHalf:
		VCVTPH2PS(at(l.s, 0), l.d)
		ADDQ(Imm(32), l.s)
	case layout.ScaleHalfMin:
		l.min = ZMM()
		VCVTPH2PS(at(l.s, 0), l.d)
		VCVTPH2PS(at(l.s, 32), l.min)
		ADDQ(Imm(64), l.s)
	case layout.ScaleFloatMin:
		l.min = ZMM()
		VMOVUPS(at(l.s, 0), l.d)
		VMOVUPS(at(l.s, 64), l.min)
		ADDQ(U32(128), l.s)
	}
}

// block adds one block of 32 columns.
func (l *linearTile) block() {
	if l.Scales == layout.ScaleSuper6 {
		l.halves()
	} else {
		l.start(0)
		for t := 0; t < 8; t += l.step() {
			l.line(t)
		}
		for r := range l.isum {
			l.finish(r)
		}
	}
	ADDQ(U32(l.BlockBytes()), l.w)
	ADDQ(U32(layout.RecordBytes*l.k), l.row)
}

// step is the number of 4-column steps in a line of weights.
func (l *linearTile) step() int {
	if l.Bits == 8 {
		return 1
	}
	return 2
}

// start sets the integer sums to what takes the offset out again, for the
// whole block or for half h of it.
func (l *linearTile) start(h int) {
	for r, sums := range l.isum {
		for i, v := range sums {
			if i > 0 || l.Offset == 0 {
				VPXORD(v, v, v)
				continue
			}
			switch l.Offset {
			case 8:
				VPSRAD_BCST(Imm(4), l.field(r, layout.Sum), v)
			case 16:
				VPSRAD_BCST(Imm(3), l.field(r, layout.Sum), v)
			case 128:
				VPBROADCASTD(l.field(r, layout.Sum), v)
			case 32:
				if h == 0 {
					VPBROADCASTD(l.field(r, layout.First), v)
				} else {
					VPSRAD_BCST(Imm(2), l.field(r, layout.Sum), v)
					VPSUBD_BCST(l.field(r, layout.First), v, v)
				}
			}
		}
	}
}

// field is a field of row r's current record.
func (l *linearTile) field(r, disp int) Mem { return at(l.row, r*layout.RecordBytes+disp) }

// line adds the products of one line of weights: steps t (and t + 1) of four
// columns. Packed weights are unpacked once for all rows.
func (l *linearTile) line(t int) {
	w := ZMM()
	if l.Bits == 8 {
		VMOVDQU32(at(l.w, t*vec), w)
		l.dot(t, w)
		return
	}
	hi := ZMM()
	VMOVDQU32(at(l.w, t/2*vec), hi)
	VPANDD(l.low, hi, w)
	VPSRLD(Imm(4), hi, hi)
	VPANDD(l.low, hi, hi)
	if l.Bits > 4 {
		l.highBits(t, w)
		l.highBits(t+1, hi)
	}
	l.dot(t, w)
	l.dot(t+1, hi)
}

// highBits puts the high bits of step t on top of the nibbles in w.
func (l *linearTile) highBits(t int, w reg.VecVirtual) {
	line, shift := l.HighLine(t)
	h, mask := ZMM(), fifth
	if l.Bits == 6 {
		mask = sixth
	}
	src := at(l.w, line*vec)
	switch {
	case shift > 0:
		VPSLLD(Imm(uint64(shift)), src, h)
	case shift < 0:
		VPSRLD(Imm(uint64(-shift)), src, h)
	default:
		VMOVDQU32(src, h)
	}
	VPTERNLOGD_BCST(Imm(0xf8), mask, h, w) // w | h & mask
}

func (l *linearTile) dot(t int, w reg.VecVirtual) {
	for r, sums := range l.isum {
		VPDPBUSD_BCST(l.field(r, 4*t), w, sums[t%len(sums)])
	}
}

// gather adds up the registers of a row's integer sum and makes it a float.
func (l *linearTile) gather(r int) reg.VecVirtual {
	s := l.isum[r]
	for n := len(s) / 2; n > 0; n /= 2 {
		for i := range n {
			VPADDD(s[i+n], s[i], s[i])
		}
	}
	VCVTDQ2PS(s[0], s[0])
	return s[0]
}

// finish multiplies a row's sum by its scales and adds it to the outputs.
func (l *linearTile) finish(r int) {
	sum, t := l.gather(r), ZMM()
	if l.Scales == layout.ScaleSuper {
		VMULPS(l.sub, sum, sum)
	}
	l.accumulate(r, sum, t)
	switch l.Scales {
	case layout.ScaleHalfMin, layout.ScaleFloatMin:
		VMULPS_BCST(l.field(r, layout.Total), l.min, t)
		VSUBPS(t, l.acc[r], l.acc[r])
	case layout.ScaleSuper:
		VCVTDQ2PS_BCST(l.field(r, layout.Sum), t)
		VMULPS(l.subMin, t, t)
		VMULPS_BCST(l.field(r, layout.Scale), t, t)
		VMULPS(l.min, t, t)
		VSUBPS(t, l.acc[r], l.acc[r])
	}
}

// accumulate is acc = acc + sum·(d·scale).
func (l *linearTile) accumulate(r int, sum, t reg.VecVirtual) {
	VMULPS_BCST(l.field(r, layout.Scale), l.d, t)
	VMULPS(t, sum, sum)
	VADDPS(sum, l.acc[r], l.acc[r])
}

// halves adds a block of Q6_K, whose two halves have scales of their own.
func (l *linearTile) halves() {
	l.part = zmms(l.k)
	for h := range 2 {
		l.start(h)
		l.line(4 * h)
		l.line(4*h + 2)
		VPMOVSXBD(at(l.s, 16*h), l.sub)
		VCVTDQ2PS(l.sub, l.sub)
		for r := range l.isum {
			sum := l.gather(r)
			if h == 0 {
				VMULPS(l.sub, sum, l.part[r])
				continue
			}
			VFMADD213PS(l.part[r], l.sub, sum) // exact: all are integers below 2²⁴
			l.accumulate(r, sum, l.part[r])
		}
	}
}

// linearFloat makes the functions for float weights: lanes are 16 outputs, and
// four groups at once give enough chains.
func linearFloat(e element) {
	name := fmt.Sprintf("linear%sAVX512", e.name)
	TEXT(name, NOSPLIT, "func(dst *float32, ldd int, w *byte, stride int, bias *float32, x *float32, in int, four int, rows int)")
	Doc(name+" multiplies one group of 16 weight rows, or four groups that are stride bytes apart", "if four is not 0, by a tile of 1 to 6 rows of x.")
	a := args("dst", "ldd", "w", "stride", "bias", "x", "in", "four", "rows")
	SHLQ(Imm(2), a[1])
	TESTQ(a[7], a[7])
	JNZ(LabelRef("fours"))
	floatVariants(e, a, 1)
	Label("fours")
	floatVariants(e, a, 4)
}

func floatVariants(e element, a []reg.GPVirtual, groups int) {
	for k := 1; k < layout.Pairs; k++ {
		CMPQ(a[8], Imm(uint64(k)))
		JEQ(LabelRef(fmt.Sprintf("rows%d_%d", k, groups)))
	}
	for k := layout.Pairs; k >= 1; k-- {
		Label(fmt.Sprintf("rows%d_%d", k, groups))
		floatTile(e, a, k, groups)
	}
}

func floatTile(e element, a []reg.GPVirtual, k, groups int) {
	dst, ldd, w, stride, bias, x, in := a[0], a[1], a[2], a[3], a[4], a[5], a[6]
	acc, col := zmms(k*groups), zmms(groups)
	for _, v := range acc {
		VPXORD(v, v, v)
	}
	w3 := GP64()
	src := []Mem{at(w, 0), indexed(w, stride, 1), indexed(w, stride, 2), at(w3, 0)}
	if groups == 4 {
		LEAQ(indexed(w, stride, 2), w3)
		ADDQ(stride, w3)
	}
	loop := fmt.Sprintf("col%d_%d", k, groups)
	Label(loop)
	for g := range groups {
		e.load(src[g], col[g])
		for r := range k {
			VFMADD231PS_BCST(at(x, 4*r), col[g], acc[r*groups+g])
		}
	}
	ADDQ(U32(lanes*e.size), w)
	if groups == 4 {
		ADDQ(U32(lanes*e.size), w3)
	}
	ADDQ(U32(4*k), x)
	DECQ(in)
	JNZ(LabelRef(loop))
	for r := range k {
		for g := range groups {
			VADDPS(at(bias, g*vec), acc[r*groups+g], acc[r*groups+g])
			VMOVUPS(acc[r*groups+g], at(dst, g*vec))
		}
		if r+1 < k {
			ADDQ(ldd, dst)
		}
	}
	done()
}
