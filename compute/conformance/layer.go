package conformance

import (
	"math/rand/v2"

	"pgregory.net/rapid"

	"surmise/checkpoint"
	"surmise/compute"
)

// layer: given a decoder layer of random shape and weights, run over a block of
// rows of two sequences step after step, everything equals the canon's.
func (s *suite) layer(t *rapid.T) {
	c := layerCase{
		hidden: 32 * rapid.IntRange(1, 3).Draw(t, "hidden"),
		dim:    rapid.SampledFrom([]int{8, 16, 32}).Draw(t, "head dimension"),
		share:  rapid.IntRange(1, 3).Draw(t, "query heads per kv head"),
		kv:     rapid.IntRange(1, 2).Draw(t, "kv heads"),
		ffn:    32 * rapid.IntRange(1, 4).Draw(t, "ffn"),
		typ: rapid.SampledFrom([]checkpoint.Type{
			checkpoint.F32, checkpoint.BF16, checkpoint.Q8_0, checkpoint.Q5_0, checkpoint.Q4_1, checkpoint.MLX4,
		}).Draw(t, "type"),
		seed: rapid.Uint64().Draw(t, "seed"),
	}
	for range rapid.IntRange(1, 4).Draw(t, "steps") {
		c.steps = append(c.steps, [2]int{rapid.IntRange(0, 9).Draw(t, "rows"), rapid.IntRange(1, 40).Draw(t, "rows")})
	}
	s.compare(t, c.run)
}

// layerCase draws its weights and inputs from seed, so that every device gets
// the same.
type layerCase struct {
	hidden, dim, share, kv, ffn int
	typ                         checkpoint.Type
	seed                        uint64
	steps                       [][2]int // rows of either sequence
}

const (
	layerVocab = 50
	layerRows  = 49
	layerPages = 4 // of a sequence
)

// layerState is the case on one device.
type layerState struct {
	*layerCase
	table              compute.Table
	qkv, o, gu, down   compute.Linear
	head               compute.Linear
	norm, qnorm, rope  compute.Buffer
	x, n, wide, att, h compute.Buffer
	logits             compute.Buffer
	store              compute.KV
	err                error
}

func (c layerCase) run(d compute.Device, emit func(string, []float32)) (err error) {
	s := &layerState{layerCase: &c}
	s.load(d, rand.New(rand.NewPCG(c.seed, 3)))
	if s.err != nil {
		return s.err
	}
	defer func() {
		if e := s.store.Close(); err == nil {
			err = e
		}
	}()
	r := rand.New(rand.NewPCG(c.seed, 4))
	at := [2]int{}
	for _, rows := range c.steps {
		if err := s.step(d, r, &at, rows, emit); err != nil {
			return err
		}
	}
	return nil
}

func (s *layerState) load(d compute.Device, r *rand.Rand) {
	heads := s.kv * s.share
	linear := func(typ checkpoint.Type, in int, outs ...int) compute.Linear {
		var parts []compute.LinearPart
		if in%32 != 0 {
			typ = checkpoint.F16
		}
		for _, out := range outs {
			parts = append(parts, compute.LinearPart{Weight: tensor(r, "w", typ, ordinary, out, in)})
		}
		l, err := d.LoadLinear(parts...)
		s.note(err)
		return l
	}
	buffer := func(n int) compute.Buffer {
		b, err := alloc(d, values(r, ordinary, n))
		s.note(err)
		return b
	}
	var err error
	s.table, err = d.LoadTable(tensor(r, "embedding", checkpoint.F16, ordinary, layerVocab, s.hidden))
	s.note(err)
	s.qkv = linear(s.typ, s.hidden, heads*s.dim, s.kv*s.dim, s.kv*s.dim)
	s.o = linear(s.typ, heads*s.dim, s.hidden)
	s.gu = linear(s.typ, s.hidden, s.ffn, s.ffn)
	s.down = linear(s.typ, s.ffn, s.hidden)
	s.head = linear(checkpoint.Q8_0, s.hidden, layerVocab)
	s.norm, s.qnorm = buffer(s.hidden), buffer(s.dim)
	s.rope, err = compute.NewRotaryTable(d, compute.RotarySpec{Dim: s.dim, Theta: 10000}, layerPages*compute.PageSize)
	s.note(err)
	s.x, s.n, s.att = buffer(layerRows*s.hidden), buffer(layerRows*s.hidden), buffer(layerRows*heads*s.dim)
	s.wide, s.h = buffer(layerRows*(heads+2*s.kv)*s.dim), buffer(layerRows*2*s.ffn)
	s.logits = buffer(layerRows * layerVocab)
	s.store, err = d.NewKV(compute.KVSpec{Layers: 1, Heads: s.kv, HeadDim: s.dim, Pages: 2 * layerPages})
	s.note(err)
}

