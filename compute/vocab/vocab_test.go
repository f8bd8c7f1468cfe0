package vocab

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"surmise/compute/canon"
)

// row draws logits of every awkward kind: ties, zeros of both signs, −Inf,
// denormals, large values, and lengths that do not fill a block.
func row(t *rapid.T, min int) []float32 {
	n := rapid.IntRange(min, 700).Draw(t, "n")
	scale := rapid.SampledFrom([]float64{0, 1e-3, 2, 8, 40}).Draw(t, "scale")
	shift := rapid.SampledFrom([]float64{0, -30, 25, 1e4}).Draw(t, "shift")
	seed := rapid.Uint64().Draw(t, "seed")
	odd := rapid.IntRange(0, 20).Draw(t, "odd")
	z := make([]float32, n)
	for i := range z {
		w := Noise{Seed: seed}.Word(int32(i))
		z[i] = float32((float64(w)/(1<<31)-1)*scale + shift)
		switch int(w % 97) {
		case 1 * odd % 97:
			z[i] = float32(math.Inf(-1))
		case 2 * odd % 97:
			z[i] = float32(math.Copysign(0, -1))
		case 3 * odd % 97:
			z[i] = math.Float32frombits(w & 0x807fffff)
		case 5 * odd % 97:
			z[i] = float32(shift)
		}
	}
	return z
}

func sameBits(t require.TestingT, want, got []float32, name string) {
	for i := range want {
		require.Equal(t, math.Float32bits(want[i]), math.Float32bits(got[i]), "%s %d", name, i)
	}
}

func TestEveryImplementationEqualsThePlainLoops(t *testing.T) {
	for _, k := range implementations() {
		t.Run(k.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				z := row(t, 1)
				n, b := len(z), Blocks(len(z))
				bm, bm2 := make([]float32, b), make([]float32, b)
				max, nan := generic.maxOf(bm, z)
				max2, nan2 := k.maxOf(bm2, z)
				require.False(t, nan || nan2)
				sameBits(t, []float32{max}, []float32{max2}, "max")
				sameBits(t, bm, bm2, "block maximum")

				s := float32(rapid.Float64Range(0.01, 50).Draw(t, "s"))
				d, d2 := make([]float32, n), make([]float32, n)
				smax, _ := generic.scaleTo(d, bm, z, s)
				smax2, _ := k.scaleTo(d2, bm2, z, s)
				sameBits(t, append(d, smax), append(d2, smax2), "scaled")
				sameBits(t, bm, bm2, "scaled block maximum")
				generic.maxOf(bm, z)

				lo := max - float32(rapid.SampledFrom([]float64{0, 0.5, 3, 20.9, 21, 100}).Draw(t, "lo"))
				m, c := generic.massOf(z, bm, max, lo)
				m2, c2 := k.massOf(z, bm, max, lo)
				require.Equal(t, m, m2)
				require.Equal(t, c, c2)

				w, w2 := make([]uint32, n), make([]uint32, n)
				for i := range w2 {
					w2[i] = 7
				}
				generic.weightsTo(w, z, bm, max, lo)
				k.weightsTo(w2, z, bm, max, lo)
				require.Equal(t, w, w2)

				ids, ids2 := make([]int32, n+16), make([]int32, n+16)
				g, g2 := generic.collectTo(ids, z, bm, lo), k.collectTo(ids2, z, bm, lo)
				require.Equal(t, ids[:g], ids2[:g2])

				r := Race{
					Noise: Noise{rapid.Uint64().Draw(t, "key"), rapid.Uint32().Draw(t, "position"), 3, 1 << 31},
					InvT:  s, Best: max*s + float32(rapid.Float64Range(-30, 10).Draw(t, "best")), Lo: lo,
				}
				words, words2 := make([]uint32, n+16), make([]uint32, n+16)
				first := int32(Block * rapid.IntRange(0, 5000).Draw(t, "first"))
				g, g2 = generic.run(r, ids, words, z, bm, first), k.run(r, ids2, words2, z, bm, first)
				require.Equal(t, ids[:g], ids2[:g2])
				require.Equal(t, words[:g], words2[:g2])
			})
		})
	}
}

func TestANaNAnywhereIsReported(t *testing.T) {
	for _, k := range implementations() {
		for n := 1; n < 200; n += 7 {
			for i := range n {
				z, bm := make([]float32, n), make([]float32, Blocks(n))
				z[i] = float32(math.NaN())
				_, nan := k.maxOf(bm, z)
				require.True(t, nan, "%s: %d of %d", k.name, i, n)
				_, nan = k.scaleTo(z, bm, z, 2)
				require.True(t, nan, "%s: scale %d of %d", k.name, i, n)
			}
		}
	}
}

