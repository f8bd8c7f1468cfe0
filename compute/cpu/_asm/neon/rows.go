package main

import "surmise/compute/cpu/_asm/layout"

// quantize makes records of 32 values, in V0–V7.
func (a *asm) quantize() {
	a.function("quantizeNEON", "writes blocks of 32 values to records that are stride bytes apart.",
		"dst *byte, stride int, x *float32, blocks int", "")
	a.load(map[R]string{0: "dst", 1: "stride", 2: "x", 3: "blocks"})
	a.fetch("tiny", 30)
	a.fetch("f127", 31)
	a.op("MOVD $0x7f800000, R9")
	a.op("MOVD $0x7fc00000, R10")
	a.label("block")
	// As integers, magnitudes are ordered too, with NaN above infinity.
	for i := range V(8) {
		a.ldq(2, int(16*i), i)
		if i == 0 {
			a.fabs(8, 0)
			continue
		}
		a.fabs(9, i)
		a.umax4(8, 8, 9)
	}
	a.umaxv(8, 8)
	a.op("FMOVS F8, R4")
	a.op("CMPW R9, R4")
	a.op("BHS notFinite")
	a.op("FCMPS F30, F8")
	a.op("BLT zeros")
	a.op("FDIVS F31, F8, F10") // amax / 127
	a.sts(10, 0, layout.Scale)
	a.op("FDIVS F8, F31, F9") // 127 / amax
	for i := range V(8) {
		a.fmulElem(i, i, 9, 0)
		a.fcvtns(i, i)
	}
	for i := range V(4) {
		a.xtn4h(16+i, 2*i)
		a.xtn8h(16+i, 2*i+1)
	}
	for i := range V(2) {
		a.xtn8b(20+i, 16+2*i)
		a.xtn16b(20+i, 17+2*i)
		a.stq(20+i, 0, int(16*i))
		a.saddlv(22+i, 20+i)
	}
	a.op("VMOV V22.H[0], R4")
	a.op("SXTH R4, R4")
	a.op("VMOV V23.H[0], R5")
	a.op("SXTH R5, R5")
	a.op("ADD R4, R5") // Σ
	a.op("NEG R4<<5, R4")
	a.op("MOVW R4, %d(R0)", layout.First)
	a.op("SCVTFWS R5, F11")
	a.op("FMULS F10, F11")
	a.sts(11, 0, layout.Total)
	a.op("NEG R5<<7, R5")
	a.op("MOVW R5, %d(R0)", layout.Sum)
	a.label("next")
	a.op("ADD R1, R0")
	a.addImm(128, 2)
	a.op("SUBS $1, R3")
	a.op("BNE block")
	a.op("RET")
	a.label("notFinite")
	a.op("MOVD R10, R5")
	a.op("B clear")
	a.label("zeros")
	a.op("MOVD $0, R5")
	a.label("clear")
	a.zero(0)
	for i := range 3 {
		a.stq(0, 0, 16*i)
	}
	a.op("MOVW R5, %d(R0)", layout.Scale)
	a.op("MOVW R5, %d(R0)", layout.Total)
	a.op("B next")
}

func (a *asm) norm() {
	a.function("normNEON", "writes the RMS norm of whole vectors of 16.",
		"dst *float32, x *float32, w *float32, vectors int, n float32, eps float32", "")
	a.load(map[R]string{0: "dst", 1: "x", 2: "w", 3: "vectors"})
	for i := range V(4) {
		a.zero(i)
	}
	a.op("MOVD R1, R4")
	a.op("MOVD R3, R5")
	a.label("squares")
	for i := range V(4) {
		a.ldq(4, int(16*i), 4)
		a.fmla(i, 4, 4)
	}
	a.addImm(64, 4)
	a.op("SUBS $1, R5")
	a.op("BNE squares")
	a.fold(0, 5)
	a.op("FMOVS %s, F1", a.arg("n"))
	a.op("FDIVS F1, F0")
	a.op("FMOVS %s, F1", a.arg("eps"))
	a.op("FADDS F1, F0")
	a.op("FSQRTS F0, F0")
	a.op("FMOVS $1.0, F1")
	a.op("FDIVS F0, F1, F0")
	a.op("LSL $2, R3")
	a.label("scale")
	a.ldq(1, 0, 2)
	a.ldq(2, 0, 3)
	a.fmulElem(2, 2, 0, 0)
	a.fmul(2, 2, 3)
	a.stq(2, 0, 0)
	for r := range R(3) {
		a.addImm(16, r)
	}
	a.op("SUBS $1, R3")
	a.op("BNE scale")
	a.op("RET")
}

func (a *asm) rotary() {
	a.function("rotaryNEON", "turns one head; half is a multiple of 16.", "x *float32, half int, cos *float32, sin *float32", "")
	a.load(map[R]string{0: "x", 1: "half", 2: "cos", 3: "sin"})
	a.op("ADD R1<<2, R0, R4")
	a.op("LSR $2, R1")
	a.label("loop")
	a.ldq(0, 0, 0)
	a.ldq(4, 0, 1)
	a.ldq(2, 0, 2)
	a.ldq(3, 0, 3)
	a.fmul(4, 0, 2)
	a.fmul(5, 1, 3)
	a.fsub(4, 4, 5)
	a.fmul(6, 0, 3)
	a.fmul(7, 1, 2)
	a.fadd(6, 6, 7)
	a.stq(4, 0, 0)
	a.stq(6, 4, 0)
	for _, r := range []R{0, 2, 3, 4} {
		a.addImm(16, r)
	}
	a.op("SUBS $1, R1")
	a.op("BNE loop")
	a.op("RET")
}

