package canon_test

import (
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/compute/canon"
)

// bitHash hashes the bits of results; every NaN counts as the same.
type bitHash struct{ hash.Hash64 }

func (h bitHash) add(values ...float32) {
	for _, v := range values {
		bits := math.Float32bits(v)
		if v != v {
			bits = 0x7fc00000
		}
		_ = binary.Write(h, binary.LittleEndian, bits)
	}
}

func (h bitHash) String() string { return fmt.Sprintf("%016x", h.Sum64()) }

// plain gives numbers between −4 and 4 that are the same on every machine:
// rand's normal distribution goes through math functions, which are not.
func plain(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(int32(r.Uint32())) / (1 << 29)
	}
	return v
}

// Given the same operands, every machine and every build gives the same bits.
// These hashes were made on amd64 without fused instructions; a compiler that
// fuses (arm64, GOAMD64=v3) must still reproduce them. They change only when the
// canon changes, and then every stored stream changes too.
func TestGoldenBits(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	golden := map[string]string{}
	record := func(name string, fill func(h bitHash)) {
		h := bitHash{fnv.New64a()}
		fill(h)
		golden[name] = h.String()
	}
	record("fma", func(h bitHash) {
		for range 20000 {
			a, b, c := math.Float32frombits(r.Uint32()), math.Float32frombits(r.Uint32()), math.Float32frombits(r.Uint32())
			h.add(canon.FMA(a, b, c))
		}
	})
	record("exp and gates", func(h bitHash) {
		for _, x := range plain(r, 20000) {
			h.add(canon.Exp(20*x), canon.SiLU(5*x), canon.GELUTanh(3*x), canon.Sigmoid(9*x))
		}
	})
	record("norm and rotary", func(h bitHash) {
		for n := 2; n < 100; n += 2 {
			x, w := plain(r, n), plain(r, n)
			canon.Norm(x, x, w, 1e-6)
			canon.Rotary(x, w[:n/2], w[n/2:])
			h.add(x...)
		}
	})
	record("dot", func(h bitHash) {
		for n := range 200 {
			h.add(canon.Dot(plain(r, n), plain(r, n)))
		}
	})
	record("quantized dot", func(h bitHash) {
		for typ := checkpoint.Q8_0; typ <= checkpoint.Q6_K; typ++ {
			w := goldenTensor(t, r, typ)
			for i := range w.Rows() {
				h.add(canon.DotBlocks(canon.Blocks(w, i), canon.Quantize(plain(r, w.Cols()))))
			}
		}
	})
	record("attention", func(h bitHash) {
		for n := 1; n < 700; n += 37 {
			q, out, k, v := plain(r, 8), make([]float32, 8), plain(r, 8*n), plain(r, 8*n)
			at := func(m []float32) func(int) []float32 { return func(j int) []float32 { return m[8*j : 8*j+8] } }
			canon.Attend(out, q, 0.35, n/3, n, at(k), at(v))
			h.add(out...)
		}
	})
	record("rotary tables", func(h bitHash) {
		for _, s := range []*checkpoint.RopeScaling{
			nil,
			{Type: "linear", Factor: 3},
			{Type: "llama3", Factor: 32, LowFreqFactor: 1, HighFreqFactor: 4, OriginalContext: 512},
			{Type: "yarn", Factor: 4, OriginalContext: 512},
		} {
			b, err := compute.NewRotaryTable(canon.New(), compute.RotarySpec{Dim: 96, Theta: 123456, Scaling: s}, 2000)
			require.NoError(t, err)
			h.add(b.Host()...)
		}
	})
	require.Equal(t, map[string]string{
		"fma":             "d830dcf229650353",
		"exp and gates":   "a07e06450aee9dd1",
		"norm and rotary": "803b07f9a027663c",
		"dot":             "17b3246fddcfa4bd",
		"quantized dot":   "2ef78ce769223b88",
		"attention":       "fad2eda660d189e0",
		"rotary tables":   "666d8926e2b4313c",
	}, golden)
}

func goldenTensor(t *testing.T, r *rand.Rand, typ checkpoint.Type) *checkpoint.Tensor {
	data := make([]byte, 4*512/typ.BlockSize()*typ.BlockBytes())
	for i := range data {
		data[i] = byte(r.Uint32()) & 0xbf // keeps f16 scales finite
	}
	w, err := checkpoint.NewTensor("w", typ, []int{4, 512}, data)
	require.NoError(t, err)
	return w
}
