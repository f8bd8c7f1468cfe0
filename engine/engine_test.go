package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"surmise/drafter"
	"surmise/drafter/draftertest"
	"surmise/engine"
	"surmise/kvcache"
	"surmise/model"
	"surmise/promptlookup"
	"surmise/sampler"
	"surmise/verify/verifytest"
)

func TestTextOfEventsIsTheTextOfTheTokens(t *testing.T) {
	e := hashEngine(t, verifytest.Options{EOS: []int{endToken}}, engine.Options{})
	for seed := range uint64(30) {
		r := engine.Request{Prompt: prompt(seed, 9), Params: params(1.5, seed, 80)}
		var text strings.Builder
		var ids []int32
		r.Emit = func(ev engine.Event) {
			require.True(t, strings.ToValidUTF8(ev.Text, "") == ev.Text, "events never split a character")
			text.WriteString(ev.Text)
			if ev.Token != nil {
				ids = append(ids, ev.Token.ID)
			}
		}
		require.NoError(t, e.Run(context.Background(), r))
		tok := words(t, verifytest.Options{})
		whole := tok.Decode(append(append([]int32{}, r.Prompt...), ids...), true)
		before := tok.NewDecoder(true)
		var head string
		for _, id := range r.Prompt {
			head += before.Push(id)
		}
		require.Equal(t, whole, head+text.String())
	}
}

func TestGivenAStopStringTheTextEndsBeforeItAndNoTokenBehindItIsEmitted(t *testing.T) {
	o := verifytest.Options{}
	r := engine.Request{Prompt: prompt(1, 9), Params: params(1, 3, 80)}
	plain := one(t, hashEngine(t, o, engine.Options{}), r)
	runes := []rune(plain.Text)
	for at := 1; at+2 < len(runes); at++ {
		r.Params.Stop = []string{string(runes[at : at+2])}
		got := one(t, hashEngine(t, o, engine.Options{}), r)
		want, _, found := strings.Cut(plain.Text, r.Params.Stop[0])
		require.True(t, found)
		require.Equal(t, want, got.Text)
		require.Equal(t, engine.Stop, got.Finish.Reason)
		require.Equal(t, r.Params.Stop[0], got.Finish.Matched)
		require.Equal(t, plain.IDs()[:len(got.Tokens)], got.IDs())
		if n := len(got.Tokens); n > 0 {
			require.NotContains(t, words(t, o).Decode(got.IDs()[:n-1], true), r.Params.Stop[0])
		}
	}
}

func TestSamplesShareThePromptAndTheFirstIsThatOfOne(t *testing.T) {
	o := verifytest.Options{EOS: []int{endToken}}
	lookup, err := promptlookup.New(promptlookup.Options{MinMatch: 1})
	require.NoError(t, err)
	for _, n := range []int{1, 2, 300} {
		r := engine.Request{Prompt: prompt(2, n), Params: params(1, 7, 40), Drafter: lookup}
		single := one(t, hashEngine(t, o, engine.Options{}), r)
		r.Params.N = 4
		target := hashTarget(t, o)
		answers := generate(t, engine.New(target, words(t, o), engine.Options{Chunk: 50}), r)[0]
		same(t, single, answers[0])
		distinct := map[string]bool{}
		for _, a := range answers {
			distinct[a.Text] = true
			require.Equal(t, answers[0].Finish.Timings.PromptN, a.Finish.Timings.PromptN)
		}
		require.Greater(t, len(distinct), 1, "samples differ")
	}
}

func TestBestOfKeepsTheLikeliestSamples(t *testing.T) {
	p := params(1.5, 7, 20)
	p.N, p.BestOf = 2, 5
	c := engine.NewCollector(5)
	e := hashEngine(t, verifytest.Options{}, engine.Options{})
	require.NoError(t, e.Run(context.Background(), engine.Request{Prompt: prompt(1, 5), Params: p, Emit: c.Add}))
	best, err := c.Best(sampler.ChooseRank, 2)
	require.NoError(t, err)
	require.Len(t, best, 2)
	require.Less(t, best[0].MeanLogprob(), 0.0, "log probabilities are there though none were asked for")
	require.GreaterOrEqual(t, best[0].MeanLogprob(), best[1].MeanLogprob())
	for _, a := range c.Answers() {
		if a.Sample != best[0].Sample && a.Sample != best[1].Sample {
			require.LessOrEqual(t, a.MeanLogprob(), best[1].MeanLogprob())
		}
	}
	all, err := c.Best(sampler.ChooseAll, 2)
	require.NoError(t, err)
	require.Equal(t, c.Answers(), all)
	_, err = c.Best("luck", 2)
	require.ErrorContains(t, err, "luck")
}

