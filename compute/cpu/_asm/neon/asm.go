package main

import (
	"bytes"
	"fmt"
	"math"
	"strings"
)

// V is a vector register; R a general one.
type (
	V int
	R int
)

func (v V) String() string { return fmt.Sprintf("V%d", int(v)) }
func (r R) String() string { return fmt.Sprintf("R%d", int(r)) }

// f is the register as Go's assembler calls it in scalar instructions.
func (v V) f() string { return fmt.Sprintf("F%d", int(v)) }

// asm collects assembly and the Go declarations of its functions.
type asm struct {
	text, stubs, data bytes.Buffer
	offsets           map[string]int // of the current function's parameters
}

// op writes an instruction of Go's assembler.
func (a *asm) op(format string, args ...any) { fmt.Fprintf(&a.text, "\t"+format+"\n", args...) }

func (a *asm) label(format string, args ...any) { fmt.Fprintf(&a.text, format+":\n", args...) }

// word writes an instruction Go's assembler lacks, with its usual spelling.
func (a *asm) word(op uint32, format string, args ...any) {
	fmt.Fprintf(&a.text, "\tWORD $0x%08x // %s\n", op, fmt.Sprintf(format, args...))
}

// function begins a function without a frame. Parameters and results are
// "name type", with types pointer (*T), int, float32 or int32.
func (a *asm) function(name, doc, params, results string) {
	a.offsets = map[string]int{}
	size := 0
	add := func(list string) {
		for _, p := range fields(list) {
			n := 8
			if strings.HasSuffix(p, "32") && !strings.Contains(p, "*") {
				n = 4
			}
			size = (size + n - 1) &^ (n - 1)
			a.offsets[strings.Fields(p)[0]] = size
			size += n
		}
	}
	add(params)
	ret := ""
	if results != "" {
		size = (size + 7) &^ 7
		add(results)
		ret = " (" + results + ")"
	}
	fmt.Fprintf(&a.stubs, "\n// %s %s\n//\n//go:noescape\nfunc %s(%s)%s\n", name, doc, name, params, ret)
	fmt.Fprintf(&a.text, "\n// func %s(%s)%s\nTEXT ·%s(SB), NOSPLIT, $0-%d\n", name, params, ret, name, size)
}

func fields(list string) []string {
	var out []string
	for _, p := range strings.Split(list, ",") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}

// arg is the memory of a parameter.
func (a *asm) arg(name string) string { return fmt.Sprintf("%s+%d(FP)", name, a.offsets[name]) }

// load puts parameters into registers.
func (a *asm) load(args map[R]string) {
	for r := R(0); r < 27; r++ {
		if name, ok := args[r]; ok {
			a.op("MOVD %s, %v", a.arg(name), r)
		}
	}
}

func (a *asm) addImm(n int, r R) { a.op("ADD $%d, %v", n, r) }

// constant declares four lanes of a value and returns its symbol.
func (a *asm) constant(name string, lanes ...uint32) string {
	for i := range 4 {
		fmt.Fprintf(&a.data, "DATA %s<>+%d(SB)/4, $0x%08x\n", name, 4*i, lanes[i%len(lanes)])
	}
	fmt.Fprintf(&a.data, "GLOBL %s<>(SB), RODATA|NOPTR, $16\n\n", name)
	return name
}

func (a *asm) float(name string, v float32) string { return a.constant(name, math.Float32bits(v)) }

// fetch loads a constant; it clobbers R26.
func (a *asm) fetch(symbol string, v V) {
	a.op("MOVD $%s<>(SB), R26", symbol)
	a.op("FMOVQ (R26), %s", v.f())
}

// Loads and stores of 16, 8 and 4 bytes.
func (a *asm) ldq(base R, disp int, v V) { a.op("FMOVQ %d(%v), %s", disp, base, v.f()) }
func (a *asm) ldd(base R, disp int, v V) { a.op("FMOVD %d(%v), %s", disp, base, v.f()) }
func (a *asm) lds(base R, disp int, v V) { a.op("FMOVS %d(%v), %s", disp, base, v.f()) }
func (a *asm) stq(v V, base R, disp int) { a.op("FMOVQ %s, %d(%v)", v.f(), disp, base) }
func (a *asm) sts(v V, base R, disp int) { a.op("FMOVS %s, %d(%v)", v.f(), disp, base) }

