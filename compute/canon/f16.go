package canon

import "math"

// F16 widens an IEEE binary16, exactly.
func F16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h >> 10 & 0x1f)
	man := uint32(h & 0x3ff)
	switch exp {
	case 0: // zero and denormals: man·2⁻²⁴
		v := float32(man) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | man<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | man<<13)
}

// ToF16 rounds to the nearest binary16, ties to even; what is too large becomes
// an infinity, a NaN stays one.
func ToF16(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00
	case b >= 0x47800000: // 2¹⁶ and above, infinity too
		return sign | 0x7c00
	case b < 0x38800000: // below the least normal, 2⁻¹⁴
		// Adding ½ puts the last bit of a binary16 denormal (2⁻²⁴) at the last
		// bit of the sum, so that the addition rounds as wanted.
		s := math.Float32bits(math.Float32frombits(b) + 0.5)
		return sign | uint16(s-0x3f000000)
	}
	r := b - 0x38000000
	r += 0xfff + r>>13&1
	return sign | uint16(r>>13)
}

// BF16 widens a bfloat16, exactly.
func BF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }
