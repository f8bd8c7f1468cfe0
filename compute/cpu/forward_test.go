package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/compute"
)

// testPatience is how long a test waits for what must come; it fails then, and
// asserts nothing about how long it took.
const testPatience = 20 * time.Second

// shape is a model's shape without its meaning: random weights of real sizes.
type shape struct {
	name                                       string
	layers, hidden, heads, kv, dim, ffn, vocab int
	typ                                        checkpoint.Type
}

var (
	tinyShape   = shape{"tiny", 2, 64, 4, 2, 16, 96, 200, checkpoint.Q8_0}
	smolLM2     = shape{"SmolLM2-135M", 30, 576, 9, 3, 64, 1536, 49152, checkpoint.Q8_0}
	qwen3Small  = shape{"Qwen3-0.6B", 28, 1024, 16, 8, 128, 3072, 151936, checkpoint.Q8_0}
	forwardRows = 64
)

// forward is a decoder of random weights on a device.
type forward struct {
	shape
	dev                     *Device
	qkv, o, gu, down        []compute.Linear
	head                    compute.Linear
	norm, rope              compute.Buffer
	x, n, wide, att, h, out compute.Buffer
	kv                      compute.KV
	pages                   []int32
	p                       compute.Program
	pos, slots, best        []int32
	spans                   []compute.Span
}

func randomTensor(tb testing.TB, r *rand.Rand, typ checkpoint.Type, rows, cols int) *checkpoint.Tensor {
	data := make([]byte, rows*cols/typ.BlockSize()*typ.BlockBytes())
	for i := range data {
		data[i] = byte(r.Uint32()) & 0x1f // keeps every f16 in it small
	}
	w, err := checkpoint.NewTensor("random", typ, []int{rows, cols}, data)
	require.NoError(tb, err)
	return w
}

func newForward(tb testing.TB, dev *Device, s shape, context int) *forward {
	r := rand.New(rand.NewPCG(1, 2))
	f := &forward{shape: s, dev: dev}
	load := func(typ checkpoint.Type, in int, outs ...int) compute.Linear {
		var parts []compute.LinearPart
		for _, out := range outs {
			parts = append(parts, compute.LinearPart{Weight: randomTensor(tb, r, typ, out, in)})
		}
		l, err := dev.LoadLinear(parts...)
		require.NoError(tb, err)
		return l
	}
	buffer := func(n int) compute.Buffer {
		b, err := dev.Alloc(n)
		require.NoError(tb, err)
		for i := range b.Host() {
			b.Host()[i] = float32(r.NormFloat64())
		}
		return b
	}
	for range s.layers {
		f.qkv = append(f.qkv, load(s.typ, s.hidden, s.heads*s.dim, s.kv*s.dim, s.kv*s.dim))
		f.o = append(f.o, load(s.typ, s.heads*s.dim, s.hidden))
		f.gu = append(f.gu, load(s.typ, s.hidden, s.ffn, s.ffn))
		f.down = append(f.down, load(s.typ, s.ffn, s.hidden))
	}
	f.head = load(checkpoint.Q8_0, s.hidden, s.vocab)
	f.norm = buffer(s.hidden)
	f.x, f.n, f.att = buffer(forwardRows*s.hidden), buffer(forwardRows*s.hidden), buffer(forwardRows*s.heads*s.dim)
	f.wide, f.h, f.out = buffer(forwardRows*(s.heads+2*s.kv)*s.dim), buffer(forwardRows*2*s.ffn), buffer(forwardRows*s.vocab)
	var err error
	n := (context + forwardRows + compute.PageSize - 1) / compute.PageSize
	f.kv, err = dev.NewKV(compute.KVSpec{Layers: s.layers, Heads: s.kv, HeadDim: s.dim, Pages: n})
	require.NoError(tb, err)
	for i := range n {
		f.pages = append(f.pages, int32(i))
		f.kv.FillPage(i, 0.01)
	}
	f.rope, err = compute.NewRotaryTable(dev, compute.RotarySpec{Dim: s.dim, Theta: 10000}, n*compute.PageSize)
	require.NoError(tb, err)
	return f
}

// run computes logits of k rows at positions context, context+1, ….
func (f *forward) run(k, context int) error {
	f.pos, f.slots, f.spans, f.best = f.pos[:0], f.slots[:0], f.spans[:0], f.best[:0]
	for i := range k {
		p := int32(context + i)
		f.pos, f.slots, f.best = append(f.pos, p), append(f.slots, p), append(f.best, 0)
		f.spans = append(f.spans, compute.Span{Pages: f.pages, Hi: p + 1})
	}
	f.p.Reset()
	f.record(k)
	return f.dev.Run(&f.p)
}

