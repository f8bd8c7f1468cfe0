// Command asm writes the amd64 passes of package vocab. Run go generate in the
// package's folder; the output is checked in.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const block = 64 // vocab.Block

func main() {
	ConstraintExpr("amd64,!purego")
	for _, isa := range []isa{{name: "AVX512", lanes: 16}, {name: "AVX2", lanes: 8}} {
		isa.maxima(false)
		isa.maxima(true)
		isa.masses(false)
		isa.masses(true)
	}
	collect512()
	race512()
	collect256()
	race256()
	Generate()
}

// isa writes what both vector widths share.
type isa struct {
	name  string
	lanes int
}

func (s isa) wide() bool { return s.lanes == 16 }

func (s isa) vec() reg.VecVirtual {
	if s.wide() {
		return ZMM()
	}
	return YMM()
}

func (s isa) zero() reg.VecVirtual {
	v := s.vec()
	if s.wide() {
		VPXORD(v, v, v)
	} else {
		VPXOR(v, v, v)
	}
	return v
}

// low returns a mask of the low halves of 64-bit lanes.
func (s isa) low() reg.VecVirtual {
	v := s.constant(0xffffffff)
	VPSRLQ(Imm(32), v, v)
	return v
}

func (s isa) and(mask, v reg.VecVirtual) {
	if s.wide() {
		VPANDQ(mask, v, v)
	} else {
		VPAND(mask, v, v)
	}
}

// constant broadcasts a float32 or an integer from read-only data.
var constants = map[uint32]Mem{}

func word(v uint32) Mem {
	m, ok := constants[v]
	if !ok {
		m = ConstData(constName(v), U32(v))
		constants[v] = m
	}
	return m
}

func constName(v uint32) string {
	const hex = "0123456789abcdef"
	name := []byte("c")
	for i := 28; i >= 0; i -= 4 {
		name = append(name, hex[v>>i&15])
	}
	return string(name)
}

func (s isa) constant(v uint32) reg.VecVirtual {
	r := s.vec()
	VBROADCASTSS(word(v), r)
	return r
}

func (s isa) param(name string) (v reg.VecVirtual, x reg.VecVirtual) {
	x = XMM()
	Load(Param(name), x)
	v = s.vec()
	VBROADCASTSS(x, v)
	return v, x
}

// reduceMax leaves the largest lane of v in a scalar, −0 as +0.
func (s isa) reduceMax(v reg.VecVirtual) reg.VecVirtual {
	x, h := XMM(), XMM()
	if s.wide() {
		y := YMM()
		VEXTRACTF64X4(Imm(1), v, y)
		VMAXPS(v.AsY(), y, y)
		v = y
	}
	VEXTRACTF128(Imm(1), v.AsY(), x)
	VMAXPS(v.AsX(), x, x)
	VMOVHLPS(x, x, h)
	VMAXPS(h, x, x)
	VMOVSHDUP(x, h)
	VMAXPS(h, x, x)
	z := XMM()
	VXORPS(z, z, z)
	VADDSS(z, x, x)
	return x
}

