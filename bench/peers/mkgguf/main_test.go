package main

import (
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/compute/cpu"
	"surmise/model"
	"surmise/tokenizer"
)

// Every mix loads as a checkpoint, a tokenizer and a model, and a forward over
// it has finite logits that are not all alike.
func TestFilesRun(t *testing.T) {
	for name := range mixes {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.gguf")
			require.NoError(t, run([]string{"--shape", "tiny", "--type", name, "-o", path}, io.Discard))
			ck, err := checkpoint.Open(path)
			require.NoError(t, err)
			defer ck.Close()
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

// A block of random weights is centred and has the deviation it was asked for.
func TestWeightsHaveTheDeviationOfTheirWidth(t *testing.T) {
	for typ := range fillers {
		t.Run(typ.String(), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.gguf")
			s, m := shapes["tiny"], mix{0, typ, typ, typ}
			require.NoError(t, writeFile(path, s, m, rand.Uint64()))
			ck, err := checkpoint.Open(path)
			require.NoError(t, err)
			defer ck.Close()
			w, err := ck.Tensor("model.layers.0.mlp.down_proj.weight")
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
	dir := t.TempDir()
	var files [2][]byte
	for i, name := range []string{"a", "b"} {
		path := filepath.Join(dir, name)
		require.NoError(t, run([]string{"--shape", "tiny", "--type", "q4_k_m", "-o", path}, io.Discard))
		var err error
		files[i], err = os.ReadFile(path)
		require.NoError(t, err)
	}
	require.Equal(t, files[0], files[1])
}

func TestWrongArgumentsAreRefusedByName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	for text, args := range map[string][]string{
		`shape "gpt-5"`:    {"--shape", "gpt-5", "-o", path},
		`type "q3_k"`:      {"--type", "q3_k", "-o", path},
		"no file":          {"--type", "q8_0"},
		`argument "extra"`: {"-o", path, "extra"},
	} {
		require.ErrorContains(t, run(args, io.Discard), text)
		require.NoFileExists(t, path)
	}
}
