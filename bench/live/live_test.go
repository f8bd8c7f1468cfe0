package live_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"surmise/bench"
	"surmise/bench/live"
	"surmise/drafter"
	"surmise/model"
	"surmise/promptlookup"
	"surmise/sampler"
	"surmise/verify/verifytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ticking is a clock that moves a millisecond whenever it is read.
type ticking struct{ at time.Time }

func (c *ticking) now() time.Time {
	c.at = c.at.Add(time.Millisecond)
	return c.at
}

func lane(t *testing.T, m model.Target, width string, temperature float64, now func() time.Time) *live.Lane {
	t.Helper()
	s := live.LaneSetup{Config: bench.Config{Kind: "none", Temperature: temperature}, Target: m, Params: sampler.Default(), Now: now}
	s.Params.MaxNewTokens = 100
	if width != "" {
		d, err := promptlookup.New(promptlookup.Options{})
		require.NoError(t, err)
		s.Config.Kind, s.Config.Width, s.Drafter = drafter.Lookup, width, d
	}
	l, err := live.NewLane(s)
	require.NoError(t, err)
	return l
}

func target(t *testing.T) *verifytest.Target {
	t.Helper()
	m, err := verifytest.New(verifytest.Options{Order: 1})
	require.NoError(t, err)
	return m
}

func TestGivenLanesThatTakeTurnsWhenRacedThenEachDoesWhatItDoesAlone(t *testing.T) {
	prompt := []int32{1, 2, 3, 4, 1, 2, 3, 4, 1, 2}
	for _, temperature := range []float64{0, 0.5} {
		m := target(t)
		widths := []string{"", "1", "4", "16"}
		var together []*live.Lane
		for _, w := range widths {
			together = append(together, lane(t, m, w, temperature, (&ticking{}).now))
		}
		for first := range widths {
			answers, err := live.Race(context.Background(), together, prompt, 9, first)
			require.NoError(t, err)
			for i, r := range live.Trials(together, answers, "x", "c", 0) {
				alone := lane(t, target(t), widths[i], temperature, (&ticking{}).now)
				want, err := live.Race(context.Background(), []*live.Lane{alone}, prompt, 9, 0)
				require.NoError(t, err)
				require.NoError(t, live.Same(&want[0], &answers[i]))
				w := live.Trials([]*live.Lane{alone}, want, "x", "c", 0)[0].Trial
				require.True(t, w.Counts.SameCounts(r.Trial.Counts))
				require.Equal(t, w.Declines, r.Trial.Declines)
				require.Equal(t, i > 0, r.Trial.Same != nil)
				if i > 0 {
					require.True(t, *r.Trial.Same)
				}
			}
		}
	}
}

func TestGivenAClockThatTicksWhenALaneRestsThenItsTimeStandsStill(t *testing.T) {
	c := &ticking{}
	w := live.NewStopwatch(c.now)
	begin := w.Now()
	require.Equal(t, begin, w.Now())
	w.Start()
	require.Equal(t, time.Millisecond, w.Now().Sub(begin))
	w.Stop()
	stopped := w.Now()
	c.at = c.at.Add(time.Hour)
	require.Equal(t, stopped, w.Now())
	w.Start()
	require.Less(t, w.Now().Sub(stopped), time.Second)
}

func TestGivenALaneThatFailsWhenRacedThenThatIsTheErrorAndNothingStaysOpen(t *testing.T) {
	m := target(t)
	m.Before = func(*model.Batch) error {
		if m.Forwards > 5 {
			return errors.New("no more")
		}
		return nil
	}
	_, err := live.Race(context.Background(), []*live.Lane{lane(t, m, "", 0, time.Now)}, []int32{1, 2}, 1, 0)
	require.ErrorContains(t, err, "no more")
	require.Zero(t, m.Cache().Stats().Sequences)

	ctx, cancel := context.WithCancel(context.Background())
	m = target(t)
	m.Before = func(*model.Batch) error { cancel(); return nil }
	_, err = live.Race(ctx, []*live.Lane{lane(t, m, "", 0, time.Now), lane(t, m, "4", 0, time.Now)}, []int32{1, 2}, 1, 0)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, m.Cache().Stats().Sequences)
}

func TestGivenAPromptThatDoesNotFitThenTheReasonNamesTheNumbers(t *testing.T) {
	require.Empty(t, live.Fits(10, 6, 16))
	require.Contains(t, live.Fits(11, 6, 16), "11 tokens, but the context of 16 leaves room for 10")
}

func TestSeedsDifferByRequestAndAreTheSameForAllLanes(t *testing.T) {
	require.Equal(t, live.RequestSeed(1, "a", 0), live.RequestSeed(1, "a", 0))
	require.NotEqual(t, live.RequestSeed(1, "a", 0), live.RequestSeed(1, "a", 1))
	require.NotEqual(t, live.RequestSeed(1, "a", 0), live.RequestSeed(2, "a", 0))
}
