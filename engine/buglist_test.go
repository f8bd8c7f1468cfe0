package engine_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"surmise/drafter"
	"surmise/drafter/draftertest"
	"surmise/engine"
	"surmise/model"
	"surmise/sampler"
)

// What has gone wrong in other engines that speculate, one test for each mistake,
// run for every kind of drafter. Whatever the kind, the answer must be that of
// plain decoding; each test says which way of getting there it is about.
var wrongElsewhere = []struct {
	mistake string
	check   func(t *testing.T, f *family, k *familyKind)
}{
	{"text after an end token inside a block", func(t *testing.T, f *family, k *familyKind) {
		r := f.ending(t)
		for _, width := range []int{1, 3, 8, 32} {
			got := f.drafted(t, k, r, width)
			require.Equal(t, engine.Stop, got.Finish.Reason)
		}
	}},
	{"text after a stop string inside a block", func(t *testing.T, f *family, k *familyKind) {
		r := f.stopping(t)
		for _, width := range []int{1, 3, 8, 32} {
			got := f.drafted(t, k, r, width)
			require.Equal(t, engine.Stop, got.Finish.Reason)
			require.NotContains(t, got.Text, r.Params.Stop[0])
		}
	}},
	{"finish reason length when a stop came first", func(t *testing.T, f *family, k *familyKind) {
		r := engine.Request{Prompt: f.prose(40), Params: params(0.8, 3, 40)}
		ids := f.plain(t, r).IDs()
		last := slices.Index(ids, rarest(ids))
		r.Params.StopTokenIDs = []int32{ids[last]}
		// The stop is the last token that the limit lets through.
		r.Params.MaxNewTokens = last + 1
		for _, width := range []int{1, 4, 16} {
			require.Equal(t, engine.Stop, f.drafted(t, k, r, width).Finish.Reason)
		}
	}},
	{"ids and logprobs past a trimmed stop", func(t *testing.T, f *family, k *familyKind) {
		r := f.stopping(t)
		r.Params.Logprobs, r.Params.TopLogprobs = true, 2
		full := r
		full.Params.Stop = nil
		free := f.plain(t, full)
		for _, width := range []int{2, 16} {
			got := f.drafted(t, k, r, width)
			require.Less(t, len(got.Tokens), len(free.Tokens))
			require.Equal(t, free.IDs()[:len(got.Tokens)], got.IDs())
		}
	}},
	{"the first proposed token is not verified", func(t *testing.T, f *family, k *familyKind) {
		r := engine.Request{Prompt: f.prose(60), Params: params(0, 1, 40)}
		want := f.plain(t, r)
		vocab := int32(f.in.Model.Spec().Vocab)
		stream := append(slices.Clone(r.Prompt), want.IDs()...)
		wrong := &meddler{Drafter: f.ready(t, k, r), after: func(r *drafter.Row) {
			at := r.Position + len(r.Known)
			if len(r.Proposal) > 0 && at < len(stream) {
				r.Proposal[0] = (stream[at] + 1) % vocab
			}
		}}
		r.Drafter, r.Fresh = wrong, true
		got := one(t, f.engine(engine.Options{Width: drafter.Fixed(5)}), r)
		same(t, want, got)
		well(t, got)
		require.Zero(t, got.Finish.Timings.Draft.Accepted)
	}},
	{"penalties count only the last accepted token, or rejected ones", func(t *testing.T, f *family, k *familyKind) {
		r := engine.Request{Prompt: f.prose(60), Params: params(0.9, 5, 50)}
		r.Params.RepetitionPenalty, r.Params.FrequencyPenalty, r.Params.PresencePenalty = 1.2, 0.4, 0.3
		r.Params.DRYMultiplier, r.Params.NoRepeatNgramSize = 0.8, 4
		for _, width := range []int{1, 2, 7, 16} {
			f.drafted(t, k, r, width)
		}
	}},
	{"penalized logits leak into logprobs", func(t *testing.T, f *family, k *familyKind) {
		r := engine.Request{Prompt: f.prose(60), Params: params(0.9, 6, 30)}
		r.Params.RepetitionPenalty, r.Params.FrequencyPenalty, r.Params.Logprobs = 1.5, 1, true
		got := f.drafted(t, k, r, 6)
		for i, want := range f.rawLogprobs(t, r.Prompt, got.IDs()) {
			require.InDelta(t, want, got.Tokens[i].Logprob, 1e-3)
		}
	}},
	{"logprob 0 for accepted tokens", func(t *testing.T, f *family, k *familyKind) {
		r := engine.Request{Prompt: f.prose(60), Params: params(1, 7, 40)}
		r.Params.Logprobs = true
		got := f.drafted(t, k, r, 4)
		for i, want := range f.rawLogprobs(t, r.Prompt, got.IDs()) {
			if got.Tokens[i].Drafted {
				require.InDelta(t, want, got.Tokens[i].Logprob, 1e-3)
			}
		}
	}},
	{"min_new_tokens too long by the block width", func(t *testing.T, f *family, k *familyKind) {
		r := engine.Request{Prompt: f.prose(40), Params: params(0, 1, 30)}
		// The end token would win at once, and wins as soon as it may.
		r.Params.LogitBias = []sampler.TokenBias{{Token: f.in.Engine.Env().EOS[0], Bias: 100}}
		r.Params.MinNewTokens = 5
		for _, width := range []int{1, 2, 4, 8, 16} {
			got := f.drafted(t, k, r, width)
			require.Len(t, got.Tokens, 5)
			require.Equal(t, engine.Stop, got.Finish.Reason)
		}
	}},
	{"seeds ignored or shared between requests", func(t *testing.T, f *family, k *familyKind) {
		var batch []engine.Request
		var want []engine.Answer
		for _, seed := range []uint64{1, 2, 1} {
			r := engine.Request{Prompt: f.prose(40), Params: params(1.2, seed, 24)}
			want = append(want, f.plain(t, r))
			r.Drafter, r.Fresh = f.ready(t, k, r), true
			batch = append(batch, r)
		}
		if k.oracle != nil {
			k.oracle.Streams = [][]int32{f.stream(t, batch[0])}
			batch[1].Drafter = nil // it knows one stream a prompt
		}
		got := generate(t, f.engine(engine.Options{Width: drafter.Fixed(4)}), batch...)
		for i := range batch {
			same(t, want[i], got[i][0])
		}
		require.Equal(t, want[0].IDs(), want[2].IDs())
		require.NotEqual(t, want[0].IDs(), want[1].IDs())
	}},
	{"greedy output changes with width", func(t *testing.T, f *family, k *familyKind) {
		r := engine.Request{Prompt: f.prose(70), Params: params(0, 1, 60)}
		for _, width := range []int{1, 2, 3, 5, 8, 13, 21, 34, 64} {
			f.drafted(t, k, r, width)
		}
	}},
	{"rows of a batch rolled back by one common amount", func(t *testing.T, f *family, k *familyKind) {
		if k.oracle != nil {
			k.oracle.Streams = nil
		}
		right := familyKind{name: "all right"}
		right.oracle = newOracle(t, f, nil)
		wrong := familyKind{name: "all wrong"}
		wrong.oracle = newOracle(t, f, func(int) int { return 0 })
		right.drafter, wrong.drafter = right.oracle, wrong.oracle
		var batch []engine.Request
		var want []engine.Answer
		for i, who := range []*familyKind{k, &right, &wrong, k} {
			r := engine.Request{Prompt: f.prose(50 + 11*i), Params: params(0.7, uint64(i), 40)}
			want = append(want, f.plain(t, r))
			if who.oracle != nil {
				who.oracle.Streams = append(who.oracle.Streams, f.stream(t, r))
			}
			r.Drafter, r.Fresh = who.drafter, true
			batch = append(batch, r)
		}
		for i, got := range generate(t, f.engine(engine.Options{Width: drafter.Fixed(6)}), batch...) {
			same(t, want[i], got[0])
			well(t, got[0])
		}
	}},
	{"a block runs past the end of the context", func(t *testing.T, f *family, k *familyKind) {
		r := engine.Request{Prompt: f.prose(familyContext - 21), Params: params(0, 1, -1)}
		r.Params.IgnoreEOS = true
		for _, width := range []int{1, 8, 64} {
			got := f.drafted(t, k, r, width)
			require.Len(t, got.Tokens, 21)
			require.Equal(t, engine.Length, got.Finish.Reason)
		}
	}},
	{"several samples of one prompt", func(t *testing.T, f *family, k *familyKind) {
		if k.oracle != nil {
			return // it knows one stream a prompt
		}
		// Short prompts are forked while the drafter still owes them.
		for _, n := range []int{2, 5, 40, 64, 70, 130} {
			r := engine.Request{Prompt: f.prose(n), Params: params(1.1, 4, 24), Fresh: true}
			r.Params.N = 3
			want := generate(t, f.engine(engine.Options{}), r)[0]
			r.Drafter = k.drafter
			for i, got := range generate(t, f.engine(engine.Options{Width: drafter.Fixed(4)}), r)[0] {
				same(t, want[i], got)
				well(t, got)
			}
		}
	}},
	{"broken characters in streams and the last ones lost", func(t *testing.T, f *family, k *familyKind) {
		r := engine.Request{Prompt: f.prose(30), Params: params(3, 8, 60)}
		r.Params.IgnoreEOS = true
		want := f.plain(t, r)
		r.Drafter, r.Fresh = f.ready(t, k, r), true
		var text strings.Builder
		r.Emit = func(e engine.Event) {
			require.True(t, utf8.ValidString(e.Text))
			text.WriteString(e.Text)
		}
		require.NoError(t, f.engine(engine.Options{Width: drafter.Fixed(5)}).Run(t.Context(), r))
		require.Equal(t, want.Text, text.String())
		whole := f.in.Tokenizer.Decode(append(slices.Clone(r.Prompt), want.IDs()...), true)
		require.True(t, strings.HasSuffix(whole, text.String()))
	}},
	{"a proposal of no tokens counted as a draft", func(t *testing.T, f *family, k *familyKind) {
		r := engine.Request{Prompt: f.prose(40), Params: params(1.5, 2, 30)}
		tm := f.drafted(t, k, r, 3).Finish.Timings
		declined := int64(0)
		for _, d := range tm.Declines {
			require.True(t, k.drafter.Contract().Allows(d.Reason), "%s", d.Reason)
			declined += d.Rounds
		}
		require.Equal(t, tm.Draft.Rounds-1, tm.Draft.Drafts+declined, "each round but the prompt's drafts or says why not")
		require.Equal(t, tm.Draft.Rounds-tm.Draft.Drafts, tm.Draft.Widths[0])
		r.Params.MaxNewTokens = 2 // leaves nothing to propose
		tm = f.drafted(t, k, r, 3).Finish.Timings
		require.Zero(t, tm.Draft.Drafts)
		require.Empty(t, tm.DraftKind)
	}},
	{"one request that drafts blocks the others", func(t *testing.T, f *family, k *familyKind) {
		a := engine.Request{Prompt: f.prose(60), Params: params(0, 1, 40), Fresh: true}
		a.Drafter = f.ready(t, k, a)
		b := engine.Request{Prompt: f.prose(20), Params: params(0, 2, 20), Fresh: true}
		seen := 0
		a.Emit = func(engine.Event) {}
		b.Emit = func(e engine.Event) {
			if e.Token != nil {
				seen++
			}
		}
		b.Params.IgnoreEOS = true
		e := f.engine(engine.Options{Width: drafter.Fixed(8)})
		require.NoError(t, e.Add(context.Background(), a))
		require.NoError(t, e.Add(context.Background(), b))
		for round := 1; round <= 12; round++ {
			_, err := e.Tick(context.Background())
			require.NoError(t, err)
			require.GreaterOrEqual(t, seen, round-2, "text may be held back for a character, not for a drafter")
		}
		e.Close()
	}},
	{"a drafter that fails after start-up takes all down", func(t *testing.T, f *family, k *familyKind) {
		r := engine.Request{Prompt: f.prose(60), Params: params(0, 1, 30)}
		want := f.plain(t, r)
		calls, broken := 0, true
		fails := func() error {
			if calls++; broken && calls >= 3 {
				return errMeddled
			}
			return nil
		}
		for _, d := range []*meddler{{before: fails}, {observe: fails}} {
			d.Drafter = f.ready(t, k, r)
			calls, broken = 0, true
			var warnings []string
			counters := drafter.NewCounters(k.drafter.Contract())
			e := f.engine(engine.Options{Width: drafter.Fixed(2), Counters: counters, Warn: func(m string) { warnings = append(warnings, m) }})
			r.Drafter, r.Fresh = d, true
			same(t, want, one(t, e, r))
			require.EqualValues(t, 1, counters.Declines(k.name)[drafter.Failed])
			require.Len(t, warnings, 1)
			broken = false
			again := one(t, e, r)
			same(t, want, again)
			well(t, again)
		}
	}},
}

