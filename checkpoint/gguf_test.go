package checkpoint

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestGGUFTensorsArriveUnderHuggingFaceNamesWithTheirBytes(t *testing.T) {
	for _, architecture := range []string{"llama", "qwen2", "qwen3", "gemma3"} {
		t.Run(architecture, func(t *testing.T) {
			stored := tinyGGUFTensors(architecture)
			c, err := Open(writeFile(t, "model.gguf", ggufBytes(t, tinyGGUFMetadata(architecture), stored)))
			require.NoError(t, err)
			defer c.Close()
			require.Equal(t, architecture, c.Config().Architecture)
			require.Len(t, c.Tensors(), len(stored))
			for i, want := range tinyTensors(architecture) {
				got, err := c.Tensor(want.Name)
				require.NoError(t, err)
				require.Equal(t, stored[i].Name, got.StoredName)
				require.Equal(t, want.Shape, got.Shape)
				require.Equal(t, stored[i].Type, got.Type)
				require.Equal(t, stored[i].Data, got.Data)
			}
			require.Positive(t, readAll(c))
		})
	}
}

func TestGemmaNormsOfGGUFTranslateToTheirPlaces(t *testing.T) {
	for stored, want := range map[string]string{
		"blk.3.attn_norm.weight":           "model.layers.3.input_layernorm.weight",
		"blk.3.post_attention_norm.weight": "model.layers.3.post_attention_layernorm.weight",
		"blk.3.ffn_norm.weight":            "model.layers.3.pre_feedforward_layernorm.weight",
		"blk.3.post_ffw_norm.weight":       "model.layers.3.post_feedforward_layernorm.weight",
		"blk.3.attn_q_norm.weight":         "model.layers.3.self_attn.q_norm.weight",
		"output_norm.weight":               "model.norm.weight",
		"rope_freqs.weight":                "rope_freqs.weight",
		"blk.3.nextn.eh_proj.weight":       "blk.3.nextn.eh_proj.weight",
	} {
		require.Equal(t, want, hfName(stored, true))
	}
	require.Equal(t, "model.layers.3.post_attention_layernorm.weight", hfName("blk.3.ffn_norm.weight", false))
}

func TestWriteThenReadReturnsTheSameMetadataAndTensors(t *testing.T) {
	path := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		md := map[string]any{"general.architecture": "something"}
		for i, v := range []any{
			rapid.String().Draw(t, "string"), rapid.Bool().Draw(t, "bool"), rapid.Uint32().Draw(t, "u32"),
			rapid.Int32().Draw(t, "i32"), rapid.Int64().Draw(t, "i64"), rapid.Float32().Draw(t, "f32"), rapid.Float64().Draw(t, "f64"),
			rapid.SliceOf(rapid.String()).Draw(t, "strings"), rapid.SliceOf(rapid.Int32()).Draw(t, "i32s"),
			rapid.SliceOf(rapid.Float32()).Draw(t, "f32s"), rapid.SliceOf(rapid.Bool()).Draw(t, "bools"),
			rapid.SliceOf(rapid.Uint32()).Draw(t, "u32s"), rapid.SliceOf(rapid.Int64()).Draw(t, "i64s"),
		} {
			md[fmt.Sprintf("key.%d", i)] = v
		}
		var tensors []Output
		for i := range rapid.IntRange(0, 6).Draw(t, "tensors") {
			typ := Type(rapid.IntRange(0, int(Q6_K)).Draw(t, "type"))
			rows, blocks := rapid.IntRange(1, 5).Draw(t, "rows"), rapid.IntRange(1, 3).Draw(t, "blocks")
			n := rows * blocks * typ.BlockBytes()
			tensors = append(tensors, Output{
				Name: fmt.Sprintf("t%d", i), Type: typ, Shape: []int{rows, blocks * typ.BlockSize()},
				Data: rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "data"),
			})
		}
		var b bytes.Buffer
		require.NoError(t, WriteGGUF(&b, md, tensors))
		c, err := openGGUF(path, &mapping{data: b.Bytes()})
		require.NoError(t, err)
		require.Len(t, c.Metadata().Keys(), len(md))
		for key, want := range md {
			require.Equal(t, fmt.Sprint(want), fmt.Sprint(shrink(c.Metadata().Value(key), want)), key)
		}
		for _, want := range tensors {
			got, err := c.Tensor(want.Name)
			require.NoError(t, err)
			require.Equal(t, want.Shape, got.Shape)
			require.Equal(t, want.Type, got.Type)
			require.Equal(t, want.Data, got.Data)
		}
		readAll(c)
	})
}

// shrink brings a widened float back to the width that was written, so that
// both print alike.
func shrink(got, want any) any {
	switch want.(type) {
	case float32:
		return float32(got.(float64))
	case []float32:
		var out []float32
		for _, x := range got.([]float64) {
			out = append(out, float32(x))
		}
		return out
	}
	return got
}

func TestMetadataGettersAnswerOnlyForTheTypeThatIsThere(t *testing.T) {
	m := Metadata{values: map[string]any{
		"i": int64(7), "big": uint64(math.MaxUint64), "f": 1.5, "b": true, "s": "x",
		"ss": []string{"a"}, "is": []int64{1}, "fs": []float64{2}, "bs": []bool{true},
	}}
	i, ok := m.Int("i")
	require.True(t, ok)
	require.Equal(t, int64(7), i)
	f, ok := m.Float("i")
	require.True(t, ok)
	require.InDelta(t, 7, f, 0)
	for _, key := range []string{"big", "f", "b", "s", "ss", "absent"} {
		_, ok := m.Int(key)
		require.False(t, ok, key)
	}
	_, ok = m.String("i")
	require.False(t, ok)
	_, ok = m.Bool("i")
	require.False(t, ok)
	_, ok = m.Strings("is")
	require.False(t, ok)
	_, ok = m.Ints("fs")
	require.False(t, ok)
	fs, ok := m.Floats("fs")
	require.True(t, ok)
	require.Equal(t, []float64{2}, fs)
	bs, ok := m.Bools("bs")
	require.True(t, ok)
	require.Equal(t, []bool{true}, bs)
	require.Empty(t, Metadata{}.Keys())
	require.Equal(t, []string{"b", "big", "bs", "f", "fs", "i", "is", "s", "ss"}, m.Keys())
}

func TestWritersRefuseWhatTheFormatCannotHold(t *testing.T) {
	good := floats("w", F32, 2, 2)
	short := good
	short.Data = short.Data[1:]
	ragged := Output{Name: "w", Type: Q8_0, Shape: []int{33}}
	for name, tensors := range map[string][]Output{
		"short data": {short}, "twice": {good, good}, "ragged": {ragged},
	} {
		require.Error(t, WriteGGUF(&bytes.Buffer{}, nil, tensors), name)
		require.Error(t, WriteSafetensors(&bytes.Buffer{}, nil, tensors), name)
	}
	require.ErrorContains(t, WriteGGUF(&bytes.Buffer{}, map[string]any{"k": struct{}{}}, nil), "struct")
	require.ErrorContains(t, WriteGGUF(&bytes.Buffer{}, map[string]any{"general.alignment": uint32(64)}, nil), "alignment")
	require.ErrorContains(t, WriteSafetensors(&bytes.Buffer{}, nil, []Output{floats("w", Q8_0, 32)}), "q8_0")
}
