package canon_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"surmise/checkpoint"
	"surmise/compute/canon"
)

// drawFloat draws any bit pattern, or numbers likely to meet near a tie.
func drawFloat(t *rapid.T, name string) float32 {
	bits := rapid.Uint32().Draw(t, name)
	switch rapid.IntRange(0, 3).Draw(t, name+" kind") {
	case 0:
		bits &= 0x80ffffff // around the least normal number
	case 1:
		bits = bits&0x80000000 | 0x3f000000 + bits&0x01ffffff // around one
	case 2:
		bits &^= 0xfff // few digits, so that sums fall on ties
	}
	return math.Float32frombits(bits)
}

// Given any finite operands, FMA is the exact a·b + c rounded once.
func TestFMAEqualsBigFloat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawFloat(t, "a"), drawFloat(t, "b"), drawFloat(t, "c")
		if rapid.Bool().Draw(t, "c near −ab") {
			c = -float32(a*b) * math.Float32frombits(uint32(127-rapid.IntRange(0, 50).Draw(t, "e"))<<23)
		}
		for _, v := range []float32{a, b, c} {
			if v-v != 0 {
				return
			}
		}
		exact := new(big.Float).SetPrec(800).Mul(big.NewFloat(float64(a)), big.NewFloat(float64(b)))
		exact.Add(exact, big.NewFloat(float64(c)))
		want, _ := exact.Float32()
		got := canon.FMA(a, b, c)
		if want == 0 && got == 0 && exact.Sign() == 0 {
			return // big.Float has its own rule for the sign of an exact zero
		}
		if math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("FMA(%x, %x, %x) = %x, want %x", a, b, c, got, want)
		}
	})
}

// Given any number, Exp is within a few units in the last place, and its limits hold.
func TestExp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		x := float32(r.Float64()*148 - 60)
		want := math.Exp(float64(x))
		require.InEpsilon(t, want, float64(canon.Exp(x)), 3e-7, "exp(%g)", x)
	}
	require.Zero(t, math.Float32bits(canon.Exp(-60.001)))
	require.Zero(t, math.Float32bits(canon.Exp(float32(math.Inf(-1)))))
	require.Equal(t, float32(math.Inf(1)), canon.Exp(88.1))
	require.Equal(t, float32(1), canon.Exp(0))
	require.True(t, math.IsNaN(float64(canon.Exp(float32(math.NaN())))))
}

// Every binary16 widens to the number it stands for and rounds back to itself.
func TestF16RoundTripsEveryPattern(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		f := canon.F16(h)
		if f != f {
			require.True(t, math.IsNaN(float64(canon.F16(canon.ToF16(f)))))
			continue
		}
		require.Equal(t, h, canon.ToF16(f))
		exp, man := int(h>>10&31), float64(h&1023)
		want := math.Ldexp(man, -24)
		if exp == 31 {
			want = math.Inf(1)
		} else if exp > 0 {
			want = math.Ldexp(1024+man, exp-25)
		}
		require.Equal(t, want, math.Abs(float64(f)))
	}
}

// Given any float32, ToF16 gives the nearest binary16, the even one of two.
func TestToF16RoundsToNearestEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFloat(t, "f")
		if f != f {
			return
		}
		h := canon.ToF16(f)
		if a := math.Abs(float64(f)); a >= 65520 {
			require.Equal(t, uint16(0x7c00), h&0x7fff)
			return
		}
		d := math.Abs(float64(canon.F16(h)) - float64(f))
		for _, n := range []uint16{h - 1, h + 1} {
			v := float64(canon.F16(n))
			if h&0x7fff == 0 && n == h-1 || math.IsInf(v, 0) || math.IsNaN(v) {
				continue
			}
			other := math.Abs(v - float64(f))
			require.LessOrEqual(t, d, other)
			if d == other {
				require.Zero(t, h&1, "a tie goes to even")
			}
		}
	})
}

