package mtp

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/internal/golden"
	"surmise/model"
)

// start opens and binds a changed copy of a fixture, whose target has 6 layers,
// 96 tokens, a hidden size of 64 and a context of 256.
func start(t *testing.T, name string, fields map[string]any, tensors map[string][]int) error {
	t.Helper()
	return golden.Start(t, filepath.Join("testdata", name), 6, fields, tensors, func(dev compute.Device, ck *checkpoint.Checkpoint) (*Drafter, error) {
		return New(dev, ck, Options{Quantize: model.QuantizeNone, KV: compute.KVF32})
	})
}

// without is a tensor taken away.
func without(name string) map[string][]int { return map[string][]int{name: nil} }

func TestGivenATensorOfTheNetworkIsMissingThenTheErrorNamesIt(t *testing.T) {
	for _, tc := range []struct{ fixture, name string }{
		{"qwen3_plain", "mtp.layers.0.self_attn.q_norm.weight"},
		{"qwen3_plain", "mtp.layers.0.self_attn.k_norm.weight"},
		{"qwen3_plain", "mtp.pre_fc_norm_embedding.weight"},
		{"qwen3_plain", "mtp.pre_fc_norm_hidden.weight"},
		{"qwen3_plain", "mtp.fc.weight"},
		{"glm4_dense", "model.layers.2.self_attn.q_norm.weight"},
		{"glm4_dense", "model.layers.2.self_attn.k_norm.weight"},
		{"glm4_dense", "model.layers.2.self_attn.v_proj.bias"},
		{"glm4_dense", "model.layers.2.eh_proj.weight"},
		{"glm4_dense", "model.layers.2.enorm.weight"},
		{"mimo", "model.mtp_layers.0.input_proj.weight"},
		{"mimo", "model.mtp_layers.0.self_attn.k_proj.bias"},
	} {
		err := start(t, tc.fixture, nil, without(tc.name))
		require.ErrorContains(t, err, `tensor "`+tc.name+`" is missing`)
	}
	norms := map[string][]int{"mtp.pre_fc_norm_embedding.weight": nil, "mtp.pre_fc_norm_hidden.weight": nil}
	require.ErrorContains(t, start(t, "qwen3_plain", nil, norms), `there is tensor "mtp.fc.weight", but none that tells the layout of a head`)
	both := map[string][]int{"mtp.layers.0.self_attn.q_norm.weight": nil, "mtp.layers.0.self_attn.k_norm.weight": nil}
	require.ErrorContains(t, start(t, "qwen3_plain", nil, both), "q_norm.weight")
}

func TestGivenATensorThatNobodyReadsThenTheHeadDoesNotStart(t *testing.T) {
	err := start(t, "glm4_dense", nil, map[string][]int{"model.layers.2.post_mlp_layernorm.weight": {64}})
	require.ErrorContains(t, err, `tensor "model.layers.2.post_mlp_layernorm.weight" is no part of a head of layout deepseek`)
}

func TestGivenAHeadsOwnTensorThatDoesNotFitThenItDoesNotStart(t *testing.T) {
	const embedding = "mtp.embed_tokens.weight"
	require.NoError(t, start(t, "qwen3_plain", nil, map[string][]int{embedding: {96, 64}}))
	for _, tc := range []struct {
		name  string
		shape []int
		want  string
	}{
		{embedding, []int{192, 64}, `has shape [192 64], want [96, 64] by vocab_size and hidden_size`},
		{embedding, []int{96, 32}, `has shape [96 32], want a matrix of hidden_size 64 columns`},
		{embedding, []int{64}, `has shape [64], want a matrix`},
		{"mtp.lm_head.weight", []int{95, 64}, `mtp.lm_head.weight is [95, 64], want [96, 64]`},
		{"mtp.fc.weight", []int{128, 64}, `tensor "mtp.fc.weight" has shape [128 64], want [64, 128]`},
	} {
		require.ErrorContains(t, start(t, "qwen3_plain", nil, map[string][]int{tc.name: tc.shape}), tc.want)
	}
	require.ErrorContains(t, start(t, "qwen3_plain", map[string]any{"vocab_size": nil}, map[string][]int{embedding: {48, 64}}),
		embedding+" is [48, 64], want 96 rows or more: the target's vocabulary")
}

func TestGivenAConfigurationOfNonsenseThenTheErrorNamesFieldValueAndWhatIsValid(t *testing.T) {
	for _, tc := range []struct {
		field string
		value any
		want  string
	}{
		{"num_nextn_predict_layers", -1, `num_nextn_predict_layers is -1, expected an integer from 0 to 1000`},
		{"num_nextn_predict_layers", "x", `num_nextn_predict_layers is "x", expected an integer`},
		{"num_nextn_predict_layers", 1e9, `num_nextn_predict_layers is 1000000000, expected an integer`},
		{"num_nextn_predict_layers", 0, `num_nextn_predict_layers is 0, but the checkpoint has a head: want 1 or more`},
		{"num_nextn_predict_layers", 2, `num_nextn_predict_layers is 2, but the checkpoint has tensors of 1`},
		{"num_mtp_modules", 5, `num_mtp_modules is 5, but the checkpoint has tensors of 1`},
		{"mtp_num_hidden_layers", 5, `mtp_num_hidden_layers is 5, but the checkpoint has tensors of 1`},
		{"max_position_embeddings", 1, `max_position_embeddings is 1, but the target is used up to 256 positions`},
		{"partial_rotary_factor", "x", `partial_rotary_factor is "x", expected a number from 0 to 1`},
		{"hidden_size", nil, `hidden_size is missing, expected an integer from 1 to`},
		{"hidden_size", "64", `hidden_size is "64", expected an integer from 1 to`},
		{"num_key_value_heads", 0, `num_key_value_heads is 0, expected an integer from 1 to`},
		{"head_dim", "x", `head_dim is "x", expected an integer from 2 to`},
		{"max_position_embeddings", "x", `max_position_embeddings is "x", expected an integer from 1 to`},
		{"vocab_size", 0, `vocab_size is 0, expected an integer from 1 to`},
		{"rms_norm_eps", nil, `rms_norm_eps is missing, expected a number above 0`},
		{"rope_theta", nil, `rope_theta is missing, expected a number above 0`},
	} {
		err := start(t, "qwen3_plain", map[string]any{tc.field: tc.value}, nil)
		require.ErrorContains(t, err, tc.want, "%s %v", tc.field, tc.value)
	}
	require.NoError(t, start(t, "qwen3_plain", map[string]any{"num_nextn_predict_layers": 2},
		map[string][]int{"mtp.layers.1.input_layernorm.weight": {64}}), "two heads, of which the first is chained")
}
