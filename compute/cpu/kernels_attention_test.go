package cpu

import (
	"math"
	"testing"

	"surmise/compute/canon"

	"pgregory.net/rapid"
)

// cache is one head of a page store: chunkPages pages per chunk in random order.
type cache struct {
	dim    int
	keys   []int // offset of page p's keys
	values []int
	half   []uint16
	float  []float32
}

func newCache(s random, pages, dim int, half bool) *cache {
	c := &cache{dim: dim}
	size := pageSize * dim
	if n := 2 * pages * size; half {
		c.half = make([]uint16, n)
	} else {
		c.float = make([]float32, n)
	}
	for _, p := range s.Perm(2 * pages) {
		if len(c.keys) < pages {
			c.keys = append(c.keys, p*size)
		} else {
			c.values = append(c.values, p*size)
		}
	}
	return c
}

func (c *cache) set(i int, v float32) {
	if c.half != nil {
		c.half[i] = canon.ToF16(v)
	} else {
		c.float[i] = v
	}
}

func (c *cache) get(i int) float32 {
	if c.half != nil {
		return canon.F16(c.half[i])
	}
	return c.float[i]
}

func (c *cache) keyAt(j, d int) int {
	j, p := j%pageSize, j/pageSize
	return c.keys[p] + (j/groupRows*c.dim+d)*groupRows + j%groupRows
}

func (c *cache) valueAt(j, d int) int {
	return c.values[j/pageSize] + j%pageSize*c.dim + d
}

func (c *cache) vector(at func(j, d int) int) func(j int) []float32 {
	x := make([]float32, c.dim)
	return func(j int) []float32 {
		for d := range x {
			x[d] = c.get(at(j, d))
		}
		return x
	}
}

// attendAll runs a tile over all chunks and joins them, as the device does.
func attendAll(k *kernels, c *cache, q []float32, lo, hi []int) []float32 {
	pairs, dim := len(lo), c.dim
	a := attention{
		pairs: pairs, dim: dim, q: make([]float32, pairs*queryStride), half: c.half, float: c.float,
		s: make([]float32, pairs*chunkSize), o: make([]float32, pairs*dim),
	}
	for p := range pairs {
		copy(a.q[p*queryStride:], q[p*dim:(p+1)*dim])
	}
	chunks := (len(c.keys) + chunkPages - 1) / chunkPages
	ms, ls, os := make([][]float32, pairs), make([][]float32, pairs), make([][]float32, pairs)
	for ch := range chunks {
		copy(a.keys[:], c.keys[ch*chunkPages:])
		copy(a.values[:], c.values[ch*chunkPages:])
		for p := range pairs {
			a.lo[p] = min(max(lo[p]-ch*chunkSize, 0), chunkSize)
			a.hi[p] = min(max(hi[p]-ch*chunkSize, 0), chunkSize)
		}
		for i := range a.s {
			a.s[i] = float32(math.NaN())
		}
		a.next = []int{-1, c.keys[0]}[ch%2]
		k.attend(&a)
		for p := range pairs {
			if a.lo[p] < a.hi[p] {
				ms[p], ls[p] = append(ms[p], a.m[p]), append(ls[p], a.l[p])
				os[p] = append(os[p], a.o[p*dim:(p+1)*dim]...)
			}
		}
	}
	out := make([]float32, pairs*dim)
	for p := range pairs {
		k.combine(out[p*dim:(p+1)*dim], ms[p], ls[p], os[p], dim)
	}
	return out
}

func TestAttentionGivesTheCanonsBitsAndNeverLooksAtStaleSlots(t *testing.T) {
	eachTable(t, func(t *testing.T, k *kernels) {
		rapid.Check(t, func(rt *rapid.T) {
			s := newRandom(rapid.Uint64().Draw(rt, "seed"))
			dim := rapid.SampledFrom([]int{64, 128, 16, 80, 8, 256}).Draw(rt, "dim")
			half := rapid.Bool().Draw(rt, "f16")
			pairs := rapid.IntRange(1, maxPairs).Draw(rt, "pairs")
			shared := rapid.IntRange(1, 3).Draw(rt, "heads per row")
			context := rapid.IntRange(1, 700).Draw(rt, "context")
			window := rapid.SampledFrom([]int{0, 0, 5, 100, 300}).Draw(rt, "window")
			every := rapid.SampledFrom([]int{0, 0, 0, 200}).Draw(rt, "extremes")
			lo, hi := make([]int, pairs), make([]int, pairs)
			end := 0
			for p := range pairs {
				hi[p] = context + p/shared
				if window > 0 {
					lo[p] = max(0, hi[p]-window)
				}
				end = max(end, hi[p])
			}
			c := newCache(s, (end+pageSize-1)/pageSize, dim, half)
			for i := range len(c.keys) * pageSize * dim * 2 {
				c.set(i, float32(math.NaN()))
			}
			data := s.floats(2*end*dim, every)
			for j := lo[0]; j < end; j++ {
				for d := range dim {
					c.set(c.keyAt(j, d), data[2*(j*dim+d)])
					c.set(c.valueAt(j, d), data[2*(j*dim+d)+1])
				}
			}
			q := s.floats(pairs*dim, every)
			got := attendAll(k, c, q, lo, hi)
			want := make([]float32, pairs*dim)
			for p := range pairs {
				canon.Attend(want[p*dim:][:dim], q[p*dim:][:dim], 1, lo[p], hi[p], c.vector(c.keyAt), c.vector(c.valueAt))
			}
			same(rt, want, got, "dim %d, %d pairs, context %d, window %d", dim, pairs, context, window)
		})
	})
}
