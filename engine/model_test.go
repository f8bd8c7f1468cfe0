package engine_test

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/compute/cpu"
	"surmise/drafter"
	"surmise/engine"
	"surmise/engine/kinds"
	"surmise/internal/testmodels"
	"surmise/model"
	"surmise/promptlookup"
	"surmise/tokenizer"
)

// tiny opens a fixture of package model on the fast device.
func tiny(t *testing.T, name string, threads int) *model.Model {
	ck, err := checkpoint.Open(filepath.Join("..", "model", "testdata", name))
	require.NoError(t, err)
	dev, err := cpu.New(cpu.Options{Threads: threads, ISA: cpu.ISAFromEnv()})
	require.NoError(t, err)
	m, err := model.Open(dev, ck, model.Options{Context: 600, Quantize: model.QuantizeQ8_0, KV: compute.KVF16})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, m.Close())
		require.NoError(t, dev.Close())
		require.NoError(t, ck.Close())
	})
	return m
}

func TestLookupChangesNoByteOnRealArchitectures(t *testing.T) {
	for _, name := range []string{"llama", "mistral-window", "qwen2", "qwen3", "gemma3"} {
		t.Run(name, func(t *testing.T) {
			m := tiny(t, name, 1)
			three := tiny(t, name, 3)
			lookup, err := promptlookup.New(promptlookup.Options{MinMatch: 1})
			require.NoError(t, err)
			for _, temperature := range []float64{0, 0.8} {
				var accepted int64
				for seed := range uint64(5) {
					// Across the borders of a page and, with one prompt, of a chunk of attention.
					r := engine.Request{Prompt: prompt(seed, 40+50*int(seed)), Params: params(temperature, seed, 40)}
					want := one(t, engine.New(m, nil, engine.Options{Chunk: 64}), r)
					r.Drafter = lookup
					for i, width := range []int{1, 3, 8, 16} {
						target := []*model.Model{m, three}[i%2]
						e := engine.New(target, nil, engine.Options{Width: drafter.Fixed(width), Chunk: []int{7, 64, 256, 1}[i]})
						plain := r
						plain.Drafter = nil
						answers := generate(t, e, r, plain)
						same(t, want, answers[0][0])
						same(t, want, answers[1][0])
						accepted += answers[0][0].Finish.Timings.Draft.Accepted
					}
				}
				if temperature == 0 {
					require.Positive(t, accepted, "the test must see accepted proposals")
				}
			}
		})
	}
}

func TestLookupChangesNoByteOnSmolLM2(t *testing.T) {
	all, err := kinds.All()
	require.NoError(t, err)
	in, err := engine.Open(engine.Setup{
		Model: testmodels.Path(t, "smollm2-135m-instruct"), Context: 1024, ISA: cpu.ISAFromEnv(), Kinds: all,
		Draft: engine.DraftSetup{Kind: drafter.Lookup},
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, in.Close()) }()
	code := "func add(a, b int) int {\n\treturn a + b\n}\n\nfunc sub(a, b int) int {\n\treturn a - b\n}\n\nfunc mul(a, b int) int {"
	ids, err := in.Tokenizer.Encode(code, tokenizer.EncodeOptions{AddSpecial: true})
	require.NoError(t, err)
	for _, temperature := range []float64{0, 0.8} {
		p := params(temperature, 3, 24)
		want := one(t, in.Engine, engine.Request{Prompt: ids, Params: p})
		require.NotEmpty(t, want.Text)
		for _, width := range []int{1, 8, 16} {
			t.Run(strconv.Itoa(width), func(t *testing.T) {
				got := one(t, in.Engine, engine.Request{Prompt: ids, Params: p, Drafter: in.Drafter, MaxWidth: width})
				same(t, want, got)
			})
		}
	}
}
