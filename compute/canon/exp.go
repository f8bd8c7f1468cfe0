package canon

import "math"

// Constants of Exp. Ln2Hi has few enough bits that n·Ln2Hi is exact for every
// n in use; the polynomial is the Taylor series of degree 6 on |r| ≤ ln2/2.
const (
	Log2E float32 = 1.44269504
	Ln2Hi float32 = 0.693145751953125
	Ln2Lo float32 = 1.42860677e-6
	ExpC6 float32 = 1.0 / 720
	ExpC5 float32 = 1.0 / 120
	ExpC4 float32 = 1.0 / 24
	ExpC3 float32 = 1.0 / 6
	ExpC2 float32 = 0.5
	// ExpMin and ExpMax bound the polynomial's range: below, Exp is +0 (so that
	// no denormal arises); above, +Inf.
	ExpMin float32 = -60
	ExpMax float32 = 88
)

// Exp returns e**x to within about one unit in the last place:
//
//	n = roundToEven(x·Log2E), r = fma(−n, Ln2Hi, x), r = fma(−n, Ln2Lo, r)
//	p = C6; p = fma(p, r, C5) … fma(p, r, C2), fma(p, r, 1), fma(p, r, 1)
//
// and n is added to the exponent of p. x < ExpMin gives +0, x > ExpMax +Inf,
// NaN gives NaN.
func Exp(x float32) float32 {
	switch {
	case x != x:
		return x
	case x < ExpMin:
		return 0
	case x > ExpMax:
		return float32(math.Inf(1))
	}
	n := float32(math.RoundToEven(float64(float32(x * Log2E))))
	r := FMA(-n, Ln2Hi, x)
	r = FMA(-n, Ln2Lo, r)
	p := ExpC6
	p = FMA(p, r, ExpC5)
	p = FMA(p, r, ExpC4)
	p = FMA(p, r, ExpC3)
	p = FMA(p, r, ExpC2)
	p = FMA(p, r, 1)
	p = FMA(p, r, 1)
	return math.Float32frombits(math.Float32bits(p) + uint32(int32(n))<<23)
}
