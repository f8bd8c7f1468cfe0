package dflash

import (
	"encoding/json"
	"fmt"
	"math"

	"surmise/checkpoint"
)

// config is what a DFlash checkpoint says of itself beyond an ordinary stack.
type config struct {
	*checkpoint.Config
	block   int   // slots of a block, the known token's included
	layers  []int // target layers whose hidden states are read
	mask    int32 // the token whose embedding stands in unknown slots
	sliding []bool
	causal  []bool
}

// fields are those of config.json; dflash_config holds them in some files, the
// top level in others.
type fields struct {
	BlockSize      *int  `json:"block_size"`
	TargetLayerIDs []int `json:"target_layer_ids"`
	MaskTokenID    *int  `json:"mask_token_id"`
	IsCausal       *bool `json:"is_causal"`
	TargetLayers   *int  `json:"num_target_layers"`
}

// or fills in what the nested object leaves out.
func (f fields) or(top fields) fields {
	if f.BlockSize == nil {
		f.BlockSize = top.BlockSize
	}
	if f.TargetLayerIDs == nil {
		f.TargetLayerIDs = top.TargetLayerIDs
	}
	if f.MaskTokenID == nil {
		f.MaskTokenID = top.MaskTokenID
	}
	if f.IsCausal == nil {
		f.IsCausal = top.IsCausal
	}
	if f.TargetLayers == nil {
		f.TargetLayers = top.TargetLayers
	}
	return f
}

// maxBlock bounds what a configuration may ask for.
const maxBlock = 64

// readConfig checks what can be checked without a target.
func readConfig(ck *checkpoint.Checkpoint) (*config, error) {
	cfg := ck.Config()
	bad := func(format string, args ...any) (*config, error) {
		return nil, fmt.Errorf("%s: config.json: %s", ck.Path(), fmt.Sprintf(format, args...))
	}
	if cfg.Raw == nil {
		return bad("missing: a DFlash drafter is a Hugging Face directory")
	}
	var raw struct {
		fields
		Nested *fields `json:"dflash_config"`
	}
	if err := json.Unmarshal(cfg.Raw, &raw); err != nil {
		return bad("%v", err)
	}
	f := raw.fields
	if raw.Nested != nil {
		f = raw.Nested.or(raw.fields)
	}
	switch {
	case f.BlockSize == nil || *f.BlockSize < 2 || *f.BlockSize > maxBlock:
		return bad("block_size %s: want 2 to %d", show(f.BlockSize), maxBlock)
	case f.MaskTokenID == nil || *f.MaskTokenID < 0 || *f.MaskTokenID > math.MaxInt32:
		return bad("dflash_config.mask_token_id %s: want a token id", show(f.MaskTokenID))
	case cfg.HiddenSize < 1 || cfg.Layers < 1 || cfg.Heads < 1 || cfg.KVHeads < 1 || cfg.HeadDim < 2 || cfg.FFN < 1:
		return bad("hidden_size %d, num_hidden_layers %d, num_attention_heads %d, num_key_value_heads %d, head_dim %d, intermediate_size %d: want positive numbers",
			cfg.HiddenSize, cfg.Layers, cfg.Heads, cfg.KVHeads, cfg.HeadDim, cfg.FFN)
	}
	c := &config{Config: cfg, block: *f.BlockSize, layers: f.TargetLayerIDs, mask: int32(*f.MaskTokenID)}
	if c.layers == nil && f.TargetLayers != nil {
		c.layers = defaultLayers(*f.TargetLayers, cfg.Layers)
	}
	c.sliding, c.causal = make([]bool, cfg.Layers), make([]bool, cfg.Layers)
	for l := range cfg.Layers {
		c.sliding[l] = l < len(cfg.LayerTypes) && cfg.LayerTypes[l] == checkpoint.SlidingAttention
		c.causal[l] = c.sliding[l]
		if f.IsCausal != nil {
			c.causal[l] = *f.IsCausal
		}
		if c.sliding[l] && cfg.SlidingWindow < 1 {
			return bad("layer_types has a sliding_attention layer, but sliding_window is %d", cfg.SlidingWindow)
		}
	}
	return c, nil
}

// defaultLayers are the target layers read when a configuration names none, for
// a target of n layers and a drafter of l: round(1 + i·(n−4)/(l−1)).
func defaultLayers(n, l int) []int {
	if l == 1 {
		return []int{n / 2}
	}
	var ids []int
	for i := range l {
		ids = append(ids, int(math.RoundToEven(1+float64(i)*float64(n-4)/float64(l-1))))
	}
	return ids
}

func show(n *int) string {
	if n == nil {
		return "is missing"
	}
	return fmt.Sprint(*n)
}