// Each quantized format's blocks mean what the checkpoint's dequantization says.
func TestBlocksEqualDequantization(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, typ := range []checkpoint.Type{
		checkpoint.Q8_0, checkpoint.Q4_0, checkpoint.Q4_1, checkpoint.Q5_0, checkpoint.Q5_1, checkpoint.Q4_K, checkpoint.Q5_K, checkpoint.Q6_K,
	} {
		data := make([]byte, 3*512/typ.BlockSize()*typ.BlockBytes())
		for i := range data {
			data[i] = byte(r.Uint32()) & 0xbf // keeps f16 scales finite
		}
		w, err := checkpoint.NewTensor("w", typ, []int{3, 512}, data)
		require.NoError(t, err)
		row := make([]float32, 512)
		for i := range 3 {
			w.Float32Row(i, row)
			for b, blk := range canon.Blocks(w, i) {
				for j, q := range blk.Q {
					got := float64(blk.Scale) * float64(blk.Sub[j/16]) * float64(q)
					if blk.HasMin {
						got -= float64(blk.Min) * float64(blk.MinSub)
					}
					want := float64(row[b*32+j])
					require.InDelta(t, want, got, 1e-6*(1+math.Abs(want)+math.Abs(float64(blk.Min)*float64(blk.MinSub))), "%s block %d weight %d", typ, b, j)
				}
			}
		}
	}
}

// Given ordinary numbers, attention is softmax(q·K)·V, whatever chunks it is cut in.
func TestAttendIsSoftmaxAttention(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, dim := rapid.IntRange(1, 700).Draw(t, "positions"), rapid.IntRange(1, 16).Draw(t, "dim")
		lo := rapid.IntRange(0, n-1).Draw(t, "lo")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		vec := func() []float32 {
			v := make([]float32, dim)
			for i := range v {
				v[i] = float32(r.NormFloat64())
			}
			return v
		}
		q, out := vec(), make([]float32, dim)
		keys, vals := make([][]float32, n), make([][]float32, n)
		for j := range keys {
			keys[j], vals[j] = vec(), vec()
		}
		at := func(m [][]float32) func(int) []float32 { return func(j int) []float32 { return m[j] } }
		canon.Attend(out, q, 0.5, lo, n, at(keys), at(vals))
		want, total := make([]float64, dim), 0.0
		for j := lo; j < n; j++ {
			s := 0.0
			for d := range q {
				s += float64(q[d]) * 0.5 * float64(keys[j][d])
			}
			e := math.Exp(s)
			total += e
			for d := range want {
				want[d] += e * float64(vals[j][d])
			}
		}
		for d := range want {
			require.InDelta(t, want[d]/total, float64(out[d]), 2e-5)
		}
	})
}

func TestGatesAndNorm(t *testing.T) {
	for x := float32(-30); x < 30; x += 0.37 {
		f := float64(x)
		require.InDelta(t, f/(1+math.Exp(-f)), float64(canon.SiLU(x)), 1e-5)
		require.InDelta(t, 1/(1+math.Exp(-f)), float64(canon.Sigmoid(x)), 1e-6)
		want := 0.5 * f * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(f+0.044715*f*f*f)))
		require.InDelta(t, want, float64(canon.GELUTanh(x)), 1e-5)
	}
	x, w := []float32{1, -2, 3, 4, 5}, []float32{1, 1, 2, 0, -1}
	out := make([]float32, 5)
	canon.Norm(out, x, w, 0)
	r := 1 / math.Sqrt(55.0/5)
	for i := range out {
		require.InDelta(t, float64(x[i])*r*float64(w[i]), float64(out[i]), 1e-6)
	}
}

func TestQuantizeKeepsBrokenBlocksVisible(t *testing.T) {
	x := make([]float32, 96)
	for i := range x {
		x[i] = float32(i%7) - 3
	}
	x[40] = float32(math.Inf(1))
	for i := 64; i < 96; i++ {
		x[i] = 1e-31
	}
	a := canon.Quantize(x)
	require.Equal(t, float32(3)/127, a.Scale[0])
	require.True(t, math.IsNaN(float64(a.Scale[1])))
	require.Zero(t, a.Scale[2])
	require.Equal(t, make([]int8, 64), a.Q[32:])
}

func TestArgmaxTakesTheLowestAndRefusesNaN(t *testing.T) {
	require.Equal(t, int32(1), canon.Argmax([]float32{1, 3, 3, 2}))
	require.Equal(t, int32(0), canon.Argmax([]float32{float32(math.Inf(-1)), float32(math.Inf(-1))}))
	require.Equal(t, int32(-1), canon.Argmax([]float32{1, float32(math.NaN()), 9}))
}