// No token that could reach Best may be missed: the exact condition is
// u ≤ exp(z·InvT − Best), because −log1p(−u) ≥ u.
func TestTheRaceMissesNoTokenThatCanWin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z := row(t, 1)
		bm := make([]float32, Blocks(len(z)))
		max, _ := Max(bm, z)
		r := Race{
			Noise: Noise{Seed: rapid.Uint64().Draw(t, "key")},
			InvT:  float32(rapid.Float64Range(0.2, 4).Draw(t, "s")), Lo: -math.MaxFloat32,
		}
		r.Best = max*r.InvT + float32(rapid.Float64Range(-6, 6).Draw(t, "best"))
		ids, words := make([]int32, len(z)+16), make([]uint32, len(z)+16)
		n := r.Run(ids, words, z, bm, 0)
		passed := map[int32]bool{}
		for _, id := range ids[:n] {
			passed[id] = true
		}
		for i, v := range z {
			u := (float64(r.Noise.Word(int32(i))) + 0.5) / (1 << 32)
			if g := -math.Log(-math.Log1p(-u)); v >= r.Lo && float64(v*r.InvT)+g >= float64(r.Best) {
				require.True(t, passed[int32(i)], "token %d", i)
			}
		}
	})
}

func TestArgmaxIsTheFirstOfTheLargest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z := row(t, 1)
		bm := make([]float32, Blocks(len(z)))
		max, _ := Max(bm, z)
		want := 0
		for i, v := range z {
			if v > z[want] {
				want = i
			}
		}
		require.Equal(t, want, Argmax(z, bm, max))
	})
}

func TestWeightIsTheTruncatedExponential(t *testing.T) {
	require.EqualValues(t, One, Weight(0))
	require.EqualValues(t, 0, Weight(-Depth))
	require.EqualValues(t, 0, Weight(float32(math.Inf(-1))))
	for d := float32(-21); d <= 0; d += 0.0137 {
		require.Equal(t, uint32(float64(canon.Exp(d))*One), Weight(d))
		require.InDelta(t, math.Exp(float64(d))*One, Weight(d), 1+200*math.Exp(float64(d)))
	}
}

// The flags are read from the system, so that a mistake in the dispatch cannot
// hide itself.
func TestAMachineThatCanRunAnImplementationDoes(t *testing.T) {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || purego {
		t.Skip("plain Go was asked for, or there are no processor flags to compare with")
	}
	has := map[string]bool{}
	for line := range strings.Lines(string(info)) {
		if strings.HasPrefix(line, "flags") {
			for _, f := range strings.Fields(line) {
				has[f] = true
			}
			break
		}
	}
	found := map[string]bool{}
	for _, k := range implementations() {
		found[k.name] = true
	}
	require.Equal(t, has["avx2"] && has["fma"], found["avx2"])
	require.Equal(t, has["avx512f"] && has["avx512bw"] && has["avx512dq"] && has["avx512vl"], found["avx512"])
}

func Example() {
	z := []float32{1, 3, 2, 3}
	bm := make([]float32, Blocks(len(z)))
	max, _ := Max(bm, z)
	mass, count := Mass(z, bm, max, 2.5)
	fmt.Println(Argmax(z, bm, max), mass == 2*One, count)
	// Output: 1 true 2
}

func benchRow(n int) ([]float32, []float32) {
	z := make([]float32, n)
	for i := range z {
		u := float64(Noise{Seed: 1}.Word(int32(i)))/(1<<32) + float64(Noise{Seed: 2}.Word(int32(i)))/(1<<32) + float64(Noise{Seed: 3}.Word(int32(i)))/(1<<32)
		z[i] = float32((u - 1.5) * 4.4)
	}
	for i := range 200 {
		z[(i*7919)%n] += 14
	}
	z[77] = 20
	return z, make([]float32, Blocks(n))
}

func BenchmarkPasses(b *testing.B) {
	z, bm := benchRow(131072)
	ids, words := make([]int32, len(z)+16), make([]uint32, len(z)+16)
	dst, w := make([]float32, len(z)), make([]uint32, len(z))
	for _, k := range implementations() {
		max, _ := k.maxOf(bm, z)
		for name, f := range map[string]func(){
			"max":     func() { k.maxOf(bm, z) },
			"scale":   func() { k.scaleTo(dst, bm, z, 1) },
			"mass":    func() { k.massOf(z, bm, max, max-21) },
			"weights": func() { k.weightsTo(w, z, bm, max, max-21) },
			"collect": func() { k.collectTo(ids, z, bm, -1) },
			"race": func() {
				r := Race{InvT: 1, Best: max + 1, Lo: -1e30}
				k.run(r, ids, words, z, bm, 0)
			},
		} {
			b.Run(k.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					f()
				}
			})
		}
	}
}
