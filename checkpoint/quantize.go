package checkpoint

import (
	"encoding/binary"
	"math"
)

// QuantizeQ8_0 stores src in dst as Q8_0 blocks with the rounding of ggml's
// reference (quantize_row_q8_0_ref): d = max|x|/127, kept as f16, and
// q = x·(1/d) with the unrounded d, halves away from zero. A block that is all
// zero stays so; one with a NaN or infinity gets the scale NaN, so that the
// damage stays visible.
//
// The length of src must be a multiple of 32 and dst have 34 bytes for each 32
// of them; otherwise it panics, as indexing does.
func QuantizeQ8_0(dst []byte, src []float32) {
	checkBlocks(Q8_0, dst, src)
	for b := 0; b*32 < len(src); b++ {
		x, out := src[b*32:b*32+32], dst[b*34:b*34+34]
		amax, finite := absMax(x)
		if !finite {
			nanBlock(out)
			continue
		}
		d := amax / 127
		inverse := inverseScale(d)
		binary.LittleEndian.PutUint16(out, f32to16(d))
		for i, v := range x {
			// The addition is exact in float64, so cutting rounds halves away from zero.
			q := float64(float32(v * inverse))
			out[2+i] = byte(int8(q + math.Copysign(0.5, q)))
		}
	}
}

// QuantizeQ4_0 stores src in dst as Q4_0 blocks with the rounding of ggml's
// reference (quantize_row_q4_0_ref): d = m/−8 for the value m of largest
// magnitude, kept as f16, and q = ⌊x·(1/d) + 8.5⌋, at most 15. Damage stays
// visible as in [QuantizeQ8_0].
//
// The length of src must be a multiple of 32 and dst have 18 bytes for each 32
// of them; otherwise it panics, as indexing does.
func QuantizeQ4_0(dst []byte, src []float32) {
	checkBlocks(Q4_0, dst, src)
	for b := 0; b*32 < len(src); b++ {
		x, out := src[b*32:b*32+32], dst[b*18:b*18+18]
		amax, finite := absMax(x)
		if !finite {
			nanBlock(out)
			continue
		}
		extreme := float32(0)
		for _, v := range x { // the first of the largest magnitude decides the sign
			if v == amax || v == -amax {
				extreme = v
				break
			}
		}
		d := extreme / -8
		inverse := inverseScale(d)
		binary.LittleEndian.PutUint16(out, f32to16(d))
		nibble := func(v float32) byte {
			q := float32(v*inverse) + 8.5
			return byte(min(max(q, 0), 15))
		}
		for i := range 16 {
			out[2+i] = nibble(x[i]) | nibble(x[i+16])<<4
		}
	}
}

// EncodeF16 stores src in dst as half precision, rounded to nearest even; dst
// must have two bytes for each.
func EncodeF16(dst []byte, src []float32) {
	checkBlocks(F16, dst, src)
	for i, v := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], f32to16(v))
	}
}

// EncodeF32 stores src in dst; dst must have four bytes for each.
func EncodeF32(dst []byte, src []float32) {
	checkBlocks(F32, dst, src)
	for i, v := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
	}
}

func checkBlocks(t Type, dst []byte, src []float32) {
	if n, err := t.rowBytes(len(src)); err != nil || n != len(dst) {
		panic("checkpoint: " + t.String() + ": the lengths of dst and src do not fit")
	}
}

// inverseScale returns 1/d, and 0 where d is zero or so small that the inverse
// may overflow; as f16 such a d is 0 too.
func inverseScale(d float32) float32 {
	if math.Abs(float64(d)) < 0x1p-126 {
		return 0
	}
	return 1 / d
}

// absMax returns the largest magnitude, and false when a value is not finite.
func absMax(x []float32) (amax float32, finite bool) {
	for _, v := range x {
		if !(v-v == 0) {
			return 0, false
		}
		amax = max(amax, float32(math.Abs(float64(v))))
	}
	return amax, true
}

func nanBlock(out []byte) {
	clear(out)
	binary.LittleEndian.PutUint16(out, 0x7e00)
}

// f32to16 rounds to half precision, to nearest even; NaN becomes the quiet NaN.
func f32to16(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00
	case b >= 0x47800000: // 65536 and infinity
		return sign | 0x7c00
	case b < 0x38800000: // below 2⁻¹⁴: let float addition align and round at 2⁻²⁴
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
	}
	// Rebias the exponent and round the 13 dropped bits; a carry out of the
	// mantissa moves the exponent, up to infinity, as it should.
	return sign | uint16((b-0x38000000+0xfff+b>>13&1)>>13)
}
