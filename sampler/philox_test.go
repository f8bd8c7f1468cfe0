package sampler

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/compute/vocab"
)

// Known answers of the Random123 distribution (kat_vectors, philox4x32 10).
func TestPhiloxKnownAnswers(t *testing.T) {
	m := uint32(math.MaxUint32)
	for _, v := range []struct {
		c    [4]uint32
		k    [2]uint32
		want [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{m, m, m, m}, [2]uint32{m, m}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		require.Equal(t, v.want, vocab.Philox(v.c, v.k))
	}
}

func TestElementaryFunctionsStayWithinAnUlpOrTwo(t *testing.T) {
	for i := range 200000 {
		x := math.Exp(float64(i-100000)/4000) * (1 + float64(i%7)/9)
		require.InEpsilon(t, math.Log(x)+1000, log(x)+1000, 1e-15)
		if l := math.Log(x); math.Abs(l) > 1e-3 {
			require.InEpsilon(t, l, log(x), 5e-16)
		}
		y := float64(i-100000) / 150
		require.InEpsilon(t, math.Exp(y), exp(y), 5e-15)
	}
	require.True(t, math.IsInf(log(0), -1))
	require.True(t, math.IsNaN(log(-1)))
	require.InEpsilon(t, -744.4400719213812, log(5e-324), 1e-15, "math.Log of amd64 is 5 % off here")
}

func TestGumbelFollowsItsDefinition(t *testing.T) {
	n := vocab.Noise{Seed: 9}
	for _, w := range []uint32{256, 257, 1 << 16, 1 << 31, math.MaxUint32} {
		u := (float64(w) + 0.5) / (1 << 32)
		require.InEpsilon(t, -math.Log(-math.Log1p(-u)), gumbel(n, 5, w), 1e-12)
	}
	require.Greater(t, gumbel(n, 5, 0), gumbel(n, 5, 256), "a small word is a large noise")
	require.LessOrEqual(t, gumbel(n, 5, 0), 45.1)
}
