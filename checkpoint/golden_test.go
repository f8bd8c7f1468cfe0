package checkpoint

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// golden is testdata/golden.json, made by testdata/make_golden.py.
type golden struct {
	Dequantize, Quantize []struct{ Type, Data, Want string }
	MLX                  []struct {
		Bits, Group                 int
		Words, Scales, Biases, Want string
	}
}

func readGolden(t *testing.T) golden {
	t.Helper()
	raw, err := os.ReadFile("testdata/golden.json")
	require.NoError(t, err)
	var g golden
	require.NoError(t, json.Unmarshal(raw, &g))
	require.NotEmpty(t, g.Dequantize)
	require.NotEmpty(t, g.Quantize)
	require.NotEmpty(t, g.MLX)
	return g
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

func typeByName(t *testing.T, name string) Type {
	t.Helper()
	for typ := range numTypes {
		if typ.String() == name {
			return typ
		}
	}
	t.Fatalf("no type %q", name)
	return 0
}

// bitsOf compares floats by their bits: a difference in the last place fails.
func bitsOf(x []float32) []byte {
	var b []byte
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func TestFloat32RowEqualsTheReferenceOfTheFormatsAuthorsBitForBit(t *testing.T) {
	for _, g := range readGolden(t).Dequantize {
		t.Run(g.Type, func(t *testing.T) {
			typ, data, want := typeByName(t, g.Type), unhex(t, g.Data), unhex(t, g.Want)
			tensor, err := newTensor("x", typ, []int{1, len(want) / 4}, data, nil)
			require.NoError(t, err)
			got := make([]float32, tensor.Cols())
			tensor.Float32Row(0, got)
			require.Equal(t, want, bitsOf(got))
		})
	}
}

func TestQuantizeEqualsTheReferenceByteForByte(t *testing.T) {
	for _, g := range readGolden(t).Quantize {
		t.Run(g.Type, func(t *testing.T) {
			data, want := unhex(t, g.Data), unhex(t, g.Want)
			src := make([]float32, len(data)/4)
			for i := range src {
				src[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
			}
			got := make([]byte, len(want))
			map[string]func([]byte, []float32){"q8_0": QuantizeQ8_0, "q4_0": QuantizeQ4_0}[g.Type](got, src)
			require.Equal(t, want, got)
		})
	}
}

func TestFloat32RowOfMLXEqualsMLX(t *testing.T) {
	for _, g := range readGolden(t).MLX {
		typ := map[int]Type{4: MLX4, 8: MLX8}[g.Bits]
		want := unhex(t, g.Want)
		cols := len(want) / 4 / 3
		words := &storedArray{name: "x.weight", dtype: "U32", shape: []int{3, cols / typ.BlockSize()}, data: unhex(t, g.Words)}
		groups := []int{3, cols / g.Group}
		scales, err := newTensor("x.scales", F16, groups, unhex(t, g.Scales), nil)
		require.NoError(t, err)
		biases, err := newTensor("x.biases", F16, groups, unhex(t, g.Biases), nil)
		require.NoError(t, err)
		tensor, err := mlxTensor(words, scales, biases, quantization{g.Group, g.Bits})
		require.NoError(t, err)
		require.Equal(t, typ, tensor.Type)
		require.Equal(t, []int{3, cols}, tensor.Shape)
		got := make([]float32, 3*cols)
		for i := range 3 {
			tensor.Float32Row(i, got[i*cols:(i+1)*cols])
			require.Len(t, tensor.RowBytes(i), cols*g.Bits/8)
		}
		for i := range got {
			// MLX may fuse the multiplication with the addition: one rounding less.
			w := math.Float32frombits(binary.LittleEndian.Uint32(want[4*i:]))
			require.InDelta(t, w, got[i], 1e-6)
		}
	}
}

func TestHalfPrecisionWidensAndRoundsBackToItself(t *testing.T) {
	for h := range 1 << 16 {
		f := f16to32(uint16(h))
		if h&0x7c00 == 0x7c00 && h&0x3ff != 0 {
			require.True(t, f != f, "%#x", h)
			require.Equal(t, uint16(0x7e00), f32to16(f)&0x7e00)
			continue
		}
		exponent, mantissa := h>>10&31, float64(h&0x3ff)
		want := math.Ldexp(1+mantissa/1024, exponent-15)
		switch exponent {
		case 0:
			want = math.Ldexp(mantissa/1024, -14)
		case 31:
			want = math.Inf(1)
		}
		require.InDelta(t, want, math.Abs(float64(f)), 0, "%#x", h)
		require.Equal(t, uint16(h), f32to16(f))
	}
}

func TestRoundingToHalfPicksTheNearestAndEvenInATie(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := math.Float32frombits(rapid.Uint32().Draw(t, "bits") & 0x7fffffff)
		if rapid.Bool().Draw(t, "in range") {
			f = float32(rapid.Float64Range(0, 70000).Draw(t, "f"))
		}
		if rapid.Bool().Draw(t, "tie") {
			h := uint16(rapid.IntRange(0, 0x7bfe).Draw(t, "h"))
			f = (f16to32(h) + f16to32(h+1)) / 2
		}
		if f != f {
			return
		}
		got := f32to16(f)
		if f >= 65520 { // halfway between the largest half and 65536
			require.Equal(t, uint16(0x7c00), got)
			return
		}
		distance := func(h uint16) float64 { return math.Abs(float64(f16to32(h)) - float64(f)) }
		if got > 0 {
			below := distance(got - 1)
			require.True(t, distance(got) < below || distance(got) == below && got%2 == 0, "%g → %#x", f, got)
		}
		if got < 0x7bff {
			above := distance(got + 1)
			require.True(t, distance(got) < above || distance(got) == above && got%2 == 0, "%g → %#x", f, got)
		}
	})
}

func TestQuantizingKeepsDamageVisibleAndTinyValuesHarmless(t *testing.T) {
	src := make([]float32, 96)
	src[3], src[40] = float32(math.NaN()), float32(math.Inf(-1))
	src[64], src[65] = 1e-42, -3e-42 // subnormal: the inverse of the scale overflows
	for typ, quantize := range map[Type]func([]byte, []float32){Q8_0: QuantizeQ8_0, Q4_0: QuantizeQ4_0} {
		data := make([]byte, 3*typ.BlockBytes())
		quantize(data, src)
		tensor, err := newTensor("x", typ, []int{96}, data, nil)
		require.NoError(t, err)
		got := make([]float32, 96)
		tensor.Float32Row(0, got)
		for i, v := range got {
			if i < 64 {
				require.True(t, v != v, "%s %d", typ, i)
			} else {
				require.Zero(t, v, "%s %d", typ, i)
			}
		}
	}
}

func TestQuantizingErrsByAtMostHalfAStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scale := rapid.Float32Range(0.1, 1e3).Draw(t, "scale")
		src := rapid.SliceOfN(rapid.Float32Range(-1, 1), 32, 32).Draw(t, "src")
		amax := float32(0)
		for i := range src {
			src[i] *= scale
			amax = max(amax, float32(math.Abs(float64(src[i]))))
		}
		check := func(typ Type, quantize func([]byte, []float32), step float64) {
			data := make([]byte, typ.BlockBytes())
			quantize(data, src)
			tensor, err := newTensor("x", typ, []int{32}, data, nil)
			require.NoError(t, err)
			got := make([]float32, 32)
			tensor.Float32Row(0, got)
			for i := range got {
				// Half a step, and the rounding of the scale to f16 (relative 2⁻¹¹).
				require.InDelta(t, src[i], got[i], step*float64(amax)+float64(amax)/1024+1e-7)
			}
		}
		check(Q8_0, QuantizeQ8_0, 0.5/127)
		check(Q4_0, QuantizeQ4_0, 1.0/8) // the side opposite to the extreme is clamped at 7 of 8
	})
}
