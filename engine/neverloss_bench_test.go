package engine_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"surmise/compute/cpu"
	"surmise/demo"
	"surmise/drafter"
	"surmise/engine"
	"surmise/engine/costs"
	"surmise/engine/kinds"
	"surmise/tokenizer"
)

// familyKinds are the kinds of drafters of the demo family with their
// checkpoints.
var familyKinds = []struct{ kind, model string }{
	{drafter.Lookup, ""},
	{drafter.FullModel, demo.Draft},
	{drafter.MTP, demo.MTP},
	{drafter.DFlash, demo.DFlash},
	{"cascade", demo.MTP},
}

// openFamily opens the demo target with a drafter; kind none is plain.
func openFamily(t testing.TB, kind, draft string, change func(*engine.Setup)) *engine.Instance {
	t.Helper()
	all, err := kinds.All()
	require.NoError(t, err)
	s := engine.Setup{
		Model: demo.Target, FS: demo.FS(), ISA: cpu.ISAFromEnv(), Kinds: all,
		Draft: engine.DraftSetup{Kind: kind, Model: draft, FS: demo.FS()},
	}
	if change != nil {
		change(&s)
	}
	in, err := engine.Open(s)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, in.Close()) })
	return in
}

// benchClock and benchThreads are how benchmarks measure, see processorTime.
var (
	benchClock   = time.Now
	benchThreads = 0
)

// pacer decodes a request in segments.
type pacer struct {
	e     *engine.Engine
	drawn int
	ended bool
}

func newPacer(t testing.TB, e *engine.Engine, r engine.Request) *pacer {
	p := &pacer{e: e}
	r.Emit = func(ev engine.Event) {
		if ev.Token != nil {
			p.drawn++
		}
		if ev.Finish != nil {
			require.NoError(t, ev.Finish.Err)
			p.ended = true
		}
	}
	require.NoError(t, e.Add(context.Background(), r))
	return p
}

// to decodes until so many tokens are drawn, and tells how long that took.
func (p *pacer) to(t testing.TB, tokens int) time.Duration {
	start := benchClock()
	for p.drawn < tokens && !p.ended {
		_, err := p.e.Tick(context.Background())
		require.NoError(t, err)
	}
	return benchClock().Sub(start)
}

// BenchmarkNeverALoss measures automatic widths against plain decoding on text
// that nothing predicts: random prompts, continued at a temperature that makes
// every continuation a surprise. Both decode the same tokens in turns of 32, so
// that what disturbs the machine disturbs both. "x-plain" is the speed in plain
// decoding's over all turns, "x-plain-median" the median over the turns; "none"
// is plain decoding against itself, which shows the noise. Run it with
//
//	go test ./engine -run '^$' -bench NeverALoss -benchtime 1x
func BenchmarkNeverALoss(b *testing.B) {
	const segment, segments, prompts = 32, 16, 13
	for _, k := range append([]struct{ kind, model string }{{drafter.None, ""}}, familyKinds...) {
		for _, random := range []bool{true, false} {
			name := k.kind + "/text"
			if random {
				name = k.kind + "/random"
			}
			b.Run(name, func(b *testing.B) {
				in := openFamily(b, k.kind, k.model, func(s *engine.Setup) {
					s.Engine.Clock, s.Threads = benchClock, benchThreads
					s.Costs = func(in *engine.Instance) map[int]time.Duration {
						return costs.ForStart(context.Background(), costs.Store{}, in.Model, "", benchClock)
					}
				})
				plain := engine.New(in.Model, in.Tokenizer, engine.Options{Clock: benchClock, Width: drafter.NewOwn()})
				var ratios []float64
				var sum [2]time.Duration
				for range b.N {
					for i := range uint64(prompts) {
						r := engine.Request{Prompt: surprise(in, i, random), Params: params(2, i, segment*segments+1), Fresh: true}
						r.Params.IgnoreEOS = true
						ways := [2]*pacer{newPacer(b, plain, r)}
						r.Drafter = in.Drafter
						ways[1] = newPacer(b, in.Engine, r)
						ways[0].to(b, 1)
						ways[1].to(b, 1)
						for s := range segments {
							var took [2]time.Duration
							for j := range 2 {
								way := (j + s) % 2
								took[way] = ways[way].to(b, 1+segment*(s+1))
								sum[way] += took[way]
							}
							ratios = append(ratios, took[0].Seconds()/took[1].Seconds())
						}
					}
				}
				if t := in.Counters.Tally(k.kind); testing.Verbose() {
					b.Logf("rounds %d, drafts %d, mean acceptance length %.2f, widths %v, draft %v, verify %v, sample %v, declines %v", t.Rounds, t.Drafts,
						t.MeanAcceptanceLength(), t.Widths[:12], t.Draft, t.Verify, t.Sample, in.Counters.Declines(k.kind))
				}
				slices.Sort(ratios)
				b.ReportMetric(sum[0].Seconds()/sum[1].Seconds(), "x-plain")
				b.ReportMetric(ratios[len(ratios)/2], "x-plain-median")
				b.ReportMetric(float64(sum[0].Nanoseconds())/float64(segment*len(ratios)), "ns/token-plain")
			})
		}
	}
}

// surprise is a prompt that nothing can be copied from: random tokens, or text
// of the model's own at a high temperature.
func surprise(in *engine.Instance, seed uint64, random bool) []int32 {
	rng := rand.New(rand.NewPCG(seed, 77))
	if !random {
		text := "package surprise\n\n// Answers are of no use before the question is known.\nfunc answer() int { return 42 }\n"
		ids, err := in.Tokenizer.Encode(text, tokenizer.EncodeOptions{})
		if err == nil {
			return ids
		}
	}
	prompt := make([]int32, 96)
	for i := range prompt {
		prompt[i] = rng.Int32N(int32(in.Tokenizer.VocabSize()))
	}
	return prompt
}
