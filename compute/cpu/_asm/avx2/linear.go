package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"surmise/compute/cpu/_asm/layout"
)

const tile = 4 // most rows of a quantized tile

// linear makes one function per format with a variant per number of rows.
func linear(f layout.Format) {
	name := fmt.Sprintf("linear%sAVX2", f.Name)
	TEXT(name, NOSPLIT, "func(dst *float32, ldd int, w *byte, s *byte, bias *float32, x *byte, blocks int, groups int, rows int)")
	Doc(name + " multiplies groups of 16 weight rows by a tile of 1 to 4 activation rows.")
	rows := Load(Param("rows"), GP64())
	for k := 1; k < tile; k++ {
		CMPQ(rows, Imm(uint64(k)))
		JEQ(LabelRef(fmt.Sprintf("rows%d", k)))
	}
	for k := tile; k >= 1; k-- {
		Label(fmt.Sprintf("rows%d", k))
		l := linearTile{Format: f, k: k}
		l.emit()
	}
}

// linearTile is the code for k rows and 8 outputs.
//
// Unsigned weights of at most 6 bits are multiplied by signed activations to
// sums of two in int16 (VPMADDUBSW), of which a few fit 16 bits: 8 of 4 bits, 4
// of 5 bits, 2 of 6 bits. For 8 bits the first operand is the weight's
// magnitude and the activation takes the weight's sign: 2·128·127 still fits.
type linearTile struct {
	layout.Format
	k int

	w, s reg.GPVirtual // walk over weights and scales
	half reg.GPVirtual // 0, or 8 for the last 8 outputs
	row  reg.GPVirtual // the current block's records

	acc, isum []reg.VecVirtual
	d         reg.VecVirtual
	part      []reg.VecVirtual // Q6_K: the first half's scaled sums
	t, u      reg.VecVirtual
}

func (l *linearTile) label(s string) string { return fmt.Sprintf("%s%d", s, l.k) }

func (l *linearTile) field(r, disp int) Mem { return at(l.row, r*layout.RecordBytes+disp) }

// Positions of this half's 8 outputs in what holds 16.
func (l *linearTile) weights(line int) Mem { return l.halved(l.w, 64*line, 4) }
func (l *linearTile) floats(disp int) Mem  { return l.halved(l.s, disp, 4) }
func (l *linearTile) halves(disp int) Mem  { return l.halved(l.s, disp, 2) }
func (l *linearTile) bytes(disp int) Mem   { return l.halved(l.s, disp, 1) }

func (l *linearTile) halved(base reg.Register, disp int, size uint8) Mem {
	return Mem{Base: base, Disp: disp, Index: l.half, Scale: size}
}

func (l *linearTile) emit() {
	a := args("dst", "w", "s", "bias", "x", "groups")
	dst, w, s, bias, x, groups := a[0], a[1], a[2], a[3], a[4], a[5]
	l.w, l.s, l.half, l.row = GP64(), GP64(), GP64(), GP64()
	l.acc, l.isum, l.t, l.u = ymms(l.k), ymms(l.k), YMM(), YMM()
	Label(l.label("group"))
	XORQ(l.half, l.half)
	Label(l.label("half"))
	for _, v := range l.acc {
		VXORPS(v, v, v)
	}
	MOVQ(w, l.w)
	MOVQ(s, l.s)
	MOVQ(x, l.row)
	n := Load(Param("blocks"), GP64()).(reg.GPVirtual)
	if l.Super() {
		l.superLoop(n)
	} else {
		Label(l.label("block"))
		l.block()
		DECQ(n)
		JNZ(LabelRef(l.label("block")))
	}
	ldd, o := Load(Param("ldd"), GP64()), GP64()
	LEAQ(Mem{Base: dst, Index: l.half, Scale: 4}, o)
	VMOVUPS(Mem{Base: bias, Index: l.half, Scale: 4}, l.t)
	for r, v := range l.acc {
		VADDPS(l.t, v, v)
		VMOVUPS(v, at(o, 0))
		if r+1 < l.k {
			LEAQ(Mem{Base: o, Index: ldd, Scale: 4}, o)
		}
	}
	ADDQ(Imm(8), l.half)
	CMPQ(l.half, Imm(16))
	JNE(LabelRef(l.label("half")))
	MOVQ(l.w, w)
	MOVQ(l.s, s)
	ADDQ(Imm(64), bias)
	ADDQ(Imm(64), dst)
	DECQ(groups)
	JNZ(LabelRef(l.label("group")))
	done()
}

