package mtp

import (
	"context"
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

// fixtures are heads made by training/make_fixtures.py, with logits of PyTorch.
var fixtures = map[string]string{
	"qwen3_plain": "qwen3.5", "qwen3_5": "qwen3.5", "glm4_dense": "deepseek", "mimo": "mimo",
}

func openFixture(t *testing.T, name string) (*Drafter, map[string]golden.Tensor) {
	t.Helper()
	dir := filepath.Join("testdata", name)
	want := golden.Read(t, filepath.Join(dir, "golden.safetensors"))
	ck, err := checkpoint.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ck.Close()) })
	dev := canon.New()
	d, err := New(dev, ck, Options{Quantize: model.QuantizeNone, KV: compute.KVF32})
	require.NoError(t, err)
	require.Equal(t, fixtures[name], d.Layout())
	require.NoError(t, d.Bind(golden.NewTarget(t, dev, 6, want["embedding"], want["head"])))
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d, want
}

func TestGivenTrueStatesThenLogitsAreThoseOfPyTorch(t *testing.T) {
	for name := range fixtures {
		t.Run(name, func(t *testing.T) {
			d, want := openFixture(t, name)
			tokens := want["tokens"].Tokens()
			cache := d.net.Cache().Open()
			defer cache.Close()
			require.NoError(t, cache.Append(tokens))
			d.net.begin()
			for p := 1; p < len(tokens); p++ {
				d.net.entry(cache, p, 1, tokens[p], want["hidden"].Row(p-1), true)
			}
			require.NoError(t, d.net.run(d.dev))
			for i := range len(tokens) - 1 {
				golden.Close(t, want["logits"].Row(i), d.net.logits.Row(i))
			}
		})
	}
}

func TestGivenAnyRoundsBeforeThenChainedProposalsAreThoseOfPyTorch(t *testing.T) {
	for name := range fixtures {
		t.Run(name, func(t *testing.T) {
			d, want := openFixture(t, name)
			tokens, chain := want["tokens"].Tokens(), want["chain_tokens"].Tokens()
			hidden := golden.View(t, d.dev, want["hidden"])
			last := len(tokens) - 1
			// The prompt comes in chunks, then a round that accepted everything,
			// then a plain one, each after a proposal of the head's own.
			for _, cuts := range [][]int{{last}, {1, last}, {5, 6, last}, {2, 3, 4, 9, last}} {
				s, err := d.Open(drafter.Opening{Tokens: tokens[:last]})
				require.NoError(t, err)
				at := 0
				for i, cut := range cuts {
					if i > 0 {
						row := drafter.Row{Seq: s, Position: at, Known: tokens[at : at+1], Budget: 3}
						require.NoError(t, d.Propose(context.Background(), []*drafter.Row{&row}))
						require.NoError(t, row.Err)
						require.Len(t, row.Proposal, 3)
					}
					o := drafter.Outcome{
						Seq: s, Position: at, Committed: tokens[at:cut], Pending: tokens[cut],
						Hidden: []compute.View{hidden.Skip(at)},
					}
					drafter.Observe([]*drafter.Outcome{&o})
					require.NoError(t, o.Err)
					at = cut
				}
				row := drafter.Row{Seq: s, Position: at, Known: tokens[at:], Budget: len(chain)}
				drafter.Propose(context.Background(), []*drafter.Row{&row})
				require.NoError(t, row.Err)
				require.Equal(t, chain, row.Proposal, "rounds ended at %v", cuts)
				golden.Close(t, want["chain_logits"].Row(len(chain)-1), d.net.logits.Row(0))
				require.NoError(t, s.Close())
			}
		})
	}
}
