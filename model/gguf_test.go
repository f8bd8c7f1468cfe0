package model_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/compute/canon"
	"surmise/model"
)

// convert writes a fixture as a GGUF file and opens that.
func convert(t *testing.T, name string) *model.Model {
	ck, err := checkpoint.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer ck.Close()
	path := filepath.Join(t.TempDir(), name+".gguf")
	require.NoError(t, os.WriteFile(path, asGGUF(t, ck), 0o600))
	return open(t, canon.New(), path, exact)
}

func TestGivenGGUFRowsStoredInPairsWhenForwardedThenBitsAreThoseOfHuggingFaceOrder(t *testing.T) {
	m := convert(t, "mistral")
	seq := m.Cache().Open()
	truth(t, "mistral", exact, 1).forward(t, m, seq, 200)
}

func TestGivenGGUFFrequencyFactorsWhenForwardedThenLogitsAgreeWithTransformers(t *testing.T) {
	m := convert(t, "llama") // scaled as Llama 3, which GGUF stores as divisors
	for _, want := range golden(t, "llama") {
		compare(t, m, want)
	}
}

// asGGUF converts a Hugging Face llama checkpoint, following llama.cpp's
// conventions for names and for the order of q's and k's rows.
func asGGUF(t *testing.T, ck *checkpoint.Checkpoint) []byte {
	cfg := ck.Config()
	names := strings.NewReplacer("model.embed_tokens", "token_embd", "model.norm", "output_norm", "lm_head", "output",
		"model.layers.", "blk.", "input_layernorm", "attn_norm", "post_attention_layernorm", "ffn_norm",
		"self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k", "self_attn.v_proj", "attn_v",
		"self_attn.o_proj", "attn_output", "mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up", "mlp.down_proj", "ffn_down")
	var outputs []checkpoint.Output
	for _, tensor := range ck.Tensors() {
		data := bytes.Clone(tensor.Data)
		if strings.Contains(tensor.Name, "q_proj") || strings.Contains(tensor.Name, "k_proj") {
			// llama.cpp: reshape(heads, 2, headDim/2, in).swapaxes(1, 2)
			size, half := len(data)/tensor.Rows(), cfg.HeadDim/2
			for r := range tensor.Rows() {
				head, d := r/cfg.HeadDim, r%cfg.HeadDim
				to := head*cfg.HeadDim + d%half*2 + d/half
				copy(data[to*size:(to+1)*size], tensor.RowBytes(r))
			}
		}
		outputs = append(outputs, checkpoint.Output{Name: names.Replace(tensor.Name), Type: tensor.Type, Shape: tensor.Shape, Data: data})
	}
	if cfg.RopeScaling != nil {
		outputs = append(outputs, checkpoint.Output{
			Name: "rope_freqs.weight", Type: checkpoint.F32, Shape: []int{cfg.HeadDim / 2}, Data: llama3Factors(cfg),
		})
	}
	var file bytes.Buffer
	require.NoError(t, checkpoint.WriteGGUF(&file, map[string]any{
		"general.architecture": "llama", "llama.block_count": uint32(cfg.Layers), "llama.context_length": uint32(cfg.Context),
		"llama.embedding_length": uint32(cfg.HiddenSize), "llama.feed_forward_length": uint32(cfg.FFN),
		"llama.attention.head_count": uint32(cfg.Heads), "llama.attention.head_count_kv": uint32(cfg.KVHeads),
		"llama.attention.key_length": uint32(cfg.HeadDim), "llama.attention.value_length": uint32(cfg.HeadDim),
		"llama.rope.dimension_count":             uint32(cfg.HeadDim),
		"llama.attention.layer_norm_rms_epsilon": float32(cfg.RMSEps), "llama.rope.freq_base": float32(cfg.RopeTheta),
		"llama.vocab_size": uint32(cfg.VocabSize),
	}, outputs))
	return file.Bytes()
}

// llama3Factors are what llama.cpp's converter stores: by how much each
// frequency is slowed down.
func llama3Factors(cfg *checkpoint.Config) []byte {
	var out []byte
	s := cfg.RopeScaling
	for i := 0; i < cfg.HeadDim; i += 2 {
		wavelength := 2 * math.Pi * math.Pow(cfg.RopeTheta, float64(i)/float64(cfg.HeadDim))
		rotations := float64(s.OriginalContext) / wavelength
		factor := 1 / ((1-smooth(rotations, s))/s.Factor + smooth(rotations, s))
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(factor)))
	}
	return out
}

func smooth(rotations float64, s *checkpoint.RopeScaling) float64 {
	return max(0, min(1, (rotations-s.LowFreqFactor)/(s.HighFreqFactor-s.LowFreqFactor)))
}
