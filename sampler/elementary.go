package sampler

import "math"

// The standard library's log and exp differ between architectures in the last
// place, so everything that can decide a token uses these: float64 arithmetic
// with every product rounded explicitly, so that no compiler may fuse it.

const (
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10
	log2E = 1.44269504088896338700e+00
)

// log returns the natural logarithm to within one unit in the last place, also
// near 1 (relative error). The reduction and the minimax coefficients are those
// of FreeBSD's msun e_log.c: x = 2^k·(1+f), s = f/(2+f),
// log(1+f) = f − (f²/2 − s·(f²/2 + R(s²))). log of 0 is −Inf, of less NaN.
func log(x float64) float64 {
	switch {
	case x != x || x > math.MaxFloat64:
		return x
	case x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	}
	f1, ki := math.Frexp(x) // exact
	if f1 < math.Sqrt2/2 {
		f1 *= 2
		ki--
	}
	f, k := f1-1, float64(ki)
	s := f / (2 + f)
	s2 := float64(s * s)
	r := 1.479819860511658591e-01
	for _, c := range [...]float64{
		1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01,
		2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01,
	} {
		r = float64(r*s2) + c
	}
	r = float64(r * s2)
	hfsq := float64(0.5 * float64(f*f))
	lo := float64(s*float64(hfsq+r)) + float64(k*ln2Lo)
	return float64(k*ln2Hi) - (float64(hfsq-lo) - f)
}

// exp returns e**x to within about one unit in the last place: x = n·ln2 + r,
// the Taylor series to degree 13 on |r| ≤ ln2/2, and a scaling by 2^n.
func exp(x float64) float64 {
	switch {
	case x != x:
		return x
	case x > 709:
		return math.Inf(1)
	case x < -708:
		return 0
	}
	n := math.RoundToEven(float64(x * log2E))
	r := float64(x-float64(n*ln2Hi)) - float64(n*ln2Lo)
	p := 1.0
	for i := 13; i > 0; i-- {
		p = float64(float64(r*p)/float64(i)) + 1
	}
	return math.Ldexp(p, int(n))
}

// pow returns a**b for a ≥ 0 as exp(b·log a).
func pow(a, b float64) float64 {
	switch {
	case b == 0:
		return 1
	case a == 0:
		return 0
	}
	return exp(float64(b * log(a)))
}

// powi returns a**n for n ≥ 0 by repeated squaring, +Inf when it overflows.
func powi(a float64, n int) float64 {
	p := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			p = float64(p * a)
		}
		a = float64(a * a)
	}
	return p
}
