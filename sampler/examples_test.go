package sampler

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

const threeDecimals = 0.0005

// probabilities returns the distribution the chain draws from.
func probabilities(t *testing.T, p Params, z []float32, prompt, output []int32) []float64 {
	t.Helper()
	p.Logprobs, p.TopLogprobs, p.LogprobsMode = true, 20, LogprobsProcessed
	c := chain(t, p, len(z), prompt...)
	for _, o := range output {
		c.Accept(o)
	}
	d, err := c.Sample(z)
	require.NoError(t, err)
	out := make([]float64, len(z))
	for _, l := range d.Top {
		out[l.Token] = math.Exp(l.Logprob)
	}
	return out
}

// logitsAfter returns the row after masks, bias and penalties.
func logitsAfter(t *testing.T, p Params, z []float32, prompt, output []int32) []float32 {
	t.Helper()
	c := chain(t, p, len(z), prompt...)
	for _, o := range output {
		c.Accept(o)
	}
	s := newScratch(len(z))
	r, err := c.prepare(s, slices.Clone(z))
	require.NoError(t, err)
	return r.z
}

func TestSoftmaxExample(t *testing.T) {
	z := []float32{2, 1, .5, 0}
	near := func(want []float64, p Params) {
		t.Helper()
		require.InDeltaSlice(t, want, probabilities(t, p, z, nil, nil), 0.005)
	}
	near([]float64{.58, .21, .13, .08}, with())
	half := probabilities(t, with(func(p *Params) { p.Temperature = .5 }), z, nil, nil)
	require.InDelta(t, .83, half[0], .005)
	require.InDelta(t, .60, entropyOf(half), .005)
	double := probabilities(t, with(func(p *Params) { p.Temperature = 2 }), z, nil, nil)
	require.InDelta(t, 1.31, entropyOf(double), .005)
	require.InDelta(t, 1.386, math.Log(4), threeDecimals)
	// Shift invariance.
	near([]float64{.58, .21, .13, .08}, with())
	z = []float32{1002, 1001, 1000.5, 1000}
	near([]float64{.58, .21, .13, .08}, with())
}

// dH/dT = Var(z)/T³, by central differences on the chain's own entropy.
func TestEntropyRisesWithTemperatureAsItsDerivativeSays(t *testing.T) {
	z := []float32{2, 1, .5, 0, -3, 1.25, 3}
	entropy := func(temperature float64) float64 {
		s := newScratch(len(z))
		r, err := s.load(z, true, float32(1/temperature))
		require.NoError(t, err)
		return s.entropy(r)
	}
	for _, temperature := range []float64{.3, .5, 1, 2, 5} {
		p := softmax(z, temperature)
		mean, square := 0.0, 0.0
		for i, v := range z {
			mean += p[i] * float64(v)
			square += p[i] * float64(v) * float64(v)
		}
		want := (square - mean*mean) / math.Pow(temperature, 3)
		h := temperature / 256
		got := (entropy(temperature+h) - entropy(temperature-h)) / (2 * h)
		require.InDelta(t, want, got, 2e-3*want+1e-6, "T = %v", temperature)
		require.GreaterOrEqual(t, got, 0.0)
	}
	require.InDelta(t, 0, entropy(.01), 1e-6)
	require.InDelta(t, math.Log(float64(len(z))), entropy(1e4), 1e-6)
}

func TestOrdersExample(t *testing.T) {
	z := []float32{4, 3, 2, 1, 0, -1}
	require.InDeltaSlice(t, []float64{.634, .233, .086, .032, .012, .004}, softmax(z, 1), threeDecimals)
	require.InDeltaSlice(t, []float64{.414, .251, .152, .092, .056, .034}, softmax(z, 2), threeDecimals)
	require.InDeltaSlice(t, softmax(z, 1), probabilities(t, with(), z, nil, nil), 1e-6)
	count := func(temperature, topP, minP float64, order Order) int {
		p := with(func(p *Params) { p.Temperature, p.TopP, p.MinP, p.Order = temperature, topP, minP, order })
		return len(surviving(t, chain(t, p, len(z)), z))
	}
	require.Equal(t, 3, count(1, .9, 0, OrderLlama))
	require.Equal(t, 4, count(2, .9, 0, OrderHF))
	require.Equal(t, 5, count(2, 1, .1, OrderHF))
	require.Equal(t, 3, count(1, 1, .1, OrderHF))
	require.Equal(t, 3, count(2, .9, 0, OrderLlama))
	require.Equal(t, 3, count(2, 1, .1, OrderLlama))
}

