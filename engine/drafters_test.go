package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/engine"
	"surmise/engine/kinds"
	"surmise/promptlookup"
	"surmise/verify/verifytest"
)

func TestFreshRequestsTakeNothingFromEarlierOnesAndLeaveNothingBehind(t *testing.T) {
	d, err := promptlookup.New(promptlookup.Options{})
	require.NoError(t, err)
	e := hashEngine(t, verifytest.Options{}, engine.Options{})
	r := engine.Request{Prompt: prompt(3, 200), Params: params(0.7, 5, 40), Drafter: d, Fresh: true}
	first := one(t, e, r)
	require.Zero(t, e.Target().Cache().Stats().Published)
	second := one(t, e, r)
	require.Zero(t, second.Finish.Timings.CachedN)
	same(t, first, second)
	require.Equal(t, first.Finish.Timings.Draft.Accepted, second.Finish.Timings.Draft.Accepted)

	r.Fresh = false
	same(t, first, one(t, e, r))
	require.Equal(t, 192, one(t, e, r).Finish.Timings.CachedN, "what is not fresh shares its prompt")
	r.Fresh = true
	require.Zero(t, one(t, e, r).Finish.Timings.CachedN, "and what is fresh still does not")
}

func TestFurtherDraftersAreOpenedForATarget(t *testing.T) {
	all, err := kinds.All()
	require.NoError(t, err)
	b := engine.Basis{Target: hashTarget(t, verifytest.Options{})}
	d, err := engine.OpenDraft(all, engine.DraftSetup{Kind: "prompt-lookup", Options: map[string]string{"max-width": "3"}}, b, nil)
	require.NoError(t, err)
	require.Equal(t, 3, d.Contract().MaxWidth)
	require.Nil(t, d.Checkpoint)
	require.NoError(t, d.Close())
	for kind, want := range map[string]string{"none": "drafts nothing", "magic": "unknown draft kind", "dflash": "needs a draft model"} {
		_, err := engine.OpenDraft(all, engine.DraftSetup{Kind: kind}, b, nil)
		require.ErrorContains(t, err, want)
	}
}
