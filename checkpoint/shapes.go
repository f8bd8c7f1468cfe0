package checkpoint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A shapeCheck compares tensors with what a configuration demands.
type shapeCheck struct {
	tensors map[string]*Tensor
	refused map[string]string
	problems
}

// want reports a tensor that is missing or has another shape.
func (s *shapeCheck) want(name string, shape ...int) {
	if s.first != nil {
		return
	}
	t, ok := s.tensors[name]
	if reason, is := s.refused[name]; is {
		s.add("tensor %q: %s", name, reason)
	} else if !ok {
		s.add("tensor %q is missing, expected shape %v", name, shape)
	} else if !slices.Equal(t.Shape, shape) {
		s.add("tensor %q has shape %v, the configuration says %v", name, t.Shape, shape)
	}
}

// optional checks the shape of a tensor that may be absent.
func (s *shapeCheck) optional(name string, shape ...int) {
	if _, ok := s.tensors[name]; ok {
		s.want(name, shape...)
	}
}

// forbid reports a tensor that the configuration rules out and that would
// change the result.
func (s *shapeCheck) forbid(name, why string) {
	if _, ok := s.tensors[name]; ok {
		s.add("tensor %q exists, but %s", name, why)
	}
}

// checkShapes compares every tensor of a known architecture with the
// configuration. Draft and unknown checkpoints are left to their loaders.
func (c *Config) checkShapes(tensors map[string]*Tensor, refused map[string]string) error {
	f := byArchitecture(c.Architecture)
	if f == nil || c.Draft {
		return nil
	}
	s := &shapeCheck{tensors: tensors, refused: refused}
	s.want("model.embed_tokens.weight", c.VocabSize, c.HiddenSize)
	s.want("model.norm.weight", c.HiddenSize)
	if c.TieEmbeddings {
		s.optional("lm_head.weight", c.VocabSize, c.HiddenSize)
	} else {
		s.want("lm_head.weight", c.VocabSize, c.HiddenSize)
	}
	for i := 0; i < c.Layers && s.first == nil; i++ {
		c.checkLayer(s, f, "model.layers."+strconv.Itoa(i)+".")
	}
	if s.first == nil {
		c.checkExtraLayers(s)
	}
	return s.first
}

func (c *Config) checkLayer(s *shapeCheck, f *family, layer string) {
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	s.want(layer+"input_layernorm.weight", c.HiddenSize)
	s.want(layer+"post_attention_layernorm.weight", c.HiddenSize)
	if f.sandwich {
		s.want(layer+"pre_feedforward_layernorm.weight", c.HiddenSize)
		s.want(layer+"post_feedforward_layernorm.weight", c.HiddenSize)
	}
	if f.qkNorm {
		s.want(layer+"self_attn.q_norm.weight", c.HeadDim)
		s.want(layer+"self_attn.k_norm.weight", c.HeadDim)
	}
	linears := []struct {
		name    string
		out, in int
		bias    bool
	}{
		{"self_attn.q_proj", q, c.HiddenSize, c.AttentionBias},
		{"self_attn.k_proj", kv, c.HiddenSize, c.AttentionBias},
		{"self_attn.v_proj", kv, c.HiddenSize, c.AttentionBias},
		{"mlp.gate_proj", c.FFN, c.HiddenSize, c.MLPBias},
		{"mlp.up_proj", c.FFN, c.HiddenSize, c.MLPBias},
		{"mlp.down_proj", c.HiddenSize, c.FFN, c.MLPBias},
	}
	for _, l := range linears {
		s.want(layer+l.name+".weight", l.out, l.in)
		if l.bias {
			s.want(layer+l.name+".bias", l.out)
		} else {
			s.forbid(layer+l.name+".bias", "the configuration has no such biases")
		}
	}
	s.want(layer+"self_attn.o_proj.weight", c.HiddenSize, q)
	switch {
	case c.AttentionBias && c.Raw != nil && !f.qkvBias: // of Transformers' classes, attention_bias means all four
		s.want(layer+"self_attn.o_proj.bias", c.HiddenSize)
	case c.AttentionBias:
		s.optional(layer+"self_attn.o_proj.bias", c.HiddenSize)
	default:
		s.forbid(layer+"self_attn.o_proj.bias", "the configuration has no such biases")
	}
}

// checkExtraLayers reports layers beyond the configured count: decoding without
// them would give text, but not the model's.
func (c *Config) checkExtraLayers(s *shapeCheck) {
	for _, name := range sortedKeys(s.tensors) {
		rest, ok := strings.CutPrefix(name, "model.layers.")
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(rest, ".")
		if n, err := strconv.Atoi(number); err != nil || n >= c.Layers || strconv.Itoa(n) != number {
			s.add("tensor %q exists, but the configuration says %s", name, fmt.Sprintf("%d layers", c.Layers))
			return
		}
	}
}
