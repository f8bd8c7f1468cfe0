package cascade_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/drafter"
	"surmise/drafter/cascade"
	"surmise/drafter/draftertest"
	"surmise/fullmodel"
	"surmise/model"
	"surmise/promptlookup"
	"surmise/verify/verifytest"
)

type pieces struct{}

func (pieces) VocabSize() int        { return 64 }
func (pieces) Piece(id int32) []byte { return []byte{byte(id) + 1} }
func (pieces) IsSpecial(int32) bool  { return false }

func made(t verifytest.TB, order int) drafter.Drafter {
	of, err := promptlookup.New(promptlookup.Options{})
	require.NoError(t, err)
	m, err := verifytest.New(verifytest.Options{Vocab: 64, Order: order})
	require.NoError(t, err)
	return cascade.New(of, fullmodel.New(m, pieces{}, pieces{}, true))
}

func TestTheStreamIsThatOfPlainDecoding(t *testing.T) {
	for _, order := range []int{2, 1} {
		draftertest.Suite{
			Target: func(t verifytest.TB) model.Target {
				m, err := verifytest.New(verifytest.Options{Vocab: 64})
				require.NoError(t, err)
				return m
			},
			New:     func(t verifytest.TB) drafter.Drafter { return made(t, order) },
			Prompts: [][]int32{{1, 2, 3, 1, 2, 3, 1, 2}, {4, 5, 6, 7, 8, 9}, {10}},
		}.Run(t)
	}
}

func TestTheContractNamesItsPartsAndTheirReasons(t *testing.T) {
	d := made(t, 1)
	c := d.Contract()
	require.NoError(t, c.Validate())
	require.Equal(t, []string{"prompt-lookup", "full-model"}, c.Parts)
	require.True(t, c.Allows(promptlookup.NoMatch))
	require.True(t, c.Allows(fullmodel.ContextExceeded))
	require.NoError(t, d.Close())
}
