package canon

import "math"

// FMA returns a·b + c rounded once to float32.
//
// The product of two float32 is exact in float64; the sum may not be, and
// rounding it twice is wrong when it falls on a tie of float32 that the exact
// sum only comes near. Such a sum is nudged one unit of float64 towards its
// error before it is rounded (Boldo and Melquiond, "Emulation of FMA and
// correctly rounded sums: proved algorithms using rounding to odd", 2008).
func FMA(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	s := float64(p) + float64(c)
	bits := math.Float64bits(s)
	// Not the pattern of a tie, and at least 2⁻¹²⁶ in size: rounding twice is right.
	if bits&0x1fffffff != 0x10000000 && bits<<1 >= 0x7020000000000000 {
		return float32(s)
	}
	return fmaSlow(p, float64(c), s)
}

//go:noinline
func fmaSlow(p, c, s float64) float32 {
	if s == 0 || s-s != 0 { // exact zero, infinity or NaN
		return float32(s)
	}
	bb := s - p
	e := float64(p-float64(s-bb)) + float64(c-bb)
	if e != 0 {
		if b := math.Float64bits(s); b&1 == 0 {
			if (e > 0) == (s > 0) {
				b++
			} else {
				b--
			}
			s = math.Float64frombits(b)
		}
	}
	return float32(s)
}
