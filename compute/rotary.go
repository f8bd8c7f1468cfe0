package compute

import (
	"fmt"
	"math"
	"math/big"

	"surmise/checkpoint"
)

// RotarySpec says how positions turn a head.
type RotarySpec struct {
	// Dim is the number of elements of a head that are turned: even.
	Dim int
	// Theta is the base: pair i turns by position·Theta^(−2i/Dim) radians.
	Theta float64
	// Scaling changes the frequencies; nil for none. "linear", "llama3" and
	// "yarn" are known, named and defined as in Transformers' modeling_rope_utils.
	Scaling *checkpoint.RopeScaling
	// Factors, when not nil, divide the frequencies: Dim/2 of them (GGUF's
	// rope_freqs.weight). Scaling of type "llama3" must then be nil, for the
	// factors already are it.
	Factors []float32
}

// NewRotaryTable makes the table Program.Rotary reads: for each of positions
// positions Dim/2 cosines and then Dim/2 sines.
//
// The numbers are the same on every machine. Frequencies are computed by
// math/big to 256 bits and kept as 64-bit fractions of a turn, so that
// position·frequency modulo a turn is an exact integer product (off by at most
// position·2⁻⁶⁵ turns); sine and cosine are Taylor polynomials in float64 with
// every operation rounded, and are rounded once more to float32.
func NewRotaryTable(dev Device, spec RotarySpec, positions int) (Buffer, error) {
	turns, gain, err := rotaryTurns(spec)
	if err != nil {
		return nil, fmt.Errorf("rotary table: %w", err)
	}
	if positions < 1 || positions > 1<<24 {
		return nil, fmt.Errorf("rotary table: %d positions, want 1 to %d", positions, 1<<24)
	}
	buf, err := dev.Alloc(positions * spec.Dim)
	if err != nil {
		return nil, fmt.Errorf("rotary table of %d positions: %w", positions, err)
	}
	half := spec.Dim / 2
	mem := buf.Host()
	for p := range positions {
		row := mem[p*spec.Dim:][:spec.Dim]
		for i, f := range turns {
			c, s := cosSin(f * uint64(p))
			row[i], row[half+i] = float32(c*gain), float32(s*gain)
		}
	}
	return buf, nil
}

const bigPrec = 256

func newBig(x float64) *big.Float { return new(big.Float).SetPrec(bigPrec).SetFloat64(x) }

// rotaryTurns gives the frequency of each pair in 2⁻⁶⁴ turns per position, and
// the factor cosines and sines are multiplied by (1 but for yarn).
func rotaryTurns(spec RotarySpec) (turns []uint64, gain float64, err error) {
	if spec.Dim < 2 || spec.Dim%2 != 0 || spec.Dim > 1<<16 {
		return nil, 0, fmt.Errorf("dimension %d, want an even number from 2 to %d", spec.Dim, 1<<16)
	}
	if !(spec.Theta >= 1 && spec.Theta <= 1e12) {
		return nil, 0, fmt.Errorf("theta %v, want 1 to 1e12", spec.Theta)
	}
	half := spec.Dim / 2
	if spec.Factors != nil && len(spec.Factors) != half {
		return nil, 0, fmt.Errorf("%d frequency factors, want %d", len(spec.Factors), half)
	}
	scale, gain, err := rotaryScaler(spec)
	if err != nil {
		return nil, 0, err
	}
	root := bigRoot(spec.Theta, half)
	inv := newBig(1) // theta^(−i/half)
	twoPi, _ := new(big.Float).SetPrec(bigPrec).SetString("6.28318530717958647692528676655900576839433879875021164194988918461563281257241799725606965068423413596429617302656461329418768921910116447")
	one := new(big.Float).SetPrec(bigPrec).SetMantExp(newBig(1), 64)
	for i := range half {
		f, _ := inv.Float64()
		t := newBig(scale(i, f))
		t.Mul(t, inv)
		if spec.Factors != nil {
			v := float64(spec.Factors[i])
			if !(v > 1e-6 && v < 1e6) {
				return nil, 0, fmt.Errorf("frequency factor %d is %v, want 1e-6 to 1e6", i, v)
			}
			t.Quo(t, newBig(v))
		}
		t.Quo(t, twoPi)
		t.Mul(t, one)
		n, _ := t.Add(t, newBig(0.5)).Int(nil)
		// Whole turns do not matter: keep what is below 2⁶⁴.
		turns = append(turns, n.And(n, new(big.Int).SetUint64(math.MaxUint64)).Uint64())
		inv.Quo(inv, root)
	}
	return turns, gain, nil
}

// bigRoot is theta^(1/n) by Newton's iteration; the starting point's last
// places, which depend on the machine, are gone after a few steps.
func bigRoot(theta float64, n int) *big.Float {
	r, a := newBig(math.Pow(theta, 1/float64(n))), newBig(theta)
	for range 6 { // 50 bits, 100, 200, 256
		p := newBig(1)
		for range n - 1 {
			p.Mul(p, r)
		}
		// r −= (r − a/p)/n
		q := new(big.Float).SetPrec(bigPrec).Quo(a, p)
		q.Sub(r, q)
		q.Quo(q, newBig(float64(n)))
		r.Sub(r, q)
	}
	return r
}

