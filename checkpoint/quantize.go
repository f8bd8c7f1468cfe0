package checkpoint

import (
	"encoding/binary"
	"math"
)

// QuantizeQ8_0 converts src to blocks of Q8_0 by ggml's rule: d = amax/127
// (stored as f16), q = round(x/d), halves away from zero. The length of src is a
// multiple of 32 and dst has 34 bytes for each 32 of it.
func QuantizeQ8_0(dst []byte, src []float32) {
	for b := range len(src) / 32 {
		x, out := src[b*32:][:32], dst[b*34:][:34]
		var amax float32
		for _, v := range x {
			amax = max(amax, float32(math.Abs(float64(v))))
		}
		d, inv := amax/127, float32(0)
		if d != 0 {
			inv = 1 / d
		}
		binary.LittleEndian.PutUint16(out, f32to16(d))
		for j, v := range x {
			out[2+j] = byte(int8(math.Round(float64(float32(v * inv)))))
		}
	}
}

// QuantizeQ4_0 converts src to blocks of Q4_0 by ggml's rule: d = −v/8, where v
// is the value of greatest size with its sign, and q = min(15, trunc(x/d + 8.5)).
// The length of src is a multiple of 32 and dst has 18 bytes for each 32 of it.
func QuantizeQ4_0(dst []byte, src []float32) {
	for b := range len(src) / 32 {
		x, out := src[b*32:][:32], dst[b*18:][:18]
		var amax, extreme float32
		for _, v := range x {
			if a := float32(math.Abs(float64(v))); a > amax {
				amax, extreme = a, v
			}
		}
		d, inv := extreme/-8, float32(0)
		if d != 0 {
			inv = 1 / d
		}
		binary.LittleEndian.PutUint16(out, f32to16(d))
		q := func(v float32) byte { return min(15, byte(int8(float32(v*inv)+8.5))) }
		for j := range 16 {
			out[2+j] = q(x[j]) | q(x[j+16])<<4
		}
	}
}

// f32to16 rounds to the nearest binary16, ties to even.
func f32to16(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00
	case b >= 0x47800000:
		return sign | 0x7c00
	case b < 0x38800000: // the sum's last bit is a subnormal half's: it rounds as wanted
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
	}
	r := b - 0x38000000
	return sign | uint16((r+0xfff+r>>13&1)>>13)
}
