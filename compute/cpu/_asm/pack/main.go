// Command pack writes the loops that repack checkpoint rows into groups of 16
// outputs. They need AVX2, and serve tables of wider instruction sets too, for
// memory is what limits them.
//
// One call packs 8 of a group's 16 rows, so that all row pointers stay in
// registers. What is 16 bytes of each of 8 rows is turned by shuffles into 4
// vectors of 8 rows' words.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	line = 64 // bytes: 16 outputs × 4 columns
	rows = 8
)

func main() {
	ConstraintExpr("amd64,!purego")
	constants()
	q8()
	for _, f := range []simple{
		{name: "Q4", size: 18, min: none, high: none, weights: 2},
		{name: "Q4Min", size: 20, min: 2, high: none, weights: 4},
		{name: "Q5", size: 22, min: none, high: 2, weights: 6},
		{name: "Q5Min", size: 24, min: 2, high: 4, weights: 8},
	} {
		f.generate()
	}
	qK("Q4K", 144, false)
	qK("Q5K", 176, true)
	q6K()
	Generate()
}

var low, high, sign8, sign16, six, fiveBits, ones, twos, spread, bytesOfWords Mem

func constants() {
	wide := func(name string, v uint32) Mem {
		m := GLOBL(name, RODATA|NOPTR)
		for i := range 8 {
			DATA(4*i, U32(v))
		}
		return m
	}
	low, high = wide("packLow", 0x0f0f0f0f), wide("packHigh", 0xf0f0f0f0)
	sign8, sign16 = wide("packSign8", 0x80808080), wide("packSign16", 0x80008000)
	six, fiveBits = wide("packSix", 0x3f3f3f3f), wide("packFiveBits", 0x30303030)
	ones, twos = wide("packOnes", 0x01010101), wide("packTwos", 0x03030303)
	// A product with spread puts bit i of a nibble at bit 0 of byte i.
	spread = wide("packSpread", 1|1<<7|1<<14|1<<21)
	bytesOfWords = GLOBL("packBytes", RODATA|NOPTR)
	for i := range 32 {
		DATA(i, U8(i%4*4+i%16/4))
	}
}

// half is a function that packs 8 rows: where they are, and where what becomes
// of them goes.
type half struct {
	row             [rows]reg.Register
	weights, scales reg.Register
	subs            reg.Register // scales of one byte; nil where there are none
	blocks          Mem          // that are left: on the stack, for registers are used up
}

func begin(name, doc string, subs bool) *half {
	TEXT("pack"+name+"AVX2", NOSPLIT, "func(weights, scales, subs *byte, rows *[8]*byte, blocks int)")
	Doc("pack" + name + "AVX2 packs " + doc + " of 8 rows.")
	h := &half{}
	h.weights, h.scales = Load(Param("weights"), GP64()), Load(Param("scales"), GP64())
	if subs {
		h.subs = Load(Param("subs"), GP64())
	}
	h.blocks = AllocLocal(8)
	blocks := Load(Param("blocks"), GP64())
	MOVQ(blocks, h.blocks)
	table := Load(Param("rows"), GP64())
	for i := range h.row {
		r := GP64()
		MOVQ(Mem{Base: table, Disp: 8 * i}, r)
		h.row[i] = r
	}
	Label("loop")
	return h
}

