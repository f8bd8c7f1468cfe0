package dflash

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/compute/canon"
	"surmise/drafter"
	"surmise/internal/golden"
	"surmise/model"
)

// openFixture opens the drafter made by training/make_fixtures.py: a full and a
// sliding, hence causal, layer.
func openFixture(t *testing.T) (*Drafter, map[string]golden.Tensor) {
	t.Helper()
	dir := filepath.Join("testdata", "tiny")
	want := golden.Read(t, filepath.Join(dir, "golden.safetensors"))
	ck, err := checkpoint.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ck.Close()) })
	dev := canon.New()
	d, err := New(dev, ck, Options{Quantize: model.QuantizeNone, KV: compute.KVF32})
	require.NoError(t, err)
	require.NoError(t, d.Bind(golden.NewTarget(t, dev, 6, want["embedding"], want["head"])))
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d, want
}

func TestGivenAnyRoundsBeforeThenABlocksLogitsAreThoseOfPyTorch(t *testing.T) {
	d, want := openFixture(t)
	tokens := want["tokens"].Tokens()
	var hidden []compute.View
	for _, l := range d.cfg.layers {
		hidden = append(hidden, golden.View(t, d.dev, want[fmt.Sprintf("hidden.%d", l)]))
	}
	for _, cuts := range [][]int{{5, 12}, {1, 2, 5, 9, 12}, {3, 5, 6, 7, 8, 12}} {
		s, err := d.Open(drafter.Opening{Tokens: tokens[:5]})
		require.NoError(t, err)
		at := 0
		for _, cut := range cuts {
			o := drafter.Outcome{Seq: s, Position: at, Committed: tokens[at:cut], Pending: tokens[cut]}
			for _, h := range hidden {
				o.Hidden = append(o.Hidden, h.Skip(at))
			}
			drafter.Observe([]*drafter.Outcome{&o})
			require.NoError(t, o.Err)
			at = cut
			row := drafter.Row{Seq: s, Position: at, Known: tokens[at : at+1], Budget: 3}
			drafter.Propose(context.Background(), []*drafter.Row{&row})
			require.NoError(t, row.Err)
			require.Len(t, row.Proposal, 3)
			if logits, ok := want[fmt.Sprintf("logits.%d", at)]; ok {
				for slot := 1; slot < 4; slot++ {
					golden.Close(t, logits.Row(slot), d.net.logits.Row(slot-1))
				}
			}
		}
		require.NoError(t, s.Close())
	}
}

func TestGivenLessBudgetThenTheBlockIsShorter(t *testing.T) {
	d, want := openFixture(t)
	tokens := want["tokens"].Tokens()
	s, err := d.Open(drafter.Opening{Tokens: tokens[:1]})
	require.NoError(t, err)
	for budget := 1; budget < 6; budget++ {
		row := drafter.Row{Seq: s, Position: 0, Known: tokens[:1], Budget: budget}
		drafter.Propose(context.Background(), []*drafter.Row{&row})
		require.NoError(t, row.Err)
		require.Len(t, row.Proposal, min(budget, 3))
		require.Zero(t, s.(*seq).Cache.Len(), "a block leaves nothing behind")
	}
	require.NoError(t, s.Close())
}
