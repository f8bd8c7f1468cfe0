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
	row  []float32       // one row before conversion
	// rows are the group's 16 rows as they are packed: the checkpoint's own
	// bytes or converted ones.
	rows   [groupRows][]byte
	source [groupRows]int // the checkpoint's rows they come from
	fast   packGroup      // for whole groups; nil without one
}

// packGroup packs the 16 rows of a group, of so many columns, to what packBlocks
// makes of them.
type packGroup func(weights, scales []byte, rows *[groupRows][]byte, cols int)

// newPacker prepares to pack a part that compute.CheckParts has accepted; typ
// tells as what.
func newPacker(part compute.LinearPart) *packer {
	p := &packer{part: part, typ: part.StoredType()}
	if p.converts() {
		p.row = make([]float32, part.Weight.Cols())
		for o := range p.rows {
			p.rows[o] = make([]byte, len(p.row)/p.typ.BlockSize()*p.typ.BlockBytes())
		}
	}
	return p
}

func (p *packer) converts() bool { return p.typ != p.part.Weight.Type }

// pack fills groups g0 ≤ g < g1 of m, whose memory there must be zero.
func (p *packer) pack(m *packedMatrix, g0, g1 int) {
	for g := g0; g < g1; g++ {
		n := min(groupRows, m.out-g*groupRows)
		for o := range n {
			p.readRow(m, g*groupRows+o, o)
		}
		weights := m.weights[g*m.weightStride:][:m.weightStride]
		scales := m.scales[g*m.scaleStride:][:m.scaleStride]
		switch bits := packings[p.typ].bits; {
		case bits == 16:
			p.packHalves(weights, n, m.in)
		case bits == 32:
			p.packFloats(weights, n, m.in)
		case p.fast != nil && n == groupRows:
			p.fast(weights, scales, &p.rows, m.in)
		default:
			p.packBlocks(m, weights, scales, n)
		}
	}
}

// readRow fetches what becomes output `out`, row o of its group.
func (p *packer) readRow(m *packedMatrix, out, o int) {
	w, src := p.part.Weight, out
	if p.part.Row != nil {
		src = p.part.Row(out)
	}
	p.source[o] = src
	if p.part.Bias != nil {
		m.bias[out] = floatAt(p.part.Bias, src) + 0 // never −0
	}
	if !p.converts() {
		p.rows[o] = w.RowBytes(src)
		return
	}
	w.Float32Row(src, p.row)
	if p.typ == checkpoint.Q8_0 {
		checkpoint.QuantizeQ8_0(p.rows[o], p.row)
	} else {
		checkpoint.QuantizeQ4_0(p.rows[o], p.row)
	}
}

// packHalves transposes n rows of 16-bit floats to [in][16].
func (p *packer) packHalves(dst []byte, n, in int) {
	le := binary.LittleEndian
	for i := range in {
		line := dst[i*2*groupRows:][:2*groupRows]
		for o := range n {
			le.PutUint16(line[2*o:], le.Uint16(p.rows[o][2*i:]))
		}
	}
}

// packFloats transposes n rows of 32-bit floats to [in][16].
func (p *packer) packFloats(dst []byte, n, in int) {
	le := binary.LittleEndian
	for i := range in {
		line := dst[i*4*groupRows:][:4*groupRows]
		for o := range n {
			le.PutUint32(line[4*o:], le.Uint32(p.rows[o][4*i:]))
		}
	}
}

// packBlocks packs n rows, block by block, so that what is written stays in the
// first-level cache.
func (p *packer) packBlocks(m *packedMatrix, weights, scales []byte, n int) {
	packing, w := packings[p.typ], p.part.Weight
	blockBytes := m.weightStride / m.blocks
	var blk rawBlock
	for b := range m.blocks {
		dst := weights[b*blockBytes:][:blockBytes]
		for o := range n {
			decodeBlock(p.typ, p.rows[o], b, &blk)
			packBlock(dst, packing.bits, o, &blk.words)
			if packing.scales == scaleFloatMin {
				at := p.source[o]*(m.in/w.Group) + b*blockCols/w.Group
				blk.floatD, blk.floatMin = floatAt(w.Scales, at), -floatAt(w.Biases, at)
			}
			packScales(scales, packing.scales, b, o, &blk)
		}
	}
}

// blockRow is 32 unsigned weights of one output: byte c of word t is column
// 4t + c. Words are worked on as four bytes at once.
type blockRow [blockCols / 4]uint32

