package checkpoint

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// parse normalizes a config.json of changed defaults, and a
// generation_config.json unless that is nil.
func parse(t *testing.T, modelType string, changes, generation map[string]any) *Config {
	t.Helper()
	var gen []byte
	if generation != nil {
		gen = toJSON(t, generation)
	}
	c, err := hfConfig(toJSON(t, tinyConfig(modelType, changes)), gen, nil)
	require.NoError(t, err)
	return c
}

func TestConfigNormalizesTheSizes(t *testing.T) {
	c := parse(t, "llama", nil, nil)
	require.Equal(t, "llama", c.Architecture)
	require.Equal(t, []int{32, 2, 2, 1, 16, 64, 40, 128}, []int{c.HiddenSize, c.Layers, c.Heads, c.KVHeads, c.HeadDim, c.FFN, c.VocabSize, c.Context})
	require.InDelta(t, 1e-5, c.RMSEps, 0)
	require.InDelta(t, 0.25, c.QueryScale, 0)
	require.InDelta(t, 1, c.EmbedScale, 0)
	require.Equal(t, "silu", c.Activation)
	require.False(t, c.AttentionBias || c.MLPBias || c.TieEmbeddings || c.NormPlusOne || c.RopeInterleaved || c.Draft)
	require.JSONEq(t, string(toJSON(t, tinyConfig("llama", nil))), string(c.Raw))
}

func TestConfigFillsAbsentKeysWithTheDefaultsOfTransformers(t *testing.T) {
	without := map[string]any{"num_key_value_heads": nil, "head_dim": nil, "max_position_embeddings": nil, "rms_norm_eps": nil, "tie_word_embeddings": nil}
	c := parse(t, "llama", without, nil)
	require.Equal(t, []int{2, 16, 2048}, []int{c.KVHeads, c.HeadDim, c.Context})
	require.InDelta(t, 1e-6, c.RMSEps, 0)
	require.InDelta(t, 10000, c.RopeTheta, 0)
	require.False(t, c.TieEmbeddings)
	require.Equal(t, 128, parse(t, "qwen3", without, nil).HeadDim)
	without["num_attention_heads"] = nil
	c = parse(t, "gemma3_text", without, nil)
	require.Equal(t, []int{8, 4, 256, 131072}, []int{c.Heads, c.KVHeads, c.HeadDim, c.Context})
	require.True(t, c.TieEmbeddings)
	require.InDelta(t, 1.0/16, c.QueryScale, 0, "query_pre_attn_scalar is 256")
}

func TestQwen2HasBiasesWithoutSayingSo(t *testing.T) {
	require.True(t, parse(t, "qwen2", nil, nil).AttentionBias)
	require.False(t, parse(t, "qwen3", nil, nil).AttentionBias)
	require.True(t, parse(t, "qwen3", map[string]any{"attention_bias": true}, nil).AttentionBias)
}

