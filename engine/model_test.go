package engine_test

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/compute/cpu"
	"surmise/drafter"
	"surmise/drafter/draftertest"
	"surmise/engine"
	"surmise/engine/kinds"
	"surmise/internal/testmodels"
	"surmise/model"
	"surmise/promptlookup"
	"surmise/sampler"
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

// smolLM2 opens the real checkpoint with lookup as its drafter, or skips.
func smolLM2(t *testing.T, context int) *engine.Instance {
	all, err := kinds.All()
	require.NoError(t, err)
	in, err := engine.Open(engine.Setup{
		Model: testmodels.Path(t, "smollm2-135m-instruct"), Context: context, Sequences: 10, ISA: cpu.ISAFromEnv(), Kinds: all,
		// A fixed width: the automatic one may find that nothing pays.
		Draft: engine.DraftSetup{Kind: drafter.Lookup, BlockSize: "16"},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, in.Close()) })
	return in
}

func encode(t *testing.T, in *engine.Instance, text string) []int32 {
	ids, err := in.Tokenizer.Encode(text, tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true})
	require.NoError(t, err)
	return ids
}

// Five prompts and seeds decoded plainly one after the other, and then drafted
// all in one batch.
func TestLookupChangesNoByteOnSmolLM2(t *testing.T) {
	in := smolLM2(t, 1024)
	prompts := []string{
		"func add(a, b int) int {\n\treturn a + b\n}\n\nfunc sub(a, b int) int {\n\treturn a - b\n}\n\nfunc mul(a, b int) int {",
		"one two three one two three one two three one two",
		"The capital of France is Paris. The capital of Italy is Rome. The capital of",
		"<|im_start|>user\nWhat is 2+2?<|im_end|>\n<|im_start|>assistant\n",
		strings.Repeat("All work and no play makes Jack a dull boy.\n", 24), // across 256
	}
	for _, temperature := range []float64{0, 0.8} {
		var requests []engine.Request
		var want []engine.Answer
		for seed, text := range prompts {
			r := engine.Request{Prompt: encode(t, in, text), Params: params(temperature, uint64(seed), 14)}
			want = append(want, one(t, in.Engine, r))
			r.Drafter = in.Drafter
			requests = append(requests, r)
		}
		for _, width := range []int{1, 3, 8, 16} {
			t.Run(strconv.FormatFloat(temperature, 'g', -1, 64)+"/"+strconv.Itoa(width), func(t *testing.T) {
				for i := range requests {
					requests[i].MaxWidth = width
				}
				accepted := int64(0)
				for i, got := range generate(t, in.Engine, requests...) {
					same(t, want[i], got[0])
					accepted += got[0].Finish.Timings.Draft.Accepted
				}
				require.Positive(t, accepted)
			})
		}
	}
}

func TestEveryWayForABlockToEndIsThatOfPlainDecodingOnSmolLM2(t *testing.T) {
	const context = 60
	in := smolLM2(t, context)
	ids := encode(t, in, "<|im_start|>user\nName three colours of the rainbow, please.<|im_end|>\n<|im_start|>assistant\n")
	for _, temperature := range []float64{0, 0.8} {
		base := engine.Request{Prompt: ids, Params: params(temperature, 1, -1)}
		base.Params.IgnoreEOS = true
		full := one(t, in.Engine, base)
		require.Len(t, full.Tokens, context-len(ids))
		for _, c := range []struct {
			name   string
			change func(p *sampler.Params)
			right  func(int) int
			reason engine.Reason
		}{
			{"whole blocks accepted, to the context's end", nil, nil, engine.Length},
			{"none accepted", nil, never, engine.Length},
			{"the limit", func(p *sampler.Params) { p.MaxNewTokens = 13 }, nil, engine.Length},
			{"an end token", func(p *sampler.Params) { p.StopTokenIDs = []int32{rarest(full.IDs())} }, nil, engine.Stop},
			{"a stop string", func(p *sampler.Params) { p.Stop = []string{string([]rune(full.Text)[20:23])} }, nil, engine.Stop},
		} {
			t.Run(strconv.FormatFloat(temperature, 'g', -1, 64)+"/"+c.name, func(t *testing.T) {
				r := base
				if c.change != nil {
					c.change(&r.Params)
				}
				want := one(t, in.Engine, r)
				require.Equal(t, c.reason, want.Finish.Reason)
				oracle := &draftertest.Oracle{Streams: [][]int32{append(slices.Clone(ids), full.IDs()...)}, Right: c.right}
				require.NoError(t, oracle.Bind(in.Model))
				r.Drafter, r.MaxWidth = oracle, 8
				got := one(t, in.Engine, r)
				same(t, want, got)
				require.Equal(t, c.right == nil, got.Finish.Timings.Draft.Accepted > 0)
			})
		}
	}
}
