package conformance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/compute/canon"
)

// badPrograms: every kind of wrong program is an error that names the operation,
// and leaves the device usable.
func (s *suite) badPrograms(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, d := range append([]compute.Device{s.oracle}, s.devices[1]) {
		buf, err := d.Alloc(64)
		require.NoError(t, err)
		w, err := d.LoadLinear(compute.LinearPart{Weight: tensor(r, "w", checkpoint.F32, ordinary, 8, 8)})
		require.NoError(t, err)
		tab, err := d.LoadTable(tensor(r, "e", checkpoint.F32, ordinary, 4, 8))
		require.NoError(t, err)
		kv, err := d.NewKV(compute.KVSpec{Layers: 1, Heads: 1, HeadDim: 8, Pages: 2})
		require.NoError(t, err)
		a, b := compute.ViewOf(buf, 8), compute.ViewOf(buf, 8).Skip(4)
		outside := compute.View{Buf: buf, Off: 60, Stride: 8, Cols: 8}
		span := func(lo, hi int32, pages ...int32) []compute.Span {
			return []compute.Span{{Pages: pages, Lo: lo, Hi: hi}}
		}
		for name, record := range map[string]func(p *compute.Program){
			"view outside its buffer":        func(p *compute.Program) { p.Scale(a, outside, 1, 2) },
			"more rows than there are":       func(p *compute.Program) { p.Scale(a, a, 9, 2) },
			"negative offset":                func(p *compute.Program) { p.Scale(a, a.Skip(-1), 1, 2) },
			"huge stride":                    func(p *compute.Program) { p.Scale(a, compute.View{Buf: buf, Stride: math.MaxInt, Cols: 8}, 3, 2) },
			"no buffer":                      func(p *compute.Program) { p.Add(a, a, compute.View{Cols: 8}, 1) },
			"columns that differ":            func(p *compute.Program) { p.Add(a, a, b.Columns(0, 4), 1) },
			"overlapping copy":               func(p *compute.Program) { p.Copy(a, a.Skip(1), 2) },
			"overlapping gather":             func(p *compute.Program) { p.Gather(a, a, []int32{1, 0}) },
			"negative gather index":          func(p *compute.Program) { p.Gather(a, b, []int32{-1}) },
			"gather index outside":           func(p *compute.Program) { p.Gather(a, b, []int32{4}) },
			"token outside":                  func(p *compute.Program) { p.Embed(a, tab, []int32{4}, 1) },
			"negative token":                 func(p *compute.Program) { p.Embed(a, tab, []int32{-1}, 1) },
			"no table":                       func(p *compute.Program) { p.Embed(a, nil, []int32{0}, 1) },
			"linear in place":                func(p *compute.Program) { p.Linear(a, w, a, 1) },
			"linear of another width":        func(p *compute.Program) { p.Linear(a, w, b.Columns(0, 7), 1) },
			"no weights":                     func(p *compute.Program) { p.Linear(a, nil, b, 1) },
			"norm weight that does not fit":  func(p *compute.Program) { p.Norm(a, a.Columns(0, 7), 1, buf, 1) },
			"rotary position outside":        func(p *compute.Program) { p.Rotary(a, 1, 1, 8, buf, []int32{8}) },
			"odd rotation":                   func(p *compute.Program) { p.Rotary(a, 1, 1, 7, buf, []int32{0}) },
			"heads that do not divide":       func(p *compute.Program) { p.Rotary(a, 1, 3, 2, buf, []int32{0}) },
			"slot outside":                   func(p *compute.Program) { p.StoreKV(kv, 0, a, b, 1, []int32{128}) },
			"slot written twice":             func(p *compute.Program) { p.StoreKV(kv, 0, a, b, 2, []int32{1, 1}) },
			"layer outside":                  func(p *compute.Program) { p.StoreKV(kv, 1, a, b, 1, []int32{0}) },
			"no store":                       func(p *compute.Program) { p.StoreKV(nil, 0, a, b, 1, []int32{0}) },
			"page outside":                   func(p *compute.Program) { p.Attend(a, b, 1, 1, kv, 0, span(0, 1, 2), 1) },
			"page that was let go":           func(p *compute.Program) { p.Attend(a, b, 1, 1, kv, 0, span(0, 65, -1, 0), 1) },
			"span past its pages":            func(p *compute.Program) { p.Attend(a, b, 1, 1, kv, 0, span(0, 65, 0), 1) },
			"empty span":                     func(p *compute.Program) { p.Attend(a, b, 1, 1, kv, 0, span(3, 3, 0), 1) },
			"negative span":                  func(p *compute.Program) { p.Attend(a, b, 1, 1, kv, 0, span(-1, 3, 0), 1) },
			"too few spans":                  func(p *compute.Program) { p.Attend(a, b, 2, 1, kv, 0, span(0, 3, 0), 1) },
			"query heads that do not divide": func(p *compute.Program) { p.Attend(a, b, 1, 2, kv, 0, span(0, 3, 0), 1) },
			"unknown activation":             func(p *compute.Program) { p.Gate(a, a, b, 1, 9) },
			"unknown operation":              func(p *compute.Program) { p.Ops = append(p.Ops, compute.Op{Kind: 99, Rows: 1}) },
		} {
			var p compute.Program
			p.Scale(a, a, 1, 1)
			record(&p)
			err := d.Run(&p)
			require.ErrorContains(t, err, "operation 1", "%s: %s", d.Name(), name)
		}
		var p compute.Program
		p.Copy(a, b, 1)
		require.NoError(t, d.Run(&p), d.Name())
		require.NoError(t, kv.Close())
		s.badLoads(t, d, r)
	}
}

