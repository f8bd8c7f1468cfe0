package randommodel

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/compute/cpu"
	"surmise/model"
	"surmise/tokenizer"
)

// file writes a model of the shape "tiny" and opens it.
func file(t *testing.T, m mix) *checkpoint.Checkpoint {
	t.Helper()
	var data bytes.Buffer
	s := shapes["tiny"]
	require.NoError(t, checkpoint.WriteGGUF(&data, metadata(s, m), tensors(s, m, 1)))
	path := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, os.WriteFile(path, data.Bytes(), 0o600))
	ck, err := checkpoint.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ck.Close()) })
	return ck
}

// Every type loads as a checkpoint, a tokenizer and a model, and a forward over
// it has finite logits that are not all alike.
func TestFilesRun(t *testing.T) {
	for name, m := range mixes {
		t.Run(name, func(t *testing.T) {
			ck := file(t, m)
			text, err := tokenizer.FromCheckpoint(ck)
			require.NoError(t, err)
			ids, err := text.Encode("a tiny text\n", tokenizer.EncodeOptions{})
			require.NoError(t, err)
			back := ""
			for _, id := range ids {
				back += string(text.Piece(id))
			}
			require.Equal(t, "a tiny text\n", back)

			dev, err := cpu.New(cpu.Options{Threads: 2})
			require.NoError(t, err)
			defer dev.Close()
			m, err := model.Open(dev, ck, model.Options{})
			require.NoError(t, err)
			defer m.Close()
			seq := m.Cache().Open()
			defer seq.Close()
			b := &model.Batch{Rows: []model.Row{{Seq: seq, Tokens: ids, Logits: 1}}}
			require.NoError(t, m.Forward(b))
			var sum, squares float64
			for _, v := range b.Logits(0, 0) {
				sum += float64(v)
				squares += float64(v) * float64(v)
			}
			n := float64(m.Spec().Vocab)
			deviation := math.Sqrt(squares/n - sum/n*sum/n)
			require.Greater(t, deviation, 0.2)
			require.Less(t, deviation, 5.0)
		})
	}
}

// Random weights are centred and have the deviation of their width.
func TestWeightsHaveTheDeviationOfTheirWidth(t *testing.T) {
	for typ := range fillers {
		t.Run(typ.String(), func(t *testing.T) {
			w, err := file(t, mix{0, typ, typ, typ}).Tensor("model.layers.0.mlp.down_proj.weight")
			require.NoError(t, err)
			require.Equal(t, typ, w.Type)
			var sum, squares float64
			row := make([]float32, w.Cols())
			for i := range w.Rows() {
				w.Float32Row(i, row)
				for _, v := range row {
					sum += float64(v)
					squares += float64(v) * float64(v)
				}
			}
			n, want := float64(w.Rows()*w.Cols()), 1/math.Sqrt(float64(w.Cols()))
			require.InDelta(t, 1, math.Sqrt(squares/n)/want, 0.1)
			require.InDelta(t, 0, sum/n/want, 0.15)
		})
	}
}

func TestEqualArgumentsGiveEqualFiles(t *testing.T) {
	var files [2]bytes.Buffer
	for i := range files {
		require.NoError(t, Write(&files[i], "tiny", "q4_k_m", 5))
	}
	require.Equal(t, files[0].Bytes(), files[1].Bytes())
	var other bytes.Buffer
	require.NoError(t, Write(&other, "tiny", "q4_k_m", 6))
	require.NotEqual(t, files[0].Bytes(), other.Bytes())
}

func TestUnknownNamesAreRefused(t *testing.T) {
	require.ErrorContains(t, Write(io.Discard, "gpt-5", "q8_0", 1), `shape "gpt-5"`)
	require.ErrorContains(t, Write(io.Discard, "tiny", "q3_k", 1), `type "q3_k"`)
}
