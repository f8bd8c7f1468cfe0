package dflash

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/internal/golden"
	"surmise/model"
)

// start opens and binds a changed copy of the fixture, whose target has 6 layers,
// 96 tokens and a hidden size of 64.
func start(t *testing.T, fields map[string]any, tensors map[string][]int) error {
	t.Helper()
	return golden.Start(t, filepath.Join("testdata", "tiny"), 6, fields, tensors, func(dev compute.Device, ck *checkpoint.Checkpoint) (*Drafter, error) {
		return New(dev, ck, Options{Quantize: model.QuantizeNone, KV: compute.KVF32})
	})
}

func TestGivenAConfigurationOfNonsenseThenTheErrorNamesFieldValueAndWhatIsValid(t *testing.T) {
	const ids, mask = "dflash_config.target_layer_ids", "dflash_config.mask_token_id"
	for _, tc := range []struct {
		field string
		value any
		want  string
	}{
		{"block_size", "8", `config.json: block_size is "8", expected an integer from 2 to 64`},
		{"block_size", 1, `block_size is 1, expected an integer from 2 to 64`},
		{"block_size", uint64(1 << 63), `block_size is 9223372036854775808, expected an integer from 2 to 64`},
		{"block_size", nil, `block_size is missing, expected an integer from 2 to 64`},
		{ids, []int{1, 1}, `dflash_config.target_layer_ids is [1,1], expected one or more layers of the target, each once`},
		{ids, json.RawMessage("[\n  1,\n  1\n]"), `target_layer_ids is [1,1], expected one or more layers`},
		{ids, []int{}, `target_layer_ids is [], expected one or more layers`},
		{ids, []any{1, nil}, `target_layer_ids is [1,null], expected a list of integers from 0 to`},
		{ids, []any{1, "4"}, `target_layer_ids is [1,"4"], expected a list of integers from 0 to`},
		{ids, []int{-1, 4}, `target_layer_ids is [-1,4], expected a list of integers from 0 to`},
		{ids, []int{1, 6}, `target_layer_ids has layer 6, but the target has layers 0 to 5`},
		{ids, 1, `target_layer_ids is 1, expected a list of integers`},
		{mask, -1, `dflash_config.mask_token_id is -1, expected an integer from 0 to 95`},
		{mask, 96, `dflash_config.mask_token_id is 96, expected an integer from 0 to 95`},
		{mask, "95", `dflash_config.mask_token_id is "95", expected an integer from 0 to 95`},
		{"dflash_config", []int{}, `dflash_config is [], expected an object`},
		{"num_target_layers", 0, `num_target_layers is 0, expected an integer from 1 to`},
		{"num_target_layers", "x", `num_target_layers is "x", expected an integer from 1 to`},
		{"num_target_layers", 1 << 62, `num_target_layers is 4611686018427387904, expected an integer from 1 to`},
		{"num_target_layers", 3, `num_target_layers is 3, but the target has 6 layers`},
		{"hidden_size", nil, `hidden_size is missing, expected an integer from 1 to`},
		{"num_attention_heads", nil, `num_attention_heads is missing, expected an integer from 1 to`},
		{"num_hidden_layers", nil, `num_hidden_layers is missing, expected an integer from 1 to`},
		{"num_key_value_heads", 2, `layers.0.self_attn.k_proj and v_proj: 64 rows, want 128 by num_key_value_heads and head_dim of config.json`},
		{"head_dim", 1, `head_dim is 1, expected an integer from 2 to`},
		{"rms_norm_eps", 0, `rms_norm_eps is 0, expected a number above 0`},
		{"sliding_window", json.RawMessage("null"), `sliding_window is missing, expected an integer from 1 on, since layer_types has sliding layers`},
	} {
		fields := map[string]any{tc.field: tc.value}
		if tc.field == "num_hidden_layers" {
			fields["layer_types"] = nil
		}
		err := start(t, fields, nil)
		require.ErrorContains(t, err, tc.want, "%s %v", tc.field, tc.value)
		require.NotContains(t, err.Error(), "Go struct", "%s %v", tc.field, tc.value)
	}
}

func TestGivenAnUnusualButSoundConfigurationThenTheDrafterStarts(t *testing.T) {
	for field, value := range map[string]any{
		"block_size":                     8.0,
		"dflash_config.target_layer_ids": []int{4, 1}, // the order is that of fc's columns
		"num_target_layers":              nil,
		"dflash_config.mask_token_id":    0,
	} {
		require.NoError(t, start(t, map[string]any{field: value}, nil), "%s %v", field, value)
	}
}

func TestGivenATensorOfItsOwnThatDoesNotFitThenTheDrafterDoesNotStart(t *testing.T) {
	const embedding, head = "embed_tokens.weight", "lm_head.weight"
	require.NoError(t, start(t, nil, map[string][]int{embedding: {96, 64}}))
	require.NoError(t, start(t, map[string]any{"vocab_size": 128}, map[string][]int{embedding: {128, 64}}), "padded as config.json says")
	for _, tc := range []struct {
		name  string
		shape []int
		want  string
	}{
		{embedding, []int{96, 32}, `tensor "embed_tokens.weight" has shape [96 32], want a matrix of hidden_size 64 columns`},
		{embedding, []int{64}, `has shape [64], want a matrix`},
		{embedding, []int{64, 96}, `has shape [64 96], want a matrix`},
		{embedding, []int{48, 64}, `has shape [48 64], want [96, 64] by vocab_size and hidden_size`},
		{embedding, []int{192, 64}, `has shape [192 64], want [96, 64] by vocab_size and hidden_size`},
		{head, []int{95, 64}, `head is [95, 64], want [96, 64]`},
		{"fc.weight", []int{128, 64}, `tensor "fc.weight" has shape [128 64], want [64, 64]`},
		{"layers.0.self_attn.q_norm.weight", nil, `tensor "layers.0.self_attn.q_norm.weight" is missing`},
		{"layers.2.input_layernorm.weight", []int{64}, `tensor "layers.2.input_layernorm.weight" is no part of a DFlash drafter of num_hidden_layers 2`},
	} {
		require.ErrorContains(t, start(t, nil, map[string][]int{tc.name: tc.shape}), tc.want)
	}
	require.ErrorContains(t, start(t, map[string]any{"vocab_size": nil}, map[string][]int{embedding: {48, 64}}),
		"embed_tokens.weight is [48, 64], want 96 rows or more: the target's vocabulary")
	require.ErrorContains(t, start(t, map[string]any{"attention_bias": true}, nil), `tensor "layers.0.self_attn.q_proj.bias" is missing`)
}
