package checkpoint

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Ranges of what a configuration may claim. They are generous; their purpose is
// that products of them cannot overflow and nothing huge is allocated before
// shapes are compared.
const (
	maxWidth   = 1 << 24 // hidden_size, intermediate_size, heads × head_dim
	maxLayers  = 10_000
	maxHeads   = 1 << 16
	maxVocab   = 1 << 26
	maxContext = 1 << 30
)

// hfConfig normalizes config.json and generation_config.json (nil when there
// is none). names are the tensors of the checkpoint.
func hfConfig(raw, generation []byte, names []string) (*Config, error) {
	found := &problems{}
	top := jsonObject{problems: found}
	if err := json.Unmarshal(raw, &top.members); err != nil {
		return nil, fmt.Errorf("config.json: %w", jsonProblem(err))
	}
	if top.members == nil {
		return nil, fmt.Errorf("config.json: is null, expected an object")
	}
	gen := jsonObject{problems: &problems{}}
	if generation != nil {
		if err := json.Unmarshal(generation, &gen.members); err != nil {
			return nil, fmt.Errorf("generation_config.json: %w", jsonProblem(err))
		}
	}
	text, nested := top.object("text_config")
	if !nested {
		text = top
	}
	c := &Config{
		ModelType:     top.string("model_type", ""),
		Architectures: top.strings("architectures"),
		BOS:           -1, Pad: -1, EmbedScale: 1,
		Raw: slices.Clone(raw),
	}
	if c.ModelType == "" {
		found.add("has no model_type")
	}
	if found.first != nil {
		return nil, fmt.Errorf("config.json: %w", found.first)
	}
	f := families[c.ModelType]
	c.Architecture, c.Draft = c.ModelType, false
	if f != nil {
		c.Architecture, c.Draft = f.architecture, isDraft(c, f, top, names)
	}
	c.readSizes(text, f)
	c.readRope(text, f)
	c.readLayers(text, f)
	c.readFlags(text, top, f)
	c.readTokens(top, text, gen)
	if f != nil && gen.first != nil {
		return nil, fmt.Errorf("generation_config.json: %w", gen.first)
	}
	if f != nil && found.first != nil { // an unknown architecture may mean something else by these names
		return nil, fmt.Errorf("config.json: %w", found.first)
	}
	return c, nil
}

// isDraft says whether a checkpoint of a known model_type is not the whole
// model: DFlash drafters carry their target's model_type, as do checkpoints of
// nothing but multi-token-prediction heads.
func isDraft(c *Config, f *family, top jsonObject, names []string) bool {
	if top.has("dflash_config") {
		return true
	}
	known := func(class string) bool { return slices.Contains(f.classes, class) }
	if len(c.Architectures) > 0 && !slices.ContainsFunc(c.Architectures, known) {
		return true
	}
	return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, "mtp.") && !strings.HasPrefix(name, "model.mtp_layers.")
	})
}

// readSizes fills the widths and counts.
func (c *Config) readSizes(o jsonObject, f *family) {
	if f == nil {
		f = &family{}
	}
	c.HiddenSize = o.int("hidden_size", 1, maxWidth, 0)
	c.Layers = o.int("num_hidden_layers", 1, maxLayers, 0)
	c.FFN = o.int("intermediate_size", 1, maxWidth, 0)
	c.VocabSize = o.int("vocab_size", 1, maxVocab, f.vocab)
	c.Heads = o.int("num_attention_heads", 1, maxHeads, f.heads)
	kvHeads := f.kvHeads
	if kvHeads == 0 {
		kvHeads = c.Heads
	}
	c.KVHeads = o.int("num_key_value_heads", 1, maxHeads, kvHeads)
	headDim := f.headDim
	if headDim == 0 && c.Heads > 0 {
		headDim = c.HiddenSize / c.Heads
	}
	c.HeadDim = o.int("head_dim", 1, maxHeads, headDim)
	c.Context = o.int("max_position_embeddings", 1, maxContext, f.context)
	c.RMSEps = o.float("rms_norm_eps", 0, 1, f.eps)
	if f.architecture != "" && !c.Draft {
		c.checkSizes(o.problems, map[string]int{
			"hidden_size": c.HiddenSize, "num_hidden_layers": c.Layers, "intermediate_size": c.FFN,
			"vocab_size": c.VocabSize, "num_attention_heads": c.Heads,
		})
	}
}

