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
	TEXT("quantizeAVX2", NOSPLIT, "func(dst *byte, stride int, x *float32, blocks int)")
	Doc("quantizeAVX2 writes blocks of 32 values to records that are stride bytes apart.")
	a := args("dst", "stride", "x", "blocks")
	dst, stride, x, n := a[0], a[1], a[2], a[3]
	Label("block")
	v, m, t := ymms(4), YMM(), YMM()
	bits := GP32()
	// As integers, magnitudes are ordered too, with NaN above infinity.
	for i := range v {
		VMOVUPS(at(x, i*vec), v[i])
		if i == 0 {
			VPAND(absMask, v[i], m)
			continue
		}
		VPAND(absMask, v[i], t)
		VPMAXUD(t, m, m)
	}
	foldMax(m, VPMAXUD)
	VMOVD(m.AsX(), bits)
	CMPL(bits, U32(0x7f800000))
	JAE(LabelRef("notFinite"))
	amax, s, scale, inv := m.AsX(), XMM(), XMM(), YMM()
	VUCOMISS(tiny, amax)
	JB(LabelRef("zeros"))
	VMOVSS(f127, s)
	VDIVSS(s, amax, scale) // amax / 127
	VMOVSS(scale, at(dst, layout.Scale))
	VDIVSS(amax, s, s) // 127 / amax
	VBROADCASTSS(s, inv)
	for i := range v {
		VMULPS(inv, v[i], v[i])
		VCVTPS2DQ(v[i], v[i])
	}
	// Packing works within halves of 128 bits; the permutation mends the order.
	VPACKSSDW(v[1], v[0], v[0])
	VPACKSSDW(v[3], v[2], v[2])
	VPACKSSWB(v[2], v[0], v[0])
	VMOVDQU(pack, t)
	VPERMD(v[0], t, v[0])
	VMOVDQU(v[0], at(dst, 0))
	ones := YMM()
	VMOVDQU(ones8, ones)
	VPMADDUBSW(v[0], ones, t) // Σ of two
	VPMADDWD(minus32, t, t)   // −32·Σ of four
	VPHADDD(t, t, t)
	VPHADDD(t, t, t)
	h0, h1 := GP32(), GP32()
	VMOVD(t.AsX(), h0)
	VEXTRACTI128(Imm(1), t, t.AsX())
	VMOVD(t.AsX(), h1)
	MOVL(h0, at(dst, layout.First))
	ADDL(h0, h1) // −32·Σ
	NEGL(h1)
	SARL(Imm(5), h1)
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
	ADDQ(U32(4*vec), x)
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
	TEXT("normAVX2", NOSPLIT, "func(dst *float32, x *float32, w *float32, vectors int, n float32, eps float32)")
	Doc("normAVX2 writes the RMS norm of whole vectors of 16.")
	a := args("dst", "x", "w", "vectors")
	dst, x, w, end := a[0], a[1], a[2], a[3]
	count, eps := Load(Param("n"), XMM()), Load(Param("eps"), XMM())
	acc, r := ymms(2), YMM()
	i := GP64()
	XORQ(i, i)
	SHLQ(Imm(6), end)
	for _, v := range acc {
		VXORPS(v, v, v)
	}
	Label("squares")
	for h, sum := range acc {
		v := YMM()
		VMOVUPS(indexed(x, i, 1).Offset(h*vec), v)
		VFMADD231PS(v, v, sum)
	}
	ADDQ(Imm(2*vec), i)
	CMPQ(i, end)
	JNE(LabelRef("squares"))
	fold(acc[0], acc[1])
	s, o := acc[0].AsX(), XMM()
	VDIVSS(count, s, s)
	VADDSS(eps, s, s)
	VSQRTSS(s, s, s)
	VMOVSS(one, o)
	VDIVSS(s, o, o)
	VBROADCASTSS(o, r)
	XORQ(i, i)
	Label("scale")
	for h := range acc {
		y := YMM()
		VMULPS(indexed(x, i, 1).Offset(h*vec), r, y)
		VMULPS(indexed(w, i, 1).Offset(h*vec), y, y)
		VMOVUPS(y, indexed(dst, i, 1).Offset(h*vec))
	}
	ADDQ(Imm(2*vec), i)
	CMPQ(i, end)
	JNE(LabelRef("scale"))
	done()
}

