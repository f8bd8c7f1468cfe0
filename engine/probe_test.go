package engine_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/drafter"
	"surmise/engine"
	"surmise/model"
	"surmise/promptlookup"
	"surmise/verify/verifytest"
)

// sloppy is a target whose blocks round otherwise than single steps.
type sloppy struct{ *verifytest.Target }

func (s sloppy) Forward(b *model.Batch) error {
	if err := s.Target.Forward(b); err != nil {
		return err
	}
	if n := b.Rows[0].Logits; n > 2 {
		z := b.Logits(0, n-1)
		z[3] = math.Nextafter32(z[3], 100)
	}
	return nil
}

func TestGivenATargetWithExactBlocksThenTheProbeSaysSo(t *testing.T) {
	m, err := verifytest.New(verifytest.Options{})
	require.NoError(t, err)
	p, err := engine.ProbeWidth(m)
	require.NoError(t, err)
	require.True(t, p.Exact)
	require.Zero(t, m.Cache().Stats().Sequences)
	require.Equal(t, drafter.Stream, p.Apply(promptlookup.Contract()).Sampling)
	require.NoError(t, m.Close())
}

func TestGivenATargetWhoseBlocksDifferInOneBitThenTheContractClaimsLess(t *testing.T) {
	m, err := verifytest.New(verifytest.Options{})
	require.NoError(t, err)
	p, err := engine.ProbeWidth(sloppy{m})
	require.NoError(t, err)
	require.False(t, p.Exact)
	require.Contains(t, p.Difference, "of a block of 8: logit 3")
	c := p.Apply(promptlookup.Contract())
	require.Equal(t, drafter.UpToNearTies, c.Greedy)
	require.Equal(t, drafter.Distribution, c.Sampling)
	require.NoError(t, m.Close())
}
