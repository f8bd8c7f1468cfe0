// Command avx512 writes the kernels for AVX-512 (F, BW, DQ, VL and VNNI).
//
// Lanes are outputs (or positions, or dimensions), never steps of a reduction,
// so that every lane is the plain loop of package canon. Multiplications and
// additions are separate instructions where the canon rounds twice, and fused
// where it says fma.
package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"surmise/compute/cpu/_asm/layout"
)

const (
	vec   = 64 // bytes of a vector
	lanes = 16 // float32 of a vector
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

// The constants of package canon, and a few of arithmetic.
var (
	log2e, ln2Hi, ln2Lo              Mem
	expC                             [7]Mem // coefficients by power; 0 and 1 are 1
	expMin, expMax, inf, negInf, nan Mem
	one, minusInv128, absMask        Mem
	geluCubic, geluTwo, tiny, f127   Mem
	nibbles, fifth, sixth, signBit   Mem
	bytes32, lane0To15, sixteen      Mem
)

func constants() {
	f := func(name string, v float32) Mem { return ConstData(name, U32(math.Float32bits(v))) }
	u := func(name string, v uint32) Mem { return ConstData(name, U32(v)) }
	log2e, ln2Hi, ln2Lo = f("log2e", 1.44269504), f("ln2Hi", 0.693145751953125), f("ln2Lo", 1.42860677e-6)
	one = f("one", 1)
	expC = [7]Mem{one, one, f("half", 0.5), f("third", 1.0/6), f("c4", 1.0/24), f("c5", 1.0/120), f("c6", 1.0/720)}
	expMin, expMax = f("expMin", -60), f("expMax", 88)
	inf, negInf = f("inf", float32(math.Inf(1))), f("negInf", float32(math.Inf(-1)))
	nan = u("nan", 0x7fc00000)
	minusInv128 = f("minusInv128", -1.0/128)
	absMask, signBit = u("absMask", 0x7fffffff), u("signBit", 0x80000000)
	geluCubic, geluTwo = f("geluCubic", 0.044715), f("geluTwo", 1.5957691216057308)
	tiny, f127 = f("tiny", 1e-30), f("f127", 127)
	nibbles, fifth, sixth = u("nibbles", 0x0f0f0f0f), u("fifth", 0x10101010), u("sixth", 0x30303030)
	bytes32, sixteen = u("bytes32", 0x20202020), u("sixteen", 16)
	lane0To15 = GLOBL("lane0To15", RODATA|NOPTR)
	for i := range lanes {
		DATA(4*i, U32(i))
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

func zmms(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = ZMM()
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
	n, p, k := ZMM(), ZMM(), K()
	VMULPS_BCST(log2e, x, n)
	VRNDSCALEPS(Imm(8), n, n)
	// The range is checked first, so that x can become the remainder.
	VCMPPS_BCST(Imm(0x15), expMin, x, k) // not less, or NaN
	var over reg.OpmaskVirtual
	if above {
		over = K()
		VCMPPS_BCST(Imm(0x1e), expMax, x, over) // greater
	}
	VFNMADD231PS_BCST(ln2Hi, n, x)
	VFNMADD231PS_BCST(ln2Lo, n, x)
	VBROADCASTSS(expC[6], p)
	for i := 5; i >= 0; i-- {
		VFMADD213PS_BCST(expC[i], x, p)
	}
	VCVTPS2DQ(n, n)
	VPSLLD(Imm(23), n, n)
	VPADDD_Z(n, p, k, x)
	if above {
		VBROADCASTSS(inf, over, x)
	}
}

// fold adds up the 16 lanes of v: halves onto each other, 8, 4, 2, 1. The sum
// is in lane 0.
func fold(v reg.VecVirtual) {
	t := ZMM()
	VEXTRACTF64X4(Imm(1), v, t.AsY())
	VADDPS(t.AsY(), v.AsY(), v.AsY())
	VEXTRACTF128(Imm(1), v.AsY(), t.AsX())
	VADDPS(t.AsX(), v.AsX(), v.AsX())
	VPERMILPS(Imm(0x0e), v.AsX(), t.AsX())
	VADDPS(t.AsX(), v.AsX(), v.AsX())
	VPERMILPS(Imm(0x01), v.AsX(), t.AsX())
	VADDSS(t.AsX(), v.AsX(), v.AsX())
}

// foldMax leaves the greatest lane of v in lane 0 by op, a VMAXPS
// or VPMAXUD (the least by VPMINUD).
func foldMax(v reg.VecVirtual, op func(ops ...Op)) {
	t := ZMM()
	VEXTRACTF64X4(Imm(1), v, t.AsY())
	op(t.AsY(), v.AsY(), v.AsY())
	VEXTRACTF128(Imm(1), v.AsY(), t.AsX())
	op(t.AsX(), v.AsX(), v.AsX())
	VPERMILPS(Imm(0x0e), v.AsX(), t.AsX())
	op(t.AsX(), v.AsX(), v.AsX())
	VPERMILPS(Imm(0x01), v.AsX(), t.AsX())
	op(t.AsX(), v.AsX(), v.AsX())
}
