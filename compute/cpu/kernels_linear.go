package cpu

import (
	"encoding/binary"
	"math"

	"surmise/checkpoint"
	"surmise/compute/canon"
)

// blockWords is a block of 32 columns × 16 outputs in the order of 8-bit lines:
// word [t][o] holds the unsigned weights of columns 4t…4t+3 of output o.
type blockWords [blockCols / 4][groupRows]uint32

// unpack widens a packed block of 4, 5, 6 or 8 bits.
func (w *blockWords) unpack(src []byte, bits int) {
	le := binary.LittleEndian
	if bits == 8 {
		for t := range w {
			line := src[t*lineBytes:][:lineBytes]
			for o := range w[t] {
				w[t][o] = le.Uint32(line[4*o:])
			}
		}
		return
	}
	const mask = 0x0f0f0f0f
	for j := range 4 {
		line := src[j*lineBytes:][:lineBytes]
		for o := range groupRows {
			v := le.Uint32(line[4*o:])
			w[2*j][o], w[2*j+1][o] = v&mask, v>>4&mask
		}
	}
	high := src[4*lineBytes:]
	switch bits {
	case 5:
		for t := range w {
			for o := range w[t] {
				w[t][o] |= le.Uint32(high[4*o:]) >> t & 0x01010101 << 4
			}
		}
	case 6:
		for t := range w {
			line, shift := high[t/4*lineBytes:][:lineBytes], t%4*2
			for o := range w[t] {
				w[t][o] |= le.Uint32(line[4*o:]) >> shift & 0x03030303 << 4
			}
		}
	}
}

// blockScales are what the sums of one block are multiplied by, for 16 outputs.
type blockScales struct {
	d, min [groupRows]float32
	// sub are the integer scales of the two halves, subMin that of the minimum.
	sub    [2][groupRows]int32
	subMin [groupRows]int32
}

// unpack reads the scales of block b of a group.
func (s *blockScales) unpack(src []byte, kind scaleKind, b int) {
	switch kind {
	case scaleHalf:
		halves(&s.d, src[b*2*groupRows:])
	case scaleHalfMin:
		src = src[b*4*groupRows:]
		halves(&s.d, src)
		halves(&s.min, src[2*groupRows:])
	case scaleSuper:
		src = src[b/superBlocks*superBytes:]
		halves(&s.d, src)
		halves(&s.min, src[2*groupRows:])
		sub := src[4*groupRows+b%superBlocks*2*groupRows:][:2*groupRows]
		for o := range groupRows {
			s.sub[0][o], s.sub[1][o] = int32(sub[o]), int32(sub[o])
			s.subMin[o] = int32(sub[groupRows+o])
		}
	case scaleSuper6:
		src = src[b/superBlocks*super6Bytes:]
		halves(&s.d, src)
		sub := src[2*groupRows+b%superBlocks*2*groupRows:][:2*groupRows]
		for o := range groupRows {
			s.sub[0][o], s.sub[1][o] = int32(int8(sub[o])), int32(int8(sub[groupRows+o]))
		}
	case scaleFloatMin:
		src = src[b*8*groupRows:]
		for o := range groupRows {
			s.d[o] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*o:]))
			s.min[o] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*(groupRows+o):]))
		}
	}
}

func halves(dst *[groupRows]float32, src []byte) {
	for o := range dst {
		dst[o] = halfToFloat(binary.LittleEndian.Uint16(src[2*o:]))
	}
}

// linearGeneric multiplies groups of any block-quantized matrix by a tile of
// rows. Blocks are unpacked once for all rows.
func linearGeneric(dst []float32, ldd int, w *packedMatrix, g, ng int, acts []record, rows int) {
	p := packings[w.typ]
	blockBytes := w.weightStride / w.blocks
	acc := make([][groupRows]float32, maxTile)[:rows]
	var words blockWords
	var scales blockScales
	for i := range ng {
		weights := w.weights[(g+i)*w.weightStride:][:w.weightStride]
		scaleBytes := w.scales[(g+i)*w.scaleStride:][:w.scaleStride]
		clear(acc)
		for b := range w.blocks {
			words.unpack(weights[b*blockBytes:][:blockBytes], p.bits)
			scales.unpack(scaleBytes, p.scales, b)
			for r := range acc {
				addBlock(&acc[r], &words, &scales, &acts[b*rows+r], p)
			}
		}
		for r := range acc {
			out := dst[r*ldd+i*groupRows:][:groupRows]
			for o, v := range acc[r] {
				out[o] = v + w.bias[(g+i)*groupRows+o]
			}
		}
	}
}

