package verify_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"surmise/drafter"
	"surmise/drafter/draftertest"
	"surmise/kvcache"
	"surmise/model"
	"surmise/promptlookup"
	"surmise/verify"
	"surmise/verify/verifytest"
)

func target(t verifytest.TB, o verifytest.Options) *verifytest.Target {
	m, err := verifytest.New(o)
	require.NoError(t, err)
	return m
}

func prompt(seed uint64, n int) []int32 {
	r := rand.New(rand.NewPCG(seed, 1))
	p := make([]int32, n)
	for i := range p {
		p[i] = r.Int32N(20)
	}
	return p
}

// plain decodes a script without a drafter on a fresh target.
func plain(t verifytest.TB, o verifytest.Options, s verifytest.Script) []int32 {
	s.Drafter = nil
	verifytest.Decode(t, target(t, o), &s)
	require.NoError(t, s.Err)
	return s.Output
}

func TestRandomAcceptAndRejectScriptsLeaveStreamAndCacheAsPlainDecodingDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := verifytest.Options{Windows: rapid.SampledFrom([][]int{{0}, {0, 16}, {32}}).Draw(t, "windows")}
		m := target(t, o)
		dice := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "dice"), 0))
		random := &draftertest.Random{Rand: dice}
		require.NoError(t, random.Bind(m))
		lookup, err := promptlookup.New(promptlookup.Options{MinMatch: 1})
		require.NoError(t, err)
		var scripts []*verifytest.Script
		var want [][]int32
		for i := range rapid.IntRange(1, 5).Draw(t, "rows") {
			chain := verifytest.Chain{
				Seed:        rapid.Uint64().Draw(t, "seed"),
				Temperature: rapid.SampledFrom([]float32{0, 1}).Draw(t, "temperature"),
				Penalty:     rapid.SampledFrom([]float32{0, 0.2}).Draw(t, "penalty"),
			}
			oracle := &draftertest.Oracle{Right: func(int) int { return dice.IntN(drafter.MaxWidth) >> dice.IntN(6) }}
			require.NoError(t, oracle.Bind(m))
			s := &verifytest.Script{
				Prompt:  prompt(rapid.Uint64().Draw(t, "prompt"), rapid.IntRange(1, 90).Draw(t, "length")),
				New:     rapid.IntRange(1, 80).Draw(t, "new"),
				Chunk:   rapid.IntRange(0, 20).Draw(t, "chunk"),
				Drafter: []drafter.Drafter{oracle, random, lookup}[i%3],
			}
			a, b := chain, chain
			s.Chain = &a
			ref := *s
			s.Chain = &b
			out := plain(t, o, ref)
			oracle.Streams = [][]int32{append(slices.Clone(s.Prompt), out...)}
			scripts, want = append(scripts, s), append(want, out)
		}
		verifytest.Decode(t, m, scripts...)
		for i, s := range scripts {
			require.NoError(t, s.Err)
			require.Equal(t, want[i], s.Output)
		}
	})
}

func TestGivenAnOracleEveryAcceptanceCountAcrossPagesAndWindows(t *testing.T) {
	o := verifytest.Options{Windows: []int{0, 40}}
	const k = 16
	for right := range k + 1 {
		s := verifytest.Script{Prompt: prompt(3, 50), New: 200, Chain: &verifytest.Chain{Temperature: 1, Seed: 9}}
		want := plain(t, o, s)
		m := target(t, o)
		oracle := &draftertest.Oracle{
			Streams: [][]int32{append(slices.Clone(s.Prompt), want...)},
			Right:   func(int) int { return right },
			Layers:  []int{2, 4},
			Check: func(o *drafter.Outcome) error {
				for i, token := range o.Committed {
					for h, l := range []int{2, 4} {
						if !slices.Equal(o.Hidden[h].Row(i), verifytest.Hidden(token, o.Position+i, l)) {
							return errors.New("hidden state of another token")
						}
					}
				}
				return nil
			},
		}
		require.NoError(t, oracle.Bind(m))
		s.Chain, s.Drafter, s.Width = &verifytest.Chain{Temperature: 1, Seed: 9}, oracle, func(int) int { return k }
		verifytest.Decode(t, m, &s)
		require.NoError(t, s.Err)
		require.Equal(t, want, s.Output)
		// All rounds but the first and the last few accept exactly `right`.
		require.InDelta(t, 199/(right+1)+1, s.Tally.Rounds, 2)
		if right == k {
			require.Equal(t, s.Tally.Proposed, s.Tally.Accepted)
		}
	}
}

