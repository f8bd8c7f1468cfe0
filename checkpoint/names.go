package checkpoint

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ggufGlobal and ggufLayer translate GGUF tensor names to Hugging Face's. The
// layer names stand between "blk.N." and ".weight" or ".bias". Both are the
// inverse of llama.cpp's gguf-py/gguf/tensor_mapping.py for decoders of the
// llama family.
var (
	ggufGlobal = map[string]string{
		"token_embd":  "model.embed_tokens",
		"output_norm": "model.norm",
		"output":      "lm_head",
	}
	ggufLayer = map[string]string{
		"attn_norm":   "input_layernorm",
		"attn_q":      "self_attn.q_proj",
		"attn_k":      "self_attn.k_proj",
		"attn_v":      "self_attn.v_proj",
		"attn_output": "self_attn.o_proj",
		"attn_q_norm": "self_attn.q_norm",
		"attn_k_norm": "self_attn.k_norm",
		"ffn_norm":    "post_attention_layernorm",
		"ffn_gate":    "mlp.gate_proj",
		"ffn_up":      "mlp.up_proj",
		"ffn_down":    "mlp.down_proj",
	}
	// ggufSandwich replaces entries of ggufLayer in models that also normalize
	// what a block adds (Gemma): there ffn_norm stands before the MLP, and
	// post_attention_layernorm is the norm of attention's output.
	ggufSandwich = map[string]string{
		"post_attention_norm": "post_attention_layernorm",
		"ffn_norm":            "pre_feedforward_layernorm",
		"post_ffw_norm":       "post_feedforward_layernorm",
	}
)

// translateGGUF renames tensors; names it does not know stay as they are.
func translateGGUF(stored map[string]*Tensor) (map[string]*Tensor, error) {
	_, sandwich := stored["blk.0.post_ffw_norm.weight"]
	return rename(stored, func(name string) string { return hfName(name, sandwich) })
}

func hfName(name string, sandwich bool) string {
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return name
	}
	stem, suffix := name[:dot], name[dot:]
	if suffix != ".weight" && suffix != ".bias" {
		return name
	}
	if to, ok := ggufGlobal[stem]; ok {
		return to + suffix
	}
	layer, part, ok := strings.Cut(strings.TrimPrefix(stem, "blk."), ".")
	if !ok || !strings.HasPrefix(stem, "blk.") {
		return name
	}
	to, ok := ggufLayer[part]
	if sandwich {
		if special, is := ggufSandwich[part]; is {
			to, ok = special, true
		}
	}
	if !ok {
		return name
	}
	return "model.layers." + layer + "." + to + suffix
}

// hfPrefixes are removed from or replaced in the names of a multimodal
// checkpoint, so that its text model looks like a text-only one.
var hfPrefixes = [][2]string{
	{"language_model.model.", "model."},
	{"model.language_model.", "model."},
	{"language_model.lm_head.", "lm_head."},
}

func textName(name string) string {
	for _, p := range hfPrefixes {
		if rest, ok := strings.CutPrefix(name, p[0]); ok {
			return p[1] + rest
		}
	}
	return name
}

// rename sets Name by translating StoredName. Two tensors that would get one
// name are an error.
func rename(stored map[string]*Tensor, translate func(string) string) (map[string]*Tensor, error) {
	out := make(map[string]*Tensor, len(stored))
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		t := stored[name]
		t.Name = translate(name)
		if other, twice := out[t.Name]; twice {
			return nil, fmt.Errorf("tensors %q and %q are both %q", other.StoredName, name, t.Name)
		}
		out[t.Name] = t
	}
	return out, nil
}