func TestGemma3ScalesNormsAndWindows(t *testing.T) {
	for _, changes := range []map[string]any{
		{"sliding_window": 16, "sliding_window_pattern": 2, "query_pre_attn_scalar": 64, "rope_theta": 1e6, "rope_local_base_freq": 1e4, "rope_scaling": map[string]any{"rope_type": "linear", "factor": 8.0}},
		{"sliding_window": 16, "layer_types": []string{"sliding_attention", "full_attention"}, "query_pre_attn_scalar": 64, "rope_parameters": map[string]any{
			"full_attention":    map[string]any{"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
			"sliding_attention": map[string]any{"rope_type": "default", "rope_theta": 1e4},
		}},
	} {
		c := parse(t, "gemma3_text", changes, nil)
		require.Equal(t, "gemma3", c.Architecture)
		require.True(t, c.NormPlusOne)
		require.InDelta(t, 0.125, c.QueryScale, 0)
		require.InDelta(t, math.Sqrt(32), c.EmbedScale, 0)
		require.Equal(t, "gelu_tanh", c.Activation)
		require.Equal(t, 16, c.SlidingWindow)
		require.Equal(t, []string{SlidingAttention, FullAttention}, c.LayerTypes)
		require.InDelta(t, 1e6, c.RopeTheta, 0)
		require.InDelta(t, 1e4, c.RopeLocalTheta, 0)
		require.Equal(t, &RopeScaling{Type: "linear", Factor: 8}, c.RopeScaling)
	}
}

func TestTheTextModelOfAMultimodalConfigIsRead(t *testing.T) {
	text := tinyConfig("gemma3_text", nil)
	delete(text, "num_attention_heads") // published configurations rely on the defaults
	delete(text, "tie_word_embeddings")
	raw := toJSON(t, map[string]any{
		"model_type": "gemma3", "architectures": []string{"Gemma3ForConditionalGeneration"},
		"text_config": text, "eos_token_id": []int{1, 3}, "vision_config": map[string]any{"hidden_size": 9},
	})
	c, err := hfConfig(raw, nil, nil)
	require.NoError(t, err)
	require.Equal(t, []int{32, 8}, []int{c.HiddenSize, c.Heads})
	require.Equal(t, []int{1, 2, 3}, c.EOS)
	require.True(t, c.TieEmbeddings)
}

func TestSlidingWindowsFollowTheRulesOfEachFamily(t *testing.T) {
	c := parse(t, "mistral", map[string]any{"sliding_window": 64}, nil)
	require.Equal(t, "llama", c.Architecture)
	require.Equal(t, 64, c.SlidingWindow)
	require.Equal(t, []string{SlidingAttention, SlidingAttention}, c.LayerTypes)

	raw := toJSON(t, tinyConfig("mistral", nil))
	raw = append(raw[:len(raw)-1], []byte(`,"sliding_window":null}`)...)
	c, err := hfConfig(raw, nil, nil)
	require.NoError(t, err)
	require.Zero(t, c.SlidingWindow)
	require.Nil(t, c.LayerTypes)

	c = parse(t, "qwen2", map[string]any{"sliding_window": 64, "max_window_layers": 1}, nil)
	require.Zero(t, c.SlidingWindow, "use_sliding_window is false unless said")
	c = parse(t, "qwen2", map[string]any{"sliding_window": 64, "max_window_layers": 1, "use_sliding_window": true}, nil)
	require.Equal(t, 64, c.SlidingWindow)
	require.Equal(t, []string{FullAttention, SlidingAttention}, c.LayerTypes)
}

func TestRopeScalingIsReadInBothSpellings(t *testing.T) {
	llama3 := map[string]any{"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
	want := &RopeScaling{Type: "llama3", Factor: 32, LowFreqFactor: 1, HighFreqFactor: 4, OriginalContext: 8192}
	c := parse(t, "llama", map[string]any{"rope_theta": 5e5, "rope_scaling": llama3}, nil)
	require.Equal(t, want, c.RopeScaling)
	llama3["rope_theta"] = 5e5
	c = parse(t, "llama", map[string]any{"rope_parameters": llama3}, nil)
	require.Equal(t, want, c.RopeScaling)
	require.InDelta(t, 5e5, c.RopeTheta, 0)
	c = parse(t, "llama", map[string]any{"rope_scaling": map[string]any{"type": "linear", "factor": 2}}, nil)
	require.Equal(t, &RopeScaling{Type: "linear", Factor: 2}, c.RopeScaling)
	c = parse(t, "llama", map[string]any{"rope_parameters": map[string]any{"rope_type": "default", "rope_theta": 7}}, nil)
	require.Nil(t, c.RopeScaling)
}

func TestEndTokensUniteAllFiles(t *testing.T) {
	c := parse(t, "qwen3", map[string]any{"eos_token_id": 5}, map[string]any{"eos_token_id": []int{9, 5, 3}, "pad_token_id": 4})
	require.Equal(t, []int{3, 5, 9}, c.EOS)
	require.Equal(t, 1, c.BOS)
	require.Equal(t, 4, c.Pad)
	c = parse(t, "llama", map[string]any{"eos_token_id": nil, "bos_token_id": nil, "pad_token_id": -1}, nil)
	require.Nil(t, c.EOS)
	require.Equal(t, []int{-1, -1}, []int{c.BOS, c.Pad})
}

func TestDraftersOfKnownArchitecturesAreRecognizedAndNotValidated(t *testing.T) {
	for name, tc := range map[string]struct {
		changes map[string]any
		tensor  string
		draft   bool
	}{
		"dflash by class":  {map[string]any{"architectures": []string{"DFlashDraftModel"}}, "fc.weight", true},
		"dflash by object": {map[string]any{"dflash_config": map[string]any{"mask_token_id": 1}}, "fc.weight", true},
		"mtp by tensors":   {nil, "mtp.fc.weight", true},
		"whole":            {map[string]any{"architectures": []string{"Qwen3ForCausalLM"}}, "fc.weight", false},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := OpenFS(fstest.MapFS{
				"m/config.json":       {Data: toJSON(t, tinyConfig("qwen3", tc.changes))},
				"m/model.safetensors": {Data: safetensorsBytes(t, floats(tc.tensor, F16, 4, 8))},
			}, "m")
			if !tc.draft {
				require.ErrorContains(t, err, "missing")
				return
			}
			require.NoError(t, err)
			require.True(t, c.Config().Draft)
			require.Equal(t, "qwen3", c.Config().Architecture)
			require.Equal(t, tinyHidden, c.Config().HiddenSize)
		})
	}
}

