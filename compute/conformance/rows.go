package conformance

import (
	"fmt"
	"math/rand/v2"

	"pgregory.net/rapid"

	"surmise/checkpoint"
	"surmise/compute"
)

// rowOperations: each operation on rows, alone, over extreme values.
func (s *suite) rowOperations(t *rapid.T) {
	r := drawRand(t)
	rows := rapid.IntRange(1, 20).Draw(t, "rows")
	heads := rapid.IntRange(1, 5).Draw(t, "heads")
	n := rapid.IntRange(2, 90).Draw(t, "columns")
	rotated := 2 * rapid.IntRange(1, n/2).Draw(t, "half")
	cols := heads * n
	a, b := mixedRows(r, rows, cols), mixedRows(r, rows, cols)
	if rapid.Bool().Draw(t, "near zero") { // where exp and the gates do their work
		for i := range a {
			a[i] = float32(r.NormFloat64() * 8)
		}
	}
	w := values(r, drawKind(t, "norm weight"), n)
	tab := values(r, ordinary, 9*rotated)
	pos := make([]int32, rows)
	for i := range pos {
		pos[i] = int32(r.IntN(9))
	}
	act := compute.Activation(rapid.IntRange(0, 2).Draw(t, "activation"))
	scale, eps := value(r, wide), float32(1e-6)
	inPlace := rapid.Bool().Draw(t, "in place")
	cases := rowCases(rows, heads, rotated, pos, act, scale, eps)
	s.compare(t, func(d compute.Device, emit func(string, []float32)) error {
		for _, c := range cases {
			x := rowOperands{best: make([]int32, rows)}
			var bufs [5]compute.Buffer
			for i, v := range [][]float32{a, b, make([]float32, len(a)), w, tab} {
				var err error
				if bufs[i], err = alloc(d, v); err != nil {
					return err
				}
			}
			x.a, x.b, x.dst = compute.ViewOf(bufs[0], cols), compute.ViewOf(bufs[1], cols), compute.ViewOf(bufs[2], cols)
			x.weight, x.table = bufs[3], bufs[4]
			if inPlace {
				x.dst = x.a
			}
			var p compute.Program
			c.record(&p, x)
			if err := d.Run(&p); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			emit(c.name, bufs[0].Host())
			emit(c.name, bufs[2].Host())
			emit(c.name, asFloats(x.best))
		}
		return nil
	})
}

// rowOperands are what the operations on rows work on.
type rowOperands struct {
	dst, a, b     compute.View
	weight, table compute.Buffer
	best          []int32
}

type rowCase struct {
	name   string
	record func(p *compute.Program, x rowOperands)
}

func rowCases(rows, heads, rotated int, pos []int32, act compute.Activation, scale, eps float32) []rowCase {
	return []rowCase{
		{"norm", func(p *compute.Program, x rowOperands) { p.Norm(x.dst, x.a, rows, x.weight, eps) }},
		{"rotary", func(p *compute.Program, x rowOperands) { p.Rotary(x.a, rows, heads, rotated, x.table, pos) }},
		{"gate", func(p *compute.Program, x rowOperands) { p.Gate(x.dst, x.a, x.b, rows, act) }},
		{"add", func(p *compute.Program, x rowOperands) { p.Add(x.dst, x.a, x.b, rows) }},
		{"scale", func(p *compute.Program, x rowOperands) { p.Scale(x.dst, x.a, rows, scale) }},
		{"argmax", func(p *compute.Program, x rowOperands) { p.Argmax(x.best, x.a) }},
	}
}

// soupOp is one drawn operation of a soup: view numbers and a kind.
type soupOp struct {
	kind      int
	rows      int
	dst, a, b soupView
	index     []int32
}

// soupView is a column of the soup's memory from a row on: operations that are
// shifted against each other must not run row by row together.
type soupView struct{ column, skip int }

const (
	soupViews = 6
	soupRows  = 24
	soupSkip  = 3
)