func (s *layerState) note(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *layerState) step(d compute.Device, r *rand.Rand, at *[2]int, counts [2]int, emit func(string, []float32)) error {
	var tokens, pos, slots []int32
	var spans []compute.Span
	for q, n := range counts {
		pages := make([]int32, layerPages)
		for i := range pages {
			pages[i] = int32(2*i + q)
		}
		for range n {
			p := at[q]
			at[q]++
			tokens, pos = append(tokens, int32(r.IntN(layerVocab))), append(pos, int32(p))
			slots = append(slots, pages[p/compute.PageSize]*compute.PageSize+int32(p%compute.PageSize))
			spans = append(spans, compute.Span{Pages: pages, Hi: int32(p + 1)})
		}
	}
	best := make([]int32, len(tokens))
	var p compute.Program
	s.record(&p, tokens, pos, slots, spans, best)
	err := d.Run(&p)
	n := len(tokens)
	emit("residual stream", s.x.Host()[:n*s.hidden])
	emit("logits", s.logits.Host()[:n*layerVocab])
	emit("argmax", asFloats(best))
	return err
}

func (s *layerState) record(p *compute.Program, tokens, pos, slots []int32, spans []compute.Span, best []int32) {
	rows, heads := len(tokens), s.kv*s.share
	qd, kd := heads*s.dim, s.kv*s.dim
	x, n := compute.ViewOf(s.x, s.hidden), compute.ViewOf(s.n, s.hidden)
	wide := compute.ViewOf(s.wide, qd+2*kd)
	q, k, v := wide.Columns(0, qd), wide.Columns(qd, kd), wide.Columns(qd+kd, kd)
	att, h := compute.ViewOf(s.att, qd), compute.ViewOf(s.h, 2*s.ffn)
	p.Embed(x, s.table, tokens, 1.5)
	p.Norm(n, x, rows, s.norm, 1e-6)
	p.Linear(wide, s.qkv, n, rows)
	p.Norm(wide.Columns(0, qd+kd), wide.Columns(0, qd+kd), rows, s.qnorm, 1e-6)
	p.Rotary(wide.Columns(0, qd+kd), rows, heads+s.kv, s.dim, s.rope, pos)
	p.StoreKV(s.store, 0, k, v, rows, slots)
	p.Attend(att, q, rows, heads, s.store, 0, spans, 0.25)
	p.Linear(n, s.o, att, rows)
	p.Add(x, x, n, rows)
	p.Norm(n, x, rows, s.norm, 1e-6)
	p.Linear(h, s.gu, n, rows)
	gate := h.Columns(0, s.ffn)
	p.Gate(gate, gate, h.Columns(s.ffn, s.ffn), rows, compute.SiLU)
	p.Linear(n, s.down, gate, rows)
	p.Add(x, x, n, rows)
	p.Norm(n, x, rows, s.norm, 1e-6)
	p.Linear(compute.ViewOf(s.logits, layerVocab), s.head, n, rows)
	p.Argmax(best, compute.ViewOf(s.logits, layerVocab))
}
