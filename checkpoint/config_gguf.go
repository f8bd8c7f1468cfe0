package checkpoint

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// ggufKeys gives typed access to the keys of one architecture ("llama.…").
type ggufKeys struct {
	Metadata
	prefix string
	*problems
}

// int returns an integer in [lo, hi]. A list with one value per layer, as some
// converters write, counts when all values agree.
func (k ggufKeys) int(key string, lo, hi, absent int) int {
	key = k.prefix + key
	v := k.Value(key)
	if v == nil {
		return absent
	}
	if list, ok := v.([]int64); ok && len(list) > 0 {
		for _, n := range list {
			if n != list[0] {
				k.add("%s differs by layer (%d and %d), which is not supported", key, list[0], n)
				return absent
			}
		}
		v = list[0]
	}
	n, ok := v.(int64)
	if !ok || n < int64(lo) || n > int64(hi) {
		k.add("%s is %v, expected an integer from %d to %d", key, brief(v), lo, hi)
		return absent
	}
	return int(n)
}

func (k ggufKeys) float(key string, lo, hi, absent float64) float64 {
	key = k.prefix + key
	if k.Value(key) == nil {
		return absent
	}
	f, ok := k.Float(key)
	if !ok || !(f >= lo && f <= hi) {
		k.add("%s is %v, expected a number from %g to %g", key, brief(k.Value(key)), lo, hi)
		return absent
	}
	return f
}

// brief prints a metadata value of any size for a message.
func brief(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%.60q", v)
	case int64, uint64, float64, bool:
		return fmt.Sprint(v)
	default:
		return "a list"
	}
}

// ggufConfig normalizes the metadata of a GGUF file whose tensors already have
// their Hugging Face names.
func ggufConfig(md Metadata, tensors map[string]*Tensor) (*Config, error) {
	arch, ok := md.String("general.architecture")
	if !ok || arch == "" {
		return nil, fmt.Errorf("has no general.architecture")
	}
	f := byArchitecture(arch)
	k := ggufKeys{Metadata: md, prefix: arch + ".", problems: &problems{}}
	c := &Config{Architecture: arch, ModelType: arch, BOS: -1, Pad: -1, EmbedScale: 1}
	c.ggufSizes(k, f, tensors)
	c.ggufRope(k, f, tensors)
	c.ggufLayers(k, f)
	c.ggufFlags(f, tensors)
	c.ggufTokens(md, k.problems)
	if f != nil && k.first != nil {
		return nil, k.first
	}
	return c, nil
}

func (c *Config) ggufSizes(k ggufKeys, f *family, tensors map[string]*Tensor) {
	c.HiddenSize = k.int("embedding_length", 1, maxWidth, 0)
	c.Layers = k.int("block_count", 1, maxLayers, 0)
	c.FFN = k.int("feed_forward_length", 1, maxWidth, 0)
	c.Context = k.int("context_length", 1, maxContext, 0)
	c.Heads = k.int("attention.head_count", 1, maxHeads, 0)
	c.KVHeads = k.int("attention.head_count_kv", 1, maxHeads, c.Heads)
	headDim := 0
	if c.Heads > 0 {
		headDim = c.HiddenSize / c.Heads
	}
	c.HeadDim = k.int("attention.key_length", 1, maxHeads, headDim)
	c.RMSEps = k.float("attention.layer_norm_rms_epsilon", 0, 1, 0)
	tokens, _ := k.Strings("tokenizer.ggml.tokens")
	c.VocabSize = k.int("vocab_size", 1, maxVocab, len(tokens))
	if embed, ok := tensors["model.embed_tokens.weight"]; ok && c.VocabSize == 0 {
		c.VocabSize = min(embed.Rows(), maxVocab)
	}
	if f == nil {
		return
	}
	if c.RMSEps == 0 {
		k.add("%sattention.layer_norm_rms_epsilon is missing", k.prefix)
	}
	c.checkSizes(k.problems, map[string]int{
		k.prefix + "embedding_length": c.HiddenSize, k.prefix + "block_count": c.Layers,
		k.prefix + "feed_forward_length": c.FFN, k.prefix + "attention.head_count": c.Heads,
		k.prefix + "context_length": c.Context, k.prefix + "vocab_size": c.VocabSize,
	})
	if v := k.int("attention.value_length", 1, maxHeads, c.HeadDim); v != c.HeadDim {
		k.add("%sattention.value_length is %d, expected the key length %d", k.prefix, v, c.HeadDim)
	}
	if r := k.int("rope.dimension_count", 1, maxHeads, c.HeadDim); r != c.HeadDim {
		k.add("%srope.dimension_count is %d; this architecture is supported with rotation of whole heads of %d", k.prefix, r, c.HeadDim)
	}
}

