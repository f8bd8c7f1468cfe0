package model_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/compute/canon"
	"surmise/model"
)

// fixtures are the tiny checkpoints of testdata, made by make_fixtures.py.
var fixtures = []string{
	"llama", "llama-tied", "mistral", "mistral-window", "qwen2", "qwen3", "gemma3", "gemma3-scaled",
}

// open loads a checkpoint onto a device; the test's end closes both.
func open(t testing.TB, dev compute.Device, path string, opts model.Options) *model.Model {
	t.Helper()
	ck, err := checkpoint.Open(path)
	require.NoError(t, err)
	m, err := model.Open(dev, ck, opts)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, m.Close())
		require.NoError(t, dev.Close())
		require.NoError(t, ck.Close())
	})
	return m
}

func fixture(t testing.TB, dev compute.Device, name string, opts model.Options) *model.Model {
	t.Helper()
	return open(t, dev, filepath.Join("testdata", name), opts)
}

// exact keeps weights and cache as precise as Transformers does.
var exact = model.Options{Quantize: model.QuantizeNone, KV: compute.KVF32}

type goldenSequence struct {
	Tokens    []int32
	Positions []int
	Logits    [][]float32
	Hidden    map[string][][]float32
}

func TestLogitsAndHiddenStatesAgreeWithTransformers(t *testing.T) {
	for _, name := range fixtures {
		t.Run(name, func(t *testing.T) {
			m := fixture(t, canon.New(), name, exact)
			for _, want := range golden(t, name) {
				compare(t, m, want)
			}
		})
	}
}

// golden reads what Transformers computed.
func golden(t *testing.T, name string) []goldenSequence {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name, "golden.json"))
	require.NoError(t, err)
	var sequences []goldenSequence
	require.NoError(t, json.Unmarshal(text, &sequences))
	require.NotEmpty(t, sequences)
	return sequences
}

func compare(t *testing.T, m *model.Model, want goldenSequence) {
	seq := m.Cache().Open()
	defer seq.Close()
	b := &model.Batch{Rows: []model.Row{{Seq: seq, Tokens: want.Tokens, Logits: len(want.Tokens)}}}
	var layers []string
	for layer := range want.Hidden {
		l, err := strconv.Atoi(layer)
		require.NoError(t, err)
		b.Hidden = append(b.Hidden, l)
		layers = append(layers, layer)
	}
	require.NoError(t, m.Forward(b))
	require.Equal(t, len(want.Tokens), seq.Len())
	var worst float64
	for i, p := range want.Positions {
		worst = max(worst, difference(t, b.Logits(0, p), want.Logits[i]))
		for index, layer := range layers {
			d := difference(t, b.HiddenOf(0, index).Row(p), want.Hidden[layer][i])
			require.LessOrEqual(t, d, 1e-4, "hidden state of layer %s at position %d", layer, p)
		}
	}
	t.Logf("%d tokens: logits differ by at most %.1e of their range", len(want.Tokens), worst)
	require.LessOrEqual(t, worst, 1e-4)
}

// difference is the greatest difference as a fraction of the range of want.
func difference(t *testing.T, got, want []float32) float64 {
	t.Helper()
	require.Len(t, got, len(want))
	lo, hi, most := math.Inf(1), math.Inf(-1), 0.0
	for i := range want {
		lo, hi = min(lo, float64(want[i])), max(hi, float64(want[i]))
		d := math.Abs(float64(got[i]) - float64(want[i]))
		require.False(t, math.IsNaN(d))
		most = max(most, d)
	}
	return most / (hi - lo)
}
