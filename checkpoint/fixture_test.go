package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// A tiny model of every known architecture, small enough to write by the
// hundred: hidden 32, 2 layers, 2 query heads and 1 key/value head of 16.
const (
	tinyHidden, tinyLayers, tinyHeads, tinyKV, tinyHead, tinyFFN, tinyVocab = 32, 2, 2, 1, 16, 64, 40
)

func tinyConfig(modelType string, changes map[string]any) map[string]any {
	c := map[string]any{
		"model_type": modelType, "hidden_size": tinyHidden, "num_hidden_layers": tinyLayers,
		"num_attention_heads": tinyHeads, "num_key_value_heads": tinyKV, "head_dim": tinyHead,
		"intermediate_size": tinyFFN, "vocab_size": tinyVocab, "max_position_embeddings": 128,
		"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "bos_token_id": 1, "eos_token_id": 2,
	}
	for k, v := range changes {
		if v == nil {
			delete(c, k)
		} else {
			c[k] = v
		}
	}
	return c
}

// floats returns a tensor of random weights.
func floats(name string, typ Type, shape ...int) Output {
	n := 1
	for _, d := range shape {
		n *= d
	}
	r := rand.New(rand.NewPCG(1, uint64(len(name))))
	src := make([]float32, n)
	for i := range src {
		src[i] = float32(r.NormFloat64())
	}
	o := Output{Name: name, Type: typ, Shape: shape, Data: make([]byte, n/typ.BlockSize()*typ.BlockBytes())}
	switch typ {
	case F32:
		EncodeF32(o.Data, src)
	case F16:
		EncodeF16(o.Data, src)
	case Q8_0:
		QuantizeQ8_0(o.Data, src)
	case Q4_0:
		QuantizeQ4_0(o.Data, src)
	}
	return o
}

// tinyTensors returns the tensors of a tiny model by Hugging Face name.
func tinyTensors(architecture string) []Output {
	f := byArchitecture(architecture)
	out := []Output{
		floats("model.embed_tokens.weight", F16, tinyVocab, tinyHidden),
		floats("model.norm.weight", F32, tinyHidden),
		floats("lm_head.weight", F16, tinyVocab, tinyHidden),
	}
	for i := range tinyLayers {
		l := fmt.Sprintf("model.layers.%d.", i)
		q, kv := tinyHeads*tinyHead, tinyKV*tinyHead
		out = append(out,
			floats(l+"input_layernorm.weight", F32, tinyHidden),
			floats(l+"post_attention_layernorm.weight", F32, tinyHidden),
			floats(l+"self_attn.q_proj.weight", F16, q, tinyHidden),
			floats(l+"self_attn.k_proj.weight", F16, kv, tinyHidden),
			floats(l+"self_attn.v_proj.weight", F16, kv, tinyHidden),
			floats(l+"self_attn.o_proj.weight", F16, tinyHidden, q),
			floats(l+"mlp.gate_proj.weight", F16, tinyFFN, tinyHidden),
			floats(l+"mlp.up_proj.weight", F16, tinyFFN, tinyHidden),
			floats(l+"mlp.down_proj.weight", F16, tinyHidden, tinyFFN),
		)
		if f.qkvBias {
			out = append(out, floats(l+"self_attn.q_proj.bias", F32, q), floats(l+"self_attn.k_proj.bias", F32, kv), floats(l+"self_attn.v_proj.bias", F32, kv))
		}
		if f.qkNorm {
			out = append(out, floats(l+"self_attn.q_norm.weight", F32, tinyHead), floats(l+"self_attn.k_norm.weight", F32, tinyHead))
		}
		if f.sandwich {
			out = append(out, floats(l+"pre_feedforward_layernorm.weight", F32, tinyHidden), floats(l+"post_feedforward_layernorm.weight", F32, tinyHidden))
		}
	}
	return out
}

func toJSON(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return b
}

func safetensorsBytes(t testing.TB, tensors ...Output) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, WriteSafetensors(&b, map[string]string{"format": "pt"}, tensors))
	return b.Bytes()
}

// tinyHF returns the files of a Hugging Face directory.
func tinyHF(t testing.TB, modelType string, changes map[string]any) fstest.MapFS {
	t.Helper()
	return fstest.MapFS{
		"m/config.json":       {Data: toJSON(t, tinyConfig(modelType, changes))},
		"m/model.safetensors": {Data: safetensorsBytes(t, tinyTensors(families[modelType].architecture)...)},
	}
}

// tinyGGUFMetadata returns the metadata of a tiny model.
func tinyGGUFMetadata(architecture string) map[string]any {
	tokens := make([]string, tinyVocab)
	kinds := make([]int32, tinyVocab)
	for i := range tokens {
		tokens[i], kinds[i] = fmt.Sprintf("t%d", i), 1
	}
	tokens[7], kinds[7] = "<|im_end|>", 3
	return map[string]any{
		"general.architecture":                             architecture,
		architecture + ".attention.sliding_window":         uint32(16),
		architecture + ".embedding_length":                 uint32(tinyHidden),
		architecture + ".block_count":                      uint32(tinyLayers),
		architecture + ".feed_forward_length":              uint32(tinyFFN),
		architecture + ".context_length":                   uint32(128),
		architecture + ".attention.head_count":             uint32(tinyHeads),
		architecture + ".attention.head_count_kv":          uint32(tinyKV),
		architecture + ".attention.key_length":             uint32(tinyHead),
		architecture + ".attention.layer_norm_rms_epsilon": float32(1e-5),
		"tokenizer.ggml.tokens":                            tokens,
		"tokenizer.ggml.token_type":                        kinds,
		"tokenizer.ggml.bos_token_id":                      uint32(1),
		"tokenizer.ggml.eos_token_id":                      uint32(2),
	}
}

// tinyGGUFTensors are tinyTensors under the names of a GGUF file, linears
// quantized.
func tinyGGUFTensors(architecture string) []Output {
	names := make(map[string]string)
	add := func(stored string) { names[hfName(stored, byArchitecture(architecture).sandwich)] = stored }
	for stem := range ggufGlobal {
		add(stem + ".weight")
	}
	for i := range tinyLayers {
		for _, table := range []map[string]string{ggufLayer, ggufSandwich} {
			for part := range table {
				add(fmt.Sprintf("blk.%d.%s.weight", i, part))
				add(fmt.Sprintf("blk.%d.%s.bias", i, part))
			}
		}
	}
	tensors := tinyTensors(architecture)
	for i, o := range tensors {
		if o.Type == F16 {
			o = floats(o.Name, Q8_0, o.Shape...)
		}
		o.Name = names[o.Name]
		tensors[i] = o
	}
	return tensors
}

func ggufBytes(t testing.TB, metadata map[string]any, tensors []Output) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, WriteGGUF(&b, metadata, tensors))
	return b.Bytes()
}

// writeFile puts a file into a fresh folder and returns its path.
func writeFile(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// readAll decodes every row of every tensor; a checkpoint that opened must
// survive it.
func readAll(c *Checkpoint) int {
	rows := 0
	for _, tensor := range c.Tensors() {
		dst := make([]float32, tensor.Cols())
		for i := range tensor.Rows() {
			tensor.Float32Row(i, dst)
			rows++
		}
		tensor.DropPages(0, tensor.Rows())
	}
	return rows
}
