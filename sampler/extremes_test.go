package sampler

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// extreme draws a value at or next to an end of the range.
func extreme(t *rapid.T, f Field) float64 {
	lo, hi := f.Range.Min, f.Range.Max
	if math.IsInf(lo, -1) {
		lo = -math.MaxFloat64
	}
	if math.IsInf(hi, 1) {
		hi = math.MaxFloat64
	}
	v := rapid.SampledFrom([]float64{
		lo, math.Nextafter(lo, hi), lo + 1e-30, lo + 1e-6, lo + 1, hi - 1, hi - 1e-6, math.Nextafter(hi, lo), hi, 0, 1, -1,
	}).Draw(t, f.Name)
	if f.Kind == KindInt {
		v = math.Trunc(v)
	}
	if !f.Range.Has(v) {
		return lo + (hi-lo)/2
	}
	return v
}

// Given any valid parameters, however absurd, and any logits, when a token is
// sampled, then it is one that may be drawn, or the error says what is wrong.
func TestExtremeButValidParametersStillDraw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := with()
		for _, f := range Fields() {
			if !rapid.Bool().Draw(t, f.Name+"?") {
				continue
			}
			switch x := f.target(&p).(type) {
			case *float64:
				*x = extreme(t, f)
			case *int:
				*x = int(extreme(t, f))
			case *bool:
				*x = rapid.Bool().Draw(t, f.Name)
			}
		}
		p.BestOf, p.BeamGroups, p.MinNewTokens, p.MaxNewTokens = 0, 1, 0, -1
		p.N, p.Logprobs = min(p.N, p.Beams), p.Logprobs || p.TopLogprobs > 0
		p.Order = rapid.SampledFrom([]Order{OrderLlama, OrderHF}).Draw(t, "order")
		p.LogprobsMode = rapid.SampledFrom([]LogprobsMode{LogprobsRaw, LogprobsProcessed}).Draw(t, "mode")
		require.NoError(t, p.Validate())
		size := rapid.SampledFrom([]int{1, 2, 65, 300}).Draw(t, "size")
		c := chain(t, p, size, 0)
		for range 4 {
			z := make([]float32, size)
			for i := range z {
				z[i] = rapid.SampledFrom([]float32{
					0, 1, -1, 5, 1e-45, math.MaxFloat32, -math.MaxFloat32, float32(math.Inf(-1)), float32(math.Copysign(0, -1)), 2e4,
				}).Draw(t, "logit")
			}
			d, err := c.Sample(z)
			if err != nil {
				ok := strings.Contains(err.Error(), "no token is left") || strings.Contains(err.Error(), "+Inf")
				require.True(t, ok, err)
				continue
			}
			require.GreaterOrEqual(t, d.Token, int32(0))
			require.Less(t, int(d.Token), size)
			require.False(t, math.IsInf(float64(z[d.Token]), -1), "a token at −Inf was drawn")
			require.False(t, math.IsNaN(d.Logprob))
			require.LessOrEqual(t, d.Logprob, 1e-6)
			c.Accept(d.Token)
		}
	})
}

type spoiler struct{}

func (spoiler) Process(z []float32, _ []int32) error {
	z[1] = float32(math.NaN())
	return nil
}

func TestAProcessorThatLeavesANaNFailsTheRow(t *testing.T) {
	c, err := NewChain(with(), Env{Vocab: 4, Processor: spoiler{}}, nil, 0)
	require.NoError(t, err)
	_, err = c.Sample(make([]float32, 4))
	require.ErrorContains(t, err, "token 1 is NaN")
}
