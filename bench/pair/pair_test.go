package pair_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"surmise/bench"
	"surmise/bench/live"
	"surmise/bench/pair"
	"surmise/bench/recording"
	"surmise/drafter"
	"surmise/fullmodel"
	"surmise/model"
	"surmise/promptlookup"
	"surmise/sampler"
	"surmise/verify/verifytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const vocab = 24

type pieces struct{}

func (pieces) VocabSize() int        { return vocab }
func (pieces) Piece(id int32) []byte { return []byte{byte(id) + 1} }
func (pieces) IsSpecial(int32) bool  { return false }

func target(t *testing.T, order int) *verifytest.Target {
	t.Helper()
	m, err := verifytest.New(verifytest.Options{Vocab: vocab, Order: order})
	require.NoError(t, err)
	return m
}

func full(t *testing.T, order int, m model.Target) drafter.Drafter {
	t.Helper()
	d := fullmodel.New(target(t, order), pieces{}, pieces{}, true)
	require.NoError(t, d.Bind(m))
	return d
}

var measured = &bench.Costs{Curves: []bench.Curve{{Points: []bench.Point{{Rows: 1, Seconds: 0.01}, {Rows: 65, Seconds: 0.02}}}}}

func record(t *testing.T, m model.Target) *recording.Recording {
	t.Helper()
	p := sampler.Default()
	p.Temperature, p.MaxNewTokens = 0, 60
	params, err := json.Marshal(p)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "rec.jsonl")
	w, err := recording.Create(path, recording.Header{Source: recording.Local, Spec: recording.SpecOf(m.Spec(), nil), Params: params, Costs: measured})
	require.NoError(t, err)
	o := recording.NewObserver(nil)
	lane, err := live.NewLane(live.LaneSetup{Config: bench.Config{Kind: "recorder", Width: "auto"}, Target: m, Drafter: o, Params: p, Now: time.Now})
	require.NoError(t, err)
	s := recording.LocalSource{Lane: lane, Observer: o}
	for i := range 4 {
		require.NoError(t, s.RecordIDs(context.Background(), w, recording.Item{
			ID: fmt.Sprint(i), Category: fmt.Sprint("c", i%2), Prompt: []int32{int32(i), 2, 3, int32(i), 2}, Limit: 60,
		}))
	}
	require.NoError(t, w.Close())
	r, err := recording.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func options() pair.ProbeOptions {
	return pair.ProbeOptions{Tokens: 100, PerItem: 50, Env: sampler.Env{Vocab: vocab}, Params: sampler.Default(), Costs: measured, Now: time.Now}
}

func TestGivenADrafterThatIsTheTargetWhenProbedThenTheyAgreeAndOverlapEverywhere(t *testing.T) {
	m := target(t, 2)
	r := record(t, m)
	d := full(t, 2, m)
	p, err := pair.Measure(context.Background(), m, d, r.Items, options())
	require.NoError(t, err)
	require.Positive(t, p.Positions)
	require.Equal(t, p.Positions, p.Compared)
	require.Equal(t, p.Positions, p.Proposed)
	require.InDelta(t, 1, p.Overlap, 1e-6)
	require.Equal(t, 1.0, p.Agreement)
	require.NotEmpty(t, p.Draft.Steps)
	require.Zero(t, m.Cache().Stats().Sequences)
	require.NoError(t, d.Close())
}

func TestGivenAnotherModelWhenProbedThenOverlapIsOneMinusTheirTotalVariation(t *testing.T) {
	m := target(t, 2)
	r := record(t, m)
	d := full(t, 1, m)
	o := options()
	o.Tokens, o.PerItem = 1, 2 // the second position of the first stream
	p, err := pair.Measure(context.Background(), m, d, r.Items, o)
	require.NoError(t, err)
	require.Equal(t, 1, p.Compared)

	tokens := append(append([]int32(nil), r.Items[0].Prompt...), r.Items[0].Tokens[0])
	want := 0.0
	a, b := distribution(t, target(t, 2), tokens), distribution(t, target(t, 1), tokens)
	for i := range a {
		want += math.Abs(a[i]-b[i]) / 2
	}
	require.InDelta(t, 1-want, p.Overlap, 1e-5)
	require.Less(t, p.Overlap, 0.999)
	require.NoError(t, d.Close())
}