func newOracle(t testing.TB, f *family, right func(int) int) *draftertest.Oracle {
	o := &draftertest.Oracle{Right: right}
	require.NoError(t, o.Bind(f.in.Model))
	return o
}

func TestWhatHasGoneWrongElsewhere(t *testing.T) {
	f := openKinds(t)
	for _, w := range wrongElsewhere {
		t.Run(w.mistake, func(t *testing.T) {
			for _, k := range f.kinds {
				t.Run(k.name, func(t *testing.T) { w.check(t, f, k) })
			}
		})
	}
}

// ending is a request whose answer ends with an end token, not at once.
func (f *family) ending(t testing.TB) engine.Request {
	t.Helper()
	for bias := 2.0; bias <= 60; bias++ {
		r := engine.Request{Prompt: f.prose(40), Params: params(1, uint64(bias), 40)}
		r.Params.LogitBias = []sampler.TokenBias{{Token: f.in.Engine.Env().EOS[0], Bias: bias}}
		if a := f.plain(t, r); a.Finish.Reason == engine.Stop && len(a.Tokens) > 3 {
			return r
		}
	}
	require.Fail(t, "no bias makes an end token come inside an answer")
	return engine.Request{}
}

// stopping is a request whose answer ends with a stop string, not at once.
func (f *family) stopping(t testing.TB) engine.Request {
	t.Helper()
	r := engine.Request{Prompt: f.prose(40), Params: params(0.9, 11, 40)}
	text := []rune(f.plain(t, r).Text)
	for at := len(text) / 2; at+3 < len(text); at++ {
		stop := string(text[at : at+3])
		if strings.Index(string(text), stop) > 10 {
			r.Params.Stop = []string{stop}
			return r
		}
	}
	require.Fail(t, "the answer repeats itself")
	return r
}

// rawLogprobs are the log probabilities of an answer's tokens by one forward over
// prompt and answer.
func (f *family) rawLogprobs(t testing.TB, prompt, answer []int32) []float64 {
	t.Helper()
	seq := f.in.Model.Cache().Open()
	defer seq.Close()
	tokens := append(slices.Clone(prompt), answer...)
	b := &model.Batch{Rows: []model.Row{{Seq: seq, Tokens: tokens, Logits: len(answer) + 1}}}
	require.NoError(t, f.in.Model.Forward(b))
	out := make([]float64, len(answer))
	for i, id := range answer {
		z := b.Logits(0, i)
		top := float64(slices.Max(z))
		sum := 0.0
		for _, x := range z {
			sum += math.Exp(float64(x) - top)
		}
		out[i] = float64(z[id]) - top - math.Log(sum)
	}
	return out
}