func rotary() {
	TEXT("rotaryAVX2", NOSPLIT, "func(x *float32, half int, cos *float32, sin *float32)")
	Doc("rotaryAVX2 turns one head; half is a multiple of 16.")
	a := args("x", "half", "cos", "sin")
	x, n, cos, sin := a[0], a[1], a[2], a[3]
	hi, i := GP64(), GP64()
	SHLQ(Imm(2), n)
	LEAQ(indexed(x, n, 1), hi)
	XORQ(i, i)
	Label("loop")
	v := ymms(6)
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

// activation turns x, with temporaries, to act(x).
type activation struct {
	name string
	act  func(x reg.VecVirtual)
}

var gates = []activation{
	{"SiLU", func(x reg.VecVirtual) { sigmoid(x, x) }},
	{"GELUTanh", func(x reg.VecVirtual) {
		z, t := YMM(), YMM()
		VMULPS(x, x, t)
		VMOVUPS(one, z)
		VFMADD231PS(geluCubic, t, z)
		VMULPS(z, x, z)
		VMULPS(geluTwo, z, z)
		sigmoid(x, z)
	}},
	{"Sigmoid", func(x reg.VecVirtual) {
		z := YMM()
		VMOVAPS(x, z)
		VMOVUPS(one, x)
		sigmoid(x, z)
	}},
}

// sigmoid makes x into x/(1 + exp(−z)).
func sigmoid(x, z reg.VecVirtual) {
	t := YMM()
	VXORPS(signBit, z, t)
	exp(t, true)
	VADDPS(one, t, t)
	VDIVPS(t, x, x)
}

// loop makes a loop over whole vectors of 16 with the byte offset i of a half.
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

func gate(g activation) {
	name := fmt.Sprintf("gate%sAVX2", g.name)
	TEXT(name, NOSPLIT, "func(dst *float32, x *float32, u *float32, vectors int)")
	Doc(name + " writes act(x)·u for whole vectors of 16.")
	a := args("dst", "x", "u", "vectors")
	loop(a[3], func(i reg.GPVirtual) {
		x := YMM()
		VMOVUPS(indexed(a[1], i, 1), x)
		g.act(x)
		VMULPS(indexed(a[2], i, 1), x, x)
		VMOVUPS(x, indexed(a[0], i, 1))
	})
}

func add() {
	TEXT("addAVX2", NOSPLIT, "func(dst *float32, a *float32, b *float32, vectors int)")
	Doc("addAVX2 writes a + b for whole vectors of 16.")
	a := args("dst", "a", "b", "vectors")
	loop(a[3], func(i reg.GPVirtual) {
		x := YMM()
		VMOVUPS(indexed(a[1], i, 1), x)
		VADDPS(indexed(a[2], i, 1), x, x)
		VMOVUPS(x, indexed(a[0], i, 1))
	})
}

func scale() {
	TEXT("scaleAVX2", NOSPLIT, "func(dst *float32, a *float32, s float32, vectors int)")
	Doc("scaleAVX2 writes s·a for whole vectors of 16.")
	a := args("dst", "a", "vectors")
	s, f := Load(Param("s"), XMM()), YMM()
	VBROADCASTSS(s, f)
	loop(a[2], func(i reg.GPVirtual) {
		x := YMM()
		VMULPS(indexed(a[1], i, 1), f, x)
		VMOVUPS(x, indexed(a[0], i, 1))
	})
}

// argmax keeps, in each lane, the greatest value so far and where it was first.
func argmax() {
	TEXT("argmaxAVX2", NOSPLIT, "func(x *float32, vectors int) (index int32, value float32)")
	Doc("argmaxAVX2 returns the greatest of whole vectors of 16 and its lowest index, which is −1", "if there is a NaN.")
	a := args("x", "vectors")
	x, n := a[0], a[1]
	best, where, now := ymms(2), ymms(2), ymms(2)
	isNaN, step := YMM(), YMM()
	VXORPS(isNaN, isNaN, isNaN)
	for h := range best {
		VMOVUPS(at(x, h*vec), best[h])
		VMOVDQU(lanes0To15.Offset(h*vec), where[h])
		VMOVDQA(where[h], now[h])
	}
	VMOVDQU(sixteen, step)
	Label("loop")
	for h := range best {
		v, t := YMM(), YMM()
		VMOVUPS(at(x, h*vec), v)
		VCMPPS(Imm(3), v, v, t)
		VORPS(t, isNaN, isNaN)
		VCMPPS(Imm(0x1e), best[h], v, t)
		VBLENDVPS(t, v, best[h], best[h])
		VBLENDVPS(t, now[h], where[h], where[h])
		VPADDD(step, now[h], now[h])
	}
	ADDQ(U32(2*vec), x)
	DECQ(n)
	JNZ(LabelRef("loop"))
	top, t := YMM(), YMM()
	VMAXPS(best[1], best[0], top)
	foldMax(top, VMAXPS)
	Store(top.AsX(), ReturnIndex(1))
	VBROADCASTSS(top.AsX(), top)
	for h := range best { // lanes that are less have the greatest index: all ones
		VCMPPS(Imm(0x04), top, best[h], t)
		VPOR(t, where[h], where[h])
	}
	VPMINUD(where[1], where[0], where[0])
	foldMax(where[0], VPMINUD)
	bits, index := GP32(), GP32()
	VMOVD(where[0].AsX(), index)
	VMOVMSKPS(isNaN, bits)
	TESTL(bits, bits)
	JZ(LabelRef("ordered"))
	MOVL(U32(0xffffffff), index)
	Label("ordered")
	Store(index, ReturnIndex(0))
	done()
}

func toHalf() {
	TEXT("toHalfAVX2", NOSPLIT, "func(dst *uint16, x *float32, vectors int)")
	Doc("toHalfAVX2 rounds whole vectors of 16 to binary16.")
	a := args("dst", "x", "vectors")
	dst, x, n := a[0], a[1], a[2]
	Label("loop")
	for h := range 2 {
		v, r := YMM(), XMM()
		VMOVUPS(at(x, h*vec), v)
		VCVTPS2PH(Imm(0), v, r)
		VMOVDQU(r, at(dst, h*16))
	}
	ADDQ(U32(2*vec), x)
	ADDQ(U32(vec), dst)
	DECQ(n)
	JNZ(LabelRef("loop"))
	done()
}
