package fullmodel_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/drafter"
	"surmise/drafter/draftertest"
	"surmise/fullmodel"
	"surmise/model"
	"surmise/verify/verifytest"
)

// words is a vocabulary of made-up tokens; order maps an id to its word.
type words struct {
	size    int
	order   func(id int32) int32
	special map[int32]bool // by word
}

func (w words) VocabSize() int          { return w.size }
func (w words) Piece(id int32) []byte   { return fmt.Appendf(nil, "w%d", w.order(id)) }
func (w words) IsSpecial(id int32) bool { return w.special[w.order(id)] }

func same(id int32) int32 { return id }

const vocab = 64

func target(t verifytest.TB, o verifytest.Options) model.Target {
	m, err := verifytest.New(o)
	require.NoError(t, err)
	return m
}

func TestGivenAnyDraftModelThenTheStreamIsThatOfPlainDecoding(t *testing.T) {
	own := words{size: vocab, order: same}
	for name, o := range map[string]struct {
		draft  verifytest.Options
		pieces words
	}{
		"the target itself":      {verifytest.Options{Vocab: vocab}, own},
		"another model":          {verifytest.Options{Vocab: vocab, Order: 1}, own},
		"a shorter context":      {verifytest.Options{Vocab: vocab, Context: 40}, own},
		"a padded vocabulary":    {verifytest.Options{Vocab: vocab + 16}, own},
		"another order of words": {verifytest.Options{Vocab: vocab, Order: 3}, words{size: vocab, order: func(id int32) int32 { return vocab - 1 - id }}},
	} {
		t.Run(name, func(t *testing.T) {
			draftertest.Suite{
				Target: func(t verifytest.TB) model.Target { return target(t, verifytest.Options{Vocab: vocab}) },
				New: func(t verifytest.TB) drafter.Drafter {
					return fullmodel.New(target(t, o.draft), o.pieces, own, true)
				},
				Prompts: [][]int32{{1, 2, 3}, {4, 5, 6, 7, 8, 9}, {10}},
			}.Run(t)
		})
	}
}

func TestGivenTheTargetItselfThenEveryProposalIsAccepted(t *testing.T) {
	own := words{size: vocab, order: same}
	o := verifytest.Options{Vocab: vocab, Context: 512}
	for _, width := range []int{1, 2, 5, 16} {
		d := fullmodel.New(target(t, o), own, own, true)
		m := target(t, o)
		require.NoError(t, d.Bind(m))
		s := &verifytest.Script{Prompt: []int32{1, 2, 3}, New: 200, Chain: &verifytest.Chain{}, Drafter: d, Width: func(int) int { return width }}
		verifytest.Decode(t, m, s)
		require.NoError(t, s.Err)
		require.Len(t, s.Output, 200)
		require.Equal(t, s.Tally.Proposed, s.Tally.Accepted, "the draft model owes a token after full acceptance and pays it")
		require.NoError(t, d.Close())
		require.NoError(t, m.Close())
	}
}

func TestGivenAnotherTokenizerThenBindNamesTheFirstDifferences(t *testing.T) {
	own := words{size: vocab, order: same}
	other := words{size: vocab, order: func(id int32) int32 { return id + 3 }}
	d := fullmodel.New(target(t, verifytest.Options{Vocab: vocab}), other, own, true)
	m := target(t, verifytest.Options{Vocab: vocab})
	err := d.Bind(m)
	require.ErrorContains(t, err, `lacks 3 of the target's tokens (0 "w0", 1 "w1", 2 "w2"): want`, "all of them, so without an ellipsis")
	require.NoError(t, d.Close())

	other.order = func(id int32) int32 { return id + 7 }
	d = fullmodel.New(target(t, verifytest.Options{Vocab: vocab}), other, own, true)
	require.ErrorContains(t, d.Bind(m), `lacks 7 of the target's tokens (0 "w0", 1 "w1", 2 "w2", 3 "w3", 4 "w4", …): want`)
	require.NoError(t, d.Close())
	require.NoError(t, m.Close())
}

func TestGivenATokenizerBeyondTheDraftModelsEmbeddingThenBindSaysSo(t *testing.T) {
	own := words{size: vocab, order: same}
	large := words{size: vocab + 1, order: same}
	d := fullmodel.New(target(t, verifytest.Options{Vocab: vocab}), large, own, true)
	m := target(t, verifytest.Options{Vocab: vocab})
	require.ErrorContains(t, d.Bind(m), fmt.Sprintf("the draft model's tokenizer has %d tokens, but the model only %d", vocab+1, vocab))
	require.NoError(t, d.Close())
	require.NoError(t, m.Close())
}

func TestGivenASpecialTokenTheDraftModelLacksThenTheRowDeclines(t *testing.T) {
	own := words{size: vocab, order: same, special: map[int32]bool{0: true}}
	short := words{size: vocab - 1, order: func(id int32) int32 { return id + 1 }}
	d := fullmodel.New(target(t, verifytest.Options{Vocab: vocab}), short, own, true)
	m := target(t, verifytest.Options{Vocab: vocab})
	require.NoError(t, d.Bind(m))
	s, err := d.Open(drafter.Opening{Tokens: []int32{5}})
	require.NoError(t, err)
	row := drafter.Row{Seq: s, Known: []int32{5, 0}, Budget: 4}
	drafter.Propose(context.Background(), []*drafter.Row{&row})
	require.NoError(t, row.Err)
	require.Equal(t, fullmodel.UnknownToken, row.Decline)
	require.True(t, d.Contract().Allows(row.Decline))
	require.NoError(t, s.Close())
	require.NoError(t, d.Close())
	require.NoError(t, m.Close())
}
