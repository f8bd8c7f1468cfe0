package compute_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/compute/canon"
)

// rotaryTable makes a table and gives cosine and sine of a pair.
func rotaryTable(t require.TestingT, spec compute.RotarySpec, positions int) func(p, i int) (c, s float64) {
	b, err := compute.NewRotaryTable(canon.New(), spec, positions)
	require.NoError(t, err)
	return func(p, i int) (c, s float64) {
		row := b.Host()[p*spec.Dim:]
		return float64(row[i]), float64(row[spec.Dim/2+i])
	}
}

// Given any base and dimension, the table holds cosines and sines of p·theta^(−2i/dim).
func TestRotaryTableHoldsCosinesAndSines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := compute.RotarySpec{Dim: 2 * rapid.IntRange(1, 64).Draw(t, "half"), Theta: rapid.SampledFrom([]float64{1, 100, 10000, 500000, 1e6}).Draw(t, "theta")}
		at := rotaryTable(t, spec, 3000)
		for i := range spec.Dim / 2 {
			f := math.Pow(spec.Theta, -2*float64(i)/float64(spec.Dim))
			for _, p := range []int{0, 1, 2, 63, 257, 2999} {
				c, s := at(p, i)
				require.InDelta(t, math.Cos(float64(p)*f), c, 1e-7)
				require.InDelta(t, math.Sin(float64(p)*f), s, 1e-7)
			}
		}
	})
}

func TestRotaryScaling(t *testing.T) {
	const theta, dim, p = 500000.0, 64, 1000
	plain := func(i int) float64 { return math.Pow(theta, -2*float64(i)/dim) }
	check := func(spec compute.RotarySpec, want func(i int) float64, gain float64) {
		t.Helper()
		spec.Dim, spec.Theta = dim, theta
		at := rotaryTable(t, spec, p+1)
		for i := range dim / 2 {
			c, s := at(p, i)
			require.InDelta(t, gain*math.Cos(p*want(i)), c, 3e-7, "pair %d", i)
			require.InDelta(t, gain*math.Sin(p*want(i)), s, 3e-7, "pair %d", i)
		}
	}
	check(compute.RotarySpec{Scaling: &checkpoint.RopeScaling{Type: "linear", Factor: 8}},
		func(i int) float64 { return plain(i) / 8 }, 1)
	factors := make([]float32, dim/2)
	for i := range factors {
		factors[i] = float32(1 + i)
	}
	check(compute.RotarySpec{Factors: factors}, func(i int) float64 { return plain(i) / float64(1+i) }, 1)
	check(compute.RotarySpec{Scaling: &checkpoint.RopeScaling{Type: "llama3", Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, OriginalContext: 8192}},
		func(i int) float64 {
			f, wavelen := plain(i), 2*math.Pi/plain(i)
			switch {
			case wavelen < 8192.0/4:
				return f
			case wavelen > 8192:
				return f / 8
			}
			smooth := (8192/wavelen - 1) / 3
			return (1-smooth)*f/8 + smooth*f
		}, 1)
	check(compute.RotarySpec{Scaling: &checkpoint.RopeScaling{Type: "yarn", Factor: 4, OriginalContext: 32768}},
		func(i int) float64 {
			at := func(rot float64) float64 { return dim * math.Log(32768/(rot*2*math.Pi)) / (2 * math.Log(theta)) }
			lo, hi := math.Max(math.Floor(at(32)), 0), math.Min(math.Ceil(at(1)), dim-1)
			ramp := math.Min(math.Max((float64(i)-lo)/(hi-lo), 0), 1)
			return plain(i)/4*ramp + plain(i)*(1-ramp)
		}, 0.1*math.Log(4)+1)
}

func TestRotaryTableRefusesBadSpecs(t *testing.T) {
	good := compute.RotarySpec{Dim: 8, Theta: 10000}
	for name, change := range map[string]func(s *compute.RotarySpec){
		"odd dimension":   func(s *compute.RotarySpec) { s.Dim = 7 },
		"no dimension":    func(s *compute.RotarySpec) { s.Dim = 0 },
		"theta NaN":       func(s *compute.RotarySpec) { s.Theta = math.NaN() },
		"theta zero":      func(s *compute.RotarySpec) { s.Theta = 0 },
		"few factors":     func(s *compute.RotarySpec) { s.Factors = []float32{1} },
		"zero factor":     func(s *compute.RotarySpec) { s.Factors = make([]float32, 4) },
		"unknown scaling": func(s *compute.RotarySpec) { s.Scaling = &checkpoint.RopeScaling{Type: "longrope", Factor: 2} },
		"zero scaling":    func(s *compute.RotarySpec) { s.Scaling = &checkpoint.RopeScaling{Type: "linear"} },
		"llama3 bounds":   func(s *compute.RotarySpec) { s.Scaling = &checkpoint.RopeScaling{Type: "llama3", Factor: 2} },
	} {
		spec := good
		change(&spec)
		_, err := compute.NewRotaryTable(canon.New(), spec, 4)
		require.ErrorContains(t, err, "rotary table", name)
	}
	_, err := compute.NewRotaryTable(canon.New(), good, math.MaxInt)
	require.Error(t, err)
}
