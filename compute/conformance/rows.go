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
	s.compare(t, func(d compute.Device, emit func(string, []float32)) error {
		return eachRowOperation(d, emit, func(name string, record func(p *compute.Program, dst, a, b compute.View, bufs [2]compute.Buffer, best []int32)) error {
			var bufs [5]compute.Buffer
			for i, v := range [][]float32{a, b, w, tab, make([]float32, len(a))} {
				var err error
				if bufs[i], err = alloc(d, v); err != nil {
					return err
				}
			}
			va, vb, dst := compute.ViewOf(bufs[0], cols), compute.ViewOf(bufs[1], cols), compute.ViewOf(bufs[4], cols)
			if inPlace {
				dst = va
			}
			best := make([]int32, rows)
			var p compute.Program
			record(&p, dst, va, vb, [2]compute.Buffer{bufs[2], bufs[3]}, best)
			if err := d.Run(&p); err != nil {
				return err
			}
			emit(name, dst.Buf.Host())
			emit(name, bufs[0].Host())
			emit(name, asFloats(best))
			return nil
		}, rows, heads, rotated, pos, act, scale, eps)
	})
}

type recorder func(p *compute.Program, dst, a, b compute.View, bufs [2]compute.Buffer, best []int32)

func eachRowOperation(_ compute.Device, _ func(string, []float32), do func(string, func(p *compute.Program, dst, a, b compute.View, bufs [2]compute.Buffer, best []int32)) error,
	rows, heads, rotated int, pos []int32, act compute.Activation, scale, eps float32,
) error {
	for _, op := range []struct {
		name   string
		record recorder
	}{
		{"norm", func(p *compute.Program, dst, a, _ compute.View, bufs [2]compute.Buffer, _ []int32) {
			p.Norm(dst, a, rows, bufs[0], eps)
		}},
		{"rotary", func(p *compute.Program, _, a, _ compute.View, bufs [2]compute.Buffer, _ []int32) {
			p.Rotary(a, rows, heads, rotated, bufs[1], pos)
		}},
		{"gate", func(p *compute.Program, dst, a, b compute.View, _ [2]compute.Buffer, _ []int32) {
			p.Gate(dst, a, b, rows, act)
		}},
		{"add", func(p *compute.Program, dst, a, b compute.View, _ [2]compute.Buffer, _ []int32) {
			p.Add(dst, a, b, rows)
		}},
		{"scale", func(p *compute.Program, dst, a, _ compute.View, _ [2]compute.Buffer, _ []int32) {
			p.Scale(dst, a, rows, scale)
		}},
		{"argmax", func(p *compute.Program, _, a, _ compute.View, _ [2]compute.Buffer, best []int32) {
			p.Argmax(best, a)
		}},
	} {
		if err := do(op.name, op.record); err != nil {
			return fmt.Errorf("%s: %w", op.name, err)
		}
	}
	return nil
}

// soupOp is one drawn operation of a soup: view numbers and a kind.
type soupOp struct {
	kind      int
	rows      int
	dst, a, b int
	index     []int32
}

const (
	soupViews = 6
	soupRows  = 24
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
	start := values(r, ordinary, soupViews*soupRows*cols)
	ops := drawSoup(t, r)
	s.compare(t, func(d compute.Device, emit func(string, []float32)) error {
		return runSoup(d, emit, start, weights, ops, cols, heads)
	})
}

func drawSoup(t *rapid.T, r *rand.Rand) []soupOp {
	ops := make([]soupOp, rapid.IntRange(1, 40).Draw(t, "operations"))
	for i := range ops {
		o := soupOp{kind: r.IntN(9), rows: 1 + r.IntN(soupRows), dst: r.IntN(soupViews), a: r.IntN(soupViews), b: r.IntN(soupViews)}
		if o.a == o.dst { // some operations must not work in place
			o.a = (o.dst + 1) % soupViews
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
	view := func(i int) compute.View {
		return compute.ViewOf(mem, soupViews*cols).Columns(i*cols, cols)
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
