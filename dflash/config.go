package dflash

import (
	"fmt"
	"math"
	"slices"

	"surmise/checkpoint"
)

// config is what a DFlash checkpoint says of itself beyond an ordinary stack.
type config struct {
	*checkpoint.Config
	block   int   // slots of a block, the known token's included
	layers  []int // target layers whose hidden states are read
	target  int   // layers of the target; 0 if not said
	mask    int32 // the token whose embedding stands in unknown slots
	sliding []bool
	causal  []bool
}

// Bounds of what a configuration may ask for.
const (
	maxBlock  = 64
	maxLayers = 10_000
)

// readConfig checks what can be checked without a target. dflash_config holds the
// drafter's own fields in some files, the top level in others.
func readConfig(ck *checkpoint.Checkpoint) (*config, error) {
	cfg := ck.Config()
	if cfg.Raw == nil {
		return nil, fmt.Errorf("%s: has no config.json: a DFlash drafter is a Hugging Face directory", ck.Path())
	}
	top := cfg.Fields()
	nested := top.Object("dflash_config")
	at := func(key string) checkpoint.Fields {
		if nested.Has(key) || !top.Has(key) && top.Has("dflash_config") {
			return nested
		}
		return top
	}
	vocab := cfg.VocabSize
	if vocab == 0 {
		vocab = math.MaxInt32
	}
	c := &config{
		Config: cfg,
		block:  at("block_size").Need("block_size", 2, maxBlock),
		mask:   int32(at("mask_token_id").Need("mask_token_id", 0, vocab-1)),
		layers: at("target_layer_ids").Ints("target_layer_ids", 0, maxLayers-1),
		target: at("num_target_layers").Int("num_target_layers", 1, maxLayers, 0),
	}
	if at("target_layer_ids").Has("target_layer_ids") && (len(c.layers) == 0 || twice(c.layers)) {
		at("target_layer_ids").Refuse("target_layer_ids", "one or more layers of the target, each once")
	}
	if cfg.Layers < 1 {
		top.Refuse("num_hidden_layers", fmt.Sprintf("an integer from 1 to %d", maxLayers))
	}
	if cfg.Context < 1 {
		top.Refuse("max_position_embeddings", "an integer from 1 on")
	}
	if cfg.SlidingWindow < 1 && slices.Contains(top.Strings("layer_types"), checkpoint.SlidingAttention) {
		top.Refuse("sliding_window", "an integer from 1 on, since layer_types has sliding layers")
	}
	c.sliding, c.causal = make([]bool, cfg.Layers), make([]bool, cfg.Layers)
	for l := range cfg.Layers {
		c.sliding[l] = l < len(cfg.LayerTypes) && cfg.LayerTypes[l] == checkpoint.SlidingAttention
		c.causal[l] = at("is_causal").Bool("is_causal", c.sliding[l])
	}
	if err := top.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", ck.Path(), err)
	}
	return c, nil
}

// Facts are what a DFlash checkpoint says of itself.
type Facts struct {
	// BlockSize is how many slots a block has, the known token's included.
	BlockSize int
	// TargetLayers is the number of the target's layers, 0 if not said.
	TargetLayers int
	// TargetLayerIDs are the target layers whose hidden states are read; nil if
	// they follow from the number of the target's layers.
	TargetLayerIDs []int
	MaskToken      int32
	// OwnEmbedding and OwnHead tell that the drafter has these for itself; else
	// they are the target's.
	OwnEmbedding, OwnHead bool
}

// Inspect reads a checkpoint's facts without loading it.
func Inspect(ck *checkpoint.Checkpoint) (Facts, error) {
	c, err := readConfig(ck)
	if err != nil {
		return Facts{}, err
	}
	_, embedding := ck.Lookup("embed_tokens.weight")
	_, head := ck.Lookup("lm_head.weight")
	return Facts{c.block, c.target, c.layers, c.mask, embedding, head}, nil
}

// twice tells whether a number stands in a list more than once.
func twice(list []int) bool {
	for i, n := range list {
		if slices.Contains(list[:i], n) {
			return true
		}
	}
	return false
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
