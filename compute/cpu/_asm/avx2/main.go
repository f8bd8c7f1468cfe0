// Command avx2 writes the kernels for AVX2, FMA and F16C.
//
// They are the AVX-512 kernels with half the lanes and half the registers: a
// group of 16 outputs is worked off in two halves of 8. There is no dot product
// of bytes; what stands in for it is said at linearTile.
package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"surmise/compute/cpu/_asm/layout"
)

const (
	vec   = 32 // bytes of a vector
	lanes = 8  // float32 of a vector
)

func main() {
	ConstraintExpr("amd64,!purego")
	constants()
	for _, f := range layout.Formats {
		linear(f)
	}
	for _, e := range elements {
		linearFloat(e)
	}
	for _, e := range elements[:2] {
		scores(e)
		values(e)
	}
	softmax()
	combine()
	quantize()
	norm()
	rotary()
	for _, g := range gates {
		gate(g)
	}
	add()
	scale()
	argmax()
	toHalf()
	Generate()
}

// The constants of package canon, and a few of arithmetic, 8 lanes wide.
var (
	log2e, ln2Hi, ln2Lo              Mem
	expC                             [7]Mem // coefficients by power; 0 and 1 are 1
	expMin, expMax, inf, negInf, nan Mem
	one, minusInv128, absMask        Mem
	geluCubic, geluTwo, tiny, f127   Mem
	nibbles, fifth, sixth, signBit   Mem
	sign8, ones16, ones8, minus32    Mem
	sixteen, lanes0To15, pack        Mem
)

func constants() {
	wide := func(name string, v uint32) Mem {
		m := GLOBL(name, RODATA|NOPTR)
		for i := range lanes {
			DATA(4*i, U32(v))
		}
		return m
	}
	f := func(name string, v float32) Mem { return wide(name, math.Float32bits(v)) }
	log2e, ln2Hi, ln2Lo = f("log2e", 1.44269504), f("ln2Hi", 0.693145751953125), f("ln2Lo", 1.42860677e-6)
	one = f("one", 1)
	expC = [7]Mem{one, one, f("half", 0.5), f("third", 1.0/6), f("c4", 1.0/24), f("c5", 1.0/120), f("c6", 1.0/720)}
	expMin, expMax = f("expMin", -60), f("expMax", 88)
	inf, negInf = f("inf", float32(math.Inf(1))), f("negInf", float32(math.Inf(-1)))
	nan = wide("nan", 0x7fc00000)
	minusInv128 = f("minusInv128", -1.0/128)
	absMask, signBit = wide("absMask", 0x7fffffff), wide("signBit", 0x80000000)
	geluCubic, geluTwo = f("geluCubic", 0.044715), f("geluTwo", 1.5957691216057308)
	tiny, f127 = f("tiny", 1e-30), f("f127", 127)
	nibbles, fifth, sixth = wide("nibbles", 0x0f0f0f0f), wide("fifth", 0x10101010), wide("sixth", 0x30303030)
	sign8, ones16, ones8 = wide("sign8", 0x80808080), wide("ones16", 0x00010001), wide("ones8", 0x01010101)
	minus32, sixteen = wide("minus32", 0xffe0ffe0), wide("sixteen", 16)
	lanes0To15 = GLOBL("lanes0To15", RODATA|NOPTR)
	for i := range 2 * lanes {
		DATA(4*i, U32(i))
	}
	// The order in which two rounds of packing leave 4 × 8 values.
	pack = GLOBL("pack", RODATA|NOPTR)
	for i, v := range []int{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(v))
	}
}

// args loads the named parameters into registers.
func args(names ...string) []reg.GPVirtual {
	var regs []reg.GPVirtual
	for _, n := range names {
		regs = append(regs, Load(Param(n), GP64()).(reg.GPVirtual))
	}
	return regs
}

func ymms(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = YMM()
	}
	return v
}

func at(base reg.Register, disp int) Mem { return Mem{Base: base, Disp: disp} }

func indexed(base, index reg.Register, scale uint8) Mem {
	return Mem{Base: base, Index: index, Scale: scale}
}

// done ends a variant.
func done() {
	VZEROUPPER()
	RET()
}

// element is a float format in memory.
type element struct {
	name string
	size int
	load func(src Mem, dst reg.VecVirtual)
}

var elements = []element{
	{"Half", 2, func(src Mem, dst reg.VecVirtual) { VCVTPH2PS(src, dst) }},
	{"Float", 4, func(src Mem, dst reg.VecVirtual) { VMOVUPS(src, dst) }},
	{"BFloat", 2, func(src Mem, dst reg.VecVirtual) {
		VPMOVZXWD(src, dst)
		VPSLLD(Imm(16), dst, dst)
	}},
}

// exp turns x to canon.Exp(x) in place; above says that x may exceed expMax.
func exp(x reg.VecVirtual, above bool) {
	n, p, keep := YMM(), YMM(), YMM()
	VMULPS(log2e, x, n)
	VROUNDPS(Imm(8), n, n)
	// The range is checked first, so that x can become the remainder.
	VCMPPS(Imm(0x15), expMin, x, keep) // not less, or NaN
	var over reg.VecVirtual
	if above {
		over = YMM()
		VCMPPS(Imm(0x1e), expMax, x, over) // greater
	}
	VFNMADD231PS(ln2Hi, n, x)
	VFNMADD231PS(ln2Lo, n, x)
	VMOVUPS(expC[6], p)
	for i := 5; i >= 0; i-- {
		VFMADD213PS(expC[i], x, p)
	}
	VCVTPS2DQ(n, n)
	VPSLLD(Imm(23), n, n)
	VPADDD(n, p, p)
	VANDPS(keep, p, x)
	if above {
		VBLENDVPS(over, inf, x, x)
	}
}

// fold adds up the 16 lanes of two vectors: halves onto each other, 8, 4, 2, 1.
// The sum is in lane 0 of a.
func fold(a, b reg.VecVirtual) {
	VADDPS(b, a, a)
	VEXTRACTF128(Imm(1), a, b.AsX())
	VADDPS(b.AsX(), a.AsX(), a.AsX())
	VPERMILPS(Imm(0x0e), a.AsX(), b.AsX())
	VADDPS(b.AsX(), a.AsX(), a.AsX())
	VPERMILPS(Imm(0x01), a.AsX(), b.AsX())
	VADDSS(b.AsX(), a.AsX(), a.AsX())
}

// foldMax leaves the greatest lane of a in lane 0 by op, a VMAXPS
// or VPMAXUD (the least by VPMINUD).
func foldMax(a reg.VecVirtual, op func(ops ...Op)) {
	b := YMM()
	VEXTRACTF128(Imm(1), a, b.AsX())
	op(b.AsX(), a.AsX(), a.AsX())
	VPERMILPS(Imm(0x0e), a.AsX(), b.AsX())
	op(b.AsX(), a.AsX(), a.AsX())
	VPERMILPS(Imm(0x01), a.AsX(), b.AsX())
	op(b.AsX(), a.AsX(), a.AsX())
}
