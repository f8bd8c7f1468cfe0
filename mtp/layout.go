package mtp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"surmise/checkpoint"
)

// Hidden is which of the target's last hidden states a head reads.
type Hidden string

// The two states a head can have been trained with. A wrong choice fails
// nowhere; it only lowers acceptance.
const (
	Normed Hidden = "normed" // after the target's final norm
	Raw    Hidden = "raw"    // before it
)

// layout is how a family of checkpoints names and arranges a head. They are
// data; network.go is the one program that runs them all.
type layout struct {
	name string
	// project is the matrix [hidden, 2·hidden] over both inputs.
	project string
	// hiddenFirst: the state is the first half of the projection's input.
	hiddenFirst bool
	// tokenNorm and stateNorm are the norms of the two inputs.
	tokenNorm, stateNorm string
	// layer is the start of the decoder layer's tensor names.
	layer string
	// norm is the norm before the head.
	norm string
	// chainRaw: the state before norm is chained, not the one after.
	chainRaw bool
	// zeroFirst: the entry that reads the state of position 0 gets no token.
	zeroFirst bool
	// hidden is the target's state the head reads.
	hidden Hidden
	// embedding and head are the head's own, used where the checkpoint has them.
	embedding, head string
}

// The layouts by the prefix of their tensors.
func qwen(prefix string) layout {
	return layout{
		name: "qwen3.5", project: prefix + "fc", tokenNorm: prefix + "pre_fc_norm_embedding.weight",
		stateNorm: prefix + "pre_fc_norm_hidden.weight", layer: prefix + "layers.0.", norm: prefix + "norm.weight",
		hidden: Normed, embedding: prefix + "embed_tokens.weight", head: prefix + "lm_head",
	}
}

func deepSeek(prefix string) layout {
	return layout{
		name: "deepseek", project: prefix + "eh_proj", tokenNorm: prefix + "enorm.weight", stateNorm: prefix + "hnorm.weight",
		layer: prefix, norm: prefix + "shared_head.norm.weight", chainRaw: true, zeroFirst: true, hidden: Raw,
		embedding: prefix + "embed_tokens.weight", head: prefix + "shared_head.head",
	}
}

func miMo(prefix string) layout {
	return layout{
		name: "mimo", project: prefix + "input_proj", hiddenFirst: true, tokenNorm: prefix + "token_layernorm.weight",
		stateNorm: prefix + "hidden_layernorm.weight", layer: prefix, norm: prefix + "final_layernorm.weight",
		zeroFirst: true, hidden: Normed, embedding: prefix + "embed_tokens.weight", head: prefix + "lm_head",
	}
}

// signs are the endings by which a layout's first head is found, with the maker
// for the prefix before it.
var signs = []struct {
	ending string
	make   func(prefix string) layout
}{
	{"pre_fc_norm_embedding.weight", qwen},
	{"eh_proj.weight", deepSeek},
	{"input_proj.weight", miMo},
}

// find tells the layout of the heads in a checkpoint by its tensors; of several
// heads the first is used.
func find(ck *checkpoint.Checkpoint) (layout, error) {
	var names []string
	for _, t := range ck.Tensors() {
		names = append(names, t.Name)
	}
	for _, s := range signs {
		prefix, found := "", false
		for _, name := range names {
			p, ok := strings.CutSuffix(name, s.ending)
			if ok && (p == "" || strings.HasSuffix(p, ".")) && (!found || len(p) < len(prefix) || len(p) == len(prefix) && p < prefix) {
				prefix, found = p, true
			}
		}
		if found {
			return s.make(prefix), nil
		}
	}
	if n := promised(ck.Config()); n > 0 {
		return layout{}, fmt.Errorf("%s: config.json promises %d multi-token-prediction layers, but their tensors are gone: want a copy of the checkpoint that kept them", ck.Path(), n)
	}
	return layout{}, fmt.Errorf("%s: no multi-token-prediction head: want tensors like mtp.fc.weight (Qwen3.5), model.layers.N.eh_proj.weight (DeepSeek, GLM) or model.mtp_layers.0.input_proj.weight (MiMo)", ck.Path())
}

// Heads tells the layout of the heads a checkpoint has, "qwen3.5", "deepseek" or
// "mimo", and which of the target's states they read. Without heads it is an
// error that says what was looked for.
func Heads(ck *checkpoint.Checkpoint) (layout string, reads Hidden, err error) {
	l, err := find(ck)
	return l.name, l.hidden, err
}

// settings are the fields of config.json that concern a head's layer.
type settings struct {
	Promised      int      `json:"num_nextn_predict_layers"`
	PromisedQwen  int      `json:"mtp_num_hidden_layers"`
	Partial       *float64 `json:"partial_rotary_factor"`
	RopeParameter struct {
		Partial *float64 `json:"partial_rotary_factor"`
	} `json:"rope_parameters"`
	Text *settings `json:"text_config"`
}

func read(cfg *checkpoint.Config) settings {
	var s settings
	if cfg == nil || cfg.Raw == nil || json.Unmarshal(cfg.Raw, &s) != nil {
		return settings{}
	}
	if s.Text != nil {
		return *s.Text
	}
	return s
}

func promised(cfg *checkpoint.Config) int {
	s := read(cfg)
	return max(s.Promised, s.PromisedQwen)
}

// partial is the part of a head that is turned.
func partial(cfg *checkpoint.Config) float64 {
	s := read(cfg)
	if s.Partial == nil {
		s.Partial = s.RopeParameter.Partial
	}
	if s.Partial == nil || !(*s.Partial > 0 && *s.Partial <= 1) {
		return 1
	}
	return *s.Partial
}

// zeroCentred tells whether norms are stored as w for a factor of 1 + w: those
// of Qwen3.5 and Qwen3-Next are.
func zeroCentred(cfg *checkpoint.Config) bool {
	of := append([]string{cfg.ModelType}, cfg.Architectures...)
	return slices.ContainsFunc(of, func(s string) bool {
		s = strings.ToLower(s)
		return strings.HasPrefix(s, "qwen3_5") || strings.HasPrefix(s, "qwen3_next") || strings.HasPrefix(s, "qwen3next")
	})
}
