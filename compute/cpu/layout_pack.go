package cpu

import (
	"encoding/binary"
	"math"

	"surmise/checkpoint"
	"surmise/compute"
)

// packer repacks one part of a linear layer. Groups may be packed from several
// goroutines, each with a packer of its own.
type packer struct {
	part compute.LinearPart
	typ  checkpoint.Type // the type that is packed, after conversion
	raw  []byte          // one converted row
	row  []float32
}

// newPacker prepares to pack a part that compute.CheckParts has accepted; typ
// tells as what.
func newPacker(part compute.LinearPart) *packer {
	p := &packer{part: part, typ: part.StoredType()}
	if p.typ != part.Weight.Type {
		p.row = make([]float32, part.Weight.Cols())
		p.raw = make([]byte, len(p.row)/p.typ.BlockSize()*p.typ.BlockBytes())
	}
	return p
}

// source is the checkpoint's row of an output row.
func (p *packer) source(out int) int {
	if p.part.Row != nil {
		return p.part.Row(out)
	}
	return out
}

// pack fills groups g0 ≤ g < g1 of m, whose memory there must be zero.
func (p *packer) pack(m *packedMatrix, g0, g1 int) {
	for g := g0; g < g1; g++ {
		for o := range groupRows {
			out := g*groupRows + o
			if out >= m.out {
				break
			}
			src := p.source(out)
			if p.part.Bias != nil {
				m.bias[out] = floatAt(p.part.Bias, src) + 0 // never −0
			}
			p.packRow(m, g, o, src)
		}
	}
}

func (p *packer) packRow(m *packedMatrix, g, o, src int) {
	w := p.part.Weight
	raw := w.RowBytes(src)
	if p.typ != w.Type {
		w.Float32Row(src, p.row)
		if p.typ == checkpoint.Q8_0 {
			checkpoint.QuantizeQ8_0(p.raw, p.row)
		} else {
			checkpoint.QuantizeQ4_0(p.raw, p.row)
		}
		raw = p.raw
	}
	weights := m.weights[g*m.weightStride:][:m.weightStride]
	if !packings[p.typ].quantized() {
		packFloats(weights, o, raw, packings[p.typ].bits/8)
		return
	}
	scales := m.scales[g*m.scaleStride:][:m.scaleStride]
	blockBytes := m.weightStride / m.blocks
	var blk rawBlock
	for b := range m.blocks {
		decodeBlock(p.typ, raw, b, &blk)
		packBlock(weights[b*blockBytes:][:blockBytes], packings[p.typ].bits, o, &blk.q)
		if w.Scales != nil && p.typ == w.Type {
			at := src*(m.in/w.Group) + b*blockCols/w.Group
			blk.floatD, blk.floatMin = floatAt(w.Scales, at), -floatAt(w.Biases, at)
		}
		packScales(scales, packings[p.typ].scales, b, o, &blk)
	}
}

// packFloats spreads a row of floats of `size` bytes to column o of [in][16].
func packFloats(dst []byte, o int, raw []byte, size int) {
	for i := 0; i < len(raw)/size; i++ {
		copy(dst[(i*groupRows+o)*size:], raw[i*size:(i+1)*size])
	}
}

// packBlock puts 32 unsigned weights of output o into a block of lines.
func packBlock(dst []byte, bits, o int, q *[blockCols]uint8) {
	at := 4 * o
	if bits == 8 {
		for c, v := range q {
			dst[c/4*lineBytes+at+c%4] = v
		}
		return
	}
	for c, v := range q {
		dst[c/8*lineBytes+at+c%4] |= v & 15 << (c / 4 % 2 * 4)
	}
	switch high := dst[blockCols/8*lineBytes:]; bits {
	case 5:
		for c, v := range q {
			high[at+c%4] |= v >> 4 & 1 << (c / 4)
		}
	case 6:
		for c, v := range q {
			high[c/16*lineBytes+at+c%4] |= v >> 4 & 3 << (c / 4 % 4 * 2)
		}
	}
}

// packScales puts what belongs to block b of output o into the group's scales.
func packScales(dst []byte, kind scaleKind, b, o int, blk *rawBlock) {
	le := binary.LittleEndian
	switch kind {
	case scaleHalf:
		le.PutUint16(dst[(b*groupRows+o)*2:], blk.d)
	case scaleHalfMin:
		dst = dst[b*4*groupRows:]
		le.PutUint16(dst[2*o:], blk.d)
		le.PutUint16(dst[2*(groupRows+o):], blk.min)
	case scaleSuper:
		dst = dst[b/superBlocks*superBytes:]
		le.PutUint16(dst[2*o:], blk.d)
		le.PutUint16(dst[2*(groupRows+o):], blk.min)
		sub := dst[4*groupRows+b%superBlocks*2*groupRows:]
		sub[o], sub[groupRows+o] = blk.sub[0], blk.sub[1]
	case scaleSuper6:
		dst = dst[b/superBlocks*super6Bytes:]
		le.PutUint16(dst[2*o:], blk.d)
		sub := dst[2*groupRows+b%superBlocks*2*groupRows:]
		sub[o], sub[groupRows+o] = blk.sub[0], blk.sub[1]
	case scaleFloatMin:
		dst = dst[b*8*groupRows:]
		le.PutUint32(dst[4*o:], math.Float32bits(blk.floatD))
		le.PutUint32(dst[4*(groupRows+o):], math.Float32bits(blk.floatMin))
	}
}

