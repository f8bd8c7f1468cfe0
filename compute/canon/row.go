package canon

import "math"

// Fold16 adds up 16 partial sums: halves onto each other, 8, 4, 2, 1.
func Fold16(p *[16]float32) float32 {
	for n := 8; n > 0; n /= 2 {
		for i := range n {
			p[i] += p[i+n]
		}
	}
	return p[0]
}

// Norm writes the RMS norm of x, weighted by w, to dst; all have one length:
//
//	r = 1/sqrt(Σx²/n + eps), dst[i] = (x[i]·r)·w[i]
//
// The squares are summed by fma into 16 partials (index mod 16) and folded.
func Norm(dst, x, w []float32, eps float32) {
	var p [16]float32
	for i, v := range x {
		p[i%16] = FMA(v, v, p[i%16])
	}
	mean := Fold16(&p) / float32(len(x))
	r := 1 / float32(math.Sqrt(float64(mean+eps)))
	for i, v := range x {
		dst[i] = float32(v*r) * w[i]
	}
}

// Rotary turns one head x in place: x[i] pairs with x[i+half], where half =
// len(cos) = len(sin); what lies behind 2·half stays.
func Rotary(x, cos, sin []float32) {
	half := len(cos)
	for i := range half {
		a, b, c, s := x[i], x[i+half], cos[i], sin[i]
		x[i] = float32(a*c) - float32(b*s)
		x[i+half] = float32(a*s) + float32(b*c)
	}
}

// Constants of GELU's tanh approximation, gelu(x) = x·sigmoid(2u) with
// u = √(2/π)·(x + 0.044715·x³).
const (
	GELUCubic float32 = 0.044715
	GELUTwo   float32 = 1.5957691216057308 // 2·√(2/π)
)

// Sigmoid returns 1/(1 + Exp(−x)).
func Sigmoid(x float32) float32 { return 1 / (1 + Exp(-x)) }

// SiLU returns x/(1 + Exp(−x)).
func SiLU(x float32) float32 { return x / (1 + Exp(-x)) }

// GELUTanh returns x/(1 + Exp(−z)) with z = (x·fma(GELUCubic, x·x, 1))·GELUTwo.
func GELUTanh(x float32) float32 {
	t := float32(x * x)
	z := float32(float32(x*FMA(GELUCubic, t, 1)) * GELUTwo)
	return x / (1 + Exp(-z))
}

// Argmax returns the lowest index of the greatest value, or −1 when there is a
// NaN (or nothing).
func Argmax(x []float32) int32 {
	best := int32(-1)
	for i, v := range x {
		if v != v {
			return -1
		}
		if best < 0 || v > x[best] {
			best = int32(i)
		}
	}
	return best
}
