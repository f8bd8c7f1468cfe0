// Package golden reads expected values of tests from safetensors files and
// stands in for the target they were made with.
package golden

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/kvcache"
	"surmise/model"
)

// Tensor is a float32 or int64 tensor; the other slice is nil.
type Tensor struct {
	Shape  []int
	Floats []float32
	Ints   []int64
}

// Row is row i of a matrix.
func (t Tensor) Row(i int) []float32 { return t.Floats[i*t.Shape[1] : (i+1)*t.Shape[1]] }

// Tokens are the integers as token ids.
func (t Tensor) Tokens() []int32 {
	out := make([]int32, len(t.Ints))
	for i, v := range t.Ints {
		out[i] = int32(v)
	}
	return out
}

// Read reads a file of F32 and I64 tensors.
func Read(t testing.TB, path string) map[string]Tensor {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	n := binary.LittleEndian.Uint64(b)
	var header map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(b[8:8+n], &header))
	delete(header, "__metadata__")
	out := map[string]Tensor{}
	for name, raw := range header {
		var e struct {
			DType   string `json:"dtype"`
			Shape   []int  `json:"shape"`
			Offsets [2]int `json:"data_offsets"`
		}
		require.NoError(t, json.Unmarshal(raw, &e))
		data := b[8+int(n)+e.Offsets[0] : 8+int(n)+e.Offsets[1]]
		x := Tensor{Shape: e.Shape}
		switch e.DType {
		case "F32":
			for ; len(data) > 0; data = data[4:] {
				x.Floats = append(x.Floats, math.Float32frombits(binary.LittleEndian.Uint32(data)))
			}
		case "I64":
			for ; len(data) > 0; data = data[8:] {
				x.Ints = append(x.Ints, int64(binary.LittleEndian.Uint64(data)))
			}
		default:
			t.Fatalf("%s: tensor %s is %s", path, name, e.DType)
		}
		out[name] = x
	}
	return out
}

// Target is a target of which only the parts that drafters borrow exist.
type Target struct {
	model.Target
	dev       compute.Device
	cache     *kvcache.Cache
	embedding compute.Table
	head      compute.Linear
	spec      model.Spec
}

// NewTarget makes a target of an embedding and a head [vocabulary, hidden].
func NewTarget(t testing.TB, dev compute.Device, layers int, embedding, head Tensor) *Target {
	t.Helper()
	table, err := dev.LoadTable(tensor(t, "embedding", embedding))
	require.NoError(t, err)
	linear, err := dev.LoadLinear(compute.LinearPart{Weight: tensor(t, "head", head)})
	require.NoError(t, err)
	cfg := kvcache.Config{Groups: []kvcache.Group{{Layers: 1}}, Heads: 1, HeadDim: 16, Context: 256, Budget: 1 << 22}
	cache, err := kvcache.New(dev, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cache.Close()) })
	return &Target{
		dev: dev, cache: cache, embedding: table, head: linear,
		spec: model.Spec{Vocab: head.Shape[0], Hidden: head.Shape[1], Layers: layers, Context: 256},
	}
}

func tensor(t testing.TB, name string, x Tensor) *checkpoint.Tensor {
	t.Helper()
	data := make([]byte, 0, 4*len(x.Floats))
	for _, v := range x.Floats {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	w, err := checkpoint.NewTensor(name, checkpoint.F32, x.Shape, data)
	require.NoError(t, err)
	return w
}

// Spec, Device, Cache, Embedding, EmbedScale and Head are the borrowed parts.
func (t *Target) Spec() model.Spec         { return t.spec }
func (t *Target) Device() compute.Device   { return t.dev }
func (t *Target) Cache() *kvcache.Cache    { return t.cache }
func (t *Target) Embedding() compute.Table { return t.embedding }
func (t *Target) EmbedScale() float32      { return 1 }
func (t *Target) Head() compute.Linear     { return t.head }

// View puts a matrix into a buffer of the device.
func View(t testing.TB, dev compute.Device, x Tensor) compute.View {
	t.Helper()
	buf, err := dev.Alloc(len(x.Floats))
	require.NoError(t, err)
	copy(buf.Host(), x.Floats)
	return compute.ViewOf(buf, x.Shape[1])
}

// Close requires that the greatest difference of two rows is at most 1e-4 of the
// expected one's range.
func Close(t testing.TB, want, got []float32) {
	t.Helper()
	require.Len(t, got, len(want))
	lo, hi, worst := want[0], want[0], 0.0
	for i := range want {
		lo, hi = min(lo, want[i]), max(hi, want[i])
		worst = max(worst, math.Abs(float64(want[i]-got[i])))
	}
	require.LessOrEqual(t, worst, 1e-4*float64(hi-lo))
}
