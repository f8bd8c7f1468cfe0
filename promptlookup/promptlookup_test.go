package promptlookup_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/drafter"
	"surmise/drafter/draftertest"
	"surmise/model"
	"surmise/promptlookup"
	"surmise/verify/verifytest"
)

func TestLookupPassesTheSuiteOfDrafters(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var prompts [][]int32
	for _, n := range []int{1, 40, 130} {
		p := make([]int32, n)
		for i := range p {
			p[i] = r.Int32N(6)
		}
		prompts = append(prompts, p)
	}
	draftertest.Suite{
		Target: func(t verifytest.TB) model.Target {
			m, err := verifytest.New(verifytest.Options{Vocab: 6})
			require.NoError(t, err)
			return m
		},
		New: func(t verifytest.TB) drafter.Drafter {
			d, err := promptlookup.New(promptlookup.Options{MinMatch: 1})
			require.NoError(t, err)
			return d
		},
		Prompts: prompts,
	}.Run(t)
}

func open(t *testing.T, o promptlookup.Options, opening drafter.Opening) (*promptlookup.Drafter, drafter.Seq) {
	d, err := promptlookup.New(o)
	require.NoError(t, err)
	s, err := d.Open(opening)
	require.NoError(t, err)
	return d, s
}

func propose(t *testing.T, d *promptlookup.Drafter, s drafter.Seq, position int, known []int32, budget int) *drafter.Row {
	r := &drafter.Row{Seq: s, Position: position, Known: known, Budget: budget}
	require.NoError(t, d.Propose(context.Background(), []*drafter.Row{r}))
	return r
}

func TestWidthGrowsWithTheLengthOfTheMatch(t *testing.T) {
	text := []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 50, 51, 52, 1, 2}
	d, s := open(t, promptlookup.Options{}, drafter.Opening{Tokens: text})
	r := propose(t, d, s, 0, text, 64)
	require.Equal(t, []int32{3, 4}, r.Proposal, "a match of two proposes two")
	require.Equal(t, 2, r.Match)

	require.NoError(t, d.Observe([]*drafter.Outcome{{Seq: s, Committed: append(text, 3, 4), Pending: 5}}))
	require.Equal(t, len(text)+2, s.Position())
	r = propose(t, d, s, s.Position(), []int32{5}, 64)
	require.Equal(t, []int32{6, 7, 8, 9, 10}, r.Proposal, "a match of five proposes five")
	r = propose(t, d, s, s.Position(), []int32{5}, 3)
	require.Equal(t, []int32{6, 7, 8}, r.Proposal, "and never more than its budget")
}

func TestAMatchUnderTheMinimumIsDeclined(t *testing.T) {
	text := []int32{1, 2, 3, 9, 2}
	d, s := open(t, promptlookup.Options{MinMatch: 2}, drafter.Opening{Tokens: text})
	r := propose(t, d, s, 0, text, 8)
	require.Empty(t, r.Proposal)
	require.Equal(t, promptlookup.NoMatch, r.Decline)

	d, s = open(t, promptlookup.Options{MinMatch: 1}, drafter.Opening{Tokens: text})
	require.Equal(t, []int32{3}, propose(t, d, s, 0, text, 8).Proposal)
}

func TestAPredictionIsCopiedFromTheFirstTokenAndFoundAgainAfterAnEdit(t *testing.T) {
	prompt, prediction := []int32{90, 91, 92, 93}, []int32{1, 2, 3, 4, 5, 6, 7, 8}
	d, s := open(t, promptlookup.Options{}, drafter.Opening{Tokens: prompt, Prediction: prediction})
	require.Equal(t, []int32{1, 2, 3, 4}, propose(t, d, s, 0, prompt, 8).Proposal)

	// The output leaves the prediction at its third token and comes back.
	require.NoError(t, d.Observe([]*drafter.Outcome{{Seq: s, Committed: append(prompt, 1, 2, 70, 4), Pending: 5}}))
	require.Equal(t, []int32{6, 7}, propose(t, d, s, s.Position(), []int32{5}, 8).Proposal)

	require.NoError(t, d.Observe([]*drafter.Outcome{{Seq: s, Position: 8, Committed: []int32{5, 6, 7}, Pending: 8}}))
	require.Empty(t, propose(t, d, s, s.Position(), []int32{8}, 8).Proposal, "nothing follows the end of the prediction")
}

func TestAnOutcomeOutOfStepIsAnErrorOfItsSequence(t *testing.T) {
	d, s := open(t, promptlookup.Options{}, drafter.Opening{Tokens: []int32{1, 2, 3}, Cached: 2})
	require.Equal(t, 2, s.Position())
	o := &drafter.Outcome{Seq: s, Position: 1, Committed: []int32{2, 3}, Pending: 4}
	require.NoError(t, d.Observe([]*drafter.Outcome{o}))
	require.ErrorContains(t, o.Err, "position 1, expected one at 2")
	o = &drafter.Outcome{Seq: s, Position: 2, Committed: []int32{7}, Pending: 4}
	require.NoError(t, d.Observe([]*drafter.Outcome{o}))
	require.ErrorContains(t, o.Err, "token 7 at position 2 was told as 3 before")
}

func TestAForkGoesItsOwnWay(t *testing.T) {
	text := []int32{1, 2, 3, 1, 2}
	d, s := open(t, promptlookup.Options{}, drafter.Opening{Tokens: text, Cached: 4})
	f, err := s.Fork()
	require.NoError(t, err)
	require.NoError(t, d.Observe([]*drafter.Outcome{{Seq: f, Position: 4, Committed: []int32{2}, Pending: 9}}))
	require.Equal(t, 5, f.Position())
	require.Equal(t, 4, s.Position())
	require.Equal(t, []int32{3, 1}, propose(t, d, s, 4, []int32{2}, 8).Proposal)
}

func TestOptionsOutOfRangeAreErrorsThatNameTheRange(t *testing.T) {
	_, err := promptlookup.New(promptlookup.Options{MinMatch: 65})
	require.ErrorContains(t, err, "min-match 65: want 1..64")
	_, err = promptlookup.New(promptlookup.Options{MaxWidth: -1})
	require.ErrorContains(t, err, "max-width -1: want 1..64")
	_, err = promptlookup.Kind().New(drafter.Config{Options: map[string]string{"depth": "3"}})
	require.ErrorContains(t, err, `unknown option "depth"`)
	_, err = promptlookup.Kind().New(drafter.Config{Options: map[string]string{"min-match": "x"}})
	require.ErrorContains(t, err, `option min-match "x": want a number from 1 to 64`)
	_, err = promptlookup.Kind().New(drafter.Config{Options: map[string]string{"max-width": "0"}})
	require.ErrorContains(t, err, `option max-width "0": want a number from 1 to 64`)
}
