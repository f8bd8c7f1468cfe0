package sampler

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBadLogitsFailTheRow(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, p := range []Params{with(), with(func(p *Params) { p.Temperature = 0 }), with(func(p *Params) { p.FrequencyPenalty = 1 })} {
		c := chain(t, p, 70)
		c.Accept(3)
		z := make([]float32, 70)
		z[69] = nan
		_, err := c.Sample(z)
		require.ErrorContains(t, err, "token 69 is NaN")
		z[69], z[2] = 0, inf
		_, err = c.Sample(z)
		require.ErrorContains(t, err, "token 2 is +Inf")
		for i := range z {
			z[i] = -inf
		}
		_, err = c.Sample(z)
		require.ErrorContains(t, err, "no token is left")
		_, err = c.Sample(z[:5])
		require.ErrorContains(t, err, "5 logits: want 70")
		z[68] = -3
		require.EqualValues(t, 68, sample(t, c, z), "the chain goes on")
	}
}

func TestHugeLogitsAndTinyTemperaturesDoNotOverflow(t *testing.T) {
	z := []float32{-3e38, 3e38, 2.9e38, 0}
	for _, order := range []Order{OrderLlama, OrderHF} {
		p := with(func(p *Params) { p.Temperature, p.Order = 1e-6, order })
		require.EqualValues(t, 1, sample(t, chain(t, p, 4), z))
	}
	p := with(func(p *Params) { p.DynatempRange, p.Temperature = 1, .5 })
	require.EqualValues(t, 1, sample(t, chain(t, p, 4), z))
	p = with(func(p *Params) { p.AdaptiveTarget, p.Temperature = .5, 1e-6 })
	require.EqualValues(t, 1, sample(t, chain(t, p, 4), z))
}

func TestArgmaxOnlyIsFalseWhereALogitMayChange(t *testing.T) {
	greedy := func(p *Params) { p.Temperature = 0 }
	require.True(t, chain(t, with(greedy), 5).ArgmaxOnly())
	require.False(t, chain(t, with(), 5).ArgmaxOnly())
	for _, change := range []func(*Params){
		func(p *Params) { p.Logprobs = true },
		func(p *Params) { p.LogitBias = []TokenBias{{Token: 1, Bias: 2}} },
		func(p *Params) { p.SuppressTokens = []int32{1} },
		func(p *Params) { p.IgnoreEOS = true },
	} {
		require.False(t, chain(t, with(greedy, change), 5).ArgmaxOnly())
	}
	c := chain(t, with(greedy, func(p *Params) { p.FrequencyPenalty = 1 }), 5)
	require.True(t, c.ArgmaxOnly(), "nothing to penalize yet")
	c.Accept(1)
	require.False(t, c.ArgmaxOnly())
	c = chain(t, with(greedy, func(p *Params) { p.MinNewTokens = 1 }), 5)
	require.False(t, c.ArgmaxOnly())
	c.Accept(1)
	require.True(t, c.ArgmaxOnly())
}

func TestLogprobsAreThoseOfTheModelWhateverIsDone(t *testing.T) {
	z := logs(.5, .25, .15, .1)
	change := func(p *Params) {
		p.Logprobs, p.TopLogprobs, p.FrequencyPenalty, p.TopK, p.Temperature = true, 3, 2, 2, .7
	}
	c := chain(t, with(change), 4)
	c.Accept(0)
	d, err := c.Sample(z)
	require.NoError(t, err)
	require.InDelta(t, float64(z[d.Token]), d.Logprob, 1e-6)
	require.Len(t, d.Top, 3)
	for i, l := range d.Top {
		require.EqualValues(t, i, l.Token)
		require.InDelta(t, float64(z[i]), l.Logprob, 1e-6)
	}
	p := with(change, func(p *Params) { p.LogprobsMode = LogprobsProcessed })
	c = chain(t, p, 4)
	d, err = c.Sample(z)
	require.NoError(t, err)
	want := kept(z, .7, 0, 1)
	require.Len(t, d.Top, 2)
	require.InDelta(t, math.Log(want[d.Token]), d.Logprob, 1e-6)
	require.InDelta(t, math.Log(want[1]), d.Top[1].Logprob, 1e-6)
	p.Temperature = 0
	d, err = chain(t, p, 4).Sample(z)
	require.NoError(t, err)
	require.InDelta(t, math.Log(.5), d.Logprob, 1e-6)
}