// badLoads: weights and stores that cannot be are errors.
func (s *suite) badLoads(t *testing.T, d compute.Device, r *rand.Rand) {
	w := tensor(r, "w", checkpoint.F32, ordinary, 4, 64)
	for name, parts := range map[string][]compute.LinearPart{
		"no parts":              {},
		"no weight":             {{}},
		"widths that differ":    {{Weight: w}, {Weight: tensor(r, "v", checkpoint.F32, ordinary, 4, 32)}},
		"short bias":            {{Weight: w, Bias: tensor(r, "b", checkpoint.F32, ordinary, 1, 3)}},
		"quantized bias":        {{Weight: w, Bias: tensor(r, "b", checkpoint.Q8_0, ordinary, 1, 32)}},
		"no permutation":        {{Weight: w, Row: func(int) int { return 1 }}},
		"order outside":         {{Weight: w, Row: func(i int) int { return i + 1 }}},
		"conversion to unknown": {{Weight: w, Quantize: checkpoint.Q6_K}},
	} {
		_, err := d.LoadLinear(parts...)
		require.Error(t, err, "%s: %s", d.Name(), name)
	}
	for _, spec := range []compute.KVSpec{
		{},
		{Layers: 1, Heads: 1, HeadDim: 1},
		{Layers: 1, Heads: 1, HeadDim: 1, Pages: math.MaxInt},
		{Layers: math.MaxInt, Heads: math.MaxInt, HeadDim: 1, Pages: 1},
		{Layers: 1, Heads: 1, HeadDim: 1, Pages: 1, Type: 7},
	} {
		_, err := d.NewKV(spec)
		require.Error(t, err, "%s: %+v", d.Name(), spec)
	}
	_, err := d.Alloc(-1)
	require.Error(t, err)
	_, err = d.LoadTable(nil)
	require.Error(t, err)
}

// extremes: what the canon says about NaN, infinities and zeros is seen.
func (s *suite) extremes(t *testing.T) {
	d := s.devices[0]
	r := rand.New(rand.NewPCG(7, 8))
	w, err := d.LoadLinear(compute.LinearPart{Weight: tensor(r, "w", checkpoint.Q8_0, ordinary, 3, 64)})
	require.NoError(t, err)
	x := values(r, ordinary, 4*64)
	x[64+5] = float32(math.Inf(1))
	x[2*64+40] = float32(math.NaN())
	fill := x[3*64:]
	for i := range fill {
		fill[i] = float32(math.Copysign(0, -1))
	}
	src, err := alloc(d, x)
	require.NoError(t, err)
	dst, err := d.Alloc(4 * 3)
	require.NoError(t, err)
	best := make([]int32, 4)
	var p compute.Program
	p.Linear(compute.ViewOf(dst, 3), w, compute.ViewOf(src, 64), 4)
	p.Argmax(best, compute.ViewOf(dst, 3))
	require.NoError(t, d.Run(&p))
	for i, v := range dst.Host() {
		switch i / 3 {
		case 0:
			require.False(t, math.IsNaN(float64(v)), "an ordinary row beside broken ones stays ordinary")
		case 1, 2:
			require.True(t, math.IsNaN(float64(v)), "an infinity or NaN in a quantized row must be visible")
		case 3:
			require.Zero(t, math.Float32bits(v), "a sum of −0 is +0")
		}
	}
	require.Equal(t, []int32{-1, -1}, best[1:3], "a row that holds a NaN has no best column")
	require.Equal(t, canon.Argmax(dst.Host()[:3]), best[0], fmt.Sprint(dst.Host()[:3]))
	require.Equal(t, int32(0), best[3], "the lowest of equal columns")
}
