package conformance

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"pgregory.net/rapid"

	"surmise/checkpoint"
	"surmise/compute/canon"
)

// kind is a family of numbers.
type kind int

const (
	ordinary kind = iota // about normal
	wide                 // many magnitudes, both signs, some zeros of both signs
	denormal             // at and below the least normal number
	huge                 // near the greatest finite number
	broken               // a few NaN and infinities among ordinary ones
	numKinds
)

func drawKind(t *rapid.T, name string) kind {
	// Half of the draws are ordinary: overflow hides everything else.
	k := rapid.IntRange(0, 2*int(numKinds)-1).Draw(t, name)
	return kind(max(0, k-int(numKinds)))
}

func drawRand(t *rapid.T) *rand.Rand {
	return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
}

func value(r *rand.Rand, k kind) float32 {
	switch k {
	case wide:
		if r.IntN(8) == 0 {
			return float32(math.Copysign(0, float64(r.IntN(2))-0.5))
		}
		return float32(math.Ldexp(r.NormFloat64(), r.IntN(60)-30))
	case denormal:
		return math.Float32frombits(r.Uint32() & 0x80ffffff)
	case huge:
		return math.Float32frombits(r.Uint32()&0x80ffffff | 0x7e000000)
	case broken:
		switch r.IntN(40) {
		case 0:
			return float32(math.NaN())
		case 1:
			return float32(math.Inf(r.IntN(2)*2 - 1))
		}
	}
	return float32(r.NormFloat64())
}

func values(r *rand.Rand, k kind, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = value(r, k)
	}
	return v
}

// rows of different kinds: one row never looks at another, so that one which
// overflows must leave its neighbours alone.
func mixedRows(r *rand.Rand, rows, cols int) []float32 {
	var v []float32
	for range rows {
		k := ordinary
		if r.IntN(3) == 0 {
			k = kind(r.IntN(int(numKinds)))
		}
		v = append(v, values(r, k, cols)...)
	}
	return v
}

// allTypes are the checkpoint types a linear layer takes.
var allTypes = []checkpoint.Type{
	checkpoint.F32, checkpoint.F16, checkpoint.BF16, checkpoint.Q8_0, checkpoint.Q4_0, checkpoint.Q4_1, checkpoint.Q5_0,
	checkpoint.Q5_1, checkpoint.Q4_K, checkpoint.Q5_K, checkpoint.Q6_K, checkpoint.MLX4, checkpoint.MLX8,
}

// f16Fields are the offsets of the f16 scales in a block of each type.
var f16Fields = map[checkpoint.Type][]int{
	checkpoint.Q8_0: {0}, checkpoint.Q4_0: {0}, checkpoint.Q4_1: {0, 2}, checkpoint.Q5_0: {0}, checkpoint.Q5_1: {0, 2},
	checkpoint.Q4_K: {0, 2}, checkpoint.Q5_K: {0, 2}, checkpoint.Q6_K: {208},
}

// tensor makes a random matrix of any type; every bit pattern of the integers
// occurs, and the scales are of the given kind.
func tensor(r *rand.Rand, name string, typ checkpoint.Type, k kind, rows, cols int) *checkpoint.Tensor {
	data := make([]byte, rows*cols/typ.BlockSize()*typ.BlockBytes())
	if typ.Float() {
		for i := range rows * cols {
			putFloat(data, typ, i, value(r, k))
		}
		return must(checkpoint.NewTensor(name, typ, []int{rows, cols}, data))
	}
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	if typ == checkpoint.MLX4 || typ == checkpoint.MLX8 {
		return mlxTensor(r, name, typ, k, rows, cols, data)
	}
	for b := 0; b < len(data); b += typ.BlockBytes() {
		for _, f := range f16Fields[typ] {
			binary.LittleEndian.PutUint16(data[b+f:], halfScale(r, k))
		}
	}
	return must(checkpoint.NewTensor(name, typ, []int{rows, cols}, data))
}

func halfScale(r *rand.Rand, k kind) uint16 {
	switch k {
	case wide:
		return uint16(r.Uint32()) &^ 0x4000 // any below 2, denormals too
	case denormal:
		return uint16(r.Uint32()) & 0x83ff
	case huge:
		return uint16(r.Uint32())&0x83ff | 0x7800
	case broken:
		if r.IntN(40) == 0 {
			return 0x7c00 | uint16(r.Uint32())&0x83ff
		}
	}
	return canon.ToF16(float32(r.NormFloat64()) * 0.01)
}

func mlxTensor(r *rand.Rand, name string, typ checkpoint.Type, k kind, rows, cols int, data []byte) *checkpoint.Tensor {
	group := 32
	for _, g := range []int{64, 128} {
		if cols%g == 0 && r.IntN(2) == 0 {
			group = g
		}
	}
	scaleType := []checkpoint.Type{checkpoint.F16, checkpoint.BF16, checkpoint.F32}[r.IntN(3)]
	part := func() *checkpoint.Tensor { return tensor(r, name+".part", scaleType, k, rows, cols/group) }
	return must(checkpoint.NewMLXTensor(name, typ, []int{rows, cols}, data, part(), part(), group))
}

func putFloat(data []byte, typ checkpoint.Type, i int, v float32) {
	switch typ {
	case checkpoint.F32:
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
	case checkpoint.F16:
		binary.LittleEndian.PutUint16(data[2*i:], canon.ToF16(v))
	default:
		binary.LittleEndian.PutUint16(data[2*i:], uint16(math.Float32bits(v)>>16))
	}
}

// must is for tensors this package makes itself: an error is its own mistake,
// and the test that runs it should stop.
func must(t *checkpoint.Tensor, err error) *checkpoint.Tensor {
	if err != nil {
		panic(err)
	}
	return t
}
