package sampler

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawParams draws a random parameter set; each stage is off half of the time.
func drawParams(t *rapid.T, size int) Params {
	on := func(name string) bool { return rapid.Bool().Draw(t, name+"?") }
	float := func(name string, lo, hi float64) float64 { return rapid.Float64Range(lo, hi).Draw(t, name) }
	number := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
	id := func(name string) int32 { return int32(rapid.IntRange(0, size-1).Draw(t, name)) }
	p := Default()
	seed := rapid.Uint64().Draw(t, "seed")
	p.Seed = &seed
	p.Temperature = rapid.SampledFrom([]float64{0, .3, .8, 1, 1, 1.7, 4}).Draw(t, "temperature")
	set := func(name string, f func()) {
		if on(name) {
			f()
		}
	}
	set("top_k", func() { p.TopK = number("top_k", 1, size+1) })
	set("top_p", func() { p.TopP = float("top_p", .01, 1) })
	set("min_p", func() { p.MinP = float("min_p", 0, 1) })
	set("order", func() { p.Order = OrderHF })
	if on("rare filters") {
		set("typical", func() { p.TypicalP = float("typical_p", .05, 1) })
		set("sigma", func() { p.TopNSigma = float("top_n_sigma", .1, 4) })
		set("p_less", func() { p.PLess = true })
		set("epsilon", func() { p.EpsilonCutoff = float("epsilon", 0, .1) })
		set("eta", func() { p.EtaCutoff = float("eta", 0, .1) })
		set("tfs", func() { p.TFSZ = float("tfs", .1, 1) })
		set("keep", func() { p.MinKeep = number("min_keep", 0, 8) })
	}
	set("xtc", func() { p.XTCProbability, p.XTCThreshold = float("xtc_p", 0, 1), float("xtc_t", 0, .5) })
	if on("penalties") {
		set("repetition", func() { p.RepetitionPenalty = float("repetition", .5, 2) })
		set("frequency", func() { p.FrequencyPenalty = float("frequency", -2, 2) })
		set("presence", func() { p.PresencePenalty = float("presence", -2, 2) })
		p.PenaltyLastN = number("last_n", -1, 12)
		p.NoRepeatNgramSize = number("ngram", 0, 4)
		set("dry", func() {
			p.DRYMultiplier, p.DRYBase = float("dry", .1, 2), float("base", 1, 2)
			p.DRYAllowedLength, p.DRYPenaltyLastN = number("allowed", 0, 3), number("dry_last_n", -1, 12)
		})
	}
	set("dynatemp", func() { p.DynatempRange, p.DynatempExponent = float("range", 0, 2), float("exponent", 0, 3) })
	set("bias", func() {
		p.LogitBias = []TokenBias{{Token: id("bias"), Bias: float("bias value", -100, 100)}}
		p.LanguageBias = []GroupBias{{"x", float("group value", -5, 5), []int32{id("group"), id("group")}}}
	})
	set("min_new", func() { p.MinNewTokens, p.StopTokenIDs = number("min_new", 0, 4), []int32{id("stop")} })
	set("ignore_eos", func() { p.IgnoreEOS = true })
	switch number("feedback", 0, 9) {
	case 0, 1:
		p.Mirostat = number("mirostat", 1, 2)
		p.MirostatTau, p.MirostatEta = float("tau", .5, 8), float("eta", 0, .5)
	case 2:
		p.AdaptiveTarget, p.AdaptiveDecay = float("target", 0, 1), float("decay", 0, .99)
	}
	return p
}

func drawPrompt(t *rapid.T, size int) []int32 {
	return rapid.SliceOfN(rapid.Int32Range(0, int32(min(size, 6)-1)), 0, 30).Draw(t, "prompt")
}

// Every stage, alone and together: the same survivors and the same token as the
// naive sampler, over several positions with growing history.
func TestTheChainEqualsTheNaiveSampler(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{7, 40, 100, 513, 2500}).Draw(t, "vocabulary")
		p := drawParams(t, size)
		prompt := drawPrompt(t, size)
		compareWithNaive(t, p, size, prompt, 5, rapid.Uint64().Draw(t, "logits"), rapid.SampledFrom([]float64{.3, 1, 2, 6}).Draw(t, "spread"))
	})
}

type tester interface {
	require.TestingT
	Helper()
}

