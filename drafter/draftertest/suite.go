package draftertest

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"surmise/drafter"
	"surmise/model"
	"surmise/verify/verifytest"
)

// Suite is what any drafter must pass, whatever it proposes.
type Suite struct {
	// Target makes a fresh target.
	Target func(t verifytest.TB) model.Target
	// New makes a fresh drafter, not bound.
	New func(t verifytest.TB) drafter.Drafter
	// Prompts are decoded together.
	Prompts [][]int32
	// Tokens are emitted per prompt: 40 if zero.
	Tokens int
}

// Run checks that the contract is complete, and that batches of rows emit what
// plain decoding emits, for random widths, prompt chunks and chains, with the
// drafter's position equal to the target's after every round.
func (s Suite) Run(t *testing.T) {
	if s.Tokens == 0 {
		s.Tokens = 40
	}
	t.Run("contract is complete", func(t *testing.T) {
		d := s.New(t)
		require.NoError(t, d.Bind(s.Target(t)))
		require.NoError(t, d.Contract().Validate())
		require.NoError(t, d.Close())
	})
	t.Run("given any widths, chunks and chains, the stream is that of plain decoding", func(t *testing.T) {
		rapid.Check(t, s.stream)
	})
}

func (s Suite) stream(t *rapid.T) {
	plain, drafted := s.Target(t), s.Target(t)
	d := s.New(t)
	require.NoError(t, d.Bind(drafted))
	var want, got []*verifytest.Script
	for _, prompt := range s.Prompts {
		chain := verifytest.Chain{
			Seed:        rapid.Uint64().Draw(t, "seed"),
			Temperature: rapid.SampledFrom([]float32{0, 0, 0.7, 1.5}).Draw(t, "temperature"),
			Penalty:     rapid.SampledFrom([]float32{0, 0, 0.3}).Draw(t, "penalty"),
		}
		widths := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "widths"), 0))
		most := rapid.SampledFrom([]int{1, 2, 4, 8, drafter.MaxWidth}).Draw(t, "most")
		a, b := chain, chain
		want = append(want, &verifytest.Script{Prompt: prompt, New: s.Tokens, Chain: &a})
		got = append(got, &verifytest.Script{
			Prompt: prompt, New: s.Tokens, Chain: &b, Drafter: d,
			Chunk: rapid.SampledFrom([]int{0, 1, 7}).Draw(t, "chunk"),
			Width: func(int) int { return widths.IntN(most + 1) },
		})
	}
	for _, w := range want {
		verifytest.Decode(t, plain, w)
		require.NoError(t, w.Err)
	}
	verifytest.Decode(t, drafted, got...)
	for i := range got {
		require.NoError(t, got[i].Err)
		require.Equal(t, want[i].Output, got[i].Output)
	}
	require.NoError(t, d.Close())
	require.Zero(t, drafted.Cache().Stats().Sequences)
	require.NoError(t, plain.Close())
	require.NoError(t, drafted.Close())
}