func TestGivenAStopInsideABlockNothingIsEmittedAfterItAndTheCacheEndsBeforeIt(t *testing.T) {
	o := verifytest.Options{}
	s := verifytest.Script{Prompt: prompt(5, 10), New: 60, Chain: &verifytest.Chain{}}
	full := plain(t, o, s)
	for at := 1; at <= 30; at++ {
		m := target(t, o)
		oracle := &draftertest.Oracle{Streams: [][]int32{append(slices.Clone(s.Prompt), full...)}}
		require.NoError(t, oracle.Bind(m))
		c := s
		c.Drafter = oracle
		c.Stop = func(out []int32) bool { return len(out) == at }
		verifytest.Decode(t, m, &c) // checks the cache
		require.Equal(t, full[:at], c.Output)
	}
}

func TestGivenTheContextEndsInsideABlockTheRowGoesUpToItsLastPosition(t *testing.T) {
	o := verifytest.Options{Context: 70}
	s := verifytest.Script{Prompt: prompt(6, 30), New: 41, Chain: &verifytest.Chain{}}
	want := plain(t, o, s)
	m := target(t, o)
	oracle := &draftertest.Oracle{Streams: [][]int32{append(slices.Clone(s.Prompt), want...)}}
	require.NoError(t, oracle.Bind(m))
	s.Drafter = oracle
	verifytest.Decode(t, m, &s)
	require.NoError(t, s.Err)
	require.Equal(t, want, s.Output)
	require.Len(t, s.Output, 41)
}

func TestGivenMoreTokensThanTheContextOnlyThatRowFails(t *testing.T) {
	o := verifytest.Options{Context: 70}
	long := verifytest.Script{Prompt: prompt(6, 80), New: 4, Chain: &verifytest.Chain{}}
	short := verifytest.Script{Prompt: prompt(6, 20), New: 4, Chain: &verifytest.Chain{}}
	want := plain(t, o, short)
	verifytest.Decode(t, target(t, o), &long, &short)
	require.ErrorIs(t, long.Err, kvcache.ErrContext)
	require.NoError(t, short.Err)
	require.Equal(t, want, short.Output)
}

func TestGivenNaNLogitsOnlyThatRowFailsAndWhatCameBeforeStaysEmitted(t *testing.T) {
	for _, chain := range []verifytest.Chain{{}, {Temperature: 1}} {
		bad := verifytest.Script{Prompt: prompt(7, 10), New: 30, Chain: &verifytest.Chain{Temperature: chain.Temperature}}
		good := verifytest.Script{Prompt: prompt(8, 5), New: 30, Chain: &verifytest.Chain{Temperature: chain.Temperature}}
		full := plain(t, verifytest.Options{}, bad)
		bad.Chain = &verifytest.Chain{Temperature: chain.Temperature}
		want := plain(t, verifytest.Options{}, good)
		good.Chain = &verifytest.Chain{Temperature: chain.Temperature}

		m := target(t, verifytest.Options{})
		m.Adjust = func(position int, logits []float32) {
			if position == 10+19 { // only the longer prompt gets there with this token
				logits[3] = float32(math.NaN())
			}
		}
		oracle := &draftertest.Oracle{Streams: [][]int32{append(slices.Clone(bad.Prompt), full...)}}
		require.NoError(t, oracle.Bind(m))
		bad.Drafter = oracle
		good.New = 20 // ends before the position
		verifytest.Decode(t, m, &bad, &good)
		require.ErrorIs(t, bad.Err, verify.ErrNaN)
		require.ErrorContains(t, bad.Err, "position 30")
		require.Equal(t, full[:20], bad.Output)
		require.NoError(t, good.Err)
		require.Equal(t, want[:20], good.Output)
	}
}

func TestGivenAFailedForwardAllRowsFailAndTheCachesAreAsBefore(t *testing.T) {
	m := target(t, verifytest.Options{})
	boom := errors.New("boom")
	rows := []*verify.Row{
		{Seq: m.Cache().Open(), Known: prompt(1, 5), Chain: &verifytest.Chain{}, Emit: func(verify.Token) bool { return true }},
		{Seq: m.Cache().Open(), Known: prompt(2, 70)},
	}
	require.NoError(t, verify.Round(context.Background(), m, rows))
	require.Equal(t, 5, rows[0].Seq.Len())
	require.Equal(t, 70, rows[1].Seq.Len())
	m.Before = func(*model.Batch) error { return boom }
	rows[0].Known, rows[0].Proposal = []int32{rows[0].Pending}, []int32{1, 2, 3}
	require.ErrorIs(t, verify.Round(context.Background(), m, rows), boom)
	for _, r := range rows {
		require.ErrorIs(t, r.Err, boom)
		require.Zero(t, r.Emitted)
	}
	require.Equal(t, 5, rows[0].Seq.Len())
	require.Equal(t, 70, rows[1].Seq.Len())

	m.Before = nil
	require.NoError(t, verify.Round(context.Background(), m, rows), "later rounds go on")
	require.NoError(t, rows[0].Err)
	require.Positive(t, rows[0].Emitted)
}