// rawBlock is one decoded block of 32 checkpoint weights.
type rawBlock struct {
	q      [blockCols]uint8 // value + offset
	d, min uint16           // f16; a minimum is subtracted
	// sub is the scale and the minimum of a K-quant's block, or the two scales
	// of Q6_K.
	sub              [2]uint8
	floatD, floatMin float32
}

const negate = 0x8000 // the sign bit of an f16

// decodeBlock reads block b of 32 columns of a raw checkpoint row. The formats
// are those documented at checkpoint.Type.
func decodeBlock(typ checkpoint.Type, raw []byte, b int, blk *rawBlock) {
	le := binary.LittleEndian
	switch typ {
	case checkpoint.Q8_0:
		raw = raw[b*34:][:34]
		blk.d = le.Uint16(raw)
		for i, v := range raw[2:] {
			blk.q[i] = v ^ 0x80
		}
	case checkpoint.Q4_0:
		raw = raw[b*18:][:18]
		blk.d = le.Uint16(raw)
		decodeNibbles(&blk.q, raw[2:])
	case checkpoint.Q4_1:
		raw = raw[b*20:][:20]
		blk.d, blk.min = le.Uint16(raw), le.Uint16(raw[2:])^negate
		decodeNibbles(&blk.q, raw[4:])
	case checkpoint.Q5_0:
		raw = raw[b*22:][:22]
		blk.d = le.Uint16(raw)
		decodeNibbles(&blk.q, raw[6:])
		addFifthBits(&blk.q, le.Uint32(raw[2:]))
	case checkpoint.Q5_1:
		raw = raw[b*24:][:24]
		blk.d, blk.min = le.Uint16(raw), le.Uint16(raw[2:])^negate
		decodeNibbles(&blk.q, raw[8:])
		addFifthBits(&blk.q, le.Uint32(raw[4:]))
	case checkpoint.Q4_K:
		decodeK(raw[b/superBlocks*144:][:144], b%superBlocks, blk, false)
	case checkpoint.Q5_K:
		decodeK(raw[b/superBlocks*176:][:176], b%superBlocks, blk, true)
	case checkpoint.Q6_K:
		decode6K(raw[b/superBlocks*210:][:210], b%superBlocks, blk)
	case checkpoint.MLX4:
		for i, v := range raw[b*16:][:16] {
			blk.q[2*i], blk.q[2*i+1] = v&15, v>>4
		}
	case checkpoint.MLX8:
		copy(blk.q[:], raw[b*32:][:32])
	}
}

// decodeNibbles reads 16 bytes: low nibbles are columns 0–15, high ones 16–31.
func decodeNibbles(q *[blockCols]uint8, raw []byte) {
	for i, v := range raw[:16] {
		q[i], q[i+16] = v&15, v>>4
	}
}

func addFifthBits(q *[blockCols]uint8, high uint32) {
	for i := range q {
		q[i] |= uint8(high>>i&1) << 4
	}
}

// decodeK reads block i of a Q4_K or Q5_K super-block.
func decodeK(raw []byte, i int, blk *rawBlock, fifth bool) {
	blk.d, blk.min = binary.LittleEndian.Uint16(raw), binary.LittleEndian.Uint16(raw[2:])
	if s := raw[4:16]; i < 4 {
		blk.sub = [2]uint8{s[i] & 63, s[i+4] & 63}
	} else {
		blk.sub = [2]uint8{s[i+4]&15 | s[i-4]>>6<<4, s[i+4]>>4 | s[i]>>6<<4}
	}
	low := raw[16:]
	if fifth {
		low = raw[48:]
	}
	for c, v := range low[i/2*32:][:32] {
		blk.q[c] = v >> (i % 2 * 4) & 15
		if fifth {
			blk.q[c] |= raw[16+c] >> i & 1 << 4
		}
	}
}

// decode6K reads block i of a Q6_K super-block.
func decode6K(raw []byte, i int, blk *rawBlock) {
	low, high := raw[i/4*64+i%2*32:][:32], raw[128+i/4*32:][:32]
	for c := range blk.q {
		blk.q[c] = low[c]>>(i%4/2*4)&15 | high[c]>>(i%4*2)&3<<4
	}
	blk.sub = [2]uint8{raw[192+2*i], raw[192+2*i+1]}
	blk.d = binary.LittleEndian.Uint16(raw[208:])
}

// floatAt is element i of a float tensor, counted over all its rows.
func floatAt(t *checkpoint.Tensor, i int) float32 {
	switch t.Type {
	case checkpoint.F16:
		return halfToFloat(binary.LittleEndian.Uint16(t.Data[2*i:]))
	case checkpoint.BF16:
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(t.Data[2*i:])) << 16)
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
}
