package model

import (
	"fmt"
	"math"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/kvcache"
)

// StackShape describes a drafter's own decoder layers: pre-norm, grouped-query
// attention and a SiLU-gated feed-forward, with what differs between families.
type StackShape struct {
	Hidden, Heads, KVHeads, HeadDim, FFN int

	Eps        float64 // of the norms
	QueryScale float64
	Rotary     compute.RotarySpec // Dim may be less than HeadDim: the rest of a head is not turned
	QKNorm     bool               // query and key heads are normalized before they are turned
	Gated      bool               // q_proj holds, beside each head's query, a gate: its sigmoid scales the head's output
	Views      []StackView        // by layer
}

// StackView is what the rows of a layer see of the positions before them.
type StackView struct {
	Causal bool // no position behind the row's own
	Window int  // positions seen, the row's own included; 0 is all
}

// Stack is a drafter's decoder layers on a device, with a cache of their own.
// Keys and values are recorded apart from queries where a drafter keeps those of
// a context that asks nothing.
//
// Programs are recorded row by row (Begin, Place), then layer by layer, and run
// (Run). At most Chunk rows fit one program.
type Stack struct {
	compute.Program
	// X is the residual stream and Normed scratch, [Chunk, hidden] each.
	X, Normed compute.View
	// Rows is the number of rows placed.
	Rows int

	shape  StackShape
	dev    compute.Device
	layers []stackLayer
	views  []StackView // by cache group
	cache  *kvcache.Cache
	rotary rotary

	positions []int32
	groups    []reachable

	qg, q, gates     compute.View
	kv, k, v         compute.View
	attn             compute.View
	gateUp, gate, up compute.View
}

// Chunk is how many rows one program of a Stack computes at most.
const Chunk = maxChunk

type stackLayer struct {
	inputNorm compute.Buffer // [hidden]
	q         compute.Linear // [heads·headDim, hidden], then as many gates if gated
	kv        compute.Linear // [2·kvHeads·headDim, hidden]
	qNorm     compute.Buffer // [headDim] or nil
	kNorm     compute.Buffer
	out       compute.Linear // [hidden, heads·headDim]
	postNorm  compute.Buffer // [hidden]
	gateUp    compute.Linear // [2·ffn, hidden]
	down      compute.Linear // [hidden, ffn]

	group, index int
}

// NewStack loads layers; prefix is the start of the names of a layer's tensors,
// "layers.0." for example. Errors are left in ld as well.
func NewStack(ld *Loader, shape StackShape, prefix func(layer int) string) (*Stack, error) {
	s := &Stack{shape: shape, dev: ld.ld.dev, rotary: rotary{spec: shape.Rotary}}
	c := &shape
	heads, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	counts := map[StackView]int{}
	for i, view := range shape.Views {
		at := func(name string) string { return prefix(i) + name }
		l := stackLayer{
			inputNorm: ld.Norm(at("input_layernorm.weight"), c.Hidden),
			q:         ld.queries(at("self_attn.q_proj"), c),
			kv:        ld.Linear(c.Hidden, at("self_attn.k_proj"), at("self_attn.v_proj")),
			out:       ld.Linear(heads, at("self_attn.o_proj")),
			postNorm:  ld.Norm(at("post_attention_layernorm.weight"), c.Hidden),
			gateUp:    ld.Linear(c.Hidden, at("mlp.gate_proj"), at("mlp.up_proj")),
			down:      ld.Linear(c.FFN, at("mlp.down_proj")),
		}
		if c.QKNorm {
			l.qNorm = ld.Norm(at("self_attn.q_norm.weight"), c.HeadDim)
			l.kNorm = ld.Norm(at("self_attn.k_norm.weight"), c.HeadDim)
		}
		ld.rows(l.kv, 2*kv, at("self_attn.k_proj and v_proj"), "num_key_value_heads and head_dim")
		ld.rows(l.out, c.Hidden, at("self_attn.o_proj"), "hidden_size")
		ld.rows(l.gateUp, 2*c.FFN, at("mlp.gate_proj and up_proj"), "intermediate_size")
		ld.rows(l.down, c.Hidden, at("mlp.down_proj"), "hidden_size")
		for l.group = 0; l.group < len(s.views) && s.views[l.group] != view; l.group++ {
		}
		if l.group == len(s.views) {
			s.views = append(s.views, view)
		}
		l.index = counts[view]
		counts[view]++
		s.layers = append(s.layers, l)
	}
	if err := ld.Err(); err != nil {
		return nil, err
	}
	s.groups = make([]reachable, len(s.views))
	return s, s.scratch()
}