// maxima writes Max, or with scale Scale.
func (s isa) maxima(scale bool) {
	name, sig := "max"+s.name, "func(bm *float32, z *float32, blocks int) (max float32, nan int)"
	if scale {
		name, sig = "scale"+s.name, "func(dst *float32, bm *float32, z *float32, blocks int, s float32) (max float32, nan int)"
	}
	TEXT(name, NOSPLIT, sig)
	Pragma("noescape")
	Doc(name + " is " + name[:len(name)-len(s.name)] + "Generic over whole blocks.")
	bm, z, n := Load(Param("bm"), GP64()), Load(Param("z"), GP64()), Load(Param("blocks"), GP64())
	var dst reg.Register
	var by reg.VecVirtual
	if scale {
		dst = Load(Param("dst"), GP64())
		by, _ = s.param("s")
	}
	all := s.constant(0xff800000)
	nans := s.zero()
	nan := GP64()
	XORQ(nan, nan)
	kn := K()
	if s.wide() {
		KXORW(kn, kn, kn)
	}
	Label("loop")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	m := s.vec()
	step := 4 * s.lanes
	for i := 0; i < block/s.lanes; i += 2 {
		a, b := s.vec(), s.vec()
		VMOVUPS(Mem{Base: z, Disp: i * step}, a)
		VMOVUPS(Mem{Base: z, Disp: (i + 1) * step}, b)
		if scale {
			VMULPS(by, a, a)
			VMULPS(by, b, b)
			VMOVUPS(a, Mem{Base: dst, Disp: i * step})
			VMOVUPS(b, Mem{Base: dst, Disp: (i + 1) * step})
		}
		if s.wide() { // unordered: one of the two is NaN
			k := K()
			VCMPPS(Imm(3), a, b, k)
			KORW(k, kn, kn)
		} else {
			u := s.vec()
			VCMPPS(Imm(3), a, b, u)
			VORPS(u, nans, nans)
		}
		if i == 0 {
			VMAXPS(a, b, m)
		} else {
			VMAXPS(a, b, a)
			VMAXPS(a, m, m)
		}
	}
	VMAXPS(m, all, all)
	x := s.reduceMax(m)
	VMOVSS(x, Mem{Base: bm})
	ADDQ(U32(4*block), z)
	if scale {
		ADDQ(U32(4*block), dst)
	}
	ADDQ(Imm(4), bm)
	DECQ(n)
	JMP(LabelRef("loop"))
	Label("done")
	if s.wide() {
		KMOVW(kn, nan.As32())
	} else {
		VMOVMSKPS(nans, nan.As32())
	}
	x = s.reduceMax(all)
	VZEROUPPER()
	Store(x, ReturnIndex(0))
	Store(nan, ReturnIndex(1))
	RET()
}

// The constants of canon.Exp; the coefficients are multiplied by 2³⁰, which
// changes no rounding, so that the result is the mass without another step.
const (
	log2e = 0x3fb8aa3b
	ln2hi = 0x3f317200
	ln2lo = 0x35bfbe8e
	two30 = 30 << 23
	expC6 = 0x3ab60b61 + two30
	expC5 = 0x3c088889 + two30
	expC4 = 0x3d2aaaab + two30
	expC3 = 0x3e2aaaab + two30
	expC2 = 0x3f000000 + two30
	expC1 = 0x3f800000 + two30
)

// expConsts holds the constants of the exponential in registers.
type expConsts struct {
	isa
	log2e, hi, lo          reg.VecVirtual
	c6, c5, c4, c3, c2, c1 reg.VecVirtual // where there are enough registers
}

func (s isa) exp() expConsts {
	c := s.constant
	e := expConsts{isa: s, log2e: c(log2e), hi: c(ln2hi), lo: c(ln2lo)}
	if s.wide() {
		e.c6, e.c5, e.c4, e.c3, e.c2, e.c1 = c(expC6), c(expC5), c(expC4), c(expC3), c(expC2), c(expC1)
	}
	return e
}

// weight turns distances d ≤ 0 to the maximum into exp(d)·2³⁰, in place.
func (e expConsts) weight(d reg.VecVirtual) {
	n, p := e.vec(), e.vec()
	VMULPS(e.log2e, d, n)
	if e.wide() {
		VRNDSCALEPS(Imm(8), n, n)
	} else {
		VROUNDPS(Imm(8), n, n)
	}
	VFNMADD231PS(e.hi, n, d)
	VFNMADD231PS(e.lo, n, d)
	coefficient := func(v reg.VecVirtual, bits uint32) {
		if e.wide() {
			VFMADD213PS(v, d, p)
			return
		}
		t := e.vec()
		VBROADCASTSS(word(bits), t)
		VFMADD213PS(t, d, p)
	}
	if e.wide() {
		VMOVAPS(e.c6, p)
	} else {
		VBROADCASTSS(word(expC6), p)
	}
	coefficient(e.c5, expC5)
	coefficient(e.c4, expC4)
	coefficient(e.c3, expC3)
	coefficient(e.c2, expC2)
	coefficient(e.c1, expC1)
	coefficient(e.c1, expC1)
	if e.wide() {
		VSCALEFPS(n, p, d) // p·2^n, exact
		return
	}
	VCVTPS2DQ(n, n)
	VPSLLD(Imm(23), n, n)
	VPADDD(n, p, d)
}