// zero clears a register.
func (a *asm) zero(v V) { a.op("VEOR %v.B16, %v.B16, %v.B16", v, v, v) }

// three is an instruction d = n op m; two is d = op n.
func (a *asm) three(base uint32, name, suffix string, d, n, m V) {
	a.word(base|uint32(m)<<16|uint32(n)<<5|uint32(d), "%s %v.%s, %v.%s, %v.%s", name, d, suffix, n, suffix, m, suffix)
}

func (a *asm) two(base uint32, name, to, from string, d, n V) {
	a.word(base|uint32(n)<<5|uint32(d), "%s %v.%s, %v.%s", name, d, to, n, from)
}

// element is an instruction d = n op m[i] on four words.
func (a *asm) element(base uint32, name string, d, n, m V, i int) {
	a.word(base|uint32(i&1)<<21|uint32(m)<<16|uint32(i>>1)<<11|uint32(n)<<5|uint32(d),
		"%s %v.4S, %v.4S, %v.S[%d]", name, d, n, m, i)
}

func (a *asm) fmul(d, n, m V)            { a.three(0x6E20DC00, "FMUL", "4S", d, n, m) }
func (a *asm) fadd(d, n, m V)            { a.three(0x4E20D400, "FADD", "4S", d, n, m) }
func (a *asm) fsub(d, n, m V)            { a.three(0x4EA0D400, "FSUB", "4S", d, n, m) }
func (a *asm) fdiv(d, n, m V)            { a.three(0x6E20FC00, "FDIV", "4S", d, n, m) }
func (a *asm) fmla(d, n, m V)            { a.three(0x4E20CC00, "FMLA", "4S", d, n, m) }
func (a *asm) fmls(d, n, m V)            { a.three(0x4EA0CC00, "FMLS", "4S", d, n, m) }
func (a *asm) fmax(d, n, m V)            { a.three(0x4E20F400, "FMAX", "4S", d, n, m) }
func (a *asm) fcmgt(d, n, m V)           { a.three(0x6EA0E400, "FCMGT", "4S", d, n, m) }
func (a *asm) fcmeq(d, n, m V)           { a.three(0x4E20E400, "FCMEQ", "4S", d, n, m) }
func (a *asm) fmulElem(d, n, m V, i int) { a.element(0x4F809000, "FMUL", d, n, m, i) }
func (a *asm) fmlaElem(d, n, m V, i int) { a.element(0x4F801000, "FMLA", d, n, m, i) }

// sdot adds, to each word of d, the products of its four bytes of n and the
// four bytes of m's word i.
func (a *asm) sdot(d, n, m V, i int) {
	a.word(0x4F80E000|uint32(i&1)<<21|uint32(m)<<16|uint32(i>>1)<<11|uint32(n)<<5|uint32(d),
		"SDOT %v.4S, %v.16B, %v.4B[%d]", d, n, m, i)
}

func (a *asm) add4(d, n, m V)  { a.three(0x4EA08400, "ADD", "4S", d, n, m) }
func (a *asm) sub4(d, n, m V)  { a.three(0x6EA08400, "SUB", "4S", d, n, m) }
func (a *asm) umax4(d, n, m V) { a.three(0x6EA06400, "UMAX", "4S", d, n, m) }

func (a *asm) and(d, n, m V) { a.three(0x4E201C00, "AND", "16B", d, n, m) }
func (a *asm) bic(d, n, m V) { a.three(0x4E601C00, "BIC", "16B", d, n, m) }
func (a *asm) orr(d, n, m V) { a.three(0x4EA01C00, "ORR", "16B", d, n, m) }
func (a *asm) orn(d, n, m V) { a.three(0x4EE01C00, "ORN", "16B", d, n, m) }
func (a *asm) eor(d, n, m V) { a.three(0x6E201C00, "EOR", "16B", d, n, m) }

// bit copies the bits of n into d where m is set.
func (a *asm) bit(d, n, m V) { a.three(0x6EA01C00, "BIT", "16B", d, n, m) }
func (a *asm) move(d, n V)   { a.orr(d, n, n) }

