package engine_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/drafter"
	"surmise/engine"
)

// napping is a fixed width whose rows rest at random.
type napping struct {
	drafter.Fixed
	dice *rand.Rand
	rest int // rounds left
}

func (n *napping) Ask(rows []*drafter.Row) {
	n.Fixed.Ask(rows)
	if n.rest--; n.rest < -6 {
		n.rest = n.dice.IntN(40)
	}
	for _, r := range rows {
		if n.rest > 0 {
			r.Budget, r.Rest, r.Decline = 0, true, drafter.Unprofitable
		}
	}
}

// However often a drafter was spared the hidden states, the stream is that of plain
// decoding, and the drafter goes on behind.
func TestGivenRowsThatRestThenTheStreamIsPlainAndDraftingGoesOn(t *testing.T) {
	f := openKinds(t)
	for _, k := range f.kinds {
		t.Run(k.name, func(t *testing.T) {
			for _, temperature := range []float64{0, 1} {
				for seed := range uint64(3) {
					r := engine.Request{Prompt: f.prose(20 + 30*int(seed)), Params: params(temperature, seed, 150)}
					r.Params.IgnoreEOS = true
					want := f.plain(t, r)
					r.Drafter, r.Fresh = f.ready(t, k, r), seed != 1
					width := &napping{Fixed: 3, dice: rand.New(rand.NewPCG(seed, 3))}
					got := generate(t, f.engine(engine.Options{Width: width}), r)[0][0]
					same(t, want, got)
					well(t, got)
					require.Positive(t, got.Finish.Timings.Draft.Drafts)
				}
			}
		})
	}
}
