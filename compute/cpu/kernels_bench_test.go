package cpu

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"surmise/checkpoint"

	"github.com/stretchr/testify/require"
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

// BenchmarkAttention works on chunks of a cache that exceeds the processor's
// caches, with all pairs of several tiles on a chunk before the next: the first
// tile finds it in memory.
func BenchmarkAttention(b *testing.B) {
	const total = 128 << 20
	for _, dim := range []int{64, 128} {
		var mem arenas
		raw, err := mem.alloc(total)
		require.NoError(b, err)
		s := newRandom(1)
		c := &cache{dim: dim, half: unsafe.Slice((*uint16)(unsafe.Pointer(&raw[0])), total/2)}
		for i := range c.half {
			c.half[i] = 0x3000 + uint16(i*7&1023)
		}
		for at := 0; at < len(c.half); at += 2 * pageSize * dim {
			c.keys, c.values = append(c.keys, at), append(c.values, at+pageSize*dim)
		}
		for _, k := range tables() {
			if k.name == "generic" {
				continue
			}
			for _, tiles := range [][]int{{1}, {2}, {3}, {4}, {6}, {4, 4}, {6, 6}, {6, 5, 5}, {6, 6, 6, 6}} {
				pairs := 0
				for _, n := range tiles {
					pairs += n
				}
				b.Run(fmt.Sprintf("dim=%d/%s/pairs=%d", dim, k.name, pairs), func(b *testing.B) {
					a := attention{
						dim: dim, q: s.floats(maxPairs*queryStride, 0), half: c.half,
						s: alignedFloats(maxPairs * chunkSize), o: alignedFloats(maxPairs * dim),
					}
					for p := range a.hi {
						a.hi[p] = chunkSize
					}
					var times processorTime
					for b.Loop() {
						for at := 0; at+chunkPages <= len(c.keys); at += chunkPages {
							copy(a.keys[:], c.keys[at:])
							copy(a.values[:], c.values[at:])
							a.next = c.keys[(at+chunkPages)%len(c.keys)]
							times.measure(b, func() {
								for _, a.pairs = range tiles {
									k.attend(&a)
								}
							})
						}
					}
					times.report(b, 2*2*chunkSize*int64(dim), 2*chunkSize*int64(dim*pairs))
				})
			}
		}
		require.NoError(b, mem.close())
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
