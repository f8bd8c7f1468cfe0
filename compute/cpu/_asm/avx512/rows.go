package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"surmise/compute/cpu/_asm/layout"
)

// quantize makes records of 32 values.
func quantize() {
	TEXT("quantizeAVX512", NOSPLIT, "func(dst *byte, stride int, x *float32, blocks int)")
	Doc("quantizeAVX512 writes blocks of 32 values to records that are stride bytes apart.")
	a := args("dst", "stride", "x", "blocks")
	dst, stride, x, n := a[0], a[1], a[2], a[3]
	abs, w32 := ZMM(), YMM()
	VPBROADCASTD(absMask, abs)
	VPBROADCASTD(bytes32, w32)
	Label("block")
	v, m := zmms(2), zmms(2)
	bits := GP32()
	for i := range v {
		VMOVUPS(at(x, i*vec), v[i])
		VPANDD(abs, v[i], m[i])
	}
	// As integers, magnitudes are ordered too, with NaN above infinity.
	VPMAXUD(m[1], m[0], m[0])
	foldMax(m[0], VPMAXUD)
	VMOVD(m[0].AsX(), bits)
	CMPL(bits, U32(0x7f800000))
	JAE(LabelRef("notFinite"))
	amax, s := m[0].AsX(), XMM()
	VUCOMISS(tiny, amax)
	JB(LabelRef("zeros"))
	VMOVSS(f127, s)
	scale := XMM()
	VDIVSS(s, amax, scale) // amax / 127
	VMOVSS(scale, at(dst, layout.Scale))
	VDIVSS(amax, s, s) // 127 / amax
	inv := ZMM()
	VBROADCASTSS(s, inv)
	q := []reg.VecVirtual{XMM(), XMM()}
	for i := range v {
		VMULPS(inv, v[i], v[i])
		VCVTPS2DQ(v[i], v[i])
		VPMOVDB(v[i], q[i])
	}
	both, sums := YMM(), YMM()
	VINSERTI128(Imm(1), q[1], q[0].AsY(), both)
	VMOVDQU(both, at(dst, 0))
	VPXOR(sums, sums, sums)
	VPDPBUSD(both, w32, sums) // 32·Σ of four
	VPHADDD(sums, sums, sums)
	VPHADDD(sums, sums, sums)
	h0, h1 := GP32(), GP32()
	VMOVD(sums.AsX(), h0)
	VEXTRACTI128(Imm(1), sums, sums.AsX())
	VMOVD(sums.AsX(), h1)
	ADDL(h0, h1)
	NEGL(h0)
	MOVL(h0, at(dst, layout.First))
	SARL(Imm(5), h1) // Σ
	total := XMM()
	VXORPS(total, total, total)
	VCVTSI2SSL(h1, total, total)
	VMULSS(scale, total, total)
	VMOVSS(total, at(dst, layout.Total))
	SHLL(Imm(7), h1)
	NEGL(h1)
	MOVL(h1, at(dst, layout.Sum))
	Label("next")
	ADDQ(stride, dst)
	ADDQ(U32(2*vec), x)
	DECQ(n)
	JNZ(LabelRef("block"))
	done()

	Label("notFinite")
	c := GP32()
	MOVL(U32(0x7fc00000), c)
	JMP(LabelRef("clear"))
	Label("zeros")
	XORL(c, c)
	Label("clear")
	z := YMM()
	VPXOR(z, z, z)
	VMOVDQU(z, at(dst, 0))
	VMOVDQU(z.AsX(), at(dst, 32))
	MOVL(c, at(dst, layout.Scale))
	MOVL(c, at(dst, layout.Total))
	JMP(LabelRef("next"))
}