func (c *Config) ggufRope(k ggufKeys, f *family, tensors map[string]*Tensor) {
	c.RopeTheta = k.float("rope.freq_base", 1, 1e18, 10000) // llama.cpp's default
	c.RopeInterleaved = c.Architecture == "llama"
	if f != nil && f.sandwich {
		c.RopeLocalTheta = k.float("rope.freq_base_swa", 1, 1e18, f.localTheta)
	}
	typ, _ := k.String(k.prefix + "rope.scaling.type")
	factor := k.float("rope.scaling.factor", 1e-6, 1e6, k.float("rope.scale_linear", 1e-6, 1e6, 0))
	if typ == "" && factor != 0 && factor != 1 {
		typ = "linear"
	}
	if typ != "" && typ != "none" {
		c.RopeScaling = &RopeScaling{
			Type:            typ,
			Factor:          factor,
			OriginalContext: k.int("rope.scaling.original_context_length", 1, maxContext, 0),
			AttentionFactor: k.float("rope.scaling.attn_factor", 1e-6, 1e6, 0),
			BetaFast:        k.float("rope.scaling.yarn_beta_fast", 1e-6, 1e6, 0),
			BetaSlow:        k.float("rope.scaling.yarn_beta_slow", 1e-6, 1e6, 0),
		}
		c.RopeScaling.check(k.problems, k.prefix+"rope.scaling.")
	}
	t, ok := tensors["rope_freqs.weight"]
	if !ok {
		return
	}
	if t.Type != F32 || t.Rows() != 1 || t.Cols() != c.HeadDim/2 {
		k.add("tensor \"rope_freqs.weight\" is %s %v, expected f32 [%d]", t.Type, t.Shape, c.HeadDim/2)
		return
	}
	factors := make([]float32, t.Cols())
	t.Float32Row(0, factors)
	for i, x := range factors {
		if !(x > 0) || math.IsInf(float64(x), 1) {
			k.add("tensor \"rope_freqs.weight\" has %g at %d, expected positive numbers", x, i)
			return
		}
	}
	c.RopeFactors = factors
}

func (c *Config) ggufLayers(k ggufKeys, f *family) {
	if f == nil {
		return
	}
	window := k.int("attention.sliding_window", 0, maxContext, 0)
	slides := f.slides
	if f.architecture == "llama" {
		slides = allSlide // only Mistral's early models, converted to llama, have the key
	}
	if slides == upperSlide {
		return // as llama.cpp: Qwen's windows are off
	}
	pattern := 6
	if bools, ok := k.Bools(k.prefix + "attention.sliding_window_pattern"); ok {
		if len(bools) != c.Layers {
			k.add("%sattention.sliding_window_pattern has %d entries for %d layers", k.prefix, len(bools), c.Layers)
			return
		}
		types := make([]string, len(bools))
		for i, s := range bools {
			if types[i] = FullAttention; s {
				types[i] = SlidingAttention
			}
		}
		c.setLayerTypes(k.problems, types, window)
		return
	}
	pattern = k.int("attention.sliding_window_pattern", 1, maxLayers, pattern)
	c.setLayerTypes(k.problems, (&family{slides: slides}).layerTypes(c.Layers, 0, pattern), window)
}

func (c *Config) ggufFlags(f *family, tensors map[string]*Tensor) {
	has := func(name string) bool { _, ok := tensors[name]; return ok }
	c.TieEmbeddings = !has("lm_head.weight")
	c.AttentionBias = has("model.layers.0.self_attn.q_proj.bias")
	c.MLPBias = has("model.layers.0.mlp.gate_proj.bias")
	if c.HeadDim > 0 {
		c.QueryScale = 1 / math.Sqrt(float64(c.HeadDim))
	}
	if f == nil {
		return
	}
	c.Activation = f.activation
	c.AttentionBias = c.AttentionBias || f.qkvBias
	if f.sandwich {
		c.EmbedScale = math.Sqrt(float64(c.HiddenSize))
		// Gemma 3 27B is the one size whose query_pre_attn_scalar is not its head
		// size; the metadata does not say, llama.cpp goes by the layer count too.
		if c.Layers == 62 && c.Heads > 0 {
			c.QueryScale = 1 / math.Sqrt(float64(c.HiddenSize)/float64(c.Heads))
		}
	}
}

// endTexts are the control tokens that end a text or a turn in the chat formats
// of known families. Metadata often names only one of them.
var endTexts = []string{
	"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<end_of_turn>", "<|end|>", "<|return|>", "<|call|>",
}

func (c *Config) ggufTokens(md Metadata, p *problems) {
	id := func(key string) int {
		if md.Value(key) == nil {
			return -1
		}
		n, ok := md.smallInt(key)
		if !ok || n < -1 {
			// Some converters write −1 as an unsigned number for "none".
			if v, is := md.Int(key); is && v == math.MaxUint32 {
				return -1
			}
			p.add("%s is %v, expected a token id", key, brief(md.Value(key)))
			return -1
		}
		return n
	}
	c.BOS = id("tokenizer.ggml.bos_token_id")
	c.Pad = id("tokenizer.ggml.padding_token_id")
	for _, name := range []string{"eos", "eot", "eom"} {
		if n := id("tokenizer.ggml." + name + "_token_id"); n >= 0 {
			c.EOS = append(c.EOS, n)
		}
	}
	const control, userDefined = 3, 4
	tokens, _ := md.Strings("tokenizer.ggml.tokens")
	kinds, _ := md.Ints("tokenizer.ggml.token_type")
	if len(kinds) == len(tokens) {
		for i, kind := range kinds {
			if (kind == control || kind == userDefined) && strings.HasPrefix(tokens[i], "<") && slices.Contains(endTexts, tokens[i]) {
				c.EOS = append(c.EOS, i)
			}
		}
	}
	c.checkTokens(p)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
