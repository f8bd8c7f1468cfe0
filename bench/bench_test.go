package bench_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"surmise/bench"
	"surmise/drafter"
	"surmise/engine/costs"
)

// rounds are random rounds of a stream, tallied.
func rounds(t *rapid.T) (tally drafter.Tally, all [][2]int) {
	for range rapid.IntRange(0, 30).Draw(t, "rounds") {
		proposed := rapid.IntRange(0, drafter.MaxWidth).Draw(t, "proposed")
		accepted := rapid.IntRange(0, proposed).Draw(t, "accepted")
		tally.Round(proposed, accepted)
		all = append(all, [2]int{proposed, accepted})
	}
	return tally, all
}

func TestGivenAnyRoundsWhenCountedThenEveryNumberFollowsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tally, all := rounds(t)
		c := bench.CountsOf(&tally)
		drafts, proposed, accepted := 0.0, 0.0, 0.0
		var reached, tried [drafter.MaxWidth]float64
		var histogram [drafter.MaxWidth + 1]float64
		for _, r := range all {
			if r[0] == 0 {
				continue // a proposal of zero tokens is no draft
			}
			drafts++
			proposed += float64(r[0])
			accepted += float64(r[1])
			histogram[r[1]]++
			for i := range r[0] {
				if r[1] >= i {
					tried[i]++
				}
				if r[1] > i {
					reached[i]++
				}
			}
		}
		require.EqualValues(t, len(all), c.Rounds)
		require.EqualValues(t, drafts, c.Drafts)
		if drafts == 0 {
			require.Zero(t, c.MeanAcceptanceLength())
			require.Zero(t, c.AcceptanceRate())
			require.Empty(t, c.Histogram())
			return
		}
		require.InDelta(t, 1+accepted/drafts, c.MeanAcceptanceLength(), 1e-12)
		require.InDelta(t, accepted/proposed, c.AcceptanceRate(), 1e-12)
		sum := 0.0
		for i, u := range c.Unconditional() {
			require.InDelta(t, reached[i]/drafts, u, 1e-12)
			require.InDelta(t, reached[i]/tried[i], c.Conditional()[i], 1e-12)
			sum += u
		}
		require.InDelta(t, c.MeanAcceptanceLength(), 1+sum, 1e-9, "the length is one and the sum of the unconditional rates")
		for n, h := range c.Histogram() {
			require.EqualValues(t, histogram[n], h)
		}
	})
}

func TestGivenCountsWhenStoredOrSplitThenNothingChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, _ := rounds(t)
		b, _ := rounds(t)
		sum := bench.CountsOf(&a)
		sum.Add(bench.CountsOf(&b))
		a.Add(&b)
		require.True(t, bench.CountsOf(&a).SameCounts(sum))
		data, err := json.Marshal(sum)
		require.NoError(t, err)
		var back bench.Counts
		require.NoError(t, json.Unmarshal(data, &back))
		require.True(t, sum.SameCounts(back))
	})
}

func trial(item string, tokens int, seconds float64) bench.Trial {
	return bench.Trial{Item: item, Category: "c", Tokens: tokens, PromptSeconds: 1, DecodeSeconds: seconds}
}

func TestGivenTrialsOfEqualRatioWhenSummarizedThenSpeedupIsThatRatioWithoutDoubt(t *testing.T) {
	var plain, drafted []bench.Trial
	for _, x := range []struct {
		item   string
		tokens int
	}{{"a", 101}, {"b", 11}, {"c", 51}} {
		plain = append(plain, trial(x.item, x.tokens, float64(x.tokens-1)*0.1))
		drafted = append(drafted, trial(x.item, x.tokens, float64(x.tokens-1)*0.05))
	}
	s := bench.Summarize(drafted, plain, 1)
	require.InDelta(t, 2, s.Speedup.Mean, 1e-12)
	require.InDelta(t, 2, s.Speedup.Low, 1e-9)
	require.InDelta(t, 2, s.Speedup.High, 1e-9)
	require.InDelta(t, 20, s.TokensPerSecond, 1e-9)
	require.InDelta(t, 1+50*0.05, s.LatencyP50, 1e-9)
	require.Nil(t, bench.Summarize(plain, nil, 1).Speedup)

	// A request that only one of them has counts for no ratio.
	drafted = append(drafted, trial("alone", 100, 1000))
	require.InDelta(t, 2, bench.Summarize(drafted, plain, 1).Speedup.Mean, 1e-12)
}