// checkSizes reports required sizes that are absent and relations that cannot
// be; required maps the format's name of each to its value.
func (c *Config) checkSizes(p *problems, required map[string]int) {
	for _, name := range sortedKeys(required) {
		if required[name] == 0 {
			p.add("has no %s", name)
		}
	}
	if p.first != nil {
		return
	}
	if c.Heads%c.KVHeads != 0 {
		p.add("has %d query heads and %d key/value heads, expected a multiple", c.Heads, c.KVHeads)
	}
	if c.HeadDim == 0 || c.HeadDim%2 != 0 {
		p.add("has a head size of %d, expected an even number", c.HeadDim)
	}
	if c.Heads*c.HeadDim > maxWidth {
		p.add("has %d heads of %d, which is wider than %d", c.Heads, c.HeadDim, maxWidth)
	}
}

// readRope fills the rotary parameters. Transformers 5 moved them into
// rope_parameters, for Gemma 3 with one object per layer type.
func (c *Config) readRope(o jsonObject, f *family) {
	if f == nil {
		f = &family{}
	}
	c.RopeTheta = o.float("rope_theta", 1, 1e18, f.theta)
	if f.sandwich {
		c.RopeLocalTheta = o.float("rope_local_base_freq", 1, 1e18, f.localTheta)
	}
	key := "rope_scaling"
	if o.has("rope_parameters") {
		key = "rope_parameters"
	}
	rope, ok := o.object(key)
	if !ok {
		return
	}
	if local, ok := rope.object(SlidingAttention); ok && f.sandwich {
		c.RopeLocalTheta = local.float("rope_theta", 1, 1e18, c.RopeLocalTheta)
	}
	if full, ok := rope.object(FullAttention); ok {
		rope = full
	}
	c.RopeTheta = rope.float("rope_theta", 1, 1e18, c.RopeTheta)
	if part := rope.float("partial_rotary_factor", 0, 1, o.float("partial_rotary_factor", 0, 1, 1)); part != 1 && f.architecture != "" {
		rope.add("%spartial_rotary_factor is %g; this architecture is supported with rotation of whole heads", rope.path, part)
	}
	c.RopeScaling = readScaling(rope)
}

func readScaling(o jsonObject) *RopeScaling {
	s := &RopeScaling{
		Type:            o.string("rope_type", o.string("type", "default")),
		Factor:          o.float("factor", 1e-6, 1e6, 0),
		LowFreqFactor:   o.float("low_freq_factor", 1e-6, 1e6, 0),
		HighFreqFactor:  o.float("high_freq_factor", 1e-6, 1e6, 0),
		OriginalContext: o.int("original_max_position_embeddings", 1, maxContext, 0),
		AttentionFactor: o.float("attention_factor", 1e-6, 1e6, 0),
		BetaFast:        o.float("beta_fast", 1e-6, 1e6, 0),
		BetaSlow:        o.float("beta_slow", 1e-6, 1e6, 0),
	}
	s.check(o.problems, o.path)
	if s.Type == "default" {
		return nil
	}
	return s
}