func compareWithNaive(t tester, p Params, size int, prompt []int32, positions int, seed uint64, spread float64) {
	t.Helper()
	eos := []int32{1, 3}
	env := Env{Vocab: size, EOS: eos, Special: func(id int32) bool { return id == 2 }}
	p.DRYSequenceBreakers = []Breaker{{Token: 4}}
	c, err := NewChain(p, env, prompt, 1)
	require.NoError(t, err)
	env.Reference = Reference{PlainNoise: true, Sort: true}
	plain, err := NewChain(p, env, prompt, 1)
	require.NoError(t, err)
	n := newNaive(p, prompt, 1)
	n.eos, n.special, n.breakers = eos, map[int32]bool{2: true}, [][]int32{{4}}
	rng := rand.New(rand.NewPCG(seed, 1))
	for range positions {
		raw := gaussian(rng, size, spread)
		if rng.IntN(3) == 0 { // ties
			for i := range raw {
				raw[i] = float32(math.Round(float64(raw[i])))
			}
		}
		keep := slices.Clone(raw)
		z := n.logits(raw)
		if !slices.ContainsFunc(z, func(v float32) bool { return !math.IsInf(float64(v), -1) }) {
			_, err := c.Sample(raw)
			require.ErrorContains(t, err, "no token is left")
			return
		}
		ids, want := n.choose(z, len(prompt)+len(n.output))
		if !p.Greedy() {
			require.Equal(t, ids, surviving(t, c, raw))
		}
		require.Equal(t, want, sample(t, c, raw))
		require.Equal(t, want, sample(t, plain, raw), "reference path")
		require.True(t, slices.Equal(keep, raw), "logits are left as they were")
		if c.ArgmaxOnly() {
			require.Equal(t, slices.Index(raw, slices.Max(raw)), int(want))
		}
		n.accept(want)
		c.Accept(want)
		plain.Accept(want)
		if p.Mirostat > 0 {
			require.InDelta(t, n.mu, c.feedback.mu, 1e-9)
		} else if p.AdaptiveTarget >= 0 {
			require.InDelta(t, n.sum/n.num, c.feedback.sum/c.feedback.weight, 1e-9)
		}
	}
}

func TestTheChainEqualsTheNaiveSamplerOnLargeVocabularies(t *testing.T) {
	if testing.Short() {
		t.Skip("long: the race detector runs the short ones")
	}
	for name, change := range map[string]func(*Params){
		"plain":     func(*Params) {},
		"hot":       func(p *Params) { p.Temperature = 3 },
		"server":    func(p *Params) { p.Temperature, p.TopK, p.TopP, p.MinP = .8, 40, .9, .1 },
		"top-p":     func(p *Params) { p.TopP = .95 },
		"top-p hf":  func(p *Params) { p.TopP, p.Order, p.Temperature, p.TopK = .9, OrderHF, 1.5, 5000 },
		"top-k":     func(p *Params) { p.TopK = 20000 },
		"min-p":     func(p *Params) { p.MinP = 1e-4 },
		"typical":   func(p *Params) { p.TypicalP = .9 },
		"sigma":     func(p *Params) { p.TopNSigma = 2 },
		"p-less":    func(p *Params) { p.PLess, p.Temperature = true, 1.3 },
		"eta":       func(p *Params) { p.EtaCutoff, p.EpsilonCutoff = 1e-3, 1e-5 },
		"tail-free": func(p *Params) { p.TFSZ = .97 },
		"xtc":       func(p *Params) { p.XTCProbability, p.XTCThreshold = 1, .0001 },
		"mirostat1": func(p *Params) { p.Mirostat = 1 },
		"mirostat2": func(p *Params) { p.Mirostat = 2 },
		"adaptive":  func(p *Params) { p.AdaptiveTarget, p.MinP = .3, .01 },
		"dynatemp":  func(p *Params) { p.DynatempRange = .7 },
		"penalties": func(p *Params) {
			p.RepetitionPenalty, p.FrequencyPenalty, p.DRYMultiplier, p.NoRepeatNgramSize = 1.2, .4, .8, 3
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i, size := range []int{32000, 150001} {
				compareWithNaive(t, with(change), size, []int32{5, 6, 7, 5, 6, 7, 5}, 2, uint64(i), 2.2)
			}
		})
	}
}
