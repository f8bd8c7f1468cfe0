package model_test

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/internal/testmodels"
	"surmise/kvcache"
	"surmise/model"
	"surmise/tokenizer"
)

// realModels are checkpoints that training/fetch_models.sh fetches.
var realModels = []string{"smollm2-135m-instruct", "gemma3-270m"}

func TestRealCheckpointsContinueEnglishSensibly(t *testing.T) {
	for _, name := range realModels {
		t.Run(name, func(t *testing.T) {
			path := testmodels.Path(t, name)
			m := open(t, onCPU(t, 0), path, model.Options{Context: 1024})
			ck, err := checkpoint.Open(path)
			require.NoError(t, err)
			defer ck.Close()
			tok, err := tokenizer.FromCheckpoint(ck)
			require.NoError(t, err)

			for prompt, want := range map[string]string{
				"One, two, three, four, five, six,":    " seven, eight, nine, ten, eleven",
				"The sky is blue, the grass is":        " green, and",
				"The opposite of hot is":               " cold.",
				"Once upon a time, there was a little": " girl named",
			} {
				ids, err := tok.Encode(prompt, tokenizer.EncodeOptions{AddSpecial: true})
				require.NoError(t, err)
				text := tok.Decode(greedy(t, m, ids, 12), true)
				t.Logf("%s →%s", prompt, text)
				require.Contains(t, text, want)
			}
		})
	}
}

// TestRealCheckpointsGiveTheBitsOfSingleSteps crosses a page, a chunk of the
// canon and, for Gemma, its window of 512.
func TestRealCheckpointsGiveTheBitsOfSingleSteps(t *testing.T) {
	for _, name := range realModels {
		t.Run(name, func(t *testing.T) {
			path := testmodels.Path(t, name)
			m := open(t, onCPU(t, 0), path, model.Options{Context: 1024})
			three := open(t, onCPU(t, 3), path, model.Options{Context: 1024})
			fillWithNaN(m)
			seq, other := m.Cache().Open(), three.Cache().Open()
			for p, chunk := range map[int]int{250: 7, 508: 64} {
				require.NoError(t, seq.Truncate(0))
				forward(t, m, seq, p, 0)
				want := continuation(t, m, seq, slices.Repeat([]int{1}, 16))
				for k := 1; k <= 16; k++ {
					require.NoError(t, seq.Truncate(p))
					require.Equal(t, want[:k], continuation(t, m, seq, []int{k}), "block of %d from %d", k, p)
				}
				require.NoError(t, other.Truncate(0))
				for other.Len() < p {
					forward(t, three, other, min(chunk, p-other.Len()), 0)
				}
				require.Equal(t, want, continuation(t, three, other, []int{5, 11}), "3 threads, prefill by %d, from %d", chunk, p)
			}
		})
	}
}

// forward continues seq by n tokens of a fixed text.
func forward(t testing.TB, m *model.Model, seq *kvcache.Seq, n, logits int) *model.Batch {
	t.Helper()
	if n == 0 {
		return nil
	}
	tokens := make([]int32, n)
	for i := range tokens {
		p := seq.Len() + i
		tokens[i] = int32((p*p*31 + 17*p + 100) % 30000)
	}
	b := &model.Batch{Rows: []model.Row{{Seq: seq, Tokens: tokens, Logits: logits}}}
	require.NoError(t, m.Forward(b))
	return b
}

// continuation forwards blocks of the given widths and hashes the logits of
// each token.
func continuation(t *testing.T, m *model.Model, seq *kvcache.Seq, widths []int) [][32]byte {
	var sums [][32]byte
	for _, n := range widths {
		b := forward(t, m, seq, n, n)
		for i := range n {
			raw := make([]byte, 0, 4*m.Spec().Vocab)
			for _, x := range b.Logits(0, i) {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
			}
			sums = append(sums, sha256.Sum256(raw))
		}
	}
	return sums
}

// greedy continues a prompt by n tokens.
func greedy(t *testing.T, m *model.Model, prompt []int32, n int) []int32 {
	seq := m.Cache().Open()
	defer seq.Close()
	var out []int32
	b := &model.Batch{Rows: []model.Row{{Seq: seq, Tokens: prompt, Logits: 1, ArgmaxOnly: true}}}
	for range n {
		require.NoError(t, m.Forward(b))
		token, ok := b.Argmax(0, 0)
		require.True(t, ok)
		out = append(out, token)
		b.Rows[0].Tokens = out[len(out)-1:]
	}
	return out
}
