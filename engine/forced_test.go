package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/drafter"
	"surmise/engine"
	"surmise/promptlookup"
	"surmise/verify/verifytest"
)

func TestAForcedStreamIsEmittedWhateverTheTargetSays(t *testing.T) {
	lookup, err := promptlookup.New(promptlookup.Options{MinMatch: 1})
	require.NoError(t, err)
	forced := []int32{1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 9}
	for _, temperature := range []float64{0, 1} {
		r := engine.Request{Prompt: prompt(1, 8), Params: params(temperature, 1, len(forced)), Forced: forced, Drafter: lookup}
		a := one(t, hashEngine(t, verifytest.Options{}, engine.Options{Width: drafter.Fixed(4)}), r)
		require.Equal(t, forced, a.IDs())
		require.Positive(t, a.Finish.Timings.Draft.Accepted)
	}
}
