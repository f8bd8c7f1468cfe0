package replay_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"surmise/bench"
	"surmise/bench/live"
	"surmise/bench/recording"
	"surmise/bench/replay"
	"surmise/drafter"
	"surmise/drafter/cascade"
	"surmise/fullmodel"
	"surmise/model"
	"surmise/promptlookup"
	"surmise/sampler"
	"surmise/verify/verifytest"
)

const vocab = 24

// pieces is a vocabulary for the full-model drafter of a hash model.
type pieces struct{}

func (pieces) VocabSize() int        { return vocab }
func (pieces) Piece(id int32) []byte { return []byte{byte(id) + 1} }
func (pieces) IsSpecial(int32) bool  { return false }

func target(t require.TestingT, order int) *verifytest.Target {
	m, err := verifytest.New(verifytest.Options{Vocab: vocab, Order: order, EOS: []int{vocab - 1}, Context: 1024})
	require.NoError(t, err)
	return m
}

// reader proposes what the target's hidden states tell it: from the state of a
// layer at the last committed token, a token and its successors.
type reader struct{ drafter.Drafter }

type readerSeq struct {
	d    drafter.Drafter
	at   int
	seen float32
}

func (s *readerSeq) Drafter() drafter.Drafter   { return s.d }
func (s *readerSeq) Position() int              { return s.at }
func (s *readerSeq) Close() error               { return nil }
func (s *readerSeq) Fork() (drafter.Seq, error) { c := *s; return &c, nil }
func (d *reader) Bind(model.Target) error       { return nil }
func (d *reader) Close() error                  { return nil }
func (d *reader) Open(o drafter.Opening) (drafter.Seq, error) {
	return &readerSeq{d: d, at: o.Cached}, nil
}

func (d *reader) Contract() drafter.Contract {
	c := promptlookup.Contract()
	c.Kind, c.Inputs.Layers = "reader", []int{1, 4}
	return c
}

func (d *reader) Propose(_ context.Context, rows []*drafter.Row) error {
	for _, r := range rows {
		for i := range r.Budget {
			r.Proposal = append(r.Proposal, int32(int(r.Seq.(*readerSeq).seen)+i)%vocab)
		}
	}
	return nil
}

func (d *reader) Observe(outcomes []*drafter.Outcome) error {
	for _, o := range outcomes {
		s := o.Seq.(*readerSeq)
		s.at = o.After()
		for l, h := range o.Hidden {
			if len(o.Hidden) != 2 {
				return fmt.Errorf("%d hidden states", len(o.Hidden))
			}
			for i, token := range o.Committed {
				for j, want := range verifytest.Hidden(token, o.Position+i, d.Contract().Inputs.Layers[l]) {
					if got := h.Row(i)[j]; got != want {
						return fmt.Errorf("position %d has state %v, want %v", o.Position+i, got, want)
					}
				}
				s.seen += h.Row(i)[0] + h.Row(i)[1]
			}
		}
		for s.seen >= vocab {
			s.seen -= vocab
		}
	}
	return nil
}

// drafters makes a drafter of every kind, anew.
var drafters = map[string]func(t require.TestingT, m model.Target) drafter.Drafter{
	"prompt-lookup": func(t require.TestingT, _ model.Target) drafter.Drafter { return lookup(t) },
	"full-model":    func(t require.TestingT, m model.Target) drafter.Drafter { return full(t, m) },
	"cascade": func(t require.TestingT, m model.Target) drafter.Drafter {
		d := cascade.New(lookup(t), full(t, nil))
		require.NoError(t, d.Bind(m))
		return d
	},
	"reader": func(require.TestingT, model.Target) drafter.Drafter { return &reader{} },
}

func lookup(t require.TestingT) drafter.Drafter {
	d, err := promptlookup.New(promptlookup.Options{})
	require.NoError(t, err)
	return d
}

func full(t require.TestingT, bound model.Target) drafter.Drafter {
	d := fullmodel.New(target(t, 1), pieces{}, pieces{}, true)
	if bound != nil {
		require.NoError(t, d.Bind(bound))
	}
	return d
}

func params(maxNew int) sampler.Params {
	p := sampler.Default()
	p.MaxNewTokens = maxNew
	return p
}

func prompts() [][]int32 {
	long := make([]int32, 300)
	for i := range long {
		long[i] = int32(i*i%7+i%5) % (vocab - 1)
	}
	return [][]int32{{1, 2, 3, 1, 2, 3, 1, 2}, {5}, long, long[:257], {4, 4, 4, 4}}
}

// record records the prompts, with the hidden states that reader reads.
func record(t *testing.T, temperature float64, maxNew int) *recording.Recording {
	t.Helper()
	m := target(t, 2)
	p := params(maxNew)
	p.Temperature = temperature
	encoded, err := p.MarshalJSON()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "rec.jsonl")
	w, err := recording.Create(path, recording.Header{
		Source: recording.Local, Spec: recording.SpecOf(m.Spec(), []int32{vocab - 1}), Layers: []int{4, 1}, Params: encoded,
		Costs: &bench.Costs{Curves: []bench.Curve{{Points: []bench.Point{{Rows: 1, Seconds: 0.010}, {Rows: 65, Seconds: 0.074}}}}},
	})
	require.NoError(t, err)
	o := recording.NewObserver([]int{4, 1})
	lane, err := live.NewLane(live.LaneSetup{
		Config: bench.Config{Kind: "recorder", Width: "auto", Temperature: temperature}, Target: m, Drafter: o, Params: p, Now: time.Now,
	})
	require.NoError(t, err)
	source := recording.LocalSource{Lane: lane, Observer: o}
	for i, ids := range prompts() {
		require.NoError(t, source.RecordIDs(context.Background(), w, recording.Item{
			ID: fmt.Sprint(i), Category: "c", Prompt: ids, Seed: uint64(i), Limit: maxNew,
		}))
	}
	require.NoError(t, w.Close())
	r, err := recording.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	require.Len(t, r.Items, len(prompts()))
	return r
}