// soup: given a long program whose operations read what earlier ones wrote, with
// row counts that change, everything agrees at the end: no device may start an
// operation before its inputs are there, nor overwrite what is still read.
func (s *suite) soup(t *rapid.T) {
	r := drawRand(t)
	cols := rapid.SampledFrom([]int{32, 64, 96}).Draw(t, "columns")
	heads := rapid.SampledFrom([]int{1, 2}).Draw(t, "heads")
	weights := make([]*checkpoint.Tensor, 3)
	for i := range weights {
		typ := rapid.SampledFrom([]checkpoint.Type{checkpoint.Q8_0, checkpoint.F16, checkpoint.Q4_0, checkpoint.MLX4}).Draw(t, "type")
		weights[i] = tensor(r, "w", typ, ordinary, cols, cols)
	}
	start := values(r, ordinary, soupViews*(soupRows+soupSkip)*cols)
	ops := drawSoup(t, r)
	s.compare(t, func(d compute.Device, emit func(string, []float32)) error {
		return runSoup(d, emit, start, weights, ops, cols, heads)
	})
}

func drawSoup(t *rapid.T, r *rand.Rand) []soupOp {
	ops := make([]soupOp, rapid.IntRange(1, 40).Draw(t, "operations"))
	view := func() soupView { return soupView{r.IntN(soupViews), max(0, r.IntN(3*soupSkip)-2*soupSkip+1)} }
	for i := range ops {
		o := soupOp{kind: r.IntN(9), rows: 1 + r.IntN(soupRows), dst: view(), a: view(), b: view()}
		if o.a.column == o.dst.column { // some operations must not work in place
			o.a.column = (o.dst.column + 1) % soupViews
		}
		if o.b.column == o.dst.column { // and none on what is shifted against its output
			o.b.skip = o.dst.skip
		}
		for range o.rows {
			o.index = append(o.index, int32(r.IntN(soupRows)))
		}
		ops[i] = o
	}
	return ops
}

func runSoup(d compute.Device, emit func(string, []float32), start []float32, weights []*checkpoint.Tensor, ops []soupOp, cols, heads int) error {
	mem, err := alloc(d, start)
	if err != nil {
		return err
	}
	// The views lie side by side in one buffer, as columns of its rows.
	view := func(v soupView) compute.View {
		return compute.ViewOf(mem, soupViews*cols).Columns(v.column*cols, cols).Skip(v.skip)
	}
	var linears []compute.Linear
	for _, w := range weights {
		l, err := d.LoadLinear(compute.LinearPart{Weight: w})
		if err != nil {
			return err
		}
		linears = append(linears, l)
	}
	norm, err := alloc(d, start[:cols/heads])
	if err != nil {
		return err
	}
	table, err := alloc(d, start[:soupRows*cols/heads])
	if err != nil {
		return err
	}
	var p compute.Program
	var best [][]int32
	for i := range ops {
		o := &ops[i]
		dst, a, b := view(o.dst), view(o.a), view(o.b)
		switch o.kind {
		case 0, 1, 2:
			p.Linear(dst, linears[o.kind], a, o.rows)
			p.Norm(dst, dst, o.rows, norm, 1e-5) // keeps numbers in range
		case 3:
			p.Norm(dst, a, o.rows, norm, 1e-5)
		case 4:
			p.Rotary(dst, o.rows, heads, cols/heads, table, o.index)
		case 5:
			p.Gate(dst, a, b, o.rows, compute.Activation(o.index[0]%3))
		case 6:
			p.Add(dst, a, b, o.rows)
		case 7:
			p.Gather(dst, a, o.index)
		case 8:
			out := make([]int32, o.rows)
			best = append(best, out)
			p.Argmax(out, a)
			p.Copy(dst, a, o.rows)
		}
	}
	if err := d.Run(&p); err != nil {
		return err
	}
	emit("memory", mem.Host())
	for _, b := range best {
		emit("argmax", asFloats(b))
	}
	return nil
}