func norm() {
	TEXT("normAVX512", NOSPLIT, "func(dst *float32, x *float32, w *float32, vectors int, n float32, eps float32)")
	Doc("normAVX512 writes the RMS norm of whole vectors.")
	a := args("dst", "x", "w", "vectors")
	dst, x, w, vectors := a[0], a[1], a[2], a[3]
	count, eps := Load(Param("n"), XMM()), Load(Param("eps"), XMM())
	acc, v, r := ZMM(), ZMM(), ZMM()
	i := GP64()
	XORQ(i, i)
	end := GP64()
	MOVQ(vectors, end)
	SHLQ(Imm(6), end)
	VPXORD(acc, acc, acc)
	Label("squares")
	VMOVUPS(indexed(x, i, 1), v)
	VFMADD231PS(v, v, acc)
	ADDQ(Imm(vec), i)
	CMPQ(i, end)
	JNE(LabelRef("squares"))
	fold(acc)
	s := acc.AsX()
	VDIVSS(count, s, s)
	VADDSS(eps, s, s)
	VSQRTSS(s, s, s)
	o := XMM()
	VMOVSS(one, o)
	VDIVSS(s, o, o)
	VBROADCASTSS(o, r)
	XORQ(i, i)
	Label("scale")
	y := ZMM()
	VMULPS(indexed(x, i, 1), r, y)
	VMULPS(indexed(w, i, 1), y, y)
	VMOVUPS(y, indexed(dst, i, 1))
	ADDQ(Imm(vec), i)
	CMPQ(i, end)
	JNE(LabelRef("scale"))
	done()
}

func rotary() {
	TEXT("rotaryAVX512", NOSPLIT, "func(x *float32, half int, cos *float32, sin *float32)")
	Doc("rotaryAVX512 turns one head; half is a multiple of 16.")
	a := args("x", "half", "cos", "sin")
	x, n, cos, sin := a[0], a[1], a[2], a[3]
	hi, i := GP64(), GP64()
	SHLQ(Imm(2), n)
	LEAQ(indexed(x, n, 1), hi)
	XORQ(i, i)
	Label("loop")
	v := zmms(6)
	p, q, c, s, t, u := v[0], v[1], v[2], v[3], v[4], v[5]
	VMOVUPS(indexed(x, i, 1), p)
	VMOVUPS(indexed(hi, i, 1), q)
	VMOVUPS(indexed(cos, i, 1), c)
	VMOVUPS(indexed(sin, i, 1), s)
	VMULPS(c, p, t)
	VMULPS(s, q, u)
	VSUBPS(u, t, t)
	VMOVUPS(t, indexed(x, i, 1))
	VMULPS(s, p, t)
	VMULPS(c, q, u)
	VADDPS(u, t, t)
	VMOVUPS(t, indexed(hi, i, 1))
	ADDQ(Imm(vec), i)
	CMPQ(i, n)
	JNE(LabelRef("loop"))
	done()
}

// gates are the activations: each turns x, with a temporary, to act(x).
var gates = []struct {
	name string
	act  func(x reg.VecVirtual)
}{
	{"SiLU", func(x reg.VecVirtual) { sigmoid(x, x) }},
	{"GELUTanh", func(x reg.VecVirtual) {
		z, t := ZMM(), ZMM()
		VMULPS(x, x, t)
		VBROADCASTSS(one, z)
		VFMADD231PS_BCST(geluCubic, t, z)
		VMULPS(z, x, z)
		VMULPS_BCST(geluTwo, z, z)
		sigmoid(x, z)
	}},
	{"Sigmoid", func(x reg.VecVirtual) {
		z := ZMM()
		VMOVAPS(x, z)
		VBROADCASTSS(one, x)
		sigmoid(x, z)
	}},
}

// sigmoid makes x into x/(1 + exp(−z)).
func sigmoid(x, z reg.VecVirtual) {
	t := ZMM()
	VPXORD_BCST(signBit, z, t)
	exp(t, true)
	VADDPS_BCST(one, t, t)
	VDIVPS(t, x, x)
}

// loop makes a loop over whole vectors with the byte offset i.
func loop(vectors reg.GPVirtual, body func(i reg.GPVirtual)) {
	i := GP64()
	SHLQ(Imm(6), vectors)
	XORQ(i, i)
	Label("loop")
	body(i)
	ADDQ(Imm(vec), i)
	CMPQ(i, vectors)
	JNE(LabelRef("loop"))
	done()
}