func TestMinNewTokensAndIgnoreEOSMaskEveryEndToken(t *testing.T) {
	z := []float32{9, 8, 7, 6}
	p := with(func(p *Params) { p.Temperature, p.MinNewTokens, p.StopTokenIDs = 0, 2, []int32{2} })
	c, err := NewChain(p, Env{Vocab: 4, EOS: []int32{0, 1, 77}}, nil, 0)
	require.NoError(t, err)
	for range 2 {
		require.EqualValues(t, 3, sample(t, c, z))
		c.Accept(3)
	}
	require.EqualValues(t, 0, sample(t, c, z))
	p = with(func(p *Params) { p.Temperature, p.IgnoreEOS = 0, true })
	c, err = NewChain(p, Env{Vocab: 4, EOS: []int32{0, 1}}, nil, 0)
	require.NoError(t, err)
	require.EqualValues(t, 2, sample(t, c, z))
}

func TestXTCNeverRemovesSpecialOrEndTokens(t *testing.T) {
	z := logs(.3, .3, .2, .2)
	p := with(func(p *Params) { p.XTCProbability, p.XTCThreshold = 1, .1 })
	c, err := NewChain(p, Env{Vocab: 4, EOS: []int32{0}, Special: func(id int32) bool { return id == 2 }}, nil, 0)
	require.NoError(t, err)
	require.Equal(t, []int32{0, 2, 3}, surviving(t, c, z))
	p.MinKeep = 4
	require.Equal(t, []int32{0, 1, 2, 3}, surviving(t, chain(t, p, 4), z))
}

// evenOnly allows even tokens, and after an accepted 2 only the token 0.
type evenOnly struct{ after2 bool }

func (e *evenOnly) Allowed(mask []uint64) error {
	if e.after2 {
		mask[0] = 1
		return nil
	}
	for i := range mask {
		mask[i] = 0x5555555555555555
	}
	return nil
}
func (e *evenOnly) Accept(t int32)   { e.after2 = t == 2 }
func (e *evenOnly) Fork() Constraint { f := *e; return &f }

type failing struct{ evenOnly }

func (*failing) Allowed([]uint64) error { return errors.New("no state") }
func (f *failing) Fork() Constraint     { return f }

type adder struct{}

func (adder) Process(z []float32, output []int32) error {
	z[1] += 100 * float32(len(output))
	return nil
}

// flattener is a processor that overwrites every logit, banned ones too.
type flattener struct{}

func (flattener) Process(z []float32, _ []int32) error {
	for i := range z {
		z[i] = float32(i % 2)
	}
	return nil
}

func TestConstraintAndProcessor(t *testing.T) {
	z := []float32{0, 5, 4, 3}
	greedy := with(func(p *Params) { p.Temperature = 0 })
	c, err := NewChain(greedy, Env{Vocab: 4, Constraint: &evenOnly{}}, nil, 0)
	require.NoError(t, err)
	require.EqualValues(t, 2, sample(t, c, z))
	f := c.Fork()
	f.Accept(2)
	require.EqualValues(t, 0, sample(t, f, z))
	require.EqualValues(t, 2, sample(t, c, z), "the fork has a state of its own")
	c, err = NewChain(greedy, Env{Vocab: 4, Constraint: &failing{}}, nil, 0)
	require.NoError(t, err)
	_, err = c.Sample(z)
	require.ErrorContains(t, err, "no state")
	c, err = NewChain(greedy, Env{Vocab: 4, Constraint: &evenOnly{}, Processor: flattener{}}, nil, 0)
	require.NoError(t, err)
	require.EqualValues(t, 0, sample(t, c, z), "a processor cannot allow what the constraint forbids")

	c, err = NewChain(greedy, Env{Vocab: 4, Processor: adder{}}, nil, 0)
	require.NoError(t, err)
	z = []float32{9, 5, 4, 3}
	require.EqualValues(t, 0, sample(t, c, z))
	c.Accept(0)
	require.EqualValues(t, 1, sample(t, c, z))
}

func TestBeamHelpers(t *testing.T) {
	require.Equal(t, -4.0, BeamScore(-4, 2, 0))
	require.InDelta(t, -2, BeamScore(-4, 2, 1), 1e-12)
	require.InDelta(t, -4/math.Pow(7, .65), BeamScore(-4, 7, .65), 1e-9)

	z := logs(.5, .3, .15, .05)
	greedy := with(func(p *Params) { p.Temperature = 0 })
	c := chain(t, greedy, 4)
	top, err := c.Top(z, greedy.BeamWidth(), nil)
	require.NoError(t, err)
	require.Len(t, top, 2)
	require.InDelta(t, math.Log(.5), top[0].Logprob, 1e-6)
	next := greedy.ExtendBeams([]float64{0}, [][]TokenLogprob{top})
	require.Equal(t, sample(t, c, z), next[0][0].Token, "one beam is greedy decoding")

	p := with(func(p *Params) { p.Beams, p.BeamGroups, p.DiversityPenalty = 2, 2, 1 })
	cand := []TokenLogprob{{0, math.Log(.5)}, {1, math.Log(.3)}}
	next = p.ExtendBeams([]float64{0, 0}, [][]TokenLogprob{cand, cand})
	require.EqualValues(t, 0, next[0][0].Token)
	require.EqualValues(t, 1, next[1][0].Token, "the second group avoids what the first took")
	require.InDelta(t, math.Log(.3), next[1][0].Sum, 1e-12, "the penalty is not part of the sum")
}

