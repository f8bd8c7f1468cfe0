package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"surmise/compute"
	"surmise/compute/canon"
)

// checkRows draws a length and inputs with and without extreme values.
func checkRows(t *testing.T, multiple int, check func(rt *rapid.T, k *kernels, s random, n, every int)) {
	eachTable(t, func(t *testing.T, k *kernels) {
		rapid.Check(t, func(rt *rapid.T) {
			s := newRandom(rapid.Uint64().Draw(rt, "seed"))
			n := multiple * rapid.IntRange(1, 200/multiple).Draw(rt, "length")
			check(rt, k, s, n, rapid.SampledFrom([]int{0, 3, 100}).Draw(rt, "extremes"))
		})
	})
}

func TestQuantizeGivesTheCanonsRecords(t *testing.T) {
	checkRows(t, blockCols, func(rt *rapid.T, k *kernels, s random, n, every int) {
		x := s.floats(n, every)
		stride := rapid.IntRange(1, 8).Draw(rt, "stride")
		dst := make([]record, n/blockCols*stride)
		k.quantize(dst, stride, x)
		want := canon.Quantize(x)
		for b := range want.Scale {
			rec := &dst[b*stride]
			require.Equal(rt, want.Q[b*blockCols:][:blockCols], rec.q[:])
			same(rt, want.Scale[b:b+1], []float32{rec.scale}, "scale of block %d", b)
			require.Equal(rt, -128*want.Sum[b], rec.sum)
			same(rt, []float32{want.Scale[b] * float32(want.Sum[b])}, []float32{rec.total}, "total of block %d", b)
			var first int32
			for _, q := range rec.q[:16] {
				first += int32(q)
			}
			require.Equal(rt, -32*first, rec.first)
		}
	})
}

func TestNormGivesTheCanonsBits(t *testing.T) {
	checkRows(t, 1, func(rt *rapid.T, k *kernels, s random, n, every int) {
		x, w := s.floats(n, every), s.floats(n, 0)
		want := make([]float32, n)
		canon.Norm(want, x, w, 1e-6)
		k.norm(x, x, w, 1e-6)
		same(rt, want, x, "norm of %d", n)
	})
}

func TestRotaryGivesTheCanonsBits(t *testing.T) {
	checkRows(t, 2, func(rt *rapid.T, k *kernels, s random, n, every int) {
		x, cos, sin := s.floats(n+3, every), s.floats(n/2, 0), s.floats(n/2, 0)
		want := append([]float32(nil), x...)
		canon.Rotary(want, cos, sin)
		k.rotary(x, cos, sin)
		same(rt, want, x, "rotary of %d", n)
	})
}

func TestGateAddAndScaleGiveTheCanonsBits(t *testing.T) {
	acts := map[compute.Activation]func(float32) float32{
		compute.SiLU: canon.SiLU, compute.GELUTanh: canon.GELUTanh, compute.Sigmoid: canon.Sigmoid,
	}
	checkRows(t, 1, func(rt *rapid.T, k *kernels, s random, n, every int) {
		a, b := s.floats(n, every), s.floats(n, every)
		for i := range a {
			a[i] *= 30
		}
		want, got := make([]float32, n), make([]float32, n)
		for act, f := range acts {
			for i, v := range a {
				want[i] = float32(f(v) * b[i])
			}
			k.gate(got, a, b, act)
			same(rt, want, got, "gate %d", act)
		}
		for i, v := range a {
			want[i] = v + b[i]
		}
		k.add(got, a, b)
		same(rt, want, got, "add")
		for i, v := range a {
			want[i] = float32(0.3 * v)
		}
		k.scale(got, a, 0.3)
		same(rt, want, got, "scale")
	})
}

func TestArgmaxIsTheLowestGreatestIndexAndRefusesNaN(t *testing.T) {
	checkRows(t, 1, func(rt *rapid.T, k *kernels, s random, n, every int) {
		x := s.floats(n, every)
		if rapid.Bool().Draw(rt, "coarse") { // many ties
			for i := range x {
				x[i] = float32(s.IntN(4))
			}
		}
		require.Equal(rt, canon.Argmax(x), k.argmax(x))
		require.Equal(rt, int32(-1), k.argmax(nil))
	})
}

func TestToHalfRoundsAsTheCanon(t *testing.T) {
	checkRows(t, 1, func(rt *rapid.T, k *kernels, s random, n, every int) {
		x := s.floats(n, every)
		for i := range x {
			if s.IntN(2) == 0 {
				x[i] *= float32([]float64{1e-5, 1e-7, 2e4, 0.125}[s.IntN(4)])
			}
		}
		dst, want, got := make([]uint16, n), make([]float32, n), make([]float32, n)
		k.toHalf(dst, x)
		for i := range x {
			want[i], got[i] = canon.F16(canon.ToF16(x[i])), canon.F16(dst[i])
		}
		same(rt, want, got, "half")
	})
}
