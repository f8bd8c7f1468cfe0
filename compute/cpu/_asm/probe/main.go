// Command probe writes loops that do nothing but what a processor has limits
// for: read memory, and multiply and add out of registers.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64,!purego")
	for _, s := range []set{avx512, avx2} {
		s.read()
		s.arithmetic("Bytes", "adds products of bytes to 32-bit sums", s.bytes)
		s.arithmetic("Float", "adds products of float32", s.float)
	}
	Generate()
}

// set is an instruction set.
type set struct {
	name   string
	vector int // bytes
	// chains of additions that do not wait for each other hide its latency.
	chains int
	reg    func() reg.VecVirtual
	or     func(a, b, dst Op)
	xor    func(a, b, dst Op)
	bytes  func(a, b, acc reg.VecVirtual)
	float  func(a, b, acc reg.VecVirtual)
}

var avx512 = set{
	name: "AVX512", vector: 64, chains: 24, reg: ZMM, or: func(a, b, dst Op) { VPORD(a, b, dst) }, xor: func(a, b, dst Op) { VPXORD(a, b, dst) },
	bytes: func(a, b, acc reg.VecVirtual) { VPDPBUSD(a, b, acc) },
	float: func(a, b, acc reg.VecVirtual) { VFMADD231PS(a, b, acc) },
}

// Without a dot product of bytes, words of two products are widened and added.
var avx2 = set{
	name: "AVX2", vector: 32, chains: 10, reg: YMM, or: VPOR, xor: VPXOR,
	bytes: func(a, b, acc reg.VecVirtual) {
		t := YMM()
		VPMADDUBSW(a, b, t)
		VPMADDWD(a, t, t)
		VPADDD(t, acc, acc)
	},
	float: func(a, b, acc reg.VecVirtual) { VFMADD231PS(a, b, acc) },
}

// zeros gives n registers that hold nothing.
func (s set) zeros(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = s.reg()
		s.xor(v[i], v[i], v[i])
	}
	return v
}

func (s set) read() {
	const unroll = 8
	TEXT("probeRead"+s.name, NOSPLIT, "func(p *byte, n int)")
	Doc("probeRead" + s.name + " reads n bytes, a multiple of 512.")
	p, n := Load(Param("p"), GP64()), Load(Param("n"), GP64())
	acc := s.zeros(unroll)
	Label("loop")
	for i := range 512 / s.vector {
		r := acc[i%unroll]
		s.or(Mem{Base: p, Disp: i * s.vector}, r, r)
	}
	ADDQ(U32(512), p)
	SUBQ(U32(512), n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

func (s set) arithmetic(what, says string, op func(a, b, acc reg.VecVirtual)) {
	name := "probe" + what + s.name
	TEXT(name, NOSPLIT, "func(loops int)")
	Doc(name + " " + says + ": one instruction's worth for each of a number of chains.")
	loops := Load(Param("loops"), GP64())
	operands, acc := s.zeros(2), s.zeros(s.chains)
	Label("loop")
	for _, r := range acc {
		op(operands[0], operands[1], r)
	}
	DECQ(loops)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
