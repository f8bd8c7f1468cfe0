package sampler

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

const draws = 20000

// chiSquare reports whether counts fit the probabilities at α = 1e-4. Cells
// that expect fewer than five draws are merged.
func chiSquare(counts []int, p []float64) bool {
	total := 0
	for _, c := range counts {
		total += c
	}
	stat, cells := 0.0, -1
	restC, restE := 0.0, 0.0
	add := func(c, e float64) {
		stat += (c - e) * (c - e) / e
		cells++
	}
	for i, c := range counts {
		e := p[i] * float64(total)
		if e == 0 && c > 0 {
			return false
		}
		if e >= 5 {
			add(float64(c), e)
		} else {
			restC, restE = restC+float64(c), restE+e
		}
	}
	if restE > 0 {
		add(restC, math.Max(restE, .5))
	}
	// Wilson and Hilferty's approximation of the quantile at 1 − 1e-4.
	k := float64(max(cells, 1))
	limit := k * math.Pow(1-2/(9*k)+3.719*math.Sqrt(2/(9*k)), 3)
	return stat <= limit
}

// countDraws draws at positions 0, 1, … from the same logits.
func countDraws(t require.TestingT, p Params, z []float32, rule func(c *Chain) int32) []int {
	c := chain(t, p, len(z))
	counts := make([]int, len(z))
	for i := range draws {
		c.length = i
		counts[rule(c)]++
	}
	return counts
}

// kept returns softmax at temperature T over some tokens only.
func kept(z []float32, temperature float64, ids ...int32) []float64 {
	p := softmax(z, temperature)
	out := make([]float64, len(z))
	sum := 0.0
	for _, id := range ids {
		sum += p[id]
	}
	for _, id := range ids {
		out[id] = p[id] / sum
	}
	return out
}

func distributionLogits() []float32 {
	rng := rand.New(rand.NewPCG(3, 5))
	z := make([]float32, 60)
	for i := range z {
		z[i] = float32(rng.NormFloat64() * 1.5)
	}
	return z
}

func TestDrawsFollowTheExactProbabilities(t *testing.T) {
	if testing.Short() {
		t.Skip("long: the race detector runs the short ones")
	}
	z := distributionLogits()
	draw := func(c *Chain) int32 { return sample(t, c, z) }
	for name, change := range map[string]func(*Params){
		"T = 1":              func(p *Params) {},
		"T = 0.5":            func(p *Params) { p.Temperature = .5 },
		"T = 2":              func(p *Params) { p.Temperature = 2 },
		"top-k":              func(p *Params) { p.TopK = 7 },
		"top-p":              func(p *Params) { p.TopP = .7 },
		"min-p":              func(p *Params) { p.MinP = .2 },
		"server":             func(p *Params) { p.TopK, p.TopP, p.MinP, p.Temperature = 40, .9, .1, .8 },
		"top-k, top-p in hf": func(p *Params) { p.TopK, p.TopP, p.Temperature, p.Order = 20, .8, 1.6, OrderHF },
	} {
		p := with(change)
		want := kept(z, p.Temperature, surviving(t, chain(t, p, len(z)), z)...)
		require.True(t, chiSquare(countDraws(t, p, z, draw), want), name)
	}
	// XTC acts on a part of the positions, so the draws are a mixture.
	p := with(func(p *Params) { p.XTCProbability, p.XTCThreshold = .4, .05 })
	all := softmax(z, 1)
	var top, rest []int32
	for i, v := range all {
		if v >= .05 {
			top = append(top, int32(i))
		}
	}
	last := top[0]
	for _, id := range top {
		if z[id] < z[last] {
			last = id
		}
	}
	require.Greater(t, len(top), 2)
	for i, v := range all {
		if v < .05 || int32(i) == last {
			rest = append(rest, int32(i))
		}
	}
	want := kept(z, 1, rest...)
	for i := range want {
		want[i] = .4*want[i] + .6*all[i]
	}
	require.True(t, chiSquare(countDraws(t, p, z, draw), want), "xtc")
}

// The test above must be able to fail: wrong rules are caught by it.
func TestTheDistributionTestCatchesWrongRules(t *testing.T) {
	if testing.Short() {
		t.Skip("long: the race detector runs the short ones")
	}
	z := distributionLogits()
	p, want := with(), softmax(z, 1)
	proposal := int32(0)
	for i, v := range z {
		if v > z[proposal] {
			proposal = int32(i)
		}
	}
	require.False(t, chiSquare(countDraws(t, p, z, func(c *Chain) int32 {
		id := sample(t, c, z)
		if id != proposal { // an independent second draw after a rejection
			c.sample = 1
			id = sample(t, c, z)
			c.sample = 0
		}
		return id
	}), want), "independent re-draw on rejection")
	require.False(t, chiSquare(countDraws(t, p, z, func(*Chain) int32 { return proposal }), want), "argmax for a draw")
	require.False(t, chiSquare(countDraws(t, with(func(p *Params) { p.Temperature = .95 }), z, func(c *Chain) int32 { return sample(t, c, z) }), want), "another temperature")
	// Drawing anew only where the same noise already decided is no change.
	require.True(t, chiSquare(countDraws(t, p, z, func(c *Chain) int32 {
		sample(t, c, z)
		return sample(t, c, z)
	}), want))
}

func TestMirostatHoldsItsTargetSurprise(t *testing.T) {
	if testing.Short() {
		t.Skip("long: the race detector runs the short ones")
	}
	for version := 1; version <= 2; version++ {
		for _, tau := range []float64{2, 4} {
			p := with(func(p *Params) { p.Mirostat, p.MirostatTau = version, tau })
			c := chain(t, p, 2000)
			rng := rand.New(rand.NewPCG(8, 8))
			rows := make([][]float32, 16)
			for i := range rows {
				rows[i] = gaussian(rng, 2000, 1.5)
			}
			mean, n := 0.0, 3000
			for i := range n {
				id := sample(t, c, rows[i%len(rows)])
				mean += c.feedback.surprise / float64(n)
				c.Accept(id)
			}
			require.InDelta(t, tau, mean, .1, "version %d", version)
		}
	}
}

func TestAdaptivePMovesTheMeanProbabilityTowardsItsTarget(t *testing.T) {
	z := logs(.5, .2, .1, .08, .05, .04, .02, .01)
	mean := func(target float64) float64 {
		c := chain(t, with(func(p *Params) { p.AdaptiveTarget = target }), len(z))
		sum := 0.0
		for range 2000 {
			id := sample(t, c, z)
			sum += c.feedback.originalShare
			c.Accept(id)
		}
		return sum / 2000
	}
	low, high := mean(.1), mean(.45)
	require.InDelta(t, .1, low, .06)
	require.InDelta(t, .45, high, .1)
}
