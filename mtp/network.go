package mtp

import (
	"fmt"
	"slices"
	"strings"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/kvcache"
	"surmise/model"
)

// network is the head's weights and the memory of a pass through them. A row of
// a pass is an entry: a token, and the state before it.
type network struct {
	*model.Stack
	layout  layout
	eps     float32
	project compute.Linear // [hidden, 2·hidden]
	token   compute.Buffer // norms [hidden] of the two inputs
	state   compute.Buffer
	norm    compute.Buffer // [hidden] before the head

	embedding  compute.Table // the target's, unless the checkpoint has one
	embedScale float32
	head       compute.Linear // likewise

	tokens  []int32
	first   []int   // rows whose entry reads the state of position 0
	want    []int32 // rows whose prediction is wanted
	states  compute.View
	tokenX  compute.View // [Chunk, hidden]: the halves of the projection's input
	stateX  compute.View
	both    compute.View
	last    compute.View // [Chunk, hidden]: outputs of wanted rows
	out     compute.View // [Chunk, hidden]: the same, normed
	logits  compute.View // [outputs, vocabulary] of wanted rows
	outputs int
}

func load(dev compute.Device, ck *checkpoint.Checkpoint, q model.Quantize) (*network, error) {
	l, _, err := find(ck)
	if err != nil {
		return nil, err
	}
	cfg := ck.Config()
	part, err := partial(cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ck.Path(), err)
	}
	shape, err := model.ShapeOf(cfg, 1, part)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ck.Path(), err)
	}
	ld := model.NewLoader(dev, ck, q)
	if zeroCentred(cfg) {
		ld.ZeroCentred()
	}
	shape.QKNorm = normedHeads(cfg) || ld.Has(l.layer+"self_attn.q_norm.weight") || ld.Has(l.layer+"self_attn.k_norm.weight")
	if slices.ContainsFunc(ck.Names(), func(name string) bool { return strings.HasPrefix(name, l.layer+"mlp.experts.") }) {
		return nil, fmt.Errorf("%s: the head's layer has experts: want a dense feed-forward and ordinary attention", ck.Path())
	}
	if t, ok := ck.Lookup(l.layer + "self_attn.q_proj.weight"); ok {
		shape.Gated = t.Rows() == 2*shape.Heads*shape.HeadDim
	}
	hidden := shape.Hidden
	n := &network{
		layout: l, eps: float32(shape.Eps), embedScale: 1,
		project: ld.Matrix(l.project, hidden, 2*hidden),
		token:   ld.Norm(l.tokenNorm, hidden),
		state:   ld.Norm(l.stateNorm, hidden),
		norm:    ld.Norm(l.norm, hidden),
	}
	if ld.Has(l.embedding) {
		n.embedding = ld.Embedding(l.embedding, hidden)
	}
	if ld.Has(l.head + ".weight") {
		n.head = ld.Linear(hidden, l.head)
	}
	n.Stack, err = model.NewStack(ld, shape, func(int) string { return l.layer })
	if err != nil {
		return nil, err
	}
	if dropped := ld.Dropped(l.layer); len(dropped) > 0 {
		return nil, fmt.Errorf("%s: tensor %q is no part of a head of layout %s, which would be another one without it", ck.Path(), dropped[0], l.name)
	}
	for _, b := range []struct {
		view *compute.View
		cols int
	}{{&n.states, hidden}, {&n.both, 2 * hidden}, {&n.last, hidden}, {&n.out, hidden}} {
		buf, err := dev.Alloc(model.Chunk * b.cols)
		if err != nil {
			return nil, err
		}
		*b.view = compute.ViewOf(buf, b.cols)
	}
	n.tokenX, n.stateX = n.both.Columns(0, hidden), n.both.Columns(hidden, hidden)
	if l.hiddenFirst {
		n.tokenX, n.stateX = n.stateX, n.tokenX
	}
	return n, nil
}

// begin starts an empty program.
func (n *network) begin() {
	n.Begin()
	n.tokens, n.first, n.want = n.tokens[:0], n.first[:0], n.want[:0]
}

// full tells that no further row fits.
func (n *network) full() bool { return n.Rows == model.Chunk }

// entry takes an entry into the program: the token at a position of a sequence
// whose entries begin at first, and the state of the position before it. What it
// predicts is there after run if wanted.
func (n *network) entry(seq *kvcache.Seq, position, first int, token int32, state []float32, wanted bool) {
	if position == 1 && n.layout.zeroFirst {
		n.first = append(n.first, n.Rows)
	}
	if wanted {
		n.want = append(n.want, int32(n.Rows))
	}
	copy(n.states.Row(n.Rows), state)
	n.tokens = append(n.tokens, token)
	n.Place(seq, position, 1, first)
}

// run computes the entries and empties the program. Row i of logits is that of
// the i-th wanted entry.
func (n *network) run(dev compute.Device) error {
	if n.Rows == 0 {
		return nil
	}
	defer n.begin()
	if err := n.Ready(); err != nil {
		return err
	}
	n.Embed(n.tokenX, n.embedding, n.tokens, n.embedScale)
	for _, r := range n.first {
		n.Scale(n.tokenX.Skip(r), n.tokenX.Skip(r), 1, 0)
	}
	n.Norm(n.tokenX, n.tokenX, n.Rows, n.token, n.eps)
	n.Norm(n.stateX, n.states, n.Rows, n.state, n.eps)
	n.Linear(n.X, n.project, n.both, n.Rows)
	n.Layer(0)
	if wanted := len(n.want); wanted > 0 {
		if err := n.room(dev, wanted); err != nil {
			return err
		}
		n.Gather(n.last, n.X, n.want)
		n.Norm(n.out, n.last, wanted, n.norm, n.eps)
		n.Linear(n.logits, n.head, n.out, wanted)
	}
	return n.Run()
}

// room makes sure that rows of logits fit.
func (n *network) room(dev compute.Device, rows int) error {
	if rows <= n.outputs {
		return nil
	}
	buf, err := dev.Alloc(rows * n.head.Out())
	if err != nil {
		return err
	}
	n.logits, n.outputs = compute.ViewOf(buf, n.head.Out()), rows
	return nil
}

// chained is what the i-th wanted entry left to be the next entry's state.
func (n *network) chained(i int) []float32 {
	if n.layout.chainRaw {
		return n.last.Row(i)
	}
	return n.out.Row(i)
}
