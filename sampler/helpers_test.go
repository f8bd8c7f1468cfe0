package sampler

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/stretchr/testify/require"
)

// with returns the library's defaults with a seed and the given changes.
func with(changes ...func(*Params)) Params {
	p := Default()
	seed := uint64(11)
	p.Seed = &seed
	for _, c := range changes {
		c(&p)
	}
	return p
}

func chain(t require.TestingT, p Params, vocab int, prompt ...int32) *Chain {
	c, err := NewChain(p, Env{Vocab: vocab}, prompt, 0)
	require.NoError(t, err)
	return c
}

// logs turns probabilities into logits.
func logs(p ...float64) []float32 {
	z := make([]float32, len(p))
	for i, v := range p {
		z[i] = float32(math.Log(v))
	}
	return z
}

// surviving returns the ids that steps 1 to 6 leave, in ascending order.
func surviving(t require.TestingT, c *Chain, logits []float32) []int32 {
	s := newScratch(len(logits))
	defer s.editor.restore(logits)
	r, err := c.prepare(s, logits)
	require.NoError(t, err)
	c.choose(s, r)
	if !s.few.list {
		s.gather(r, true)
	}
	ids := slices.Clone(s.few.ids)
	slices.Sort(ids)
	return ids
}

func sample(t require.TestingT, c *Chain, logits []float32) int32 {
	d, err := c.Sample(logits)
	require.NoError(t, err)
	return d.Token
}

// softmax at temperature T in float64, the textbook way.
func softmax(z []float32, temperature float64) []float64 {
	top := slices.Max(z)
	p := make([]float64, len(z))
	sum := 0.0
	for i, v := range z {
		p[i] = math.Exp((float64(v) - float64(top)) / temperature)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

func entropyOf(p []float64) float64 {
	h := 0.0
	for _, v := range p {
		if v > 0 {
			h -= v * math.Log(v)
		}
	}
	return h
}

// gaussian makes logits like a model's: a bulk, and some tokens above it.
func gaussian(rng *rand.Rand, n int, spread float64) []float32 {
	z := make([]float32, n)
	for i := range z {
		z[i] = float32(rng.NormFloat64() * spread)
	}
	for range n/500 + 2 {
		z[rng.IntN(n)] += float32(4 * spread * rng.Float64())
	}
	return z
}