// superLoop goes over super-blocks of 8 blocks; d and dmin are read again for
// each block, as there is no register to keep them in. s points to the 16 f16
// that precede the block's scales by disp.
func (l *linearTile) superLoop(n reg.GPVirtual) {
	b, head := GP64(), 64
	if l.Scales == layout.ScaleSuper6 {
		head = 32
	}
	Label(l.label("super"))
	super := GP64()
	MOVQ(l.s, super)
	ADDQ(Imm(uint64(head)), l.s)
	MOVQ(U32(8), b)
	Label(l.label("block"))
	l.superBlock(super)
	DECQ(b)
	JNZ(LabelRef(l.label("block")))
	SUBQ(Imm(8), n)
	JNZ(LabelRef(l.label("super")))
}

func (l *linearTile) superBlock(super reg.GPVirtual) {
	d := l.halved(super, 0, 2)
	if l.Scales == layout.ScaleSuper6 {
		l.part = ymms(l.k)
		for h := range 2 {
			l.clear()
			l.steps(4*h, 2)
			l.steps(4*h+2, 2)
			for r := range l.isum {
				l.takeOffset(r, h)
				VCVTDQ2PS(l.isum[r], l.isum[r])
			}
			VPMOVSXBD(l.bytes(16*h), l.t)
			VCVTDQ2PS(l.t, l.t)
			for r, v := range l.isum {
				if h == 0 {
					VMULPS(l.t, v, l.part[r])
				} else {
					VFMADD213PS(l.part[r], l.t, v) // exact: all are integers below 2²⁴
				}
			}
		}
		l.scaled(d)
	} else {
		l.clear()
		l.steps(0, 4)
		l.steps(4, 4)
		VPMOVZXBD(l.bytes(0), l.t)
		VCVTDQ2PS(l.t, l.t)
		for _, v := range l.isum {
			VCVTDQ2PS(v, v)
			VMULPS(l.t, v, v)
		}
		l.scaled(d)
		sub, min := YMM(), YMM()
		VPMOVZXBD(l.bytes(16), sub)
		VCVTDQ2PS(sub, sub)
		VMULPS(minusInv128, sub, sub) // the records hold −128·Σq
		VCVTPH2PS(l.halved(super, 32, 2), min)
		l.subMinima(sub, min)
	}
	l.next(32)
}

// block adds one block of a format without super-blocks.
func (l *linearTile) block() {
	l.clear()
	if l.Bits == 8 {
		for t := range 8 {
			l.wide(t)
		}
	} else {
		l.steps(0, 4)
		l.steps(4, 4)
	}
	for r, v := range l.isum {
		if l.Bits != 8 {
			l.takeOffset(r, 0)
		} else if l.Offset == 0 { // 128 was taken off to make the weights signed
			VPBROADCASTD(l.field(r, layout.Sum), l.t)
			VPSUBD(l.t, v, v)
		}
		VCVTDQ2PS(v, v)
	}
	min := YMM()
	switch l.Scales {
	case layout.ScaleHalf:
		l.scaled(l.halves(0))
		l.next(32)
	case layout.ScaleHalfMin:
		l.scaled(l.halves(0))
		VCVTPH2PS(l.halves(32), min)
		l.minima(min)
		l.next(64)
	case layout.ScaleFloatMin:
		l.d = YMM()
		VMOVUPS(l.floats(0), l.d)
		l.accumulate()
		VMOVUPS(l.floats(64), min)
		l.minima(min)
		l.next(128)
	}
}