func TestAVoteGoesToTheAnswerMostSamplesCameTo(t *testing.T) {
	c := engine.NewCollector(3)
	for i, text := range []string{"It is 7.", "So: 42", `thus \boxed{42}`} {
		token := engine.Token{ID: 1, Logprob: -float64(i + 1)}
		c.Add(engine.Event{Sample: i, Text: text, Token: &token})
		c.Add(engine.Event{Sample: i, Finish: &engine.Finish{Reason: engine.Stop}})
	}
	best, err := c.Best(sampler.ChooseVote, 1)
	require.NoError(t, err)
	require.Equal(t, "So: 42", best[0].Text)
}

// Given a registered processor, its custom_params reach it and what it does to
// the logits decides; without one, custom_params are an error.
func TestCustomParamsGoToTheRegisteredProcessor(t *testing.T) {
	r := engine.Request{Prompt: prompt(1, 5), Params: params(0.8, 7, 20)}
	r.Params.CustomParams = json.RawMessage(`{"only": 3}`)
	r.Emit = func(engine.Event) {}
	err := hashEngine(t, verifytest.Options{}, engine.Options{}).Run(context.Background(), r)
	require.ErrorContains(t, err, `custom_params: {"only": 3}`)
	o := engine.Options{Processor: func(custom json.RawMessage) (sampler.Processor, error) {
		var p onlyToken
		err := json.Unmarshal(custom, &p)
		return p, err
	}}
	lookup, err := promptlookup.New(promptlookup.Options{MinMatch: 1})
	require.NoError(t, err)
	r.Drafter = lookup
	for _, x := range one(t, hashEngine(t, verifytest.Options{}, o), r).Tokens {
		require.EqualValues(t, 3, x.ID)
	}
	r.Params.CustomParams = json.RawMessage(`{"only": "three"}`)
	err = hashEngine(t, verifytest.Options{}, o).Run(context.Background(), r)
	require.ErrorContains(t, err, "custom_params: ")
}

// onlyToken is a processor that leaves one token.
type onlyToken struct{ Only int }

func (p onlyToken) Process(logits []float32, _ []int32) error {
	for i := range logits {
		if i != p.Only {
			logits[i] = float32(math.Inf(-1))
		}
	}
	return nil
}

func TestAPromptThatWasSeenBeforeIsFoundInTheCacheAndStillDrafted(t *testing.T) {
	lookup, err := promptlookup.New(promptlookup.Options{MinMatch: 1})
	require.NoError(t, err)
	e := hashEngine(t, verifytest.Options{}, engine.Options{})
	r := engine.Request{Prompt: prompt(4, 200), Params: params(0, 1, 60), Drafter: lookup}
	first := one(t, e, r)
	second := one(t, e, r)
	same(t, first, second)
	require.Zero(t, first.Finish.Timings.CachedN)
	require.Equal(t, 192, second.Finish.Timings.CachedN)
	require.Equal(t, 8, second.Finish.Timings.PromptN)
	require.Equal(t, first.Finish.Timings.Draft.Accepted, second.Finish.Timings.Draft.Accepted)
	require.Positive(t, second.Finish.Timings.Draft.Accepted)
}

func TestADrafterThatFailsIsDroppedFromTheSequenceAndCounted(t *testing.T) {
	r := engine.Request{Prompt: prompt(5, 10), Params: params(0, 1, 40)}
	want := one(t, hashEngine(t, verifytest.Options{}, engine.Options{}), r)
	stream := append(append([]int32{}, r.Prompt...), want.IDs()...)
	for name, oracle := range map[string]*draftertest.Oracle{
		"at opening":   {},
		"proposing":    {Streams: [][]int32{stream}, FailPropose: 3, Right: func(int) int { return 2 }},
		"observing":    {Streams: [][]int32{stream}, FailObserve: 3, Right: func(int) int { return 2 }},
		"at its start": {Streams: [][]int32{stream}, FailObserve: 1},
	} {
		t.Run(name, func(t *testing.T) {
			target := hashTarget(t, verifytest.Options{})
			require.NoError(t, oracle.Bind(target))
			counters := drafter.NewCounters(oracle.Contract())
			var warnings []string
			e := engine.New(target, words(t, verifytest.Options{}), engine.Options{Counters: counters, Warn: func(m string) { warnings = append(warnings, m) }})
			r.Drafter = oracle
			same(t, want, one(t, e, r))
			require.EqualValues(t, 1, counters.Declines("oracle")[drafter.Failed])
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0], "oracle")
		})
	}
}

