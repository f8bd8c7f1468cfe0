package engine_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"surmise/drafter"
	"surmise/drafter/draftertest"
	"surmise/engine"
	"surmise/promptlookup"
	"surmise/sampler"
	"surmise/verify/verifytest"
)

// drawParams are random parameters, with stops and penalties often.
func drawParams(t *rapid.T) sampler.Params {
	p := params(rapid.SampledFrom([]float64{0, 0.8, 1.5}).Draw(t, "temperature"), rapid.Uint64().Draw(t, "seed"),
		rapid.IntRange(0, 60).Draw(t, "max"))
	p.RepetitionPenalty = rapid.SampledFrom([]float64{1, 1, 1.2}).Draw(t, "repetition")
	p.FrequencyPenalty = rapid.SampledFrom([]float64{0, 0, 0.3}).Draw(t, "frequency")
	p.TopK = rapid.SampledFrom([]int{0, 0, 5}).Draw(t, "top_k")
	p.MinNewTokens = rapid.IntRange(0, min(10, p.MaxNewTokens)).Draw(t, "min")
	p.IgnoreEOS = rapid.Bool().Draw(t, "ignore_eos")
	p.Stop = rapid.SampledFrom([][]string{nil, nil, {"éa"}, {"cdab", " a"}, {"🙂"}, {"hij", "h"}}).Draw(t, "stop")
	p.StopTokenIDs = rapid.SampledFrom([][]int32{nil, nil, {7}}).Draw(t, "stop ids")
	p.StopRegex = rapid.SampledFrom([][]string{nil, nil, {`[c-e]+\s`}, {`k$`}}).Draw(t, "stop regex")
	if rapid.Bool().Draw(t, "logprobs") {
		p.Logprobs, p.TopLogprobs = true, 2
	}
	if rapid.Bool().Draw(t, "rare stages") {
		drawRareStages(t, &p)
	}
	return p
}

// drawRareStages switches on any of the stages that few people use.
func drawRareStages(t *rapid.T, p *sampler.Params) {
	one := func(name string, values ...float64) float64 { return rapid.SampledFrom(values).Draw(t, name) }
	p.PresencePenalty, p.PenaltyLastN = one("presence", 0, -0.5, 0.7), int(one("last n", -1, 5, 64))
	p.NoRepeatNgramSize = int(one("ngram", 0, 0, 2, 4))
	p.DRYMultiplier, p.DRYAllowedLength = one("dry", 0, 0.8), int(one("allowed", 0, 2))
	p.DRYSequenceBreakers = []sampler.Breaker{{Text: " "}, {Token: 3}}
	p.TopP, p.MinP, p.TypicalP = one("top_p", 1, 0.9), one("min_p", 0, 0.05), one("typical_p", 1, 0.8)
	p.TopNSigma, p.PLess = one("sigma", -1, 2), one("p_less", 0, 0, 1) == 1
	p.EpsilonCutoff, p.EtaCutoff, p.TFSZ = one("epsilon", 0, 0.01), one("eta", 0, 0.02), one("tfs", 1, 0.95)
	p.XTCProbability, p.DynatempRange = one("xtc", 0, 0.5), one("dynatemp", 0, 0.5)
	p.Mirostat, p.AdaptiveTarget = int(one("mirostat", 0, 0, 1, 2)), one("adaptive", -1, -1, 0.3)
	p.MinKeep, p.Order = int(one("min_keep", 0, 3)), rapid.SampledFrom([]sampler.Order{sampler.OrderLlama, sampler.OrderHF}).Draw(t, "order")
	p.LogitBias = []sampler.TokenBias{{Token: 5, Bias: one("bias", 0, 2, -100)}}
}

func TestBatchesWithAnyDrafterWidthAndChunkEmitWhatPlainDecodingEmits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := verifytest.Options{EOS: []int{endToken}, Windows: rapid.SampledFrom([][]int{{0}, {0, 16}}).Draw(t, "windows"), Context: 256}
		width, err := drafter.ParseWidth(rapid.SampledFrom([]string{"1", "3", "8", "16", "auto"}).Draw(t, "width"))
		require.NoError(t, err)
		target := hashTarget(t, o)
		lookup, err := promptlookup.New(promptlookup.Options{MinMatch: 1})
		require.NoError(t, err)
		dice := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "dice"), 0))
		random := &draftertest.Random{Rand: dice}
		require.NoError(t, random.Bind(target))
		var requests []engine.Request
		var want []engine.Answer
		for i := range rapid.IntRange(1, 4).Draw(t, "requests") {
			r := engine.Request{
				Prompt: prompt(rapid.Uint64Range(0, 3).Draw(t, "prompt"), rapid.IntRange(1, 200).Draw(t, "length")),
				Params: drawParams(t),
			}
			free := r
			free.Params.Stop, free.Params.StopTokenIDs = nil, nil
			stream := generate(t, hashEngine(t, o, engine.Options{}), free)[0][0]
			oracle := &draftertest.Oracle{
				Streams: [][]int32{append(append(slices.Clone(r.Prompt), stream.IDs()...), endToken)},
				Right:   func(int) int { return dice.IntN(drafter.MaxWidth) >> dice.IntN(6) },
			}
			require.NoError(t, oracle.Bind(target))
			want = append(want, generate(t, hashEngine(t, o, engine.Options{}), r)[0][0])
			r.Drafter = []drafter.Drafter{lookup, oracle, random, nil}[(i+dice.IntN(2))%4]
			requests = append(requests, r)
		}
		e := engine.New(target, words(t, o), engine.Options{Width: width, Chunk: rapid.SampledFrom([]int{1, 7, 64, 256}).Draw(t, "engine chunk")})
		for i, got := range generate(t, e, requests...) {
			same(t, want[i], got[0])
		}
		// Once more, now that prefixes are found in the cache.
		for i, got := range generate(t, e, requests...) {
			same(t, want[i], got[0])
		}
	})
}