// each makes a loop over the registers of whole vectors of 16: src are loaded
// to V0, V1 …, body leaves its result in V0, which goes to R0.
func (a *asm) each(src []R, vectors R, body func()) {
	a.op("LSL $2, %v", vectors)
	a.label("loop")
	for i, r := range src {
		a.ldq(r, 0, V(i))
		a.addImm(16, r)
	}
	body()
	a.stq(0, 0, 0)
	a.addImm(16, 0)
	a.op("SUBS $1, %v", vectors)
	a.op("BNE loop")
	a.op("RET")
}

// gate is act(x)·u, where act(x) is x, or 1, over 1 + exp(−z).
func (a *asm) gate(name string) {
	a.function("gate"+name+"NEON", "writes act(x)·u for whole vectors of 16.", "dst *float32, x *float32, u *float32, vectors int", "")
	a.load(map[R]string{0: "dst", 1: "x", 2: "u", 3: "vectors"})
	a.loadExp()
	a.fetch("geluCubic", 29)
	a.fetch("geluTwo", 30)
	a.each([]R{1, 2}, 3, func() {
		z, top := V(2), V(0)
		switch name {
		case "GELUTanh":
			a.fmul(3, 0, 0)
			a.move(4, cC1)
			a.fmla(4, 29, 3)
			a.fmul(z, 0, 4)
			a.fmul(z, z, 30)
			a.fneg(z, z)
		case "Sigmoid":
			a.fneg(z, 0)
			top = cC1
		default:
			a.fneg(z, 0)
		}
		a.exp(z, 3, 4, 5, 6)
		a.fadd(z, z, cC1)
		a.fdiv(0, top, z)
		a.fmul(0, 0, 1)
	})
}

func (a *asm) addition() {
	a.function("addNEON", "writes a + b for whole vectors of 16.", "dst *float32, a *float32, b *float32, vectors int", "")
	a.load(map[R]string{0: "dst", 1: "a", 2: "b", 3: "vectors"})
	a.each([]R{1, 2}, 3, func() { a.fadd(0, 0, 1) })
}

func (a *asm) scale() {
	a.function("scaleNEON", "writes s·a for whole vectors of 16.", "dst *float32, a *float32, s float32, vectors int", "")
	a.load(map[R]string{0: "dst", 1: "a", 3: "vectors"})
	a.op("FMOVS %s, F2", a.arg("s"))
	a.each([]R{1}, 3, func() { a.fmulElem(0, 0, 2, 0) })
}

// argmax keeps, in each lane, the greatest value so far (V0) and where it was
// first (V1); V2 counts, V3 collects which lanes were never NaN.
func (a *asm) argmax() {
	a.function("argmaxNEON", "returns the greatest of whole vectors of 16 and its lowest index, which is −1\n// if there is a NaN.",
		"x *float32, vectors int", "index int32, value float32")
	a.load(map[R]string{0: "x", 1: "vectors"})
	a.op("LSL $2, R1")
	a.ldq(0, 0, 0)
	a.fetch("lanes", 1)
	a.move(2, 1)
	a.fetch("four", 6)
	a.fcmeq(3, 0, 0)
	a.label("loop")
	a.ldq(0, 0, 4)
	a.fcmeq(5, 4, 4)
	a.and(3, 3, 5)
	a.fcmgt(5, 4, 0)
	a.bit(0, 4, 5)
	a.bit(1, 2, 5)
	a.add4(2, 2, 6)
	a.addImm(16, 0)
	a.op("SUBS $1, R1")
	a.op("BNE loop")
	a.fmaxv(4, 0)
	a.op("FMOVS F4, %s", a.arg("value"))
	a.dup(4, 4, 0)
	a.fcmeq(5, 0, 4)
	a.orn(1, 1, 5) // lanes that are less have the greatest index: all ones
	a.uminv(1, 1)
	a.op("FMOVS F1, R2")
	a.uminv(3, 3)
	a.op("FMOVS F3, R3") // all ones if no NaN
	a.op("MVNW R3, R3")
	a.op("ORRW R3, R2")
	a.op("MOVW R2, %s", a.arg("index"))
	a.op("RET")
}

func (a *asm) toHalf() {
	a.function("toHalfNEON", "rounds whole vectors of 16 to binary16.", "dst *uint16, x *float32, vectors int", "")
	a.load(map[R]string{0: "dst", 1: "x", 2: "vectors"})
	a.op("LSL $1, R2")
	a.label("loop")
	a.ldq(1, 0, 0)
	a.ldq(1, 16, 1)
	a.fcvtn(2, 0)
	a.fcvtn2(2, 1)
	a.stq(2, 0, 0)
	a.addImm(32, 1)
	a.addImm(16, 0)
	a.op("SUBS $1, R2")
	a.op("BNE loop")
	a.op("RET")
}
