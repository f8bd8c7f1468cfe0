package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"surmise/compute"
	"surmise/compute/canon"
)

// headCase is a drawn program of what may come before attention.
type headCase struct {
	rows, heads, kv, dim, context int
	// order of the operations on q and k: 0 norms queries, 1 norms keys, 2 turns
	// both, 3 turns keys, 4 norms values, which no head may be worked on without.
	order            []int
	apart            bool // queries have a buffer of their own
	store, attention bool
	values           []float32
}

// run executes the case on a device and returns all that it wrote.
func (c headCase) run(t require.TestingT, dev compute.Device) []float32 {
	alloc := func(n, from int) compute.Buffer {
		b, err := dev.Alloc(n)
		require.NoError(t, err)
		for i := range b.Host() {
			b.Host()[i] = c.values[(from+i)%len(c.values)]
		}
		return b
	}
	qd, kd := c.heads*c.dim, c.kv*c.dim
	wide := compute.ViewOf(alloc(c.rows*(qd+2*kd), 0), qd+2*kd)
	q, k, v := wide.Columns(0, qd), wide.Columns(qd, kd), wide.Columns(qd+kd, kd)
	both, turned := wide.Columns(0, qd+kd), c.heads+c.kv
	if c.apart {
		q, both, turned = compute.ViewOf(alloc(c.rows*qd, 7), qd), k, c.kv
	}
	out, again := compute.ViewOf(alloc(c.rows*qd, 0), qd), compute.ViewOf(alloc(c.rows*qd, 0), qd)
	norm, table := alloc(c.dim, 3), alloc((c.context+c.rows)*c.dim, 5)
	pages := (c.context + c.rows + compute.PageSize - 1) / compute.PageSize
	store, err := dev.NewKV(compute.KVSpec{Layers: 1, Heads: c.kv, HeadDim: c.dim, Pages: pages})
	require.NoError(t, err)
	defer store.Close()
	var pos, slots, pageTable []int32

	var spans []compute.Span
	for p := range pages {
		store.FillPage(p, 0.25)
		pageTable = append(pageTable, int32(p))
	}
	for r := range c.rows {
		p := int32(c.context + r)
		pos, slots = append(pos, p), append(slots, p)
		spans = append(spans, compute.Span{Pages: pageTable, Hi: p + 1})
	}
	var p compute.Program
	for _, o := range c.order {
		switch o {
		case 0:
			p.Norm(q, q, c.rows, norm, 1e-6)
		case 1:
			p.Norm(k, k, c.rows, norm, 1e-6)
		case 2:
			p.Rotary(both, c.rows, turned, c.dim, table, pos)
		case 3:
			p.Rotary(k, c.rows, c.kv, c.dim, table, pos)
		case 4:
			p.Norm(v, v, c.rows, norm, 1e-6)
		}
	}
	if c.store {
		p.StoreKV(store, 0, k, v, c.rows, slots)
	}
	if c.attention {
		p.Attend(out, q, c.rows, c.heads, store, 0, spans, 0.125)
	}
	// What was stored shows in a second attention.
	if c.store {
		p.Attend(again, q, c.rows, c.heads, store, 0, spans, 0.5)
	}
	require.NoError(t, dev.Run(&p))
	var all []float32
	for _, v := range []compute.View{wide, q, out, again} {
		all = append(all, v.Buf.Host()...)
	}
	return all
}

// Given operations on heads before attention in any order, then the device,
// which works on them head by head, gives the bits of the canon.
func TestHeadsArePreparedAsTheCanonDoes(t *testing.T) {
	oracle := canon.New()
	devices := map[string]compute.Device{}
	for _, threads := range []int{1, 3} {
		dev, err := New(Options{Threads: threads})
		require.NoError(t, err)
		defer dev.Close()
		devices[dev.Name()] = dev
	}
	rapid.Check(t, func(rt *rapid.T) {
		s := newRandom(rapid.Uint64().Draw(rt, "seed"))
		c := headCase{
			rows: rapid.SampledFrom([]int{1, 2, 5, 16, 17, 40}).Draw(rt, "rows"), kv: rapid.IntRange(1, 3).Draw(rt, "kv heads"),
			dim: rapid.SampledFrom([]int{8, 16, 32}).Draw(rt, "dim"), context: rapid.SampledFrom([]int{0, 3, 60, 250}).Draw(rt, "context"),
			order: rapid.SliceOfN(rapid.IntRange(0, 4), 0, 4).Draw(rt, "order"), apart: rapid.Bool().Draw(rt, "apart"),
			store: rapid.Bool().Draw(rt, "store"), attention: rapid.Bool().Draw(rt, "attention"),
			values: s.floats(997, 0),
		}
		c.heads = c.kv * rapid.IntRange(1, 4).Draw(rt, "share")
		want := c.run(rt, oracle)
		for name, dev := range devices {
			same(rt, want, c.run(rt, dev), "%s: %+v", name, c)
		}
	})
}