func (l *linearTile) clear() {
	for _, v := range l.isum {
		VPXOR(v, v, v)
	}
}

// next moves on to the next block.
func (l *linearTile) next(scales int) {
	ADDQ(U32(l.BlockBytes()), l.w)
	ADDQ(U32(scales), l.s)
	ADDQ(U32(layout.RecordBytes*l.k), l.row)
}

// steps adds n steps of four columns from t on; n of them fit int16.
func (l *linearTile) steps(t, n int) {
	w := ymms(n)
	for i := range w {
		l.unpack(t+i, w[i])
	}
	for r := range l.isum {
		for i := range w {
			dst := l.u
			if i == 0 {
				dst = l.t
			}
			VPBROADCASTD(l.field(r, 4*(t+i)), dst)
			VPMADDUBSW(dst, w[i], dst)
			if i > 0 {
				VPADDW(l.u, l.t, l.t)
			}
		}
		VPMADDWD(ones16, l.t, l.t)
		VPADDD(l.t, l.isum[r], l.isum[r])
	}
}

// unpack widens step t's weights to bytes.
func (l *linearTile) unpack(t int, w reg.VecVirtual) {
	src := l.weights(t / 2)
	if t%2 == 0 {
		VMOVDQU(src, w)
	} else {
		VMOVDQU(src, w)
		VPSRLD(Imm(4), w, w)
	}
	VPAND(nibbles, w, w)
	if l.Bits == 4 {
		return
	}
	line, shift := l.HighLine(t)
	mask := fifth
	if l.Bits == 6 {
		mask = sixth
	}
	VMOVDQU(l.weights(line), l.t)
	switch {
	case shift > 0:
		VPSLLD(Imm(uint64(shift)), l.t, l.t)
	case shift < 0:
		VPSRLD(Imm(uint64(-shift)), l.t, l.t)
	}
	VPAND(mask, l.t, l.t)
	VPOR(l.t, w, w)
}

// wide adds step t of 8-bit weights.
func (l *linearTile) wide(t int) {
	signed, magnitude := YMM(), YMM()
	VMOVDQU(l.weights(t), signed)
	VPXOR(sign8, signed, signed)
	VPABSB(signed, magnitude)
	for r, v := range l.isum {
		VPBROADCASTD(l.field(r, 4*t), l.t)
		VPSIGNB(signed, l.t, l.t)
		VPMADDUBSW(l.t, magnitude, l.t)
		VPMADDWD(ones16, l.t, l.t)
		VPADDD(l.t, v, v)
	}
}

// takeOffset takes the weights' offset out again, for the whole block or for
// half h of it.
func (l *linearTile) takeOffset(r, h int) {
	if l.Offset == 0 {
		return
	}
	if l.Offset == 32 && h == 0 {
		VPBROADCASTD(l.field(r, layout.First), l.t)
	} else {
		VPBROADCASTD(l.field(r, layout.Sum), l.t)
		VPSRAD(Imm(map[int]uint64{8: 4, 16: 3, 32: 2}[l.Offset]), l.t, l.t)
	}
	VPADDD(l.t, l.isum[r], l.isum[r])
	if l.Offset == 32 && h == 1 {
		VPBROADCASTD(l.field(r, layout.First), l.t)
		VPSUBD(l.t, l.isum[r], l.isum[r])
	}
}

// scaled reads f16 scales and adds the float sums in isum to the outputs.
func (l *linearTile) scaled(d Mem) {
	l.d = YMM()
	VCVTPH2PS(d, l.d)
	l.accumulate()
}