func TestBestOf(t *testing.T) {
	answers := []Answer{
		{"So the answer is 41.", []float64{-1}},
		{`thus \boxed{42}`, []float64{-3}},
		{"x = 42", []float64{-2, -2}},
		{"I don't know", []float64{-.5}},
		{"", nil},
	}
	for choice, want := range map[Choice][]int{ChooseRank: {3, 0}, ChooseVote: {2, 1}, ChooseAll: {0, 1}} {
		got, err := choice.Best(answers, 2)
		require.NoError(t, err)
		require.Equal(t, want, got, choice)
	}
	_, err := Choice("x").Best(nil, 1)
	require.ErrorContains(t, err, "rank, vote or all")
	require.Equal(t, "1234.5", FinalAnswer("total: $1,234.5"))
	require.Equal(t, "yes", FinalAnswer("First.\n**Yes.**"))
}

func TestSamplingDoesNotAllocate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	z := gaussian(rng, 5000, 2)
	prompt := make([]int32, 500)
	for i := range prompt {
		prompt[i] = int32(rng.IntN(100))
	}
	for name, change := range map[string]func(*Params){
		"plain": func(*Params) {}, "greedy": func(p *Params) { p.Temperature = 0 },
		"server":    func(p *Params) { p.TopK, p.TopP, p.MinP, p.Temperature = 40, .9, .1, .8 },
		"top-p":     func(p *Params) { p.TopP = .95 },
		"logprobs":  func(p *Params) { p.Logprobs, p.TopLogprobs = true, 5 },
		"mirostat":  func(p *Params) { p.Mirostat = 1 },
		"penalties": func(p *Params) { p.RepetitionPenalty, p.FrequencyPenalty, p.DRYMultiplier = 1.1, .1, .8 },
		"all": func(p *Params) {
			p.TypicalP, p.TopNSigma, p.PLess, p.EtaCutoff, p.TFSZ, p.XTCProbability, p.Order = .99, 5, true, 1e-6, .999, 1, OrderHF
		},
	} {
		c := chain(t, with(change), len(z), prompt...)
		step := func() {
			d, err := c.Sample(z)
			if err != nil {
				panic(err)
			}
			f := c.Fork()
			f.Accept(d.Token)
			f.Release()
		}
		step()
		require.Zero(t, testing.AllocsPerRun(50, step), name)
	}
	require.Equal(t, gaussian(rand.New(rand.NewPCG(1, 1)), 5000, 2), z)
}

func TestElementsOfOrderAreInverse(t *testing.T) {
	for _, z := range []float32{-math.MaxFloat32, -1, -1e-45, 0, 1e-45, 1, math.MaxFloat32} {
		require.Equal(t, z, logitOf(keyOf(z, 7)))
		require.EqualValues(t, 7, idOf(keyOf(z, 7)))
	}
	require.Equal(t, keyOf(0, 1), keyOf(float32(math.Copysign(0, -1)), 1))
	require.Greater(t, keyOf(1, 1), keyOf(1, 2), "the lower id first")
	rng := rand.New(rand.NewPCG(2, 2))
	for range 300 {
		a := make([]uint64, 1+rng.IntN(200))
		for i := range a {
			a[i] = rng.Uint64N(uint64(1 + rng.IntN(300)))
		}
		sorted := slices.Clone(a)
		slices.Sort(sorted)
		slices.Reverse(sorted)
		n := rng.IntN(len(a))
		require.Equal(t, sorted[n], selectLargest(a, n))
		for i, v := range a {
			require.True(t, i == n || (i < n) == (v > sorted[n]) || v == sorted[n])
		}
	}
}

func TestReferencePathsAreChosenByTheEnvironment(t *testing.T) {
	env := map[string]string{"SURMISE_SAMPLING_GUMBEL": "0", "SURMISE_SAMPLING_REJECTION": "1"}
	require.Equal(t, Reference{PlainNoise: true}, ReferenceFromEnv(func(k string) string { return env[k] }))
}
