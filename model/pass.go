package model

import "surmise/compute"

// pass records one program: the rows of a chunk through all blocks. Its
// methods are the small pieces that the architectures are written in; all of
// them work on every row of the chunk.
type pass struct {
	compute.Program
	m    *Model
	rows int

	tokens, positions []int32
	groups            []reachable // by cache group
	want              []int32     // rows whose logits are wanted

	// Views of scratch memory [maxChunk, …].
	x      compute.View // residual stream [hidden]
	normed compute.View // [hidden]: a block's input, and then its output
	qkv    compute.View // q, k and v side by side
	q      compute.View // [heads·headDim]
	k, v   compute.View // [kvHeads·headDim]
	attn   compute.View // [heads·headDim]
	gateUp compute.View // gate and up side by side
	gate   compute.View // [ffn]
	up     compute.View // [ffn]
	last   compute.View // [hidden]: the final states of the wanted rows
}

// reachable is what a group's layers need to know about the rows: where their
// keys and values go, and what each row sees.
type reachable struct {
	slots []int32
	spans []compute.Span
}

func (p *pass) init(m *Model) error {
	s := &m.spec
	p.m = m
	p.groups = make([]reachable, len(m.windows))
	q, kv := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	for _, b := range []struct {
		view *compute.View
		cols int
	}{
		{&p.x, s.Hidden},
		{&p.normed, s.Hidden},
		{&p.last, s.Hidden},
		{&p.qkv, q + 2*kv},
		{&p.attn, q},
		{&p.gateUp, 2 * s.FFN},
	} {
		buf, err := m.dev.Alloc(maxChunk * b.cols)
		if err != nil {
			return err
		}
		*b.view = compute.ViewOf(buf, b.cols)
	}
	p.q, p.k, p.v = p.qkv.Columns(0, q), p.qkv.Columns(q, kv), p.qkv.Columns(q+kv, kv)
	p.gate, p.up = p.gateUp.Columns(0, s.FFN), p.gateUp.Columns(s.FFN, s.FFN)
	return nil
}

// begin starts an empty chunk.
func (p *pass) begin() {
	p.Reset()
	p.rows = 0
	p.tokens, p.positions, p.want = p.tokens[:0], p.positions[:0], p.want[:0]
	for i := range p.groups {
		g := &p.groups[i]
		clear(g.spans) // let go of closed sequences' pages
		g.slots, g.spans = g.slots[:0], g.spans[:0]
	}
}

// norm writes the RMS norm of src to dst, for each run of as many columns as w
// is long.
func (p *pass) norm(dst, src compute.View, w compute.Buffer) {
	p.Norm(dst, src, p.rows, w, float32(p.m.spec.RMSEps))
}

// linear writes src·Wᵀ + bias to dst.
func (p *pass) linear(dst compute.View, w compute.Linear, src compute.View) {
	p.Linear(dst, w, src, p.rows)
}

// attend turns q and k by their positions, stores k and v, and writes to
// p.attn what each row sees in layer l.
func (p *pass) attend(l int) {
	m, s := p.m, &p.m.spec
	at := m.places[l]
	table := m.rotaries[at.rotary].table
	p.Rotary(p.q, p.rows, s.Heads, s.HeadDim, table, p.positions)
	p.Rotary(p.k, p.rows, s.KVHeads, s.HeadDim, table, p.positions)
	kv, g := m.cache.KV(at.group), &p.groups[at.group]
	p.StoreKV(kv, at.index, p.k, p.v, p.rows, g.slots)
	p.Attend(p.attn, p.q, p.rows, s.Heads, kv, at.index, g.spans, m.queryScale)
}

// activate writes act(gate)·up to p.gate.
func (p *pass) activate(act compute.Activation) { p.Gate(p.gate, p.gate, p.up, p.rows, act) }

// addTo adds y to the residual stream x.
func (p *pass) addTo(x, y compute.View) { p.Add(x, x, y, p.rows) }
