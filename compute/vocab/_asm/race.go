package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets in raceArgs.
const (
	offKeys     = 0
	offPosition = 80
	offSample   = 84
	offPurpose  = 88
	offInvT     = 92
	offBest     = 96
	offLo       = 100
)

const (
	philoxM0  = 0xD2511F53
	philoxM1  = 0xCD9E8D57
	raceScale = 0x4b38aa3b
	raceBias  = 0x4e9e0040
	raceMin   = 0xc2700000 // −60
	raceMax   = 0x42700000
)

// lanes is 0, 1, … 15.
func lanes() Mem {
	g := GLOBL("lanes", RODATA|NOPTR)
	for i := range 16 {
		DATA(4*i, U32(uint32(i)))
	}
	return g
}

var laneData Mem

func collect512() {
	laneData = lanes()
	s := isa{lanes: 16}
	TEXT("collectAVX512", NOSPLIT, "func(ids *int32, z *float32, bm *float32, blocks int, first int32, lo float32) int")
	Pragma("noescape")
	Doc("collectAVX512 is collectGeneric over whole blocks.")
	ids, z, bm, n := Load(Param("ids"), GP64()), Load(Param("z"), GP64()), Load(Param("bm"), GP64()), Load(Param("blocks"), GP64())
	start := GP64()
	MOVQ(ids, start)
	first := Load(Param("first"), GP32())
	lo, loX := s.param("lo")
	id, sixteen := ZMM(), s.constant(16)
	VPBROADCASTD(first, id)
	VPADDD(laneData, id, id)
	blockIDs := s.constant(block)
	Label("loop")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	m := XMM()
	VMOVSS(Mem{Base: bm}, m)
	VUCOMISS(loX, m)
	JB(LabelRef("skip"))
	cur := ZMM()
	VMOVDQA32(id, cur)
	for i := range 4 {
		k, bits, out := K(), GP64(), ZMM()
		VCMPPS(Imm(18), Mem{Base: z, Disp: 64 * i}, lo, k) // lo ≤ z
		VPCOMPRESSD_Z(cur, k, out)
		VMOVDQU32(out, Mem{Base: ids})
		KMOVW(k, bits.As32())
		POPCNTL(bits.As32(), bits.As32())
		LEAQ(Mem{Base: ids, Index: bits, Scale: 4}, ids)
		VPADDD(sixteen, cur, cur)
	}
	Label("skip")
	VPADDD(blockIDs, id, id)
	ADDQ(U32(4*block), z)
	ADDQ(Imm(4), bm)
	DECQ(n)
	JMP(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	SUBQ(start, ids)
	SHRQ(Imm(2), ids)
	Store(ids, ReturnIndex(0))
	RET()
}

// philox does the ten rounds over the lanes of one counter word each.
type philox struct {
	isa
	args   reg.Register
	m0, m1 reg.VecVirtual
	odd    reg.Register // mask of the odd lanes (AVX-512)
}

func (p philox) mul(a, m reg.VecVirtual) (hi, lo reg.VecVirtual) {
	e, o, h := p.vec(), p.vec(), p.vec()
	VPMULUDQ(m, a, e)
	VPSRLQ(Imm(32), a, o)
	VPMULUDQ(m, o, o)
	if p.wide() {
		VMOVSHDUP(e, h)
		VMOVDQA32(o, p.odd, h) // odd lanes from o
		VMOVSLDUP(o, p.odd, e)
		return h, e
	}
	VMOVSHDUP(e, h)
	VPBLENDD(Imm(0xaa), o, h, h)
	VPSLLQ(Imm(32), o, o)
	VPBLENDD(Imm(0xaa), o, e, e)
	return h, e
}

func (p philox) xor3(hi, c reg.VecVirtual, disp int) {
	if p.wide() {
		VPTERNLOGD_BCST(U8(0x96), Mem{Base: p.args, Disp: disp}, c, hi)
		return
	}
	k := p.vec()
	VPBROADCASTD(Mem{Base: p.args, Disp: disp}, k)
	VPXOR(c, hi, hi)
	VPXOR(k, hi, hi)
}

// words returns the four words of the counters (c0, position, sample, purpose).
func (p philox) words(c0 reg.VecVirtual) [4]reg.VecVirtual {
	c := [4]reg.VecVirtual{c0, p.vec(), p.vec(), p.vec()}
	VPBROADCASTD(Mem{Base: p.args, Disp: offPosition}, c[1])
	VPBROADCASTD(Mem{Base: p.args, Disp: offSample}, c[2])
	VPBROADCASTD(Mem{Base: p.args, Disp: offPurpose}, c[3])
	for r := range 10 {
		hi0, lo0 := p.mul(c[0], p.m0)
		hi1, lo1 := p.mul(c[2], p.m1)
		p.xor3(hi1, c[1], offKeys+8*r)
		p.xor3(hi0, c[3], offKeys+8*r+4)
		c = [4]reg.VecVirtual{hi1, lo1, hi0, lo0}
	}
	return c
}

// limit turns logits v into raceLimit of them.
func (s isa) limit(v, invT, best reg.VecVirtual) {
	VMULPS(invT, v, v)
	VSUBPS(best, v, v)
	if s.wide() {
		VMAXPS_BCST(word(raceMin), v, v)
		VMINPS_BCST(word(raceMax), v, v)
		VMULPS_BCST(word(raceScale), v, v)
		VADDPS_BCST(word(raceBias), v, v)
	} else {
		t := s.vec()
		VBROADCASTSS(word(raceMin), t)
		VMAXPS(t, v, v)
		VBROADCASTSS(word(raceMax), t)
		VMINPS(t, v, v)
		VBROADCASTSS(word(raceScale), t)
		VMULPS(t, v, v)
		VBROADCASTSS(word(raceBias), t)
		VADDPS(t, v, v)
	}
	VCVTPS2DQ(v, v)
}

func race512() {
	s := isa{lanes: 16}
	TEXT("raceAVX512", NOSPLIT, "func(ids *int32, words *uint32, z *float32, bm *float32, blocks int, first int32, args *uint32) int")
	Pragma("noescape")
	Doc("raceAVX512 is raceGeneric over whole blocks.")
	ids, words := Load(Param("ids"), GP64()), Load(Param("words"), GP64())
	z, bm, n := Load(Param("z"), GP64()), Load(Param("bm"), GP64()), Load(Param("blocks"), GP64())
	args := Load(Param("args"), GP64())
	start := GP64()
	MOVQ(ids, start)
	first := Load(Param("first"), GP32())
	lo, loX, invT, best := ZMM(), XMM(), ZMM(), ZMM()
	VMOVSS(Mem{Base: args, Disp: offLo}, loX)
	VBROADCASTSS(loX, lo)
	VBROADCASTSS(Mem{Base: args, Disp: offInvT}, invT)
	VBROADCASTSS(Mem{Base: args, Disp: offBest}, best)
	odd, t := K(), GP32()
	MOVL(U32(0xaaaa), t)
	KMOVW(t, odd)
	p := philox{isa: s, args: args, m0: s.constant(philoxM0), m1: s.constant(philoxM1), odd: odd}
	counter, id := ZMM(), ZMM()
	VPBROADCASTD(first, id)
	VPSRLD(Imm(2), id, counter)
	VPADDD(laneData, counter, counter)
	VPADDD(laneData, id, id)
	sixteen, blockIDs := s.constant(16), s.constant(block)
	Label("loop")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	m := XMM()
	VMOVSS(Mem{Base: bm}, m)
	VUCOMISS(loX, m)
	JB(LabelRef("skip"))
	c0 := ZMM()
	VMOVDQA32(counter, c0)
	w := p.words(c0)
	var pass [4]reg.Register
	for i := range 4 {
		v, x, k := ZMM(), ZMM(), K()
		VMOVUPS(Mem{Base: z, Disp: 64 * i}, v)
		VCMPPS(Imm(29), lo, v, k) // v ≥ lo
		s.limit(v, invT, best)
		VPSRLD(Imm(1), w[i], x)
		VCVTDQ2PS(x, x)
		VCMPPS(Imm(18), v, x, k, k) // x ≤ limit
		pass[i] = k
	}
	cur := ZMM()
	VMOVDQA32(id, cur)
	for i := range 4 {
		bits, out := GP64(), ZMM()
		next := []string{"none0", "none1", "none2", "none3"}[i]
		KMOVW(pass[i], bits.As32())
		TESTL(bits.As32(), bits.As32())
		JZ(LabelRef(next))
		VPCOMPRESSD_Z(cur, pass[i], out)
		VMOVDQU32(out, Mem{Base: ids})
		VPCOMPRESSD_Z(w[i], pass[i], out)
		VMOVDQU32(out, Mem{Base: words})
		POPCNTL(bits.As32(), bits.As32())
		LEAQ(Mem{Base: ids, Index: bits, Scale: 4}, ids)
		LEAQ(Mem{Base: words, Index: bits, Scale: 4}, words)
		Label(next)
		VPADDD(sixteen, cur, cur)
	}
	Label("skip")
	VPADDD(blockIDs, id, id)
	VPADDD(sixteen, counter, counter)
	ADDQ(U32(4*block), z)
	ADDQ(Imm(4), bm)
	DECQ(n)
	JMP(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	SUBQ(start, ids)
	SHRQ(Imm(2), ids)
	Store(ids, ReturnIndex(0))
	RET()
}

// collect256 marks the tokens with z ≥ lo, 64 bits a block.
func collect256() {
	s := isa{lanes: 8}
	TEXT("collectAVX2", NOSPLIT, "func(masks *uint64, z *float32, bm *float32, blocks int, lo float32)")
	Pragma("noescape")
	Doc("collectAVX2 sets a bit in masks [blocks] for each token that collectGeneric collects.")
	masks, z, bm, n := Load(Param("masks"), GP64()), Load(Param("z"), GP64()), Load(Param("bm"), GP64()), Load(Param("blocks"), GP64())
	lo, loX := s.param("lo")
	Label("loop")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	bits, all := GP64(), GP64()
	XORQ(all, all)
	m := XMM()
	VMOVSS(Mem{Base: bm}, m)
	VUCOMISS(loX, m)
	JB(LabelRef("skip"))
	for i := range 8 {
		k := YMM()
		VCMPPS(Imm(18), Mem{Base: z, Disp: 32 * i}, lo, k)
		VMOVMSKPS(k, bits.As32())
		SHLQ(Imm(uint64(8*i)), bits)
		ORQ(bits, all)
	}
	Label("skip")
	MOVQ(all, Mem{Base: masks})
	ADDQ(Imm(8), masks)
	ADDQ(U32(4*block), z)
	ADDQ(Imm(4), bm)
	DECQ(n)
	JMP(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}

// race256 marks the tokens that pass, 64 bits a block.
func race256() {
	s := isa{lanes: 8}
	TEXT("raceAVX2", NOSPLIT, "func(masks *uint64, z *float32, bm *float32, blocks int, first int32, args *uint32)")
	Pragma("noescape")
	Doc("raceAVX2 sets a bit in masks [blocks] for each token that passes raceGeneric.")
	masks := Load(Param("masks"), GP64())
	z, bm, n := Load(Param("z"), GP64()), Load(Param("bm"), GP64()), Load(Param("blocks"), GP64())
	args := Load(Param("args"), GP64())
	counter := Load(Param("first"), GP32())
	SHRL(Imm(2), counter)
	loX := XMM()
	VMOVSS(Mem{Base: args, Disp: offLo}, loX)
	p := philox{isa: s, args: args, m0: s.constant(philoxM0), m1: s.constant(philoxM1)}
	Label("loop")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	all := GP64()
	XORQ(all, all)
	m := XMM()
	VMOVSS(Mem{Base: bm}, m)
	VUCOMISS(loX, m)
	JB(LabelRef("skip"))
	for half := range 2 {
		c0, x := YMM(), XMM()
		VMOVD(counter, x)
		VPBROADCASTD(x, c0)
		VPADDD(laneData.Offset(32*half), c0, c0)
		w := p.words(c0)
		for i := range 4 {
			v, x, k, a, bits := YMM(), YMM(), YMM(), YMM(), GP64()
			VMOVUPS(Mem{Base: z, Disp: 64*i + 32*half}, v)
			VBROADCASTSS(loX, a)
			VCMPPS(Imm(29), a, v, k)
			b := YMM()
			VBROADCASTSS(Mem{Base: args, Disp: offInvT}, a)
			VBROADCASTSS(Mem{Base: args, Disp: offBest}, b)
			s.limit(v, a, b)
			VPSRLD(Imm(1), w[i], x)
			VCVTDQ2PS(x, x)
			VCMPPS(Imm(18), v, x, x)
			VPAND(k, x, x)
			VMOVMSKPS(x, bits.As32())
			if shift := 16*i + 8*half; shift > 0 {
				SHLQ(Imm(uint64(shift)), bits)
			}
			ORQ(bits, all)
		}
	}
	Label("skip")
	MOVQ(all, Mem{Base: masks})
	ADDQ(Imm(8), masks)
	ADDL(Imm(16), counter)
	ADDQ(U32(4*block), z)
	ADDQ(Imm(4), bm)
	DECQ(n)
	JMP(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}