func TestGivenAFullCacheOnlyTheRowThatFindsNoRoomFails(t *testing.T) {
	// Room for four pages of 64 positions of 4 bytes.
	m := target(t, verifytest.Options{Budget: 4 * 64 * 4})
	a := &verify.Row{Seq: m.Cache().Open(), Known: prompt(1, 150)}
	b := &verify.Row{Seq: m.Cache().Open(), Known: prompt(2, 150)}
	require.NoError(t, verify.Round(context.Background(), m, []*verify.Row{a, b}))
	require.NoError(t, a.Err)
	require.ErrorIs(t, b.Err, kvcache.ErrFull)
	require.Equal(t, 150, a.Seq.Len())
	require.Zero(t, b.Seq.Len())
}

func TestGivenACancelledContextNothingIsComputed(t *testing.T) {
	m := target(t, verifytest.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := &verify.Row{Seq: m.Cache().Open(), Known: []int32{1}}
	require.ErrorIs(t, verify.Round(ctx, m, []*verify.Row{r}), context.Canceled)
	require.Zero(t, m.Forwards)
}

func TestGivenADrafterThatFailsToObserveTheRowIsWell(t *testing.T) {
	m := target(t, verifytest.Options{})
	oracle := &draftertest.Oracle{Streams: [][]int32{prompt(1, 100)}, FailObserve: 1}
	require.NoError(t, oracle.Bind(m))
	d, err := oracle.Open(drafter.Opening{Tokens: prompt(1, 5)})
	require.NoError(t, err)
	r := &verify.Row{Seq: m.Cache().Open(), Known: prompt(1, 5), Draft: d}
	require.NoError(t, verify.Round(context.Background(), m, []*verify.Row{r}))
	require.NoError(t, r.Err)
	require.ErrorContains(t, r.DraftErr, "asked too much")
}

func TestGivenRowsThatMakeNoSenseTheErrorSaysWhy(t *testing.T) {
	m := target(t, verifytest.Options{})
	for name, c := range map[string]struct {
		row  verify.Row
		want string
	}{
		"no known tokens":         {verify.Row{}, "without known tokens"},
		"token out of range":      {verify.Row{Known: []int32{24}}, "token 24 is not of the target's vocabulary of 24"},
		"proposal, nothing drawn": {verify.Row{Known: []int32{1}, Proposal: []int32{1}}, "draws nothing"},
		"proposal too wide":       {verify.Row{Known: []int32{1}, Proposal: make([]int32, 65), Chain: &verifytest.Chain{}}, "at most 64"},
	} {
		t.Run(name, func(t *testing.T) {
			c.row.Seq = m.Cache().Open()
			require.NoError(t, verify.Round(context.Background(), m, []*verify.Row{&c.row}))
			require.ErrorContains(t, c.row.Err, c.want)
		})
	}
}

func TestGivenAProposalThatIsNoTokenItIsCutThere(t *testing.T) {
	m := target(t, verifytest.Options{})
	r := &verify.Row{Seq: m.Cache().Open(), Known: []int32{1}, Proposal: []int32{2, -1, 3}, Chain: &verifytest.Chain{}, Emit: func(verify.Token) bool { return true }}
	require.NoError(t, verify.Round(context.Background(), m, []*verify.Row{r}))
	require.NoError(t, r.Err)
	require.Equal(t, []int32{2}, r.Proposal)
}

func TestAPlainStepAllocatesNothingButTheTargetsOwn(t *testing.T) {
	m := &quiet{Target: target(t, verifytest.Options{Context: 1 << 16})}
	v := verify.New(m, nil)
	chain := &fixed{}
	r := &verify.Row{Seq: m.Cache().Open(), Known: []int32{1}, Chain: chain, Emit: func(verify.Token) bool { return true }}
	rows := []*verify.Row{r}
	require.Zero(t, testing.AllocsPerRun(50, func() {
		r.Proposal = append(r.Proposal[:0], 1, 2, 3)
		if err := v.Round(context.Background(), rows); err != nil || r.Err != nil {
			t.Fatal(err, r.Err)
		}
	}))
}