func TestDeclinesAreCountedByReason(t *testing.T) {
	lookup, err := promptlookup.New(promptlookup.Options{})
	require.NoError(t, err)
	counters := drafter.NewCounters(lookup.Contract())
	e := engine.New(hashTarget(t, verifytest.Options{}), words(t, verifytest.Options{}), engine.Options{Counters: counters})
	a := one(t, e, engine.Request{Prompt: prompt(5, 10), Params: params(1.5, 1, 40), Drafter: lookup})
	declines, tally := counters.Declines(promptlookup.Name), counters.Tally(promptlookup.Name)
	require.Positive(t, declines[promptlookup.NoMatch])
	// Every round but the first, which takes the prompt, drafts or declines.
	sum := tally.Drafts
	for _, n := range declines {
		sum += n
	}
	require.Equal(t, a.Finish.Timings.Draft.Rounds-1, sum, "%v", declines)
	require.Equal(t, a.Finish.Timings.Draft.Drafts, tally.Drafts)
}

func TestFailuresOfOneRequestLeaveTheOthersAndLaterOnes(t *testing.T) {
	o := verifytest.Options{}
	good := engine.Request{Prompt: prompt(6, 10), Params: params(0, 1, 12)}
	want := one(t, hashEngine(t, o, engine.Options{}), good)
	target := hashTarget(t, o)
	target.Adjust = func(position int, logits []float32) {
		if position >= 60 {
			logits[0] = float32(math.NaN())
		}
	}
	e := engine.New(target, words(t, verifytest.Options{}), engine.Options{})
	answers := generate(t, e, good, engine.Request{Prompt: prompt(7, 50), Params: params(0, 1, 30)})
	same(t, want, answers[0][0])
	bad := answers[1][0]
	require.Equal(t, engine.Failed, bad.Finish.Reason)
	require.ErrorContains(t, bad.Finish.Err, "NaN")
	require.Len(t, bad.Tokens, 11, "what came before stays")
	same(t, want, one(t, e, good))
}

func TestAFailedForwardFailsItsRowsAndTheEngineGoesOn(t *testing.T) {
	target := hashTarget(t, verifytest.Options{})
	boom := errors.New("boom")
	target.Before = func(*model.Batch) error {
		if target.Forwards == 3 {
			return boom
		}
		return nil
	}
	e := engine.New(target, words(t, verifytest.Options{}), engine.Options{})
	r := engine.Request{Prompt: prompt(6, 10), Params: params(0, 1, 12)}
	answers := generate(t, e, r, r)
	for _, a := range answers {
		require.Equal(t, engine.Failed, a[0].Finish.Reason)
		require.ErrorIs(t, a[0].Finish.Err, boom)
	}
	require.Equal(t, engine.Length, one(t, e, r).Finish.Reason)
}

func TestACacheThatIsFullFailsTheRequestThatFindsNoRoom(t *testing.T) {
	target := hashTarget(t, verifytest.Options{Budget: 3 * 64 * 4})
	e := engine.New(target, words(t, verifytest.Options{}), engine.Options{})
	answers := generate(t, e,
		engine.Request{Prompt: prompt(1, 100), Params: params(0, 1, 4)},
		engine.Request{Prompt: prompt(2, 100), Params: params(0, 1, 4)})
	require.Equal(t, engine.Length, answers[0][0].Finish.Reason)
	require.Equal(t, engine.Failed, answers[1][0].Finish.Reason)
	require.ErrorIs(t, answers[1][0].Finish.Err, kvcache.ErrFull)
}