func (a *asm) fabs(d, n V)   { a.two(0x4EA0F800, "FABS", "4S", "4S", d, n) }
func (a *asm) fneg(d, n V)   { a.two(0x6EA0F800, "FNEG", "4S", "4S", d, n) }
func (a *asm) frintn(d, n V) { a.two(0x4E218800, "FRINTN", "4S", "4S", d, n) }
func (a *asm) fcvtns(d, n V) { a.two(0x4E21A800, "FCVTNS", "4S", "4S", d, n) }
func (a *asm) scvtf(d, n V)  { a.two(0x4E21D800, "SCVTF", "4S", "4S", d, n) }
func (a *asm) fcvtl(d, n V)  { a.two(0x0E217800, "FCVTL", "4S", "4H", d, n) }
func (a *asm) fcvtl2(d, n V) { a.two(0x4E217800, "FCVTL2", "4S", "8H", d, n) }
func (a *asm) fcvtn(d, n V)  { a.two(0x0E216800, "FCVTN", "4H", "4S", d, n) }
func (a *asm) fcvtn2(d, n V) { a.two(0x4E216800, "FCVTN2", "8H", "4S", d, n) }
func (a *asm) shll(d, n V)   { a.two(0x2E613800, "SHLL #16,", "4S", "4H", d, n) }
func (a *asm) shll2(d, n V)  { a.two(0x6E613800, "SHLL2 #16,", "4S", "8H", d, n) }
func (a *asm) xtn4h(d, n V)  { a.two(0x0E612800, "XTN", "4H", "4S", d, n) }
func (a *asm) xtn8h(d, n V)  { a.two(0x4E612800, "XTN2", "8H", "4S", d, n) }
func (a *asm) xtn8b(d, n V)  { a.two(0x0E212800, "XTN", "8B", "8H", d, n) }
func (a *asm) xtn16b(d, n V) { a.two(0x4E212800, "XTN2", "16B", "8H", d, n) }

// Across a register's lanes.
func (a *asm) fmaxv(d, n V)  { a.two(0x6E30F800, "FMAXV", "S", "4S", d, n) }
func (a *asm) umaxv(d, n V)  { a.two(0x6EB0A800, "UMAXV", "S", "4S", d, n) }
func (a *asm) uminv(d, n V)  { a.two(0x6EB1A800, "UMINV", "S", "4S", d, n) }
func (a *asm) saddlv(d, n V) { a.two(0x4E303800, "SADDLV", "H", "16B", d, n) }

// Widening of the low and high halves.
func (a *asm) uxtlB(d, n V)  { a.two(0x2F08A400, "UXTL", "8H", "8B", d, n) }
func (a *asm) uxtlH(d, n V)  { a.two(0x2F10A400, "UXTL", "4S", "4H", d, n) }
func (a *asm) uxtl2H(d, n V) { a.two(0x6F10A400, "UXTL2", "4S", "8H", d, n) }
func (a *asm) sxtlB(d, n V)  { a.two(0x0F08A400, "SXTL", "8H", "8B", d, n) }
func (a *asm) sxtlH(d, n V)  { a.two(0x0F10A400, "SXTL", "4S", "4H", d, n) }
func (a *asm) sxtl2H(d, n V) { a.two(0x4F10A400, "SXTL2", "4S", "8H", d, n) }

// shift is an instruction with an immediate whose field holds `field`.
func (a *asm) shift(base uint32, name, suffix string, field, by int, d, n V) {
	a.word(base|uint32(field)<<16|uint32(n)<<5|uint32(d), "%s %v.%s, %v.%s, #%d", name, d, suffix, n, suffix, by)
}

func (a *asm) sshr4(d, n V, by int)  { a.shift(0x4F000400, "SSHR", "4S", 64-by, by, d, n) }
func (a *asm) shl4(d, n V, by int)   { a.shift(0x4F005400, "SHL", "4S", 32+by, by, d, n) }
func (a *asm) ushr16(d, n V, by int) { a.shift(0x6F000400, "USHR", "16B", 16-by, by, d, n) }
func (a *asm) shl16(d, n V, by int)  { a.shift(0x4F005400, "SHL", "16B", 8+by, by, d, n) }

// dup copies word i of n to all words of d.
func (a *asm) dup(d, n V, i int) {
	a.word(0x4E040400|uint32(i)<<19|uint32(n)<<5|uint32(d), "DUP %v.4S, %v.S[%d]", d, n, i)
}

// swap puts the upper half of n below the lower half of m.
func (a *asm) swap(d, n, m V) {
	a.word(0x6E004000|uint32(m)<<16|uint32(n)<<5|uint32(d), "EXT %v.16B, %v.16B, %v.16B, #8", d, n, m)
}