func TestGivenALocalRecordingWhenReplayedThenCountsAreExactlyThoseOfTheLiveRun(t *testing.T) {
	for _, temperature := range []float64{0, 0.8} {
		r := record(t, temperature, 60)
		for kind, make := range drafters {
			for _, width := range []string{"1", "3", "8", "64"} {
				t.Run(fmt.Sprintf("%s/%s/%v", kind, width, temperature), func(t *testing.T) {
					c := bench.Config{Kind: kind, Width: width, Temperature: temperature}
					m := target(t, 2)
					d := make(t, m)
					lane, err := live.NewLane(live.LaneSetup{Config: c, Target: m, Drafter: d, Params: params(60), Now: time.Now})
					require.NoError(t, err)

					replayed := make(t, m)
					player, err := replay.New(r, replay.Options{Config: c, Drafter: replayed, Now: time.Now})
					require.NoError(t, err)
					proposed := int64(0)
					for _, item := range r.Items {
						answers, err := live.Race(context.Background(), []*live.Lane{lane}, item.Prompt, item.Seed, 0)
						require.NoError(t, err)
						want := live.Trials([]*live.Lane{lane}, answers, item.ID, item.Category, 0)[0].Trial
						got, err := player.Play(context.Background(), item)
						require.NoError(t, err)
						require.True(t, want.Counts.SameCounts(got.Counts), "item %s: live %+v, replayed %+v", item.ID, want.Counts, got.Counts)
						require.Equal(t, want.Declines, got.Declines)
						require.Equal(t, want.Tokens, got.Tokens)
						require.Equal(t, want.Finish, got.Finish)
						proposed += got.Counts.Proposed
					}
					require.Positive(t, proposed)
					require.NoError(t, player.Close())
					require.NoError(t, d.Close())
					require.NoError(t, replayed.Close())
				})
			}
		}
	}
}

// stopped is a clock that stands still, so that only predicted times are left.
func stopped() time.Time { return time.Unix(0, 0) }

func TestGivenMeasuredForwardsWhenReplayedThenTimesAreTheirSums(t *testing.T) {
	r := record(t, 0, 40)
	p, err := replay.New(r, replay.Options{Config: bench.Config{Kind: "none"}, Now: stopped})
	require.NoError(t, err)
	got, err := p.Play(context.Background(), r.Items[0])
	require.NoError(t, err)
	require.InDelta(t, 0.010*float64(got.Tokens-1), got.DecodeSeconds, 1e-6)
	require.InDelta(t, 0.010+7*0.001, got.PromptSeconds, 1e-6)
	require.NoError(t, p.Close())

	p, err = replay.New(r, replay.Options{Config: bench.Config{Kind: "prompt-lookup", Width: "4"}, Drafter: lookup(t), Now: stopped})
	require.NoError(t, err)
	got, err = p.Play(context.Background(), r.Items[0])
	require.NoError(t, err)
	rounds := float64(got.Counts.Rounds - 1) // the first is the prompt's
	require.InDelta(t, 0.010*rounds+0.001*float64(got.Counts.Proposed), got.DecodeSeconds, 1e-6)
	require.NoError(t, p.Close())
}

func TestGivenStatesThatWereNotRecordedWhenReplayedThenTheErrorSaysSo(t *testing.T) {
	r := record(t, 0, 20)
	r.Header.Layers = []int{4}
	p, err := replay.New(r, replay.Options{Config: bench.Config{Kind: "reader", Width: "2"}, Drafter: &reader{}, Now: time.Now})
	require.NoError(t, err)
	r.Items[0].Hidden = nil
	_, err = p.Play(context.Background(), r.Items[0])
	require.ErrorContains(t, err, "record it with this drafter")
	require.NoError(t, p.Close())
}

func TestGivenMirostatAndADrafterThatSharesNoiseWhenReplayedThenItIsRefused(t *testing.T) {
	r := record(t, 0.8, 20)
	p, err := r.Header.Sampling()
	require.NoError(t, err)
	p.Mirostat = 2
	r.Header.Params, err = p.MarshalJSON()
	require.NoError(t, err)
	_, err = replay.New(r, replay.Options{Config: bench.Config{Kind: "full-model", Width: "2", Temperature: 0.8}, Drafter: full(t, target(t, 2)), Now: time.Now})
	require.ErrorContains(t, err, "mirostat")
}

func BenchmarkLookup(b *testing.B) {
	spec := recording.Spec{Vocab: 50000, Context: 8192}
	r := &recording.Recording{Header: recording.Header{Spec: spec, Params: []byte(`{"temperature":0}`)}}
	item := &recording.Item{ID: "x", Finish: "length", Limit: 2000}
	for i := range 2500 {
		// Words of a small vocabulary in an order that repeats itself now and then.
		token := int32((i*i/3 + i/17*5) % 900)
		if i < 500 {
			item.Prompt = append(item.Prompt, token)
		} else {
			item.Tokens = append(item.Tokens, token)
		}
	}
	p, err := replay.New(r, replay.Options{Config: bench.Config{Kind: "prompt-lookup", Width: "8"}, Drafter: lookup(b), Now: time.Now})
	require.NoError(b, err)
	for b.Loop() {
		_, err := p.Play(context.Background(), item)
		require.NoError(b, err)
	}
	b.ReportMetric(float64(b.N*len(item.Tokens))/b.Elapsed().Seconds(), "tokens/s")
}
