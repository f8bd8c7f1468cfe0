package engine_test

import (
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/compute/cpu"
	"surmise/demo"
	"surmise/drafter"
	"surmise/model"
	"surmise/sampler"
)

// BenchmarkSharedNoise measures at temperature 1 how often a draft model's
// proposal is what the target draws, with the target's own noise, with noise of
// its own, and as its most likely token; and beside them the overlap 1 − TV of the
// two distributions, which no way to propose that knows nothing of the target's
// distribution can be expected to pass. All are taken at the same positions of
// source code that no demo model has seen, teacher-forced, with 16 seeds. Run it
// with
//
//	go test ./engine -run '^$' -bench SharedNoise -benchtime 1x
func BenchmarkSharedNoise(b *testing.B) {
	dev, err := cpu.New(cpu.Options{Threads: benchThreads})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, dev.Close()) })
	open := func(dir string) *model.Model {
		ck, err := checkpoint.OpenFS(demo.FS(), dir)
		require.NoError(b, err)
		m, err := model.Open(dev, ck, model.Options{})
		require.NoError(b, err)
		b.Cleanup(func() {
			require.NoError(b, m.Close())
			require.NoError(b, ck.Close())
		})
		return m
	}
	target, draft := open(demo.Target), open(demo.Draft)
	in := openFamily(b, drafter.None, "", nil)
	const length, begin, seeds = 512, 64, 16
	var positions, overlap float64
	var hits [3]float64 // shared noise, own noise, most likely
	for range b.N {
		for _, name := range []string{"../verify/round.go", "../drafter/auto.go", "../kvcache/cache.go", "../mtp/seq.go"} {
			source, err := os.ReadFile(name)
			require.NoError(b, err)
			text := tokensOf(b, in, string(source))
			text = text[:min(length, len(text))]
			p, q := teacherForced(b, target, text), teacherForced(b, draft, text)
			for i := begin; i < len(text); i++ {
				positions++
				overlap += 1 - distance(p[i-1], q[i-1])
			}
			for seed := range uint64(seeds) {
				own, other := chainOver(b, target, text[:begin], seed), chainOver(b, target, text[:begin], seed+1000)
				for i := begin; i < len(text); i++ {
					said := drawn(b, own, p[i-1])
					for way, proposal := range []int32{drawn(b, own, q[i-1]), drawn(b, other, q[i-1]), likeliest(q[i-1])} {
						if proposal == said {
							hits[way]++
						}
					}
					own.Accept(text[i])
					other.Accept(text[i])
				}
			}
		}
	}
	overlap /= positions
	for i := range hits {
		hits[i] /= positions * seeds
	}
	b.ReportMetric(overlap, "1-TV")
	b.ReportMetric(hits[0], "shared")
	b.ReportMetric(hits[1], "independent")
	b.ReportMetric(hits[2], "greedy")
	b.ReportMetric(hits[0]/overlap, "shared/(1-TV)")
}

// teacherForced are the logits after every token of a text.
func teacherForced(t testing.TB, m *model.Model, text []int32) [][]float32 {
	t.Helper()
	seq := m.Cache().Open()
	defer seq.Close()
	batch := &model.Batch{Rows: []model.Row{{Seq: seq, Tokens: text, Logits: len(text)}}}
	require.NoError(t, m.Forward(batch))
	out := make([][]float32, len(text))
	for i := range out {
		out[i] = slices.Clone(batch.Logits(0, i))
	}
	return out
}

func chainOver(t testing.TB, m *model.Model, prompt []int32, seed uint64) *sampler.Chain {
	t.Helper()
	c, err := sampler.NewChain(params(1, seed, -1), sampler.Env{Vocab: m.Spec().Vocab}, prompt, 0)
	require.NoError(t, err)
	return c
}

func drawn(t testing.TB, c *sampler.Chain, z []float32) int32 {
	d, err := c.Sample(z)
	if err != nil {
		require.NoError(t, err)
	}
	return d.Token
}

func likeliest(z []float32) int32 {
	best := 0
	for i, x := range z {
		if x > z[best] {
			best = i
		}
	}
	return int32(best)
}

// distance is the total variation of two softmaxes.
func distance(a, b []float32) float64 {
	p, q := softmax(a), softmax(b)
	sum := 0.0
	for i := range p {
		sum += math.Abs(p[i] - q[i])
	}
	return sum / 2
}

func softmax(z []float32) []float64 {
	top, sum := float64(slices.Max(z)), 0.0
	p := make([]float64, len(z))
	for i, x := range z {
		p[i] = math.Exp(float64(x) - top)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}