// specialCase is a way for a block to end.
type specialCase struct {
	name   string
	change func(p *sampler.Params, plain engine.Answer)
	right  func(int) int
	check  func(t *testing.T, got engine.Answer)
}

func never(int) int { return 0 }

var specialCases = []specialCase{
	{"whole blocks accepted", nil, nil, func(t *testing.T, got engine.Answer) {
		require.Equal(t, got.Finish.Timings.Draft.Proposed, got.Finish.Timings.Draft.Accepted)
	}},
	{"none accepted", nil, never, func(t *testing.T, got engine.Answer) {
		require.Zero(t, got.Finish.Timings.Draft.Accepted)
		require.Positive(t, got.Finish.Timings.Draft.Drafts)
	}},
	{"a stop token inside a block", func(p *sampler.Params, plain engine.Answer) {
		p.StopTokenIDs = []int32{rarest(plain.IDs())}
	}, nil, func(t *testing.T, got engine.Answer) { require.Equal(t, engine.Stop, got.Finish.Reason) }},
	{"a stop string inside a block", func(p *sampler.Params, plain engine.Answer) {
		half := []rune(plain.Text)[len([]rune(plain.Text))/2:]
		p.Stop = []string{string(half[:3])}
	}, nil, func(t *testing.T, got engine.Answer) { require.Equal(t, engine.Stop, got.Finish.Reason) }},
	{"the limit inside a block", func(p *sampler.Params, _ engine.Answer) { p.MaxNewTokens = 29 }, nil, func(t *testing.T, got engine.Answer) {
		require.Equal(t, engine.Length, got.Finish.Reason)
		require.Len(t, got.Tokens, 29)
	}},
	{"the context's end inside a block", func(p *sampler.Params, _ engine.Answer) { p.MaxNewTokens = -1 }, nil, func(t *testing.T, got engine.Answer) {
		require.Equal(t, engine.Length, got.Finish.Reason)
		require.Len(t, got.Tokens, 128-20)
	}},
}

// rarest is the token that comes last for the first time.
func rarest(ids []int32) int32 {
	best := 0
	for i, id := range ids {
		if slices.Index(ids, id) == i {
			best = i
		}
	}
	return ids[best]
}

func TestEveryWayForABlockToEndIsThatOfPlainDecoding(t *testing.T) {
	for _, c := range specialCases {
		t.Run(c.name, func(t *testing.T) {
			for _, temperature := range []float64{0, 0.8} {
				for seed := range uint64(5) {
					for _, width := range []int{1, 3, 8, 16} {
						caseOf(t, c, temperature, seed, width)
					}
				}
			}
		})
	}
}

func caseOf(t *testing.T, c specialCase, temperature float64, seed uint64, width int) {
	o := verifytest.Options{Context: 128}
	r := engine.Request{Prompt: prompt(seed, 20), Params: params(temperature, seed, 60)}
	plain := one(t, hashEngine(t, o, engine.Options{}), r)
	full := r
	full.Params.MaxNewTokens = -1
	stream := append(slices.Clone(r.Prompt), one(t, hashEngine(t, o, engine.Options{}), full).IDs()...)
	if c.change != nil {
		c.change(&r.Params, plain)
	}
	want := one(t, hashEngine(t, o, engine.Options{}), r)

	target := hashTarget(t, o)
	oracle := &draftertest.Oracle{Streams: [][]int32{stream}, Right: c.right}
	require.NoError(t, oracle.Bind(target))
	lookup, err := promptlookup.New(promptlookup.Options{})
	require.NoError(t, err)
	e := engine.New(target, words(t, o), engine.Options{Width: drafter.Fixed(width)})
	r.Drafter = lookup
	same(t, want, one(t, e, r))
	r.Drafter = oracle
	got := one(t, e, r)
	same(t, want, got)
	c.check(t, got)
	require.LessOrEqual(t, got.Finish.Timings.Draft.Proposed, int64(width)*got.Finish.Timings.Draft.Drafts, strconv.Itoa(width))
}