// addBlock adds one block's products to 16 accumulators, as canon.DotBlocks.
func addBlock(acc *[groupRows]float32, words *blockWords, s *blockScales, a *record, p packing) {
	var sum [2][groupRows]int32
	for t := range words {
		x0, x1, x2, x3 := int32(a.q[4*t]), int32(a.q[4*t+1]), int32(a.q[4*t+2]), int32(a.q[4*t+3])
		half := &sum[t/(blockCols/8)]
		for o, v := range &words[t] {
			half[o] += int32(v&255)*x0 + int32(v>>8&255)*x1 + int32(v>>16&255)*x2 + int32(v>>24)*x3
		}
	}
	// The record's sums are −128·Σq and −32·Σq: take the offset out exactly.
	off0 := a.first / 32 * int32(p.offset)
	off1 := a.sum/128*int32(p.offset) - off0
	for o := range acc {
		var isum int32
		if p.scales == scaleSuper || p.scales == scaleSuper6 {
			isum = (sum[0][o]+off0)*s.sub[0][o] + (sum[1][o]+off1)*s.sub[1][o]
		} else {
			isum = sum[0][o] + off0 + sum[1][o] + off1
		}
		acc[o] += float32(float32(isum) * float32(s.d[o]*a.scale))
	}
	switch p.scales {
	case scaleHalfMin, scaleFloatMin:
		for o := range acc {
			acc[o] -= float32(s.min[o] * a.total)
		}
	case scaleSuper:
		for o := range acc {
			u := float32(a.scale * float32(s.subMin[o]*(a.sum/-128)))
			acc[o] -= float32(s.min[o] * u)
		}
	}
}

// linearFloatGeneric multiplies groups of a float matrix by a tile of rows.
func linearFloatGeneric(dst []float32, ldd int, w *packedMatrix, g, ng int, x []float32, rows int) {
	acc := make([][groupRows]float32, maxTile)[:rows]
	var col [groupRows]float32
	for i := range ng {
		weights := w.weights[(g+i)*w.weightStride:][:w.weightStride]
		clear(acc)
		for c := range w.in {
			widen(&col, weights, w.typ, c)
			for r := range acc {
				v, a := x[c*rows+r], &acc[r]
				for o := range a {
					a[o] = canon.FMA(col[o], v, a[o])
				}
			}
		}
		for r := range acc {
			out := dst[r*ldd+i*groupRows:][:groupRows]
			for o, v := range acc[r] {
				out[o] = v + w.bias[(g+i)*groupRows+o]
			}
		}
	}
}

// widen reads column c of 16 float outputs.
func widen(dst *[groupRows]float32, src []byte, typ checkpoint.Type, c int) {
	switch typ {
	case checkpoint.F16:
		halves(dst, src[c*2*groupRows:])
	case checkpoint.BF16:
		src = src[c*2*groupRows:][:2*groupRows]
		for o := range dst {
			dst[o] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*o:])) << 16)
		}
	default:
		src = src[c*4*groupRows:][:4*groupRows]
		for o := range dst {
			dst[o] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*o:]))
		}
	}
}

// quantizeGeneric is canon.Quantize into records.
func quantizeGeneric(dst []record, stride int, x []float32) {
	for b := 0; b*blockCols < len(x); b++ {
		quantizeBlock(&dst[b*stride], x[b*blockCols:][:blockCols])
	}
}

func quantizeBlock(rec *record, x []float32) {
	var amax float32
	for _, v := range x {
		amax = max(amax, math.Float32frombits(math.Float32bits(v)&^(1<<31)))
	}
	*rec = record{}
	switch {
	case amax-amax != 0:
		rec.scale = float32(math.NaN())
		rec.total = rec.scale
		return
	case amax < 1e-30:
		return
	}
	rec.scale = amax / 127
	inv := 127 / amax
	for i, v := range x {
		q := roundToInt(float32(v * inv))
		rec.q[i] = int8(q)
		rec.sum -= 128 * q
		if i < blockCols/2 {
			rec.first -= 32 * q
		}
	}
	rec.total = rec.scale * float32(rec.sum/-128)
}

// roundToInt rounds |v| < 2²² to the nearest integer, ties to even: adding
// 1.5·2²³ leaves no bits for a fraction.
func roundToInt(v float32) int32 {
	const magic = 3 << 22
	return int32(math.Float32bits(v+magic)) - int32(math.Float32bits(magic))
}