// masses writes Mass, or with store Weights.
func (s isa) masses(store bool) {
	name, sig := "mass"+s.name, "func(z *float32, bm *float32, blocks int, max float32, lo float32) (mass uint64, count int)"
	if store {
		name, sig = "weights"+s.name, "func(dst *uint32, z *float32, bm *float32, blocks int, max float32, lo float32)"
	}
	TEXT(name, NOSPLIT, sig)
	Pragma("noescape")
	Doc(name + " is " + name[:len(name)-len(s.name)] + "Generic over whole blocks.")
	z, bm, n := Load(Param("z"), GP64()), Load(Param("bm"), GP64()), Load(Param("blocks"), GP64())
	var dst reg.Register
	if store {
		dst = Load(Param("dst"), GP64())
	}
	max, _ := s.param("max")
	lo, loX := s.param("lo")
	e := s.exp()
	acc := s.zero()
	var low reg.VecVirtual
	if !store {
		low = s.low()
	}
	count := GP64()
	XORQ(count, count)
	Label("loop")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	m := XMM()
	VMOVSS(Mem{Base: bm}, m)
	VUCOMISS(loX, m)
	JB(LabelRef("skip"))
	var pair reg.VecVirtual
	for i := 0; i < block/s.lanes; i++ {
		v := s.vec()
		VMOVUPS(Mem{Base: z, Disp: 4 * s.lanes * i}, v)
		bits := GP64()
		if s.wide() {
			k := K()
			VCMPPS(Imm(29), lo, v, k) // v ≥ lo
			VSUBPS(max, v, v)
			e.weight(v)
			VCVTTPS2DQ_Z(v, k, v)
			if !store {
				KMOVW(k, bits.As32())
			}
		} else {
			k := s.vec()
			VCMPPS(Imm(29), lo, v, k)
			VSUBPS(max, v, v)
			e.weight(v)
			VCVTTPS2DQ(v, v)
			VPAND(k, v, v)
			if !store {
				VMOVMSKPS(k, bits.As32())
			}
		}
		if store {
			if s.wide() {
				VMOVDQU32(v, Mem{Base: dst, Disp: 4 * s.lanes * i})
			} else {
				VMOVDQU(v, Mem{Base: dst, Disp: 4 * s.lanes * i})
			}
			continue
		}
		POPCNTL(bits.As32(), bits.As32())
		ADDQ(bits, count)
		if i%2 == 0 {
			pair = v
			continue
		}
		VPADDD(pair, v, v) // at most 2³¹
		h := s.vec()
		VPSRLQ(Imm(32), v, h)
		VPADDQ(h, acc, acc)
		s.and(low, v)
		VPADDQ(v, acc, acc)
	}
	if store {
		JMP(LabelRef("next"))
		Label("skip")
		zero := s.zero()
		for i := 0; i < block/s.lanes; i++ {
			if s.wide() {
				VMOVDQU32(zero, Mem{Base: dst, Disp: 4 * s.lanes * i})
			} else {
				VMOVDQU(zero, Mem{Base: dst, Disp: 4 * s.lanes * i})
			}
		}
		Label("next")
		ADDQ(U32(4*block), dst)
	} else {
		Label("skip")
	}
	ADDQ(U32(4*block), z)
	ADDQ(Imm(4), bm)
	DECQ(n)
	JMP(LabelRef("loop"))
	Label("done")
	if store {
		VZEROUPPER()
		RET()
		return
	}
	y, x := YMM(), XMM()
	if s.wide() {
		VEXTRACTI64X4(Imm(1), acc, y)
		VPADDQ(acc.AsY(), y, y)
	} else {
		VMOVDQA(acc, y)
	}
	VEXTRACTI128(Imm(1), y, x)
	VPADDQ(y.AsX(), x, x)
	h := XMM()
	VPSRLDQ(Imm(8), x, h)
	VPADDQ(h, x, x)
	sum := GP64()
	VMOVQ(x, sum)
	VZEROUPPER()
	Store(sum, ReturnIndex(0))
	Store(count, ReturnIndex(1))
	RET()
}