// check reports parameters that a known method needs and does not have.
func (s *RopeScaling) check(p *problems, path string) {
	needs := map[string][]string{
		"linear": {"factor"}, "dynamic": {"factor"}, "yarn": {"factor"},
		"llama3": {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"},
	}
	have := map[string]float64{
		"factor": s.Factor, "low_freq_factor": s.LowFreqFactor, "high_freq_factor": s.HighFreqFactor,
		"original_max_position_embeddings": float64(s.OriginalContext),
	}
	for _, key := range needs[s.Type] {
		if have[key] == 0 {
			p.add("%s%s is missing, rotary scaling of type %q needs it", path, key, s.Type)
		}
	}
	if s.Type == "llama3" && s.HighFreqFactor <= s.LowFreqFactor {
		p.add("%shigh_freq_factor is %g, expected more than low_freq_factor %g", path, s.HighFreqFactor, s.LowFreqFactor)
	}
}

// readLayers fills the sliding windows.
func (c *Config) readLayers(o jsonObject, f *family) {
	if f == nil {
		f = &family{}
	}
	window := f.window
	if _, present := o.members["sliding_window"]; present {
		window = o.int("sliding_window", 1, maxContext, 0) // null: no window
	}
	if f.slides == upperSlide && !o.bool("use_sliding_window", false) && !c.Draft {
		window = 0
	}
	types := o.strings("layer_types")
	for i, t := range types {
		if t != FullAttention && t != SlidingAttention {
			o.add("%slayer_types[%d] is %q, expected %q or %q", o.path, i, t, FullAttention, SlidingAttention)
		}
	}
	if types != nil && len(types) != c.Layers {
		o.add("%slayer_types has %d entries for %d layers", o.path, len(types), c.Layers)
	}
	if types == nil {
		pattern := o.int("sliding_window_pattern", 1, maxLayers, o.int("_sliding_window_pattern", 1, maxLayers, 6))
		from := o.int("max_window_layers", 0, maxLayers, 28)
		types = f.layerTypes(c.Layers, from, pattern)
	}
	c.setLayerTypes(o.problems, types, window)
}

// layerTypes derives what layer_types would say.
func (f *family) layerTypes(layers, maxWindowLayers, pattern int) []string {
	types := make([]string, layers)
	for i := range types {
		types[i] = FullAttention
		switch {
		case f.slides == allSlide,
			f.slides == upperSlide && i >= maxWindowLayers,
			f.slides == patternSlides && (i+1)%pattern != 0:
			types[i] = SlidingAttention
		}
	}
	return types
}

// setLayerTypes keeps window and types consistent: both or neither.
func (c *Config) setLayerTypes(p *problems, types []string, window int) {
	if !slices.Contains(types, SlidingAttention) {
		return
	}
	if window == 0 {
		if byArchitecture(c.Architecture) != nil && byArchitecture(c.Architecture).slides == patternSlides {
			p.add("has sliding layers but no sliding_window")
		}
		return // Qwen and Mistral: without a window every layer is full
	}
	c.SlidingWindow, c.LayerTypes = window, types
}

// readFlags fills the switches and what follows from the family.
func (c *Config) readFlags(o, top jsonObject, f *family) {
	act := o.string("hidden_activation", o.string("hidden_act", ""))
	switch act {
	case "gelu_pytorch_tanh", "gelu_new", "gelu_tanh":
		act = "gelu_tanh"
	case "swish":
		act = "silu"
	}
	c.Activation = act
	c.AttentionBias = o.bool("attention_bias", false)
	c.MLPBias = o.bool("mlp_bias", false)
	c.TieEmbeddings = top.bool("tie_word_embeddings", o.bool("tie_word_embeddings", f != nil && f.tied))
	if c.HeadDim > 0 {
		c.QueryScale = 1 / math.Sqrt(float64(c.HeadDim))
	}
	if f == nil {
		return
	}
	c.AttentionBias = c.AttentionBias || f.qkvBias
	if act == "" {
		c.Activation = f.activation
	} else if act != "silu" && act != "gelu_tanh" {
		o.bad(firstOf(o, "hidden_activation", "hidden_act"), `"silu" or "gelu_pytorch_tanh"`)
	}
	if f.sandwich {
		c.NormPlusOne = true
		c.QueryScale = 1 / math.Sqrt(o.float("query_pre_attn_scalar", 1e-3, 1e9, 256))
		c.EmbedScale = math.Sqrt(float64(c.HiddenSize))
	}
	for _, key := range []string{"final_logit_softcapping", "attn_logit_softcapping"} {
		if o.has(key) {
			o.bad(key, "null (soft-capping is not supported)")
		}
	}
	if o.bool("use_bidirectional_attention", false) {
		o.bad("use_bidirectional_attention", "false (this engine decodes from left to right)")
	}
}

func firstOf(o jsonObject, keys ...string) string {
	for _, key := range keys {
		if o.has(key) {
			return key
		}
	}
	return keys[0]
}

// readTokens fills the special tokens; EOS unites all files, since chat models
// name the end of a turn only in generation_config.json.
func (c *Config) readTokens(top, text, gen jsonObject) {
	one := func(key string) int {
		for _, o := range []jsonObject{top, text, gen} {
			if ids := o.ids(key); len(ids) > 0 {
				return ids[0]
			}
		}
		return -1
	}
	c.BOS, c.Pad = one("bos_token_id"), one("pad_token_id")
	for _, o := range []jsonObject{top, text, gen} {
		c.EOS = append(c.EOS, o.ids("eos_token_id")...)
	}
	c.checkTokens(top.problems)
}

// checkTokens orders EOS and refuses ids that cannot be tokens.
func (c *Config) checkTokens(p *problems) {
	slices.Sort(c.EOS)
	c.EOS = slices.Compact(c.EOS)
	if c.VocabSize > 0 && len(c.EOS) > 0 && c.EOS[len(c.EOS)-1] >= c.VocabSize {
		p.add("has end token %d, but the vocabulary has %d tokens", c.EOS[len(c.EOS)-1], c.VocabSize)
	}
	if c.VocabSize > 0 && c.BOS >= c.VocabSize {
		p.add("has begin token %d, but the vocabulary has %d tokens", c.BOS, c.VocabSize)
	}
}