func TestSetFiltersExample(t *testing.T) {
	z := logs(.40, .25, .12, .08, .05, .04, .03, .02, .01)
	letters := func(change func(*Params)) (string, float64) {
		p := with(change)
		s := ""
		for _, id := range surviving(t, chain(t, p, len(z)), z) {
			s += string(rune('A' + id))
		}
		return s, probabilities(t, p, z, nil, nil)[0]
	}
	s, a := letters(func(p *Params) { p.TopK = 3 })
	require.Equal(t, "ABC", s)
	require.InDelta(t, .519, a, threeDecimals)
	s, a = letters(func(p *Params) { p.TopP = .9 })
	require.Equal(t, "ABCDE", s)
	require.InDelta(t, .444, a, threeDecimals)
	s, _ = letters(func(p *Params) { p.MinP = .1 })
	require.Equal(t, "ABCDEF", s)
	s, _ = letters(func(p *Params) { p.TopK, p.TopP = 5, .9 })
	require.Equal(t, "ABCDE", s)
	// p_max .9, min_p .1: threshold .09; p_max .4, min_p .05: .02.
	z = logs(.9, .09, .0099, .0001)
	s, _ = letters(func(p *Params) { p.MinP = .1 })
	require.Equal(t, "AB", s)
	z = logs(.40, .25, .12, .08, .05, .04, .03, .02, .01)
	s, _ = letters(func(p *Params) { p.MinP = .05 })
	require.Equal(t, "ABCDEFGH", s)
}

func TestRepetitionExample(t *testing.T) {
	p := with(func(p *Params) { p.RepetitionPenalty = 1.2 })
	z := []float32{3, -2, 3, -2}
	require.InDeltaSlice(t, []float32{2.5, -2.4, 3, -2}, logitsAfter(t, p, z, []int32{0, 0, 1}, nil), threeDecimals)
	require.InDeltaSlice(t, []float32{2.5, -2, 3, -2.4}, logitsAfter(t, p, z, []int32{0}, []int32{3, 3}), threeDecimals)
	p.PenaltyLastN = 2
	require.InDeltaSlice(t, []float32{3, -2.4, 2.5, -2}, logitsAfter(t, p, z, []int32{0, 0, 1}, []int32{2}), threeDecimals)
	p.PenaltyLastN = 0
	require.Equal(t, z, logitsAfter(t, p, z, []int32{0, 0, 1}, []int32{2}))
}

func TestFrequencyAndPresenceExample(t *testing.T) {
	p := with(func(p *Params) { p.FrequencyPenalty, p.PresencePenalty = .5, .8 })
	z := []float32{5, 5, 5}
	got := logitsAfter(t, p, z, []int32{2, 2, 2}, []int32{0, 1, 0, 0, 0})
	require.InDeltaSlice(t, []float32{2.2, 3.7, 5}, got, threeDecimals, "the prompt does not count")
}

func TestDRYExample(t *testing.T) {
	p := with(func(p *Params) { p.DRYMultiplier, p.DRYBase, p.DRYAllowedLength = .8, 1.75, 2 })
	z := make([]float32, 20)
	// 4 tokens repeated, 2 over the allowed length.
	got := logitsAfter(t, p, z, []int32{1, 2, 3, 4, 9, 5, 1, 2, 3, 4}, nil)
	require.InDelta(t, -2.45, got[9], threeDecimals)
	// 7 tokens repeated, 5 over.
	got = logitsAfter(t, p, z, []int32{1, 2, 3, 4, 5, 6, 7, 9, 0, 1, 2, 3, 4, 5, 6}, []int32{7})
	require.InDelta(t, -13.13, got[9], .005)
	// A breaker ends the match.
	p.DRYSequenceBreakers = []Breaker{{Token: 2}}
	got = logitsAfter(t, p, z, []int32{1, 2, 3, 4, 9, 5, 1, 2, 3, 4}, nil)
	require.Zero(t, got[9])
	// The longest match of a token decides.
	p.DRYSequenceBreakers = nil
	got = logitsAfter(t, p, z, []int32{2, 3, 4, 9, 1, 2, 3, 4, 9, 5, 1, 2, 3, 4}, nil)
	require.InDelta(t, -2.45, got[9], threeDecimals)
}

func TestNoRepeatNgramBansWhatWouldRepeat(t *testing.T) {
	z := make([]float32, 6)
	p := with(func(p *Params) { p.NoRepeatNgramSize = 3 })
	got := logitsAfter(t, p, z, []int32{1, 2, 3, 0, 1}, []int32{2})
	require.Equal(t, []float32{0, 0, 0, banned, 0, 0}, got)
	p.NoRepeatNgramSize = 1
	got = logitsAfter(t, p, z, []int32{1, 4}, []int32{2})
	require.Equal(t, []float32{0, banned, banned, 0, banned, 0}, got)
}

func TestGreedyTakesTheFirstLargestAfterPenalties(t *testing.T) {
	z := []float32{1, 3, 3, 2}
	for _, change := range []func(*Params){
		func(p *Params) { p.Temperature = 0 },
		func(p *Params) { p.Temperature = -1 },
		func(p *Params) { p.Temperature = 1e-7 },
		func(p *Params) { p.TopK = 1; p.Mirostat = 2; p.XTCProbability = 1; p.PLess = true },
	} {
		require.EqualValues(t, 1, sample(t, chain(t, with(change), 4), z))
		p := with(change, func(p *Params) { p.FrequencyPenalty = .5 })
		c := chain(t, p, 4)
		c.Accept(1)
		require.EqualValues(t, 2, sample(t, c, z))
	}
}