func TestGivenRatiosThatScatterWhenSummarizedThenTheIntervalCoversTheTruthAsOftenAsItSays(t *testing.T) {
	covered := 0
	const experiments = 200
	state := uint64(1)
	uniform := func() float64 {
		state = state*6364136223846793005 + 1442695040888963407
		return float64(state>>11) / (1 << 53)
	}
	for e := range experiments {
		var plain, drafted []bench.Trial
		for i := range 40 {
			item := string(rune('a'+i%26)) + string(rune('a'+i/26))
			plain = append(plain, trial(item, 101, 10))
			drafted = append(drafted, trial(item, 101, 5+3*(uniform()-0.5)))
		}
		s := bench.Summarize(drafted, plain, uint64(e))
		if s.Speedup.Low <= 2 && 2 <= s.Speedup.High {
			covered++
		}
	}
	require.GreaterOrEqual(t, covered, experiments*88/100)
	require.Less(t, covered, experiments)
}

func TestQuantilesLieBetweenNeighbours(t *testing.T) {
	v := []float64{4, 1, 3, 2}
	require.Equal(t, 2.5, bench.Quantile(v, 0.5))
	require.Equal(t, 1.0, bench.Quantile(v, 0))
	require.Equal(t, 4.0, bench.Quantile(v, 1))
	require.InDelta(t, 3.85, bench.Quantile(v, 0.95), 1e-12)
	require.Zero(t, bench.Quantile(nil, 0.5))
	require.Equal(t, []float64{4, 1, 3, 2}, v, "the values stay in their order")
}

func TestGivenCurvesWhenAskedThenForwardsAreLinearInRowsAndContext(t *testing.T) {
	short := bench.CurveOf(costs.Table{Context: 100, Forward: map[int]time.Duration{1: 10 * time.Millisecond, 5: 14 * time.Millisecond, 9: 22 * time.Millisecond}})
	long := bench.CurveOf(costs.Table{Context: 300, Forward: map[int]time.Duration{1: 12 * time.Millisecond, 9: 28 * time.Millisecond}})
	c := &bench.Costs{Curves: []bench.Curve{short, long}}
	for _, x := range []struct {
		rows, context int
		want          float64
	}{{1, 100, 10}, {3, 100, 12}, {7, 100, 18}, {11, 100, 26}, {1, 200, 11}, {9, 300, 28}, {5, 200, 17}} {
		require.InDelta(t, x.want, c.Forward(x.rows, x.context).Seconds()*1000, 1e-3, "%+v", x)
	}
	require.Zero(t, (*bench.Costs)(nil).Forward(3, 5))
	require.Nil(t, (*bench.Costs)(nil).Table())
	require.Equal(t, 14*time.Millisecond, c.Table()[5])
}

func TestGivenAnotherExperimentWhenComparedThenTheErrorNamesWhatDiffers(t *testing.T) {
	a := bench.About{Format: bench.TrialsFormat, Version: 1, Data: "x"}
	b := a
	require.NoError(t, a.Same(b))
	b.Data = "y"
	require.ErrorContains(t, a.Same(b), "its data is y, this one's x")
	b = a
	b.Format = "other"
	require.ErrorContains(t, a.Same(b), `format "other"`)
	require.False(t, math.IsNaN(bench.Summarize(nil, nil, 1).TokensPerSecond))
}

func TestGivenLinesWhenGatheredThenARequestCountsOnce(t *testing.T) {
	var g bench.Gather
	c := bench.Config{Kind: "mtp", Draft: "/models/head/", Width: "4", Temperature: 0.8}
	require.Equal(t, "mtp(head) k=4 T=0.8", c.String())
	l := bench.Line{Item: "a", Results: []bench.Result{{Config: c, Trial: trial("a", 5, 1)}, {Config: c.Baseline(), Trial: trial("a", 5, 2)}}}
	require.NoError(t, g.Add(l))
	require.ErrorContains(t, g.Add(l), "twice")
	require.NoError(t, g.Add(bench.Line{Item: "b", Skipped: "too long"}))
	require.Len(t, g.Series, 2)
	require.Equal(t, "too long", g.Skipped["b"])
}

func TestGivenParametersWhenComparedThenOnlyThoseThatDifferAreNamed(t *testing.T) {
	differ := func(ours, had string) string {
		return bench.Differ(bench.ParamFields(json.RawMessage(ours), json.RawMessage(had)))
	}
	require.Empty(t, differ(`{"a":1,"b":[2]}`, `{"b":[2],"a":1}`))
	require.Equal(t, "its b is 3, this one's 2; its c is not there, this one's 1", differ(`{"a":1,"b":2,"c":1}`, `{"a":1,"b":3}`))
	require.Equal(t, "its a is 1, this one's not there", differ(`null`, `{"a":1}`))
	require.Contains(t, differ(`{}`, `[]`), "sampling parameters")
}