func gate(g struct {
	name string
	act  func(x reg.VecVirtual)
},
) {
	name := fmt.Sprintf("gate%sAVX512", g.name)
	TEXT(name, NOSPLIT, "func(dst *float32, x *float32, u *float32, vectors int)")
	Doc(name + " writes act(x)·u for whole vectors.")
	a := args("dst", "x", "u", "vectors")
	loop(a[3], func(i reg.GPVirtual) {
		x := ZMM()
		VMOVUPS(indexed(a[1], i, 1), x)
		g.act(x)
		VMULPS(indexed(a[2], i, 1), x, x)
		VMOVUPS(x, indexed(a[0], i, 1))
	})
}

func add() {
	TEXT("addAVX512", NOSPLIT, "func(dst *float32, a *float32, b *float32, vectors int)")
	Doc("addAVX512 writes a + b for whole vectors.")
	a := args("dst", "a", "b", "vectors")
	loop(a[3], func(i reg.GPVirtual) {
		x := ZMM()
		VMOVUPS(indexed(a[1], i, 1), x)
		VADDPS(indexed(a[2], i, 1), x, x)
		VMOVUPS(x, indexed(a[0], i, 1))
	})
}

func scale() {
	TEXT("scaleAVX512", NOSPLIT, "func(dst *float32, a *float32, s float32, vectors int)")
	Doc("scaleAVX512 writes s·a for whole vectors.")
	a := args("dst", "a", "vectors")
	s, f := Load(Param("s"), XMM()), ZMM()
	VBROADCASTSS(s, f)
	loop(a[2], func(i reg.GPVirtual) {
		x := ZMM()
		VMULPS(indexed(a[1], i, 1), f, x)
		VMOVUPS(x, indexed(a[0], i, 1))
	})
}

// argmax keeps, in each lane, the greatest value so far and where it was first.
func argmax() {
	TEXT("argmaxAVX512", NOSPLIT, "func(x *float32, vectors int) (index int32, value float32)")
	Doc("argmaxAVX512 returns the greatest of whole vectors and its lowest index, which is −1 if", "there is a NaN.")
	a := args("x", "vectors")
	x, n := a[0], a[1]
	best, where, at0, step := ZMM(), ZMM(), ZMM(), ZMM()
	isNaN := GP32()
	XORL(isNaN, isNaN)
	VMOVUPS(at(x, 0), best)
	VMOVDQU32(lane0To15, where)
	VMOVDQA32(where, at0)
	VPBROADCASTD(sixteen, step)
	Label("loop")
	v, k, unordered := ZMM(), K(), GP32()
	VMOVUPS(at(x, 0), v)
	VCMPPS(Imm(3), v, v, k)
	KMOVW(k, unordered)
	ORL(unordered, isNaN)
	greater := K()
	VCMPPS(Imm(0x1e), best, v, greater)
	VMOVAPS(v, greater, best)
	VMOVDQA32(at0, greater, where)
	VPADDD(step, at0, at0)
	ADDQ(Imm(vec), x)
	DECQ(n)
	JNZ(LabelRef("loop"))
	top, less, none := ZMM(), K(), ZMM()
	VMOVAPS(best, top)
	foldMax(top, VMAXPS)
	Store(top.AsX(), ReturnIndex(1))
	VBROADCASTSS(top.AsX(), top)
	VCMPPS(Imm(0x04), top, best, less)
	VPTERNLOGD(Imm(0xff), none, none, none)
	VMOVDQA32(none, less, where) // lanes that are less have the greatest index
	foldMax(where, VPMINUD)
	bits := GP32()
	VMOVD(where.AsX(), bits)
	TESTL(isNaN, isNaN)
	JZ(LabelRef("ordered"))
	MOVL(U32(0xffffffff), bits)
	Label("ordered")
	Store(bits, ReturnIndex(0))
	done()
}

func toHalf() {
	TEXT("toHalfAVX512", NOSPLIT, "func(dst *uint16, x *float32, vectors int)")
	Doc("toHalfAVX512 rounds whole vectors to binary16.")
	a := args("dst", "x", "vectors")
	dst, x, n := a[0], a[1], a[2]
	Label("loop")
	v, h := ZMM(), YMM()
	VMOVUPS(at(x, 0), v)
	VCVTPS2PH(Imm(0), v, h)
	VMOVDQU(h, at(dst, 0))
	ADDQ(Imm(vec), x)
	ADDQ(Imm(32), dst)
	DECQ(n)
	JNZ(LabelRef("loop"))
	done()
}
