package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/compute"
)

// tables are the implementations this machine can run, the generic one last.
func tables() []*kernels {
	var t []*kernels
	for _, i := range implementations() {
		if i.available {
			t = append(t, i.table())
		}
	}
	return t
}

// eachTable runs a test for every implementation this machine can run.
func eachTable(t *testing.T, test func(t *testing.T, k *kernels)) {
	for _, k := range tables() {
		t.Run(k.name, func(t *testing.T) { test(t, k) })
	}
}

// A type missing from an implementation's list would leave the generic loop:
// the same bits, and tens of times the time, which no equality notices.
func TestNoImplementationLeavesAMatrixToTheGenericLoop(t *testing.T) {
	generic := genericKernels()
	code := func(f any) uintptr { return reflect.ValueOf(f).Pointer() }
	for _, k := range tables() {
		if k.name == generic.name {
			continue
		}
		for typ, p := range packings {
			switch {
			case p.quantized():
				require.NotEqual(t, code(generic.linear[typ]), code(k.linear[typ]), "%s: type %d", k.name, typ)
			case p.bits > 0:
				require.NotEqual(t, code(generic.linearFloat[typ]), code(k.linearFloat[typ]), "%s: type %d", k.name, typ)
			}
		}
	}
}

// testingT is a test or a check of a property.
type testingT interface {
	require.TestingT
	Helper()
}

// same compares bits; all NaN are one.
func same(t testingT, want, got []float32, format string, args ...any) {
	t.Helper()
	require.Equal(t, len(want), len(got))
	for i := range want {
		w, g := math.Float32bits(want[i]), math.Float32bits(got[i])
		if w != g && (want[i] == want[i] || got[i] == got[i]) {
			require.Failf(t, "bits differ", "at %d of %d: want %08x (%g), got %08x (%g): %s",
				i, len(want), w, want[i], g, got[i], fmt.Sprintf(format, args...))
		}
	}
}

// random makes the inputs of a test.
type random struct{ *rand.Rand }

func newRandom(seed uint64) random { return random{rand.New(rand.NewPCG(seed, 1))} }

var extremes = []float32{
	0, float32(math.Copysign(0, -1)), 1e-31, -1e-30, -1e-38, 1e-45, math.MaxFloat32, -math.MaxFloat32,
	1e30, 88, 88.01, -60, -60.001, 127, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
}

// floats are ordinary values, with extreme ones among them one time in `every`.
func (s random) floats(n, every int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(s.NormFloat64())
		if every > 0 && s.IntN(every) == 0 {
			x[i] = extremes[s.IntN(len(extremes))]
		}
	}
	return x
}

// half is a scale: mostly ordinary, at times 0, negative or denormal.
func (s random) half() uint16 {
	switch s.IntN(8) {
	case 0:
		return uint16(s.IntN(1024)) | uint16(s.IntN(2))<<15
	case 1:
		return 0x8000
	}
	return 0x1000 + uint16(s.IntN(0x2000)) | uint16(s.IntN(2))<<15
}

// halfFields are the offsets of f16 scales in a block.
var halfFields = map[checkpoint.Type][]int{
	checkpoint.F16: {0}, checkpoint.Q8_0: {0}, checkpoint.Q4_0: {0}, checkpoint.Q4_1: {0, 2}, checkpoint.Q5_0: {0},
	checkpoint.Q5_1: {0, 2}, checkpoint.Q4_K: {0, 2}, checkpoint.Q5_K: {0, 2}, checkpoint.Q6_K: {208},
}

// tensor is a matrix of any type with random weights.
func (s random) tensor(t testing.TB, typ checkpoint.Type, rows, cols int) *checkpoint.Tensor {
	raw := make([]byte, rows*cols/typ.BlockSize()*typ.BlockBytes())
	for i := range raw {
		raw[i] = byte(s.Uint32())
	}
	for b := 0; b < len(raw); b += typ.BlockBytes() {
		for _, f := range halfFields[typ] {
			binary.LittleEndian.PutUint16(raw[b+f:], s.half())
		}
		switch typ {
		case checkpoint.BF16:
			binary.LittleEndian.PutUint16(raw[b:], uint16(math.Float32bits(float32(s.NormFloat64()))>>16))
		case checkpoint.F32:
			binary.LittleEndian.PutUint32(raw[b:], math.Float32bits(float32(s.NormFloat64())))
		}
	}
	shape := []int{rows, cols}
	if typ == checkpoint.MLX4 || typ == checkpoint.MLX8 {
		const group = 64
		side := []int{rows, cols / group}
		scales := s.tensor(t, checkpoint.BF16, side[0], side[1])
		biases := s.tensor(t, checkpoint.F16, side[0], side[1])
		w, err := checkpoint.NewMLXTensor("w", typ, shape, raw, scales, biases, group)
		require.NoError(t, err)
		return w
	}
	w, err := checkpoint.NewTensor("w", typ, shape, raw)
	require.NoError(t, err)
	return w
}

// packed packs a part whole.
func packed(t testing.TB, part compute.LinearPart) *packedMatrix {
	p := newPacker(part)
	m, size, err := newPackedMatrix(p.typ, part.Weight.Rows(), part.Weight.Cols())
	require.NoError(t, err)
	m.bind(make([]byte, size.weights), make([]byte, size.scales), make([]float32, size.bias))
	p.pack(m, 0, m.groups)
	return m
}

var allTypes = []checkpoint.Type{
	checkpoint.F32, checkpoint.F16, checkpoint.BF16, checkpoint.Q8_0, checkpoint.Q4_0, checkpoint.Q4_1, checkpoint.Q5_0,
	checkpoint.Q5_1, checkpoint.Q4_K, checkpoint.Q5_K, checkpoint.Q6_K, checkpoint.MLX4, checkpoint.MLX8,
}