// distribution is a model's softmax behind tokens.
func distribution(t *testing.T, m *verifytest.Target, tokens []int32) []float64 {
	t.Helper()
	s := m.Cache().Open()
	defer s.Close()
	b := model.Batch{Rows: []model.Row{{Seq: s, Tokens: tokens, Logits: 1}}}
	require.NoError(t, m.Forward(&b))
	var out []float64
	sum := 0.0
	for _, z := range b.Logits(0, 0) {
		out = append(out, math.Exp(float64(z)))
		sum += out[len(out)-1]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

func TestGivenPerfectDraftsWhenPredictedThenSpeedupFollowsFromTheCosts(t *testing.T) {
	m := target(t, 2)
	r := record(t, m)
	replays := &pair.Replays{Recording: r, Costs: measured}
	plain, err := replays.Predict(context.Background(), bench.Config{Kind: bench.None}, nil, nil, nil)
	require.NoError(t, err)
	d := full(t, 2, m)
	probe, err := pair.Measure(context.Background(), m, d, r.Items, options())
	require.NoError(t, err)
	draft := probe.Draft
	draft.Observe, draft.Behind = 0, 0
	draft.Steps, draft.PromptToken = map[int]time.Duration{1: time.Millisecond, 2: 2 * time.Millisecond}, 0
	x, err := replays.Predict(context.Background(), bench.Config{Kind: "full-model", Width: "4"}, d, &draft, plain.Trials)
	require.NoError(t, err)
	// 59 tokens after the first: 11 rounds of 5 and the rest of 4, whose budget is 3.
	require.InDelta(t, 5, x.Summary.MeanAcceptanceLength, 0.1)
	require.InDelta(t, 59*0.01/(11*(0.01+4*0.01/64+0.004)+(0.01+3*0.01/64+0.003)), x.Summary.Speedup.Mean, 1e-6)
	again, err := replays.Predict(context.Background(), bench.Config{Kind: "full-model", Width: "4"}, d, &draft, plain.Trials)
	require.NoError(t, err)
	require.Equal(t, x.Summary, again.Summary, "a prediction is a function of its costs")
	require.NoError(t, d.Close())
}

func TestGivenCopiesWhenProbedThenThereIsAgreementButNoOverlap(t *testing.T) {
	m := target(t, 1)
	r := record(t, m)
	d, err := promptlookup.New(promptlookup.Options{})
	require.NoError(t, err)
	p, err := pair.Measure(context.Background(), m, d, r.Items, options())
	require.NoError(t, err)
	require.Zero(t, p.Compared)
	require.Positive(t, p.Proposed)
}

func TestAdviceNamesTheFastestAndPrefersTheAutomaticWidthAmongEquals(t *testing.T) {
	auto := bench.Config{Kind: "mtp", Draft: "head", Width: "auto"}
	four := bench.Config{Kind: "mtp", Draft: "head", Width: "4"}
	look := bench.Config{Kind: "prompt-lookup", Width: "8"}
	require.Equal(t, "--draft-kind mtp --draft-model head", pair.Advise(map[bench.Config]float64{auto: 1.40, four: 1.41, look: 1.1}).Flags)
	require.Equal(t, "--draft-kind mtp --draft-model head --draft-block-size 4", pair.Advise(map[bench.Config]float64{auto: 1.2, four: 1.41, look: 1.1}).Flags)
	require.Equal(t, "--draft-kind none", pair.Advise(map[bench.Config]float64{auto: 0.9, four: 1.01}).Flags)
	require.Equal(t, "--draft-kind none", pair.Advise(nil).Flags)
}

func TestGivenPredictionsAndMeasurementsWhenComparedThenErrorsAreSharesOfTheMeasured(t *testing.T) {
	trials := func(decode float64) (out []bench.Trial) {
		for i := range 4 {
			out = append(out, bench.Trial{Item: fmt.Sprint(i), Category: fmt.Sprint("c", i%2), Tokens: 11, DecodeSeconds: decode})
		}
		return out
	}
	all := pair.Compare(trials(5), trials(11), trials(5), trials(10))
	require.Len(t, all, 3)
	require.Equal(t, []string{"", "c0", "c1"}, []string{all[0].Category, all[1].Category, all[2].Category})
	require.InDelta(t, 2.2, all[0].Predicted, 1e-9)
	require.InDelta(t, 0.1, all[0].Error(), 1e-9)
	require.Equal(t, 2, all[1].Requests)
}