// rotaryScaler gives the function that scales frequency f (radians per
// position) of pair i, and the gain.
func rotaryScaler(spec RotarySpec) (func(i int, f float64) float64, float64, error) {
	s := spec.Scaling
	if s == nil {
		return func(int, float64) float64 { return 1 }, 1, nil
	}
	if !(s.Factor >= 1 && s.Factor <= 1e6) {
		return nil, 0, fmt.Errorf("scaling factor %v, want 1 to 1e6", s.Factor)
	}
	slow := 1 / s.Factor
	switch s.Type {
	case "linear":
		return func(int, float64) float64 { return slow }, 1, nil
	case "llama3":
		if spec.Factors != nil {
			return nil, 0, fmt.Errorf("llama3 scaling together with frequency factors, which already are it")
		}
		return llama3Scaler(s, slow)
	case "yarn":
		return yarnScaler(spec, slow)
	}
	return nil, 0, fmt.Errorf("scaling type %q, want linear, llama3 or yarn", s.Type)
}

// llama3Scaler keeps short wavelengths, slows long ones by the factor, and goes
// over smoothly between.
func llama3Scaler(s *checkpoint.RopeScaling, slow float64) (func(int, float64) float64, float64, error) {
	lo, hi, orig := s.LowFreqFactor, s.HighFreqFactor, float64(s.OriginalContext)
	if !(lo > 0 && hi > lo && orig >= 1) {
		return nil, 0, fmt.Errorf("llama3 scaling with low_freq_factor %v, high_freq_factor %v, original context %v: want 0 < low < high and a context", lo, hi, orig)
	}
	return func(_ int, f float64) float64 {
		rotations := orig * f / (2 * math.Pi) // of the original context
		switch {
		case rotations > hi:
			return 1
		case rotations < lo:
			return slow
		}
		t := (rotations - lo) / (hi - lo)
		return float64((1-t)*slow) + t
	}, 1, nil
}

// yarnScaler is NTK-by-parts of YaRN (arXiv:2309.00071), eq. 17–22.
func yarnScaler(spec RotarySpec, slow float64) (func(int, float64) float64, float64, error) {
	s := spec.Scaling
	fast, slowBeta, orig := s.BetaFast, s.BetaSlow, float64(s.OriginalContext)
	if fast == 0 {
		fast = 32
	}
	if slowBeta == 0 {
		slowBeta = 1
	}
	if !(orig >= 1 && slowBeta > 0 && fast >= slowBeta && spec.Theta > 1) {
		return nil, 0, fmt.Errorf("yarn scaling with beta_fast %v, beta_slow %v, original context %v, theta %v: want 0 < slow ≤ fast and a context", fast, slowBeta, orig, spec.Theta)
	}
	dim := func(rotations float64) float64 {
		x := orig / float64(rotations*(2*math.Pi))
		return float64(float64(spec.Dim)*ln(x)) / float64(2*ln(spec.Theta))
	}
	lo := max(math.Floor(dim(fast)), 0)
	hi := min(math.Ceil(dim(slowBeta)), float64(spec.Dim-1))
	if hi == lo {
		hi += 0.001
	}
	gain := s.AttentionFactor
	if gain == 0 {
		gain = float64(0.1*ln(s.Factor)) + 1
	}
	return func(i int, _ float64) float64 {
		ramp := min(max((float64(i)-lo)/(hi-lo), 0), 1)
		return float64(slow*ramp) + (1 - ramp)
	}, gain, nil
}

// ln is the natural logarithm of a positive number in plain float64 steps: the
// same on every machine, unlike math.Log. x = m·2ᵉ, ln m = 2·atanh((m−1)/(m+1)).
func ln(x float64) float64 {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = m*2, e-1
	}
	z := (m - 1) / (m + 1)
	z2, sum := float64(z*z), 0.0
	for k := 41; k >= 1; k -= 2 {
		sum = float64(sum*z2) + 1/float64(k)
	}
	return float64(2*float64(z*sum)) + float64(float64(e)*math.Ln2)
}

// cosSin gives the cosine and sine of t/2⁶⁴ turns.
func cosSin(t uint64) (c, s float64) {
	// The nearest quarter turn, and what is left: a signed eighth at most.
	quarter := (t + 1<<61) >> 62
	x := float64(float64(int64(t-quarter<<62)) * (2 * math.Pi / (1 << 32) / (1 << 32)))
	c, s = cosSinSmall(x)
	switch quarter & 3 {
	case 1:
		return -s, c
	case 2:
		return -c, -s
	case 3:
		return s, -c
	}
	return c, s
}

// cosSinSmall sums the Taylor series for |x| ≤ π/4; the first term left out is
// below 2⁻⁶⁰.
func cosSinSmall(x float64) (c, s float64) {
	z := float64(x * x)
	for i := len(cosTerms) - 1; i >= 0; i-- {
		c = float64(c*z) + cosTerms[i]
		s = float64(s*z) + sinTerms[i]
	}
	return c, float64(s * x)
}

var (
	cosTerms = [...]float64{
		1, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800,
		1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000, -1.0 / 6402373705728000,
	}
	sinTerms = [...]float64{
		1, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800,
		1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000, -1.0 / 121645100408832000,
	}
)
