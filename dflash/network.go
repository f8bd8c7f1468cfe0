package dflash

import (
	"fmt"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/model"
)

// network is the drafter's weights and the memory of a pass through them.
type network struct {
	*model.Stack
	eps        float32
	fc         compute.Linear // [hidden, layers·targetHidden]
	hiddenNorm compute.Buffer // [hidden]
	norm       compute.Buffer // [hidden]

	embedding  compute.Table  // the target's, unless the checkpoint has one
	embedScale float32        // of embedding
	head       compute.Linear // likewise

	dev    compute.Device
	tokens []int32 // of block rows
	want   []int32 // rows whose slot is to be filled

	taps    compute.View // [Chunk, layers·targetHidden]: hidden states side by side
	last    compute.View // [Chunk, hidden]: final states of wanted rows
	logits  compute.View // [outputs, vocabulary]
	outputs int
}

func load(dev compute.Device, ck *checkpoint.Checkpoint, cfg *config, q model.Quantize) (*network, error) {
	shape, err := model.ShapeOf(cfg.Config, cfg.Layers, 1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ck.Path(), err)
	}
	shape.QKNorm = true
	for l := range shape.Views {
		shape.Views[l].Causal = cfg.causal[l]
		if cfg.sliding[l] {
			shape.Views[l].Window = cfg.SlidingWindow
		}
	}
	fc, err := ck.Tensor("fc.weight")
	if err != nil {
		return nil, err
	}
	ld := model.NewLoader(dev, ck, q)
	n := &network{
		eps: float32(cfg.RMSEps), dev: dev, embedScale: 1,
		fc:         ld.Matrix("fc", cfg.HiddenSize, fc.Cols()), // Bind knows how many columns it must have
		hiddenNorm: ld.Norm("hidden_norm.weight", cfg.HiddenSize),
		norm:       ld.Norm("norm.weight", cfg.HiddenSize),
	}
	if ld.Has("embed_tokens.weight") {
		n.embedding = ld.Embedding("embed_tokens.weight", cfg.HiddenSize)
	}
	if ld.Has("lm_head.weight") {
		n.head = ld.Linear(cfg.HiddenSize, "lm_head")
	}
	n.Stack, err = model.NewStack(ld, shape, func(l int) string { return fmt.Sprintf("layers.%d.", l) })
	if err != nil {
		return nil, err
	}
	if dropped := ld.Dropped(""); len(dropped) > 0 {
		return nil, fmt.Errorf("%s: tensor %q is no part of a DFlash drafter of num_hidden_layers %d, which would be another one without it", ck.Path(), dropped[0], cfg.Layers)
	}
	for _, b := range []struct {
		view *compute.View
		cols int
	}{{&n.taps, n.fc.In()}, {&n.last, cfg.HiddenSize}} {
		buf, err := dev.Alloc(model.Chunk * b.cols)
		if err != nil {
			return nil, err
		}
		*b.view = compute.ViewOf(buf, b.cols)
	}
	return n, nil
}

// begin starts an empty program.
func (n *network) begin() {
	n.Begin()
	n.tokens, n.want = n.tokens[:0], n.want[:0]
}

// context records and runs what rows of target states leave in the cache: keys
// and values of c = hidden_norm(fc(states)) in every layer.
func (n *network) context() error {
	if n.Rows == 0 {
		return nil
	}
	defer n.begin()
	if err := n.Ready(); err != nil {
		return err
	}
	n.Linear(n.X, n.fc, n.taps, n.Rows)
	n.Norm(n.X, n.X, n.Rows, n.hiddenNorm, n.eps)
	for l := range n.Layers() {
		n.KeysValues(l, n.X)
	}
	return n.Run()
}

// blocks records and runs the pass over the rows of blocks; row i of logits is
// then that of the i-th wanted row.
func (n *network) blocks() error {
	if n.Rows == 0 {
		return nil
	}
	if err := n.Ready(); err != nil {
		return err
	}
	if err := n.room(len(n.want)); err != nil {
		return err
	}
	n.Embed(n.X, n.embedding, n.tokens, n.embedScale)
	for l := range n.Layers() {
		n.Layer(l)
	}
	n.Gather(n.last, n.X, n.want)
	n.Norm(n.last, n.last, len(n.want), n.norm, n.eps)
	n.Linear(n.logits, n.head, n.last, len(n.want))
	return n.Run()
}

// room makes sure that rows of logits fit.
func (n *network) room(rows int) error {
	if rows <= n.outputs {
		return nil
	}
	buf, err := n.dev.Alloc(rows * n.head.Out())
	if err != nil {
		return err
	}
	n.logits, n.outputs = compute.ViewOf(buf, n.head.Out()), rows
	return nil
}
