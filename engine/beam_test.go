package engine_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/drafter"
	"surmise/drafter/draftertest"
	"surmise/engine"
	"surmise/sampler"
	"surmise/verify/verifytest"
)

func beam(t *testing.T, e *engine.Engine, r engine.Request) []engine.Answer {
	t.Helper()
	c := engine.NewCollector(r.Params.N)
	r.Emit = c.Add
	require.NoError(t, e.Beam(context.Background(), r))
	require.Zero(t, e.Target().Cache().Stats().Sequences, "every sequence is closed")
	return c.Answers()
}

func TestOneBeamIsGreedyDecoding(t *testing.T) {
	for seed := range uint64(10) {
		e := hashEngine(t, verifytest.Options{EOS: []int{endToken}}, engine.Options{Chunk: 8})
		r := engine.Request{Prompt: prompt(seed, 20), Params: params(0, 1, 30)}
		want := one(t, e, r)
		got := beam(t, e, r)[0]
		require.Equal(t, want.Text, got.Text)
		require.Equal(t, want.IDs(), got.IDs())
		require.Equal(t, want.Finish.Reason, got.Finish.Reason)
	}
}

// exhaustive finds the best of all outputs of a length by the target's own
// probabilities.
func exhaustive(t *testing.T, target *verifytest.Target, prompt []int32, length int) (best []int32, sum float64) {
	e := engine.New(target, nil, engine.Options{})
	sum = math.Inf(-1)
	var walk func(prefix []int32, at float64)
	walk = func(prefix []int32, at float64) {
		if len(prefix) == length {
			if at > sum {
				best, sum = slices.Clone(prefix), at
			}
			return
		}
		p := params(0, 1, 1)
		p.Logprobs, p.TopLogprobs = true, 6
		a := one(t, e, engine.Request{Prompt: append(slices.Clone(prompt), prefix...), Params: p})
		for _, c := range a.Tokens[0].Top {
			walk(append(slices.Clone(prefix), c.Token), at+c.Logprob)
		}
	}
	walk(nil, 0)
	return best, sum
}

func TestEnoughBeamsFindTheBestOfAllOutputs(t *testing.T) {
	o := verifytest.Options{Vocab: 6}
	for seed := range uint64(5) {
		start := []int32{int32(seed), 3, 5}
		want, _ := exhaustive(t, hashTarget(t, o), start, 3)
		p := params(0, 1, 3)
		p.Beams, p.LengthPenalty = 36, 0
		got := beam(t, engine.New(hashTarget(t, o), nil, engine.Options{}), engine.Request{Prompt: start, Params: p})[0]
		require.Equal(t, want, got.IDs())
	}
}

func TestGroupsOfBeamsDiffer(t *testing.T) {
	p := params(0, 1, 12)
	p.Beams, p.BeamGroups, p.DiversityPenalty, p.N = 4, 2, 5, 4
	answers := beam(t, hashEngine(t, verifytest.Options{}, engine.Options{}), engine.Request{Prompt: prompt(1, 9), Params: p})
	first := map[int32]bool{}
	for _, a := range answers {
		require.Len(t, a.Tokens, 12)
		first[a.Tokens[0].ID] = true
	}
	require.Greater(t, len(first), 1)
}

func TestBeamsStopAtStopStringsAndScoresDescend(t *testing.T) {
	p := params(0, 1, 40)
	p.Beams, p.N, p.Stop = 4, 4, []string{"a", "c"}
	answers := beam(t, hashEngine(t, verifytest.Options{EOS: []int{endToken}}, engine.Options{}), engine.Request{Prompt: prompt(3, 9), Params: p})
	last := math.Inf(1)
	for _, a := range answers {
		require.NotContains(t, a.Text, "a")
		require.NotContains(t, a.Text, "c")
		if a.Finish.Reason != engine.Stop || a.Finish.Token >= 0 || a.Finish.Timings.PredictedN != len(a.Tokens) {
			continue // tokens behind a cut are scored but not shown
		}
		score := sampler.BeamScore(a.MeanLogprob()*float64(len(a.Tokens)), len(a.Tokens), p.LengthPenalty)
		require.LessOrEqual(t, score, last+1e-9)
		last = score
	}
}

// Given beams with a penalty that changes every choice, then the log
// probabilities reported are still the model's own: those that decoding greedily
// after the same tokens reports.
func TestBeamsReportTheModelsOwnLogProbabilities(t *testing.T) {
	p := params(0, 1, 10)
	p.Beams, p.N, p.FrequencyPenalty, p.Logprobs, p.TopLogprobs = 3, 3, 2, true, 20
	r := engine.Request{Prompt: prompt(3, 9), Params: p}
	e := hashEngine(t, verifytest.Options{}, engine.Options{})
	for _, a := range beam(t, e, r) {
		for i, x := range a.Tokens {
			q := params(0, 1, 1)
			q.Logprobs, q.TopLogprobs = true, 20
			at := one(t, e, engine.Request{Prompt: append(slices.Clone(r.Prompt), a.IDs()[:i]...), Params: q}).Tokens[0]
			require.Equal(t, at.Top, x.Top)
			require.Contains(t, at.Top, sampler.TokenLogprob{Token: x.ID, Logprob: x.Logprob})
		}
	}
	r.Params.LogprobsMode = sampler.LogprobsProcessed
	for _, a := range beam(t, e, r) {
		for _, x := range a.Tokens {
			require.Contains(t, x.Top, sampler.TokenLogprob{Token: x.ID, Logprob: x.Logprob})
		}
	}
}

func TestABeamSearchForNoTokensFindsEmptyAnswers(t *testing.T) {
	p := params(0, 1, 0)
	p.Beams, p.N = 3, 2
	for _, a := range beam(t, hashEngine(t, verifytest.Options{}, engine.Options{}), engine.Request{Prompt: prompt(3, 9), Params: p}) {
		require.Equal(t, engine.Length, a.Finish.Reason)
		require.Empty(t, a.Tokens)
	}
}

func TestBeamSearchOfABadRequestIsRefused(t *testing.T) {
	e := hashEngine(t, verifytest.Options{}, engine.Options{})
	p := params(0, 1, 4)
	p.Beams, p.BeamGroups = 4, 3
	r := engine.Request{Prompt: prompt(1, 3), Params: p, Emit: func(engine.Event) {}}
	require.ErrorContains(t, e.Beam(context.Background(), r), "beam_groups")
	r.Params.BeamGroups = 1
	require.ErrorContains(t, e.Add(context.Background(), r), "Beam runs a beam search")
}

// A drafter that is given to a beam search is not asked, and every round says so.
func TestBeamsDeclineTheirDrafterByName(t *testing.T) {
	counters := drafter.NewCounters()
	e := hashEngine(t, verifytest.Options{}, engine.Options{Counters: counters})
	oracle := &draftertest.Oracle{}
	require.NoError(t, oracle.Bind(e.Target()))
	r := engine.Request{Prompt: prompt(1, 20), Params: params(0, 1, 12), Drafter: oracle}
	r.Params.Beams = 3
	timings := beam(t, e, r)[0].Finish.Timings
	require.Equal(t, []engine.Declined{{Reason: drafter.Beams, Rounds: timings.Draft.Rounds}}, timings.Declines)
	require.Equal(t, timings.Draft.Rounds, counters.Declines(oracle.Contract().Kind)[drafter.Beams])
	require.True(t, oracle.Contract().Allows(drafter.Beams))
}