func TestACancelledRequestEndsAtTheNextRound(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	e := hashEngine(t, verifytest.Options{}, engine.Options{})
	c := engine.NewCollector(1)
	require.NoError(t, e.Add(ctx, engine.Request{Prompt: prompt(1, 5), Params: params(0, 1, 500), Emit: c.Add}))
	for range 3 {
		more, err := e.Tick(context.Background())
		require.NoError(t, err)
		require.True(t, more)
	}
	cancel()
	more, err := e.Tick(context.Background())
	require.NoError(t, err)
	require.False(t, more)
	require.Equal(t, engine.Cancelled, c.Answers()[0].Finish.Reason)
	require.ErrorIs(t, c.Answers()[0].Finish.Err, context.Canceled)
	require.Len(t, c.Answers()[0].Tokens, 3)
	require.Zero(t, e.Target().Cache().Stats().Sequences)
}

func TestRunThatIsCancelledEndsEverything(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	e := hashEngine(t, verifytest.Options{}, engine.Options{})
	c := engine.NewCollector(1)
	n := 0
	err := e.Run(ctx, engine.Request{Prompt: prompt(1, 5), Params: params(0, 1, 500), Emit: func(ev engine.Event) {
		c.Add(ev)
		if n++; n == 4 {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, engine.Cancelled, c.Answers()[0].Finish.Reason)
	require.Zero(t, e.Live())
	require.Zero(t, e.Target().Cache().Stats().Sequences)
}

func TestTimingsComeFromTheClockGiven(t *testing.T) {
	now := time.Unix(0, 0)
	clock := func() time.Time {
		now = now.Add(time.Millisecond)
		return now
	}
	e := hashEngine(t, verifytest.Options{}, engine.Options{Clock: clock})
	a := one(t, e, engine.Request{Prompt: prompt(1, 5), Params: params(0, 1, 10)})
	tm := a.Finish.Timings
	require.Equal(t, 10, tm.PredictedN)
	require.Positive(t, tm.Prompt)
	require.Greater(t, tm.Predicted, tm.Prompt)
	require.InDelta(t, 10/tm.Predicted.Seconds(), tm.PredictedPerSecond(), 1e-9)
	require.Empty(t, tm.DraftKind)
}

func TestRequestsThatMakeNoSenseAreRefusedWithTheReason(t *testing.T) {
	e := hashEngine(t, verifytest.Options{Context: 50}, engine.Options{})
	emit := func(engine.Event) { require.Fail(t, "nothing is under way") }
	ok := engine.Request{Prompt: prompt(1, 5), Params: params(0, 1, 10), Emit: emit}
	for want, spoil := range map[string]func(r *engine.Request){
		"prompt is empty":                          func(r *engine.Request) { r.Prompt = nil },
		"50 tokens, but the context of 50":         func(r *engine.Request) { r.Prompt = prompt(1, 50) },
		"prompt token 24 is not of the vocabulary": func(r *engine.Request) { r.Prompt = []int32{24} },
		"seed is not set":                          func(r *engine.Request) { r.Params.Seed = nil },
		"draft width 65: want 0..64":               func(r *engine.Request) { r.MaxWidth = 65 },
		"nobody takes the events":                  func(r *engine.Request) { r.Emit = nil },
		"top_p: 7 is not valid: want (0, 1]":       func(r *engine.Request) { r.Params.TopP = 7 },
	} {
		r := ok
		spoil(&r)
		require.ErrorContains(t, e.Add(context.Background(), r), want)
	}
	require.Zero(t, e.Live())
	require.Zero(t, e.Target().Cache().Stats().Sequences)
}

func TestMaxNewTokensZeroEmitsNothing(t *testing.T) {
	a := one(t, hashEngine(t, verifytest.Options{}, engine.Options{}), engine.Request{Prompt: prompt(1, 5), Params: params(0, 1, 0)})
	require.Empty(t, a.Tokens)
	require.Empty(t, a.Text)
	require.Equal(t, engine.Length, a.Finish.Reason)
}

func TestWithoutATokenizerEventsHaveIDsOnly(t *testing.T) {
	e := engine.New(hashTarget(t, verifytest.Options{}), nil, engine.Options{})
	a := one(t, e, engine.Request{Prompt: prompt(1, 5), Params: params(0, 1, 10)})
	require.Len(t, a.Tokens, 10)
	require.Empty(t, a.Text)
	p := params(0, 1, 10)
	p.LogitBias = []sampler.TokenBias{{Text: "a", Bias: 1}}
	require.ErrorContains(t, e.Add(context.Background(), engine.Request{Prompt: []int32{1}, Params: p, Emit: func(engine.Event) {}}), "no tokenizer")
}