// accumulate is acc = acc + sum·(d·scale).
func (l *linearTile) accumulate() {
	for r, v := range l.isum {
		VBROADCASTSS(l.field(r, layout.Scale), l.t)
		VMULPS(l.t, l.d, l.t)
		VMULPS(l.t, v, v)
		VADDPS(v, l.acc[r], l.acc[r])
	}
}

// minima is acc = acc − min·total.
func (l *linearTile) minima(min reg.VecVirtual) {
	for r, v := range l.acc {
		VBROADCASTSS(l.field(r, layout.Total), l.t)
		VMULPS(min, l.t, l.t)
		VSUBPS(l.t, v, v)
	}
}

// subMinima is acc = acc − min·(scale·(sub·sum)), where sub·sum is exact.
func (l *linearTile) subMinima(sub, min reg.VecVirtual) {
	for r, v := range l.acc {
		VPBROADCASTD(l.field(r, layout.Sum), l.t)
		VCVTDQ2PS(l.t, l.t)
		VMULPS(sub, l.t, l.t)
		VBROADCASTSS(l.field(r, layout.Scale), l.u)
		VMULPS(l.u, l.t, l.t)
		VMULPS(min, l.t, l.t)
		VSUBPS(l.t, v, v)
	}
}

// linearFloat makes the functions for float weights: 1 row and four groups, or
// 1 to 6 rows and one group.
func linearFloat(e element) {
	name := fmt.Sprintf("linear%sAVX2", e.name)
	TEXT(name, NOSPLIT, "func(dst *float32, ldd int, w *byte, stride int, bias *float32, x *float32, in int, four int, rows int)")
	Doc(name+" multiplies one group of 16 weight rows by a tile of 1 to 6 rows of x, or, if four is not 0,", "four groups that are stride bytes apart by one row.")
	a := args("dst", "ldd", "w", "stride", "bias", "x", "in", "four", "rows")
	SHLQ(Imm(2), a[1])
	TESTQ(a[7], a[7])
	JNZ(LabelRef("fours"))
	for k := 1; k < layout.Pairs; k++ {
		CMPQ(a[8], Imm(uint64(k)))
		JEQ(LabelRef(fmt.Sprintf("rows%d_1", k)))
	}
	for k := layout.Pairs; k >= 1; k-- {
		Label(fmt.Sprintf("rows%d_1", k))
		floatTile(e, a, k, 1)
	}
	Label("fours")
	floatTile(e, a, 1, 4)
}

func floatTile(e element, a []reg.GPVirtual, k, groups int) {
	dst, ldd, w, stride, bias, x, in := a[0], a[1], a[2], a[3], a[4], a[5], a[6]
	acc, col, b := ymms(2*k*groups), ymms(2), YMM()
	for _, v := range acc {
		VXORPS(v, v, v)
	}
	w3 := GP64()
	if groups == 4 {
		LEAQ(indexed(w, stride, 2), w3)
		ADDQ(stride, w3)
	}
	loop := fmt.Sprintf("col%d_%d", k, groups)
	Label(loop)
	for g := range groups {
		src := []Mem{at(w, 0), indexed(w, stride, 1), indexed(w, stride, 2), at(w3, 0)}[g]
		for h := range col {
			e.load(src.Offset(h*lanes*e.size), col[h])
		}
		for r := range k {
			VBROADCASTSS(at(x, 4*r), b)
			for h, v := range col {
				VFMADD231PS(b, v, acc[2*(r*groups+g)+h])
			}
		}
	}
	ADDQ(U32(2*lanes*e.size), w)
	if groups == 4 {
		ADDQ(U32(2*lanes*e.size), w3)
	}
	ADDQ(U32(4*k), x)
	DECQ(in)
	JNZ(LabelRef(loop))
	for r := range k {
		for i := range 2 * groups {
			v := acc[2*r*groups+i]
			VADDPS(at(bias, i*vec), v, v)
			VMOVUPS(v, at(dst, i*vec))
		}
		if r+1 < k {
			ADDQ(ldd, dst)
		}
	}
	done()
}
