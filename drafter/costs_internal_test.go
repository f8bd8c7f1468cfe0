package drafter

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGivenAStallThenDraftCostsComeBackToWhatTheyAre(t *testing.T) {
	var d draftCost
	d.learn(1, 0, 1e-3)
	d.learn(3, 0, 40e-3) // the machine was busy
	for range 200 {
		require.Positive(t, d.at(1))
		d.learn(1, 0, 1e-3)
	}
	require.InDelta(t, 1e-3, d.at(1), 0.2e-3)
}

func TestGivenADebtThenItsCostIsToldFromThatOfProposing(t *testing.T) {
	var d draftCost
	const step, each = 1e-3, 1e-5
	d.learn(2, 1000, 2*step+1000*each)
	require.False(t, d.known(), "a first proposal behind a long prompt says little of the next")
	for range 20 {
		d.learn(2, 3, 2*step)
		d.learn(2, 1000, 2*step+1000*each)
	}
	require.InDelta(t, 2*step, d.at(2), 1e-6)
	require.InEpsilon(t, 1000*each, d.debt(1000), 0.05)
}
