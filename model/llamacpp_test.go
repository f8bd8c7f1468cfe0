package model_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/internal/testmodels"
	"surmise/model"
)

// llamaAnswers is what testdata/ask_llamacpp.py writes.
type llamaAnswers struct {
	Answers []struct{ Prompt, Greedy []int32 }
	Text    struct {
		Tokens []int32
		Next   []float64      // log probability of the token that follows
		Top    [][][2]float64 // token and log probability of the likeliest
	}
}

// TestAgreementWithLlamaCpp reports how far this engine's numbers are from
// llama.cpp's, whose kernels round otherwise. Where greedy texts part, the two
// tokens must be near-ties: llama.cpp's choice is within a small gap of ours.
func TestAgreementWithLlamaCpp(t *testing.T) {
	dir := os.Getenv("SURMISE_LLAMACPP")
	if dir == "" {
		t.Skip("SURMISE_LLAMACPP is not set: see testdata/ask_llamacpp.py")
	}
	for _, name := range realModels {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(dir, name+".json"))
			require.NoError(t, err)
			var answers llamaAnswers
			require.NoError(t, json.Unmarshal(text, &answers))
			path := testmodels.Path(t, name)
			m := open(t, onCPU(t, 0), path, model.Options{Context: 2100})

			equal, tokens, whole := 0, 0, 0
			var gaps []float64
			for _, a := range answers.Answers {
				n, gap := partingPoint(t, m, a.Prompt, a.Greedy)
				equal, tokens = equal+n, tokens+len(a.Greedy)
				if n == len(a.Greedy) {
					whole++
				} else {
					gaps = append(gaps, gap)
				}
			}
			slices.Sort(gaps)
			t.Logf("greedy: %d of %d prompts equal over 256 tokens, %d of %d tokens before the first difference, gaps there %.3f",
				whole, len(answers.Answers), equal, tokens, gaps)
			require.Less(t, append([]float64{0}, gaps...)[len(gaps)], 1.5, "widest gap between the two tokens' logits where texts part")
			require.Less(t, append([]float64{0}, gaps...)[(len(gaps)+1)/2], 0.3, "median of the gaps")

			next, top := distance(t, m, &answers)
			t.Logf("%d tokens of text: mean |Δ log p| %.3f of the next token, %.3f of the 20 likeliest", len(answers.Text.Next), next, top)
			require.Less(t, next, 0.15, "more than the rounding of activations to 8 bits explains")

			// Both are approximations of the same weights multiplied in float32.
			answers.Text.Next = answers.Text.Next[:500]
			floats := open(t, onCPU(t, 0), widened(t, path), model.Options{Context: 2100, Quantize: model.QuantizeNone})
			next, top = distance(t, floats, &answers)
			t.Logf("float32 activations, 500 tokens: llama.cpp is %.3f and %.3f away", next, top)
			replace(t, m, &answers)
			next, top = distance(t, floats, &answers)
			t.Logf("float32 activations, 500 tokens: this engine is %.3f and %.3f away", next, top)
		})
	}
}

// widened writes a GGUF file with all weights as float32.
func widened(t *testing.T, path string) string {
	ck, err := checkpoint.Open(path)
	require.NoError(t, err)
	defer ck.Close()
	metadata := map[string]any{}
	for _, key := range ck.Metadata().Keys() {
		if !strings.HasPrefix(key, "tokenizer.") {
			metadata[key] = ck.Metadata().Value(key)
		}
	}
	var outputs []checkpoint.Output
	for _, tensor := range ck.Tensors() {
		outputs = append(outputs, checkpoint.Output{
			Name: tensor.StoredName, Type: checkpoint.F32, Shape: tensor.Shape,
			Write: func(w io.Writer) error {
				row := make([]float32, tensor.Cols())
				for r := range tensor.Rows() {
					tensor.Float32Row(r, row)
					if err := binary.Write(w, binary.LittleEndian, row); err != nil {
						return err
					}
				}
				return nil
			},
		})
	}
	wide := filepath.Join(t.TempDir(), "wide.gguf")
	file, err := os.Create(wide)
	require.NoError(t, err)
	buffered := bufio.NewWriterSize(file, 1<<20)
	require.NoError(t, checkpoint.WriteGGUF(buffered, metadata, outputs))
	require.NoError(t, buffered.Flush())
	require.NoError(t, file.Close())
	return wide
}

// replace puts this engine's numbers for the text in place of llama.cpp's.
func replace(t *testing.T, m *model.Model, a *llamaAnswers) {
	seq := m.Cache().Open()
	defer seq.Close()
	for i := range a.Text.Next {
		b := &model.Batch{Rows: []model.Row{{Seq: seq, Tokens: a.Text.Tokens[i : i+1], Logits: 1}}}
		require.NoError(t, m.Forward(b))
		logits := b.Logits(0, 0)
		total := logSumExp(logits)
		a.Text.Next[i] = float64(logits[a.Text.Tokens[i+1]]) - total
		for j := range a.Text.Top[i] {
			a.Text.Top[i][j][1] = float64(logits[int(a.Text.Top[i][j][0])]) - total
		}
	}
}

// partingPoint is how many tokens of a greedy text both engines agree on, and
// by how much this one prefers its own token where they do not.
func partingPoint(t *testing.T, m *model.Model, prompt, greedy []int32) (n int, gap float64) {
	seq := m.Cache().Open()
	defer seq.Close()
	tokens := append(append([]int32(nil), prompt...), greedy[:len(greedy)-1]...)
	b := &model.Batch{Rows: []model.Row{{Seq: seq, Tokens: tokens, Logits: len(greedy)}}}
	require.NoError(t, m.Forward(b))
	for i, theirs := range greedy {
		ours, ok := b.Argmax(0, i)
		require.True(t, ok)
		if ours != theirs {
			logits := b.Logits(0, i)
			return i, float64(logits[ours] - logits[theirs])
		}
	}
	return len(greedy), 0
}

// distance is the mean difference of log probabilities over the text.
func distance(t *testing.T, m *model.Model, a *llamaAnswers) (next, top float64) {
	seq := m.Cache().Open()
	defer seq.Close()
	const step = 100 // keeps the logits of a forward small
	count := 0
	for from := 0; from < len(a.Text.Next); from += step {
		n := min(step, len(a.Text.Next)-from)
		b := &model.Batch{Rows: []model.Row{{Seq: seq, Tokens: a.Text.Tokens[from : from+n], Logits: n}}}
		require.NoError(t, m.Forward(b))
		for i := range n {
			logits := b.Logits(0, i)
			total := logSumExp(logits)
			next += math.Abs(float64(logits[a.Text.Tokens[from+i+1]]) - total - a.Text.Next[from+i])
			for _, p := range a.Text.Top[from+i] {
				top += math.Abs(float64(logits[int(p[0])]) - total - p[1])
				count++
			}
		}
	}
	return next / float64(len(a.Text.Next)), top / float64(count)
}

func logSumExp(x []float32) float64 {
	most, sum := math.Inf(-1), 0.0
	for _, v := range x {
		most = max(most, float64(v))
	}
	for _, v := range x {
		sum += math.Exp(float64(v) - most)
	}
	return most + math.Log(sum)
}