func (f *forward) record(k int) {
	p, qd, kd := &f.p, f.heads*f.dim, f.shape.kv*f.dim
	x, n, wide := compute.ViewOf(f.x, f.hidden), compute.ViewOf(f.n, f.hidden), compute.ViewOf(f.wide, qd+2*kd)
	att, h := compute.ViewOf(f.att, qd), compute.ViewOf(f.h, 2*f.ffn)
	for l := range f.layers {
		p.Norm(n, x, k, f.norm, 1e-5)
		p.Linear(wide, f.qkv[l], n, k)
		p.Rotary(wide.Columns(0, qd+kd), k, f.heads+f.shape.kv, f.dim, f.rope, f.pos)
		p.StoreKV(f.kv, l, wide.Columns(qd, kd), wide.Columns(qd+kd, kd), k, f.slots)
		p.Attend(att, wide.Columns(0, qd), k, f.heads, f.kv, l, f.spans, float32(1/math.Sqrt(float64(f.dim))))
		p.Linear(n, f.o[l], att, k)
		p.Add(x, x, n, k)
		p.Norm(n, x, k, f.norm, 1e-5)
		p.Linear(h, f.gu[l], n, k)
		gate := h.Columns(0, f.ffn)
		p.Gate(gate, gate, h.Columns(f.ffn, f.ffn), k, compute.SiLU)
		p.Linear(n, f.down[l], gate, k)
		p.Add(x, x, n, k)
		p.Norm(x, x, k, f.norm, 1e-5) // keeps random weights from overflowing
	}
	p.Linear(compute.ViewOf(f.out, f.vocab), f.head, x, k)
	p.Argmax(f.best, compute.ViewOf(f.out, f.vocab))
}

// Given a device that has run a program before, running it allocates nothing.
func TestRunAllocatesNothingAfterWarmUp(t *testing.T) {
	dev, err := New(Options{Threads: 2})
	require.NoError(t, err)
	defer dev.Close()
	f := newForward(t, dev, tinyShape, 300)
	defer f.kv.Close()
	require.NoError(t, f.run(8, 300))
	require.NoError(t, f.run(1, 300))
	require.Zero(t, testing.AllocsPerRun(20, func() {
		if err := f.run(1, 300); err != nil {
			t.Error(err)
		}
		if err := f.run(8, 290); err != nil {
			t.Error(err)
		}
	}))
}

// BenchmarkForward times a whole forward with logits for all rows.
func BenchmarkForward(b *testing.B) {
	for _, s := range []shape{smolLM2, qwen3Small} {
		for _, typ := range []checkpoint.Type{checkpoint.Q8_0, checkpoint.Q4_0} {
			s.typ = typ
			b.Run(fmt.Sprintf("%s/%s", s.name, typ), func(b *testing.B) {
				dev, err := New(Options{ISA: ISAFromEnv()})
				require.NoError(b, err)
				defer dev.Close()
				const longest = 2048
				f := newForward(b, dev, s, longest)
				defer f.kv.Close()
				for _, context := range []int{32, 256, longest} {
					for _, k := range []int{1, 2, 3, 4, 6, 8, 12, 16, 32, 64} {
						b.Run(fmt.Sprintf("context=%d/k=%d", context, k), func(b *testing.B) {
							var times []float64
							for b.Loop() {
								start := time.Now()
								require.NoError(b, f.run(k, context))
								times = append(times, time.Since(start).Seconds())
							}
							slices.Sort(times) // neighbours disturb single runs
							b.ReportMetric(times[len(times)/2]*1e3, "median-ms")
							b.ReportMetric(times[0]*1e3, "least-ms")
						})
					}
				}
			})
		}
	}
}

// BenchmarkCompile times what a forward costs before its first piece.
func BenchmarkCompile(b *testing.B) {
	dev, err := New(Options{Threads: 2})
	require.NoError(b, err)
	defer dev.Close()
	s := smolLM2
	s.vocab, s.hidden, s.ffn = 64, 64, 64
	f := newForward(b, dev, s, 2048)
	defer f.kv.Close()
	require.NoError(b, f.run(8, 2048))
	for b.Loop() {
		if err := dev.check.Check(&f.p); err != nil {
			b.Fatal(err)
		}
		if err := dev.compile(&f.p); err != nil {
			b.Fatal(err)
		}
	}
}
