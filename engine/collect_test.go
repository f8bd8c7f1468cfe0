package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"surmise/drafter"
	"surmise/engine"
	"surmise/promptlookup"
	"surmise/verify/verifytest"
)

// Counts are those of all samples; rounds that samples share take their time once.
func TestTimingsOfARequestAreThoseOfAllItsSamples(t *testing.T) {
	now := time.Unix(0, 0)
	o := verifytest.Options{}
	e := hashEngine(t, o, engine.Options{Clock: func() time.Time {
		now = now.Add(time.Millisecond)
		return now
	}, Width: drafter.Fixed(3)})
	d, err := promptlookup.New(promptlookup.Options{MinMatch: 1})
	require.NoError(t, err)
	p := params(1, 5, 40)
	p.N, p.IgnoreEOS = 3, true
	c := engine.NewCollector(3)
	start := now
	require.NoError(t, e.Run(context.Background(), engine.Request{Prompt: prompt(1, 30), Params: p, Drafter: d, Emit: c.Add}))
	wall := now.Sub(start)
	total := c.Timings()
	var sum engine.Timings
	declined, drafts := int64(0), int64(0)
	for _, a := range c.Answers() {
		own := a.Finish.Timings
		sum.PredictedN += own.PredictedN
		sum.Draft.Add(&own.Draft)
		require.LessOrEqual(t, own.Predicted, total.Predicted)
	}
	require.Equal(t, 3*40, total.PredictedN)
	require.Equal(t, sum.PredictedN, total.PredictedN)
	require.Equal(t, sum.Draft.Rounds, total.Draft.Rounds)
	require.Equal(t, sum.Draft.Widths, total.Draft.Widths)
	require.Equal(t, sum.Draft.Accepted, total.Draft.Accepted)
	require.Positive(t, total.Draft.Proposed)
	require.Equal(t, promptlookup.Name, total.DraftKind)
	require.Len(t, total.Sources, 1)
	for _, s := range total.Sources {
		drafts += s.Drafts
	}
	for _, x := range total.Declines {
		declined += x.Rounds
	}
	require.Equal(t, total.Draft.Drafts, drafts)
	require.Equal(t, total.Draft.Rounds, drafts+declined, "each round of samples forked before the last prompt token drafts or says why not")
	require.Equal(t, 30, total.PromptN, "the prompt is computed once")
	spent := total.Draft.Draft + total.Draft.Verify + total.Draft.Sample
	require.Positive(t, spent)
	require.Less(t, spent, sum.Draft.Draft+sum.Draft.Verify+sum.Draft.Sample)
	require.LessOrEqual(t, spent, wall)
	require.LessOrEqual(t, total.Prompt+total.Predicted, wall)
	require.InDelta(t, 3*40/total.Predicted.Seconds(), total.PredictedPerSecond(), 1e-9)

	again := c.Timings()
	require.Equal(t, total, again, "adding up changes no sample")
}