func TestUnknownArchitecturesOpenWithTheirRawName(t *testing.T) {
	c, err := OpenFS(fstest.MapFS{
		"m/config.json":       {Data: []byte(`{"model_type":"newest","hidden_size":8,"num_attention_heads":[1,2],"rope_scaling":7}`)},
		"m/model.safetensors": {Data: safetensorsBytes(t, floats("anything", F16, 4, 8))},
	}, "m")
	require.NoError(t, err)
	require.Equal(t, "newest", c.Config().Architecture)
	require.Equal(t, 8, c.Config().HiddenSize)
	md := map[string]any{"general.architecture": "newest", "newest.block_count": "odd"}
	g, err := openGGUF("x", &mapping{data: ggufBytes(t, md, []Output{floats("blk.0.odd.weight", F16, 4, 8)})})
	require.NoError(t, err)
	require.Equal(t, "newest", g.Config().Architecture)
	require.Zero(t, g.Config().Layers)
	_, ok := g.Lookup("blk.0.odd.weight")
	require.True(t, ok)
}

func TestHostileConfigsAreErrorsThatNameTheField(t *testing.T) {
	for name, tc := range map[string]struct {
		modelType string
		changes   map[string]any
		want      []string
	}{
		"no model_type":       {"llama", map[string]any{"model_type": nil}, []string{"no model_type"}},
		"model_type a number": {"llama", map[string]any{"model_type": 7}, []string{"model_type is 7", "a string"}},
		"2^63 layers":         {"llama", map[string]any{"num_hidden_layers": uint64(1) << 63}, []string{"num_hidden_layers is 9223372036854775808", "1 to 10000"}},
		"negative":            {"llama", map[string]any{"hidden_size": -32}, []string{"hidden_size is -32"}},
		"fraction":            {"llama", map[string]any{"hidden_size": 32.5}, []string{"hidden_size is 32.5", "an integer"}},
		"text":                {"llama", map[string]any{"hidden_size": "32"}, []string{`hidden_size is "32"`}},
		"absent":              {"llama", map[string]any{"hidden_size": nil}, []string{"no hidden_size"}},
		"ragged groups":       {"llama", map[string]any{"num_key_value_heads": 4}, []string{"2 query heads and 4"}},
		"odd head":            {"llama", map[string]any{"head_dim": 15}, []string{"head size of 15"}},
		"huge heads":          {"llama", map[string]any{"head_dim": 65536, "num_attention_heads": 65536}, []string{"wider than"}},
		"epsilon":             {"llama", map[string]any{"rms_norm_eps": 2}, []string{"rms_norm_eps is 2"}},
		"theta":               {"llama", map[string]any{"rope_theta": 0}, []string{"rope_theta is 0"}},
		"activation":          {"llama", map[string]any{"hidden_act": "relu"}, []string{`hidden_act is "relu"`, `"silu"`}},
		"layer_types length":  {"qwen3", map[string]any{"layer_types": []string{"full_attention"}}, []string{"layer_types has 1 entries for 2 layers"}},
		"layer_types value":   {"qwen3", map[string]any{"layer_types": []string{"full_attention", "linear"}}, []string{`layer_types[1] is "linear"`}},
		"layer_types type":    {"qwen3", map[string]any{"layer_types": 3}, []string{"layer_types is 3", "list of strings"}},
		"scaling a number":    {"llama", map[string]any{"rope_scaling": 3}, []string{"rope_scaling is 3", "an object"}},
		"scaling incomplete":  {"llama", map[string]any{"rope_scaling": map[string]any{"rope_type": "llama3", "factor": 2}}, []string{"rope_scaling.low_freq_factor", "llama3"}},
		"scaling reversed":    {"llama", map[string]any{"rope_scaling": map[string]any{"rope_type": "llama3", "factor": 2, "low_freq_factor": 4, "high_freq_factor": 1, "original_max_position_embeddings": 64}}, []string{"high_freq_factor is 1", "more than"}},
		"part of the head":    {"llama", map[string]any{"rope_parameters": map[string]any{"partial_rotary_factor": 0.5}}, []string{"partial_rotary_factor is 0.5"}},
		"end token":           {"llama", map[string]any{"eos_token_id": []int{2, 40}}, []string{"end token 40"}},
		"begin token":         {"llama", map[string]any{"bos_token_id": 40}, []string{"begin token 40"}},
		"end token as text":   {"llama", map[string]any{"eos_token_id": "</s>"}, []string{"eos_token_id", "token id"}},
		"bool as text":        {"llama", map[string]any{"tie_word_embeddings": "yes"}, []string{`tie_word_embeddings is "yes"`}},
		"soft-capping":        {"gemma3_text", map[string]any{"final_logit_softcapping": 30.0}, []string{"final_logit_softcapping is 30"}},
		"bidirectional":       {"gemma3_text", map[string]any{"use_bidirectional_attention": true}, []string{"use_bidirectional_attention"}},
		"pattern 0":           {"gemma3_text", map[string]any{"sliding_window_pattern": 0}, []string{"sliding_window_pattern is 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := hfConfig(toJSON(t, tinyConfig(tc.modelType, tc.changes)), nil, nil)
			require.ErrorContains(t, err, "config.json: ")
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
	for _, raw := range []string{"", "[]", "null", "{", `{"model_type":`} {
		_, err := hfConfig([]byte(raw), nil, nil)
		require.ErrorContains(t, err, "config.json", raw)
	}
	for raw, want := range map[string]string{"[]": "config.json: is an array, expected an object", "7": "config.json: is a number"} {
		_, err := hfConfig([]byte(raw), nil, nil)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "Go ")
	}
	for raw, want := range map[string]string{"[]": "is an array, expected an object", `{"quantization_config":"gptq"}`: "quantization_config is a string"} {
		_, err := parseQuantization([]byte(raw))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "Go ")
	}
	_, err := hfConfig(toJSON(t, tinyConfig("llama", nil)), []byte("{"), nil)
	require.ErrorContains(t, err, "generation_config.json: malformed")
}

func TestAConfigThatContradictsTheShapesIsAnError(t *testing.T) {
	for name, tc := range map[string]struct {
		modelType string
		changes   map[string]any
		want      []string
	}{
		"width":         {"llama", map[string]any{"hidden_size": 64}, []string{"model.embed_tokens.weight", "[40 32]", "[40 64]"}},
		"vocabulary":    {"llama", map[string]any{"vocab_size": 41}, []string{"model.embed_tokens.weight", "[41 32]"}},
		"more layers":   {"llama", map[string]any{"num_hidden_layers": 3}, []string{"model.layers.2.", "missing"}},
		"fewer layers":  {"llama", map[string]any{"num_hidden_layers": 1}, []string{"model.layers.1.", "1 layers"}},
		"heads":         {"qwen3", map[string]any{"num_attention_heads": 4}, []string{"q_proj", "[32 32]", "[64 32]"}},
		"kv heads":      {"qwen3", map[string]any{"num_key_value_heads": 2}, []string{"k_proj", "[16 32]", "[32 32]"}},
		"head size":     {"gemma3_text", map[string]any{"head_dim": 8}, []string{"q_norm", "[16]", "[8]"}},
		"feed-forward":  {"llama", map[string]any{"intermediate_size": 32}, []string{"gate_proj", "[64 32]", "[32 32]"}},
		"no biases":     {"llama", map[string]any{"attention_bias": true}, []string{"q_proj.bias", "missing"}},
		"no mlp biases": {"llama", map[string]any{"mlp_bias": true}, []string{"gate_proj.bias", "missing"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := OpenFS(tinyHF(t, tc.modelType, tc.changes), "m")
			require.ErrorContains(t, err, "contradicts")
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
	t.Run("biases nobody expects", func(t *testing.T) {
		files := tinyHF(t, "llama", nil)
		tensors := append(tinyTensors("llama"), floats("model.layers.1.self_attn.o_proj.bias", F32, tinyHidden))
		files["m/model.safetensors"].Data = safetensorsBytes(t, tensors...)
		_, err := OpenFS(files, "m")
		require.ErrorContains(t, err, "model.layers.1.self_attn.o_proj.bias")
	})
}

func TestOfFourPromisedBiasesThatOfTheOutputMayNotBeMissing(t *testing.T) {
	files := tinyHF(t, "qwen3", map[string]any{"attention_bias": true})
	tensors := tinyTensors("qwen3")
	for i := range 2 {
		for name, width := range map[string]int{"q": 32, "k": 16, "v": 16} {
			tensors = append(tensors, floats(fmt.Sprintf("model.layers.%d.self_attn.%s_proj.bias", i, name), F32, width))
		}
	}
	files["m/model.safetensors"].Data = safetensorsBytes(t, tensors...)
	_, err := OpenFS(files, "m")
	require.ErrorContains(t, err, `tensor "model.layers.0.self_attn.o_proj.bias" is missing`)
	for i := range 2 {
		tensors = append(tensors, floats(fmt.Sprintf("model.layers.%d.self_attn.o_proj.bias", i), F32, tinyHidden))
	}
	files["m/model.safetensors"].Data = safetensorsBytes(t, tensors...)
	_, err = OpenFS(files, "m")
	require.NoError(t, err)
}

func TestATiedHeadMayBeAbsentAndAnUntiedOneMayNot(t *testing.T) {
	tensors := tinyTensors("llama")
	tensors = append(tensors[:2:2], tensors[3:]...)
	files := tinyHF(t, "llama", nil)
	files["m/model.safetensors"].Data = safetensorsBytes(t, tensors...)
	_, err := OpenFS(files, "m")
	require.ErrorContains(t, err, `"lm_head.weight" is missing`)
	files["m/config.json"].Data = toJSON(t, tinyConfig("llama", map[string]any{"tie_word_embeddings": true}))
	c, err := OpenFS(files, "m")
	require.NoError(t, err)
	require.True(t, c.Config().TieEmbeddings)

	stored := tinyGGUFTensors("llama")
	g, err := openGGUF("x", &mapping{data: ggufBytes(t, tinyGGUFMetadata("llama"), append(stored[:2:2], stored[3:]...))})
	require.NoError(t, err)
	require.True(t, g.Config().TieEmbeddings)
	g, err = openGGUF("x", &mapping{data: ggufBytes(t, tinyGGUFMetadata("llama"), stored)})
	require.NoError(t, err)
	require.False(t, g.Config().TieEmbeddings)
}

func TestGGUFMetadataBecomesTheSameConfig(t *testing.T) {
	md := tinyGGUFMetadata("gemma3")
	md["gemma3.rope.freq_base"] = float32(1e6)
	md["gemma3.rope.scaling.type"], md["gemma3.rope.scaling.factor"] = "linear", float32(8)
	md["gemma3.attention.sliding_window_pattern"] = []bool{true, false}
	md["tokenizer.ggml.eot_token_id"] = uint32(5)
	c, err := openGGUF("x", &mapping{data: ggufBytes(t, md, tinyGGUFTensors("gemma3"))})
	require.NoError(t, err)
	got := c.Config()
	want := parse(t, "gemma3_text", map[string]any{
		"sliding_window": 16, "sliding_window_pattern": 2, "query_pre_attn_scalar": tinyHead, "rope_theta": 1e6,
		"rope_scaling": map[string]any{"rope_type": "linear", "factor": 8.0}, "eos_token_id": []int{2, 5, 7},
	}, nil)
	want.ModelType, want.Raw = "gemma3", nil
	want.NormPlusOne = false // the converter added the one
	require.InDelta(t, want.RMSEps, got.RMSEps, 1e-12)
	want.RMSEps = got.RMSEps // stored as a single in GGUF
	require.Equal(t, want, got)
}

func TestRopeFactorsOfGGUFAreCheckedAndKept(t *testing.T) {
	open := func(o Output) (*Checkpoint, error) {
		return openGGUF("x", &mapping{data: ggufBytes(t, tinyGGUFMetadata("llama"), append(tinyGGUFTensors("llama"), o))})
	}
	factors := Output{Name: "rope_freqs.weight", Type: F32, Shape: []int{8}, Data: make([]byte, 32)}
	want := []float32{1, 1, 1, 2, 3, 8, 8, 32}
	EncodeF32(factors.Data, want)
	c, err := open(factors)
	require.NoError(t, err)
	require.Equal(t, want, c.Config().RopeFactors)
	require.True(t, c.Config().RopeInterleaved)
	EncodeF32(factors.Data, make([]float32, 8))
	_, err = open(factors)
	require.ErrorContains(t, err, "rope_freqs.weight")
	_, err = open(floats("rope_freqs.weight", F32, 4))
	require.ErrorContains(t, err, "expected f32 [8]")
}

func TestOpenFindsTheOneCheckpointOfAFolder(t *testing.T) {
	gguf := ggufBytes(t, tinyGGUFMetadata("llama"), tinyGGUFTensors("llama"))
	put := func(dir string, hf bool) {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		if !hf {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "m.gguf"), gguf, 0o600))
			return
		}
		for name, f := range tinyHF(t, "llama", nil) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(name)), f.Data, 0o600))
		}
	}
	dir := t.TempDir()
	_, err := Open(dir)
	require.ErrorContains(t, err, "holds no checkpoint")
	_, err = Open(filepath.Join(dir, "gone"))
	require.ErrorIs(t, err, os.ErrNotExist)

	put(filepath.Join(dir, "inner"), true)
	c, err := Open(dir)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "inner"), c.Path())
	require.Equal(t, FormatHF, c.Format())
	_, err = c.File("config.json")
	require.NoError(t, err)
	tensor, err := c.Tensor("lm_head.weight")
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, c.Close(), "closing twice is harmless")
	tensor.DropPages(0, tensor.Rows()) // and so is advice about pages that are gone

	put(filepath.Join(dir, "other"), true)
	_, err = Open(dir)
	require.ErrorContains(t, err, "holds 2 checkpoints")

	put(dir, false) // a file of the folder itself comes before its subfolders
	g, err := Open(dir)
	require.NoError(t, err)
	require.Equal(t, FormatGGUF, g.Format())
	_, err = g.File("tokenizer.json")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, g.Close())

	put(dir, true)
	_, err = Open(dir)
	require.ErrorContains(t, err, "holds 2 checkpoints")
	_, err = Open(filepath.Join(dir, "model.safetensors"))
	require.ErrorContains(t, err, "give its directory")

	lone := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(lone, "config.json"), []byte("{}"), 0o600))
	_, err = Open(lone)
	require.ErrorContains(t, err, "no *.safetensors")
	require.NoError(t, os.Remove(filepath.Join(lone, "config.json")))
	require.NoError(t, os.WriteFile(filepath.Join(lone, "model.safetensors"), nil, 0o600))
	_, err = Open(lone)
	require.ErrorContains(t, err, "config.json")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestDroppedPagesReadTheSameAgain(t *testing.T) {
	big := floats("w", F16, 64, 4096)
	path := writeFile(t, "big.gguf", ggufBytes(t, map[string]any{"general.architecture": "x"}, []Output{big, floats("v", F32, 8)}))
	c, err := Open(path)
	require.NoError(t, err)
	defer c.Close()
	w, err := c.Tensor("w")
	require.NoError(t, err)
	for from := range 8 {
		w.DropPages(8*from, 8*from+8)
		require.Equal(t, big.Data, w.Data)
	}
	w.DropPages(-5, 1000)
	w.DropPages(3, 3)
	require.Equal(t, big.Data, w.Data)
}