// queries loads q_proj, with the gates of all heads behind the queries of all
// heads where a head has both.
func (l *Loader) queries(name string, c *StackShape) compute.Linear {
	if !c.Gated {
		w := l.Linear(c.Hidden, name)
		l.rows(w, c.Heads*c.HeadDim, name, "num_attention_heads and head_dim")
		return w
	}
	part := l.projection(name)
	part.Row = func(row int) int {
		gate, head, d := row/(c.Heads*c.HeadDim), row/c.HeadDim%c.Heads, row%c.HeadDim
		return head*2*c.HeadDim + gate*c.HeadDim + d
	}
	if w := part.Weight; l.ld.err == nil && (w.Rows() != 2*c.Heads*c.HeadDim || w.Cols() != c.Hidden) {
		l.ld.err = fmt.Errorf("tensor %q has shape %v, want [%d, %d]: query and gate of every head", w.Name, w.Shape, 2*c.Heads*c.HeadDim, c.Hidden)
	}
	return l.ld.linear(part)
}

// rows checks the number of outputs, which fields of config.json say.
func (l *Loader) rows(w compute.Linear, want int, name, fields string) {
	if l.ld.err == nil && w.Out() != want {
		l.ld.err = fmt.Errorf("%s: %d rows, want %d by %s of config.json", name, w.Out(), want, fields)
	}
}

func (s *Stack) scratch() error {
	c := &s.shape
	heads, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	gates := 0
	if c.Gated {
		gates = heads
	}
	for _, b := range []struct {
		view *compute.View
		cols int
	}{
		{&s.X, c.Hidden}, {&s.Normed, c.Hidden}, {&s.qg, heads + gates}, {&s.kv, 2 * kv}, {&s.attn, heads}, {&s.gateUp, 2 * c.FFN},
	} {
		buf, err := s.dev.Alloc(Chunk * b.cols)
		if err != nil {
			return err
		}
		*b.view = compute.ViewOf(buf, b.cols)
	}
	s.q, s.gates = s.qg.Columns(0, heads), s.qg.Columns(heads, gates)
	s.k, s.v = s.kv.Columns(0, kv), s.kv.Columns(kv, kv)
	s.gate, s.up = s.gateUp.Columns(0, c.FFN), s.gateUp.Columns(c.FFN, c.FFN)
	return nil
}

// OpenCache makes the layers' cache, with room for at least as many pages as
// the target's cache like, so that a prefix found there is found here.
func (s *Stack) OpenCache(context int, kvType compute.KVType, like *kvcache.Cache) error {
	kv := kvcache.Config{Heads: s.shape.KVHeads, HeadDim: s.shape.HeadDim, Type: kvType, Context: context}
	for g, v := range s.views {
		layers := 0
		for i := range s.layers {
			if s.layers[i].group == g {
				layers++
			}
		}
		kv.Groups = append(kv.Groups, kvcache.Group{Layers: layers, Window: v.Window})
	}
	theirs := like.Config()
	pages := theirs.Budget/theirs.PageBytes() + 1
	kv.Budget = max(pages*kv.PageBytes(), kv.SequenceBytes(context, Chunk))
	cache, err := kvcache.New(s.dev, kv)
	if err != nil {
		return err
	}
	s.cache = cache
	return nil
}

// Cache is the layers' cache; nil before OpenCache.
func (s *Stack) Cache() *kvcache.Cache { return s.cache }

// Close frees the cache.
func (s *Stack) Close() error {
	if s.cache == nil {
		return nil
	}
	err := s.cache.Close()
	s.cache = nil
	return err
}

// Begin starts an empty program.
func (s *Stack) Begin() {
	s.Reset()
	s.Rows = 0
	s.positions = s.positions[:0]
	for i := range s.groups {
		g := &s.groups[i]
		clear(g.spans)
		g.slots, g.spans = g.slots[:0], g.spans[:0]
	}
}

// Place adds rows for positions start…start+n−1 of a sequence, which must have
// them. They see positions from first on (those before were never computed), in
// bidirectional layers up to the last one placed.
func (s *Stack) Place(seq *kvcache.Seq, start, n, first int) {
	for i := range n {
		s.positions = append(s.positions, int32(start+i))
	}
	for g := range s.groups {
		at, view := &s.groups[g], s.views[g]
		have := len(at.slots)
		at.slots = seq.Slots(g, start, at.slots)[:have+n]
		pages := seq.Pages(g)
		for i := range n {
			span := compute.Span{Pages: pages, Lo: int32(first), Hi: int32(start + n)}
			if view.Causal {
				span.Hi = int32(start + i + 1)
			}
			if view.Window > 0 {
				span.Lo = max(span.Lo, int32(start+i+1-view.Window))
			}
			at.spans = append(at.spans, span)
		}
	}
	s.Rows += n
}

// Layers is the number of layers.
func (s *Stack) Layers() int { return len(s.layers) }

// Ready must be called when all rows are placed and before layers are recorded.
func (s *Stack) Ready() error {
	far := int32(0)
	for _, p := range s.positions {
		far = max(far, p)
	}
	return s.rotary.reach(s.dev, int(far)+1, math.MaxInt)
}