// end goes on to the next block: so many bytes further in the rows, the packed
// weights and the scales.
func (h *half) end(source, weights, scales int) {
	for _, r := range h.row {
		ADDQ(U32(source), r)
	}
	ADDQ(U32(weights), h.weights)
	ADDQ(U32(scales), h.scales)
	if h.subs != nil {
		ADDQ(U32(scales), h.subs)
	}
	DECQ(h.blocks)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// words gives the n ≤ 4 words at offset off of the 8 rows, of which 16 bytes are
// read.
func (h *half) words(off, n int) []reg.VecVirtual {
	var a [4]reg.VecVirtual
	for i := range a {
		a[i] = YMM()
		VBROADCASTI128(Mem{Base: h.row[i], Disp: off}, a[i]) // into both halves
		VINSERTI128(Imm(1), Mem{Base: h.row[i+4], Disp: off}, a[i], a[i])
	}
	out := make([]reg.VecVirtual, n)
	for i := range out {
		out[i] = YMM()
	}
	for i := 0; i < n; i += 2 {
		unpack := VPUNPCKLDQ
		if i == 2 {
			unpack = VPUNPCKHDQ
		}
		left, right := YMM(), YMM()
		unpack(a[1], a[0], left)
		unpack(a[3], a[2], right)
		VPUNPCKLQDQ(right, left, out[i])
		if i+1 < n {
			VPUNPCKHQDQ(right, left, out[i+1])
		}
	}
	return out
}

// store writes a line's 8 outputs.
func (h *half) store(v reg.VecVirtual, off int) { VMOVDQU(v, Mem{Base: h.weights, Disp: off}) }

// halves copies the 16-bit number at offset off of each row; negated, its sign
// is turned.
func (h *half) halves(off, to int, negated bool) {
	v := XMM()
	VPXOR(v, v, v)
	for i, r := range h.row {
		VPINSRW(U8(i), Mem{Base: r, Disp: off}, v, v)
	}
	if negated {
		VPXOR(sign16, v, v)
	}
	VMOVDQU(v, Mem{Base: h.scales, Disp: to})
}

// and gives v & mask, shifted right by so many bits before.
func and(v reg.VecVirtual, right int, mask Mem) reg.VecVirtual {
	t := YMM()
	if right > 0 {
		VPSRLD(Imm(uint64(right)), v, t)
		VPAND(mask, t, t)
	} else {
		VPAND(mask, v, t)
	}
	return t
}

// or adds to acc the bits of v, shifted left by so many.
func or(acc, v reg.VecVirtual, left int) {
	if left > 0 {
		VPSLLD(Imm(uint64(left)), v, v)
	}
	VPOR(v, acc, acc)
}

// lowPair is the line of two words' low nibbles, highPair that of their high ones.
func lowPair(a, b reg.VecVirtual) reg.VecVirtual {
	t := and(a, 0, low)
	or(t, and(b, 0, low), 4)
	return t
}

func highPair(a, b reg.VecVirtual) reg.VecVirtual {
	t := and(a, 4, low)
	or(t, and(b, 0, high), 0)
	return t
}

func q8() {
	h := begin("Q8", "blocks of Q8_0", false)
	for u := range 2 {
		for i, w := range h.words(2+16*u, 4) {
			VPXOR(sign8, w, w)
			h.store(w, (4*u+i)*line)
		}
	}
	h.halves(0, 0, false)
	h.end(34, 8*line, 32)
}

const none = -1

// simple is a format of 4 or 5 bits whose blocks of 32 have a scale, and maybe a
// minimum and fifth bits, at these offsets.
type simple struct {
	name                     string
	size, min, high, weights int
}

func (f simple) generate() {
	h := begin(f.name, "blocks of 32 weights", false)
	w := h.words(f.weights, 4)
	for j := range 2 {
		h.store(lowPair(w[2*j], w[2*j+1]), j*line)
		h.store(highPair(w[2*j], w[2*j+1]), (2+j)*line)
	}
	lines, scales := 4, 32
	if f.high != none {
		bits, acc := h.words(f.high, 1)[0], YMM()
		VPXOR(acc, acc, acc)
		for t := range 8 {
			n := YMM()
			if t > 0 {
				VPSRLD(Imm(uint64(4*t)), bits, n)
			} else {
				VMOVDQA(bits, n)
			}
			// Of a word only its lowest nibble may be spread.
			VPSLLD(Imm(28), n, n)
			VPSRLD(Imm(28), n, n)
			VPMULLD(spread, n, n)
			VPAND(ones, n, n)
			or(acc, n, t)
		}
		h.store(acc, 4*line)
		lines++
	}
	h.halves(0, 0, false)
	if f.min != none {
		h.halves(f.min, 32, true)
		scales = 64
	}
	h.end(f.size, lines*line, scales)
}

// bytes stores the four bytes of 8 rows' words: 8 bytes to each of four places.
func (h *half) bytes(v reg.VecVirtual, to [4]int) {
	VPSHUFB(bytesOfWords, v, v)
	upper, pair := XMM(), XMM()
	VEXTRACTI128(Imm(1), v, upper)
	for i := range 2 {
		if i == 0 {
			VPUNPCKLDQ(upper, v.AsX(), pair)
		} else {
			VPUNPCKHDQ(upper, v.AsX(), pair)
		}
		VMOVQ(pair, Mem{Base: h.subs, Disp: to[2*i]})
		VPEXTRQ(Imm(1), pair, Mem{Base: h.subs, Disp: to[2*i+1]})
	}
}

// places are where the bytes of blocks i, i+1, i+2 and i+3 go.
func places(first, i int) [4]int {
	return [4]int{first + 32*i, first + 32*(i+1), first + 32*(i+2), first + 32*(i+3)}
}

// qK packs super-blocks of 256 weights of 4 bits, or 5.
func qK(name string, size int, fifth bool) {
	h := begin(name, "super-blocks of 256 weights", true)
	lines, weights := 4, 16
	if fifth {
		lines, weights = 5, 48
		h.fifths(16)
	}
	h.halves(0, 0, false)
	h.halves(2, 32, false)
	w := h.words(0, 4)
	scales, minima, rest := w[1], w[2], w[3]
	later := and(rest, 0, low)
	or(later, and(scales, 2, fiveBits), 0)
	h.bytes(later, places(64, 4))
	later = and(rest, 4, low)
	or(later, and(minima, 2, fiveBits), 0)
	h.bytes(later, places(80, 4))
	h.bytes(and(scales, 0, six), places(64, 0))
	h.bytes(and(minima, 0, six), places(80, 0))
	for pair := range 4 {
		for u := range 2 {
			w := h.words(weights+32*pair+16*u, 4)
			for j := range 2 {
				at := (2*u + j) * line
				h.store(lowPair(w[2*j], w[2*j+1]), 2*pair*lines*line+at)
				h.store(highPair(w[2*j], w[2*j+1]), (2*pair+1)*lines*line+at)
			}
		}
	}
	h.end(size, 8*lines*line, 320)
}

// fifths stores the lines of fifth bits: bit i of the 32 bytes at offset off
// belongs to block i.
func (h *half) fifths(off int) {
	for first := 0; first < 8; first += 4 { // more would not fit the registers
		var acc [4]reg.VecVirtual
		for u := range 2 {
			w := h.words(off+16*u, 4)
			for i := range acc {
				for t := range w {
					bit := and(w[t], first+i, ones)
					if u == 0 && t == 0 {
						acc[i] = bit
					} else {
						or(acc[i], bit, 4*u+t)
					}
				}
			}
		}
		for i, v := range acc {
			h.store(v, (5*(first+i)+4)*line)
		}
	}
}

func q6K() {
	h := begin("Q6K", "super-blocks of Q6_K", true)
	const lines = 6
	for part := range 2 { // of 128 weights: four blocks
		block := func(i int) int { return (4*part + i) * lines * line }
		for u := range 2 { // 16 bytes of each
			// Two bits of four blocks lie in one byte.
			bits := h.words(128+32*part+16*u, 4)
			for i := range 4 {
				acc := and(bits[0], 2*i, twos)
				for t := 1; t < 4; t++ {
					or(acc, and(bits[t], 2*i, twos), 2*t)
				}
				h.store(acc, block(i)+(4+u)*line)
			}
			for i := range 2 {
				w := h.words(64*part+32*i+16*u, 4)
				for j := range 2 {
					at := (2*u + j) * line
					h.store(lowPair(w[2*j], w[2*j+1]), block(i)+at)
					h.store(highPair(w[2*j], w[2*j+1]), block(i+2)+at)
				}
			}
		}
	}
	h.halves(208, 0, false)
	for i, v := range h.words(192, 4) {
		first := 32 + 64*i // two scales of block 2i, two of the next
		h.bytes(v, [4]int{first, first + 16, first + 32, first + 48})
	}
	h.end(210, 8*lines*line, 288)
}
