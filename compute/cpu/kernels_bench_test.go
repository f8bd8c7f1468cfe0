package cpu

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
)

// benchMatrices are packed matrices of random weights that together exceed the
// caches, in huge pages like those of a loaded model.
func benchMatrices(b *testing.B, typ checkpoint.Type, out, in int) []*packedMatrix {
	const total = 192 << 20
	var mem arenas
	b.Cleanup(func() { require.NoError(b, mem.close()) })
	s := newRandom(1)
	var ms []*packedMatrix
	for n := int64(0); n < total; {
		m, size, err := newPackedMatrix(typ, out, in)
		require.NoError(b, err)
		weights, err := mem.alloc(size.weights)
		require.NoError(b, err)
		scales, err := mem.alloc(size.scales)
		require.NoError(b, err)
		for i := 0; i+8 <= len(weights); i += 8 {
			binary.LittleEndian.PutUint64(weights[i:], s.Uint64())
		}
		for i := 0; i+2 <= len(scales); i += 2 {
			binary.LittleEndian.PutUint16(scales[i:], 0x1400+uint16(i&255))
		}
		m.bind(weights, scales, make([]float32, size.bias))
		ms, n = append(ms, m), n+m.bytes()
	}
	return ms
}

// processorTime collects what single calls took of their thread's own time,
// which other processes disturb less than the clock on the wall.
type processorTime struct{ seconds []float64 }

func (p *processorTime) measure(b *testing.B, f func()) {
	start := threadSeconds(b)
	f()
	p.seconds = append(p.seconds, threadSeconds(b)-start)
}

// report gives the median, and bytes and multiply-adds a second at it.
func (p *processorTime) report(b *testing.B, bytes, macs int64) {
	slices.Sort(p.seconds)
	t := p.seconds[len(p.seconds)/2]
	b.ReportMetric(t*1e6, "cpu-µs")
	b.ReportMetric(float64(bytes)/t/1e9, "GB/s")
	b.ReportMetric(float64(macs)/t/1e9, "GMAC/s")
}

// BenchmarkLinear streams matrices of Qwen3-0.6B's widths through one thread.
// t(k)/t(1) is the ratio of two lines' times.
func BenchmarkLinear(b *testing.B) {
	for _, typ := range []checkpoint.Type{
		checkpoint.Q8_0, checkpoint.Q4_0, checkpoint.Q5_0, checkpoint.Q4_K, checkpoint.Q5_K, checkpoint.Q6_K, checkpoint.F16,
	} {
		for _, shape := range [][2]int{{6144, 1024}, {1024, 3072}} {
			b.Run(fmt.Sprintf("%v/%dx%d", typ, shape[0], shape[1]), func(b *testing.B) {
				ms := benchMatrices(b, typ, shape[0], shape[1])
				for _, k := range tables() {
					for _, rows := range []int{1, 2, 3, 4, 6, 8, 9, 12, 16, 32, 64} {
						b.Run(fmt.Sprintf("%s/rows=%d", k.name, rows), func(b *testing.B) { benchLinear(b, k, ms, rows) })
					}
				}
			})
		}
	}
}

func benchLinear(b *testing.B, k *kernels, ms []*packedMatrix, rows int) {
	var a activations
	m := ms[0]
	q := packings[m.typ].quantized()
	a.resize(k, rows, m.in, q, !q)
	x := newRandom(2).floats(rows*m.in, 0)
	for r := range rows {
		if q {
			a.setRow(k, r, x[r*m.in:])
		} else {
			a.setFloatRow(r, x[r*m.in:])
		}
	}
	dst, tail := make([]float32, rows*m.out), make([]float32, maxTile*groupRows)
	var times processorTime
	for b.Loop() {
		for _, m := range ms {
			times.measure(b, func() { k.linearRange(dst, m.out, m, 0, m.groups, &a, tail) })
		}
	}
	times.report(b, m.bytes(), int64(rows)*int64(m.out)*int64(m.in))
}

// BenchmarkAttention works on one key/value head of 2,048 positions.
func BenchmarkAttention(b *testing.B) {
	for _, dim := range []int{64, 128} {
		for _, k := range tables() {
			for pairs := 1; pairs <= maxPairs; pairs++ {
				b.Run(fmt.Sprintf("dim=%d/%s/pairs=%d", dim, k.name, pairs), func(b *testing.B) {
					const positions = 2048
					s := newRandom(1)
					c := newCache(s, positions/pageSize, dim, true)
					k.toHalf(c.half, s.floats(len(c.half), 0))
					a := attention{
						pairs: pairs, dim: dim, q: s.floats(pairs*dim, 0), half: c.half,
						s: make([]float32, pairs*chunkSize), o: make([]float32, pairs*dim),
					}
					for p := range pairs {
						a.hi[p] = chunkSize
					}
					var times processorTime
					for b.Loop() {
						times.measure(b, func() {
							for ch := range positions / chunkSize {
								copy(a.keys[:], c.keys[ch*chunkPages:])
								copy(a.values[:], c.values[ch*chunkPages:])
								k.attend(&a)
							}
						})
					}
					times.report(b, 2*2*positions*int64(dim), 2*positions*int64(dim*pairs))
				})
			}
		}
	}
}

// BenchmarkRows is the work per row between the matrices, for 1,024 columns.
func BenchmarkRows(b *testing.B) {
	const n = 1024
	s := newRandom(1)
	x, w, dst := s.floats(n, 0), s.floats(n, 0), make([]float32, n)
	recs, halves := make([]record, n/blockCols), make([]uint16, n)
	for _, k := range tables() {
		for name, f := range map[string]func(){
			"quantize": func() { k.quantize(recs, 1, x) },
			"norm":     func() { k.norm(dst, x, w, 1e-6) },
			"silu":     func() { k.gate(dst, x, w, 0) },
			"rotary":   func() { k.rotary(dst[:128], x[:64], w[:64]) },
			"argmax":   func() { k.argmax(x) },
			"half":     func() { k.toHalf(halves, x) },
		} {
			b.Run(name+"/"+k.name, func(b *testing.B) {
				for b.Loop() {
					f()
				}
			})
		}
	}
}