// packBlock puts the weights of output o into a block of lines.
func packBlock(dst []byte, bits, o int, w *blockRow) {
	le, at := binary.LittleEndian, 4*o
	if bits == 8 {
		for t, v := range w {
			le.PutUint32(dst[t*lineBytes+at:], v)
		}
		return
	}
	const low = 0x0f0f0f0f
	for j := range len(w) / 2 {
		le.PutUint32(dst[j*lineBytes+at:], w[2*j]&low|w[2*j+1]&low<<4)
	}
	switch high := dst[blockCols/8*lineBytes:]; bits {
	case 5:
		var v uint32
		for t, x := range w {
			v |= x >> 4 & 0x01010101 << t
		}
		le.PutUint32(high[at:], v)
	case 6:
		for i := range 2 {
			var v uint32
			for t, x := range w[4*i : 4*i+4] {
				v |= x >> 4 & 0x03030303 << (2 * t)
			}
			le.PutUint32(high[i*lineBytes+at:], v)
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
	words  blockRow // value + offset
	d, min uint16   // f16; a minimum is subtracted
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
		for t := range blk.words {
			blk.words[t] = le.Uint32(raw[2+4*t:]) ^ 0x80808080
		}
	case checkpoint.Q4_0:
		raw = raw[b*18:][:18]
		blk.d = le.Uint16(raw)
		blk.words.nibbles(raw[2:])
	case checkpoint.Q4_1:
		raw = raw[b*20:][:20]
		blk.d, blk.min = le.Uint16(raw), le.Uint16(raw[2:])^negate
		blk.words.nibbles(raw[4:])
	case checkpoint.Q5_0:
		raw = raw[b*22:][:22]
		blk.d = le.Uint16(raw)
		blk.words.nibbles(raw[6:])
		blk.words.fifthBits(le.Uint32(raw[2:]))
	case checkpoint.Q5_1:
		raw = raw[b*24:][:24]
		blk.d, blk.min = le.Uint16(raw), le.Uint16(raw[2:])^negate
		blk.words.nibbles(raw[8:])
		blk.words.fifthBits(le.Uint32(raw[4:]))
	case checkpoint.Q4_K:
		decodeK(raw[b/superBlocks*144:][:144], b%superBlocks, blk, false)
	case checkpoint.Q5_K:
		decodeK(raw[b/superBlocks*176:][:176], b%superBlocks, blk, true)
	case checkpoint.Q6_K:
		decode6K(raw[b/superBlocks*210:][:210], b%superBlocks, blk)
	case checkpoint.MLX4:
		raw = raw[b*16:][:16]
		for t := range blk.words {
			v := uint32(le.Uint16(raw[2*t:]))
			blk.words[t] = v&15 | v>>4&15<<8 | v>>8&15<<16 | v>>12<<24
		}
	case checkpoint.MLX8:
		raw = raw[b*32:][:32]
		for t := range blk.words {
			blk.words[t] = le.Uint32(raw[4*t:])
		}
	}
}

const nibbleMask = 0x0f0f0f0f

// nibbles reads 16 bytes: low nibbles are columns 0–15, high ones 16–31.
func (w *blockRow) nibbles(raw []byte) {
	raw = raw[:16]
	for t := range 4 {
		v := binary.LittleEndian.Uint32(raw[4*t:])
		w[t], w[t+4] = v&nibbleMask, v>>4&nibbleMask
	}
}

// fifthBits adds bit c of high to column c as its fifth.
func (w *blockRow) fifthBits(high uint32) {
	for t := range w {
		// Four copies of the four bits, each shifted one more byte less one bit,
		// so that bit i of copy i lands at bit 4 of byte i; the mask keeps those.
		n := high >> (4 * t) & 15
		w[t] |= (n<<4 | n<<11 | n<<18 | n<<25) & 0x10101010
	}
}

// decodeK reads block i of a Q4_K or Q5_K super-block.
func decodeK(raw []byte, i int, blk *rawBlock, fifth bool) {
	le := binary.LittleEndian
	blk.d, blk.min = le.Uint16(raw), le.Uint16(raw[2:])
	if s := raw[4:16]; i < 4 {
		blk.sub = [2]uint8{s[i] & 63, s[i+4] & 63}
	} else {
		blk.sub = [2]uint8{s[i+4]&15 | s[i-4]>>6<<4, s[i+4]>>4 | s[i]>>6<<4}
	}
	low := raw[16:]
	if fifth {
		low = raw[48:]
	}
	low = low[i/2*32:][:32]
	for t := range blk.words {
		v := le.Uint32(low[4*t:]) >> (i % 2 * 4) & nibbleMask
		if fifth {
			v |= le.Uint32(raw[16+4*t:]) >> i & 0x01010101 << 4
		}
		blk.words[t] = v
	}
}

// decode6K reads block i of a Q6_K super-block.
func decode6K(raw []byte, i int, blk *rawBlock) {
	le := binary.LittleEndian
	low, high := raw[i/4*64+i%2*32:][:32], raw[128+i/4*32:][:32]
	for t := range blk.words {
		l := le.Uint32(low[4*t:]) >> (i % 4 / 2 * 4) & nibbleMask
		blk.words[t] = l | le.Uint32(high[4*t:])>>(i%4*2)&0x03030303<<4
	}
	blk.sub = [2]uint8{raw[192+2*i], raw[192+2*i+1]}
	blk.d = le.Uint16(raw[208:])
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