// KeysValues records the keys and values of rows u [Rows, hidden] in layer l.
func (s *Stack) KeysValues(l int, u compute.View) {
	w, c := &s.layers[l], &s.shape
	s.Linear(s.kv, w.kv, u, s.Rows)
	if w.kNorm != nil {
		s.Norm(s.k, s.k, s.Rows, w.kNorm, float32(c.Eps))
	}
	s.Rotary(s.k, s.Rows, c.KVHeads, c.Rotary.Dim, s.rotary.table, s.positions)
	s.StoreKV(s.cache.KV(w.group), w.index, s.k, s.v, s.Rows, s.groups[w.group].slots)
}

// Layer records layer l over the residual stream X.
func (s *Stack) Layer(l int) {
	w, c := &s.layers[l], &s.shape
	eps := float32(c.Eps)

	s.Norm(s.Normed, s.X, s.Rows, w.inputNorm, eps)
	s.Linear(s.qg, w.q, s.Normed, s.Rows)
	if w.qNorm != nil {
		s.Norm(s.q, s.q, s.Rows, w.qNorm, eps)
	}
	s.Rotary(s.q, s.Rows, c.Heads, c.Rotary.Dim, s.rotary.table, s.positions)
	s.KeysValues(l, s.Normed)
	s.Attend(s.attn, s.q, s.Rows, c.Heads, s.cache.KV(w.group), w.index, s.groups[w.group].spans, float32(c.QueryScale))
	if c.Gated {
		s.Gate(s.attn, s.gates, s.attn, s.Rows, compute.Sigmoid)
	}
	s.Linear(s.Normed, w.out, s.attn, s.Rows)
	s.Add(s.X, s.X, s.Normed, s.Rows)

	s.Norm(s.Normed, s.X, s.Rows, w.postNorm, eps)
	s.Linear(s.gateUp, w.gateUp, s.Normed, s.Rows)
	s.Gate(s.gate, s.gate, s.up, s.Rows, compute.SiLU)
	s.Linear(s.Normed, w.down, s.gate, s.Rows)
	s.Add(s.X, s.X, s.Normed, s.Rows)
}

// Run runs what is recorded and starts an empty program.
func (s *Stack) Run() error {
	err := s.dev.Run(&s.Program)
	s.Begin()
	return err
}

// ShapeOf fills in a shape from a checkpoint's configuration; layers see
// everything before them until Views says otherwise. partial is the part of a
// head that is turned, in (0, 1].
func ShapeOf(cfg *checkpoint.Config, layers int, partial float64) (StackShape, error) {
	turned := int(float64(cfg.HeadDim)*partial + 0.5)
	s := StackShape{
		Hidden: cfg.HiddenSize, Heads: cfg.Heads, KVHeads: cfg.KVHeads, HeadDim: cfg.HeadDim, FFN: cfg.FFN,
		Eps: cfg.RMSEps, QueryScale: cfg.QueryScale,
		Rotary: compute.RotarySpec{Dim: turned, Theta: cfg.RopeTheta, Scaling: cfg.RopeScaling, Factors: cfg.RopeFactors},
		Views:  make([]StackView, layers),
	}
	for i := range s.Views {
		s.Views[i].Causal = true
	}
	fields := cfg.Fields().Text()
	for _, f := range []struct {
		name string
		n    int
		lo   int
	}{
		{"hidden_size", s.Hidden, 1},
		{"num_attention_heads", s.Heads, 1},
		{"num_key_value_heads", s.KVHeads, 1},
		{"head_dim", s.HeadDim, 2},
		{"intermediate_size", s.FFN, 1},
	} {
		// A configuration of an unknown family was read with a blind eye.
		if fields.Int(f.name, f.lo, maxShape, f.n) < f.lo {
			fields.Refuse(f.name, fmt.Sprintf("an integer from %d to %d", f.lo, maxShape))
		}
	}
	fields.Int("vocab_size", 1, math.MaxInt32, 0)
	fields.Int("max_position_embeddings", 1, math.MaxInt32, 0)
	if !(s.Eps > 0) {
		fields.Refuse("rms_norm_eps", "a number above 0")
	}
	if !(s.Rotary.Theta > 0) {
		fields.Refuse("rope_theta", "a number above 0")
	}
	if err := fields.Err(); err != nil {
		return s, err
	}
	switch {
	case s.Heads%s.KVHeads != 0:
		return s, fmt.Errorf("config.json: num_attention_heads is %d, want a multiple of num_key_value_heads %d", s.Heads, s.KVHeads)
	case s.HeadDim%2 != 0:
		return s, fmt.Errorf("config.json: head_dim is %d, want an even number", s.HeadDim)
	case turned < 2 || turned > s.HeadDim || turned%2 != 0:
		return s, fmt.Errorf("config.json: partial_rotary_factor %v of head_dim %d turns %d elements, want an even number from 2 on", partial, s.HeadDim, turned)
	case !(s.QueryScale > 0):
		return s, fmt.Errorf("config.json: query_pre_attn_scalar gives a query scale of %v, want a number above 0", s.QueryScale)
	}
	return s, nil
}

// maxShape bounds what a drafter's configuration may claim of a width.
const maxShape = 1 << 20
