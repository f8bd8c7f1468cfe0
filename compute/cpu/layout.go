package cpu

import (
	"fmt"
	"math"

	"surmise/checkpoint"
)

// The packed layouts interleave groups of 16 output rows, so that one 64-byte
// line holds 16 outputs × 4 consecutive columns and feeds one dot-product
// instruction: byte 4·o + c of a line is output o, column c.
//
// Weights are the unsigned operand: the stored byte is value + offset, and the
// offset is taken out exactly through the activation block's integer sum.
const (
	groupRows = 16 // output rows of a group
	blockCols = 32 // columns that share one activation scale
	lineBytes = 64 // 16 outputs × 4 columns

	superBlocks = 8 // blocks of 32 in a K-quant's 256
)

// scaleKind says what accompanies the weights of a group.
type scaleKind uint8

const (
	scaleNone scaleKind = iota // float weights
	// scaleHalf is, per block, 16 f16 scales d.
	scaleHalf
	// scaleHalfMin is, per block, 16 f16 d and 16 f16 minima (w = d·q − min).
	scaleHalfMin
	// scaleSuper is, per 256 columns, 16 f16 d, 16 f16 dmin, and for each of
	// the 8 blocks 16 byte scales and 16 byte minima: w = d·s·q − dmin·m.
	scaleSuper
	// scaleSuper6 is, per 256 columns, 16 f16 d, and for each of the 8 blocks
	// 16 int8 scales of its first 16 columns and 16 of its last.
	scaleSuper6
	// scaleFloatMin is, per block, 16 f32 scales and 16 f32 minima.
	scaleFloatMin
)

// packing describes the packed form of one checkpoint type.
type packing struct {
	bits   int // 4, 5, 6 or 8 for block-quantized weights; 16 or 32 for floats
	offset int // added to a signed weight to make it unsigned
	scales scaleKind
}

// packings is indexed by checkpoint.Type.
//
// A block of 4-bit weights is 4 lines: the low nibbles of line j are columns
// 8j…8j+3, the high ones 8j+4…8j+7. 5-bit weights append one line whose byte
// 4·o + c holds in bit t the high bit of column 4t + c; 6-bit weights append
// two lines, of which line t/4 holds in bits 2·(t mod 4) and up the two high
// bits of column 4t + c. A block of 8-bit weights is 8 lines. Floats are
// [column][16].
var packings = [...]packing{
	checkpoint.F32:  {bits: 32},
	checkpoint.F16:  {bits: 16},
	checkpoint.BF16: {bits: 16},
	checkpoint.Q8_0: {bits: 8, offset: 128, scales: scaleHalf},
	checkpoint.Q4_0: {bits: 4, offset: 8, scales: scaleHalf},
	checkpoint.Q4_1: {bits: 4, scales: scaleHalfMin},
	checkpoint.Q5_0: {bits: 5, offset: 16, scales: scaleHalf},
	checkpoint.Q5_1: {bits: 5, scales: scaleHalfMin},
	checkpoint.Q4_K: {bits: 4, scales: scaleSuper},
	checkpoint.Q5_K: {bits: 5, scales: scaleSuper},
	checkpoint.Q6_K: {bits: 6, offset: 32, scales: scaleSuper6},
	checkpoint.MLX4: {bits: 4, scales: scaleFloatMin},
	checkpoint.MLX8: {bits: 8, scales: scaleFloatMin},
}

// quantized tells whether the type meets quantized activations.
func (p packing) quantized() bool { return p.scales != scaleNone }

// groupBytes is the size of 16 rows of `in` columns: the weights and, apart
// from them, the scales.
func (p packing) groupBytes(in int) (weights, scales int) {
	if !p.quantized() {
		return in * groupRows * p.bits / 8, 0
	}
	blocks := in / blockCols
	weights = blocks * blockCols * groupRows * p.bits / 8
	switch p.scales {
	case scaleHalf:
		scales = blocks * 2 * groupRows
	case scaleHalfMin:
		scales = blocks * 4 * groupRows
	case scaleSuper:
		scales = blocks / superBlocks * superBytes
	case scaleSuper6:
		scales = blocks / superBlocks * super6Bytes
	case scaleFloatMin:
		scales = blocks * 8 * groupRows
	}
	return weights, scales
}

const (
	superBytes  = 2*2*groupRows + superBlocks*2*groupRows // 320
	super6Bytes = 2*groupRows + superBlocks*2*groupRows   // 288
)

// blockMultiple is what the number of columns must be a multiple of.
func (p packing) blockMultiple() int {
	switch p.scales {
	case scaleNone:
		return 1
	case scaleSuper, scaleSuper6:
		return blockCols * superBlocks
	}
	return blockCols
}

// packedSize is the memory a packed matrix needs.
type packedSize struct {
	weights, scales int // bytes, both multiples of 64
	bias            int // float32 values
}

// packedMatrix is a weight matrix [out, in] in the packed layout. Rows past out
// in the last group are zero.
type packedMatrix struct {
	typ     checkpoint.Type
	in, out int
	groups  int
	blocks  int // blocks of 32 columns; for floats the number of columns

	weightStride, scaleStride int // bytes of a group

	weights []byte    // [groups][weightStride]
	scales  []byte    // [groups][scaleStride]
	bias    []float32 // [groups·16], zero without a bias and never −0
}

// newPackedMatrix checks the shape and computes the sizes; bind gives it memory.
func newPackedMatrix(typ checkpoint.Type, out, in int) (*packedMatrix, packedSize, error) {
	if int(typ) >= len(packings) {
		return nil, packedSize{}, fmt.Errorf("weights of type %v cannot be packed", typ)
	}
	p := packings[typ]
	if out < 1 || in < 1 || out > math.MaxInt32 || in > math.MaxInt32 {
		return nil, packedSize{}, fmt.Errorf("matrix of %d × %d: both sizes must be from 1 to %d", out, in, math.MaxInt32)
	}
	if n := p.blockMultiple(); in%n != 0 {
		return nil, packedSize{}, fmt.Errorf("matrix of %v with %d columns: they must be a multiple of %d", typ, in, n)
	}
	m := &packedMatrix{typ: typ, in: in, out: out, groups: (out + groupRows - 1) / groupRows, blocks: in}
	if p.quantized() {
		m.blocks = in / blockCols
	}
	m.weightStride, m.scaleStride = p.groupBytes(in)
	if m.weightStride > math.MaxInt/4/m.groups {
		return nil, packedSize{}, fmt.Errorf("matrix of %d × %d: its size overflows", out, in)
	}
	return m, packedSize{
		weights: roundLine(m.groups * m.weightStride),
		scales:  roundLine(m.groups * m.scaleStride),
		bias:    m.groups * groupRows,
	}, nil
}

func roundLine(n int) int { return (n + lineBytes - 1) &^ (lineBytes - 1) }

// bind gives m its memory, which must be zero and at least of the size that
// newPackedMatrix returned; 64-byte alignment is worth having.
func (m *packedMatrix) bind(weights, scales []byte, bias []float32) {
	m.weights = weights[: m.groups*m.weightStride : m.groups*m.weightStride]
	m.scales = scales[: m.groups*m.scaleStride : m.groups*m.scaleStride]
	m.bias = bias[: m.groups*groupRows : m.groups*groupRows]
}

// bytes is what one pass over the matrix reads.
func (m *packedMatrix) bytes() int64 {
	return int64(m.groups) * int64(m.weightStride+m.scaleStride+4*groupRows)
}

// record is one block of 32 quantized activations. Records of a tile lie as
// [block][row].
type record struct {
	q     [blockCols]int8
	scale float32 // amax/127, 0 for a block of zeros, NaN where x is not finite
	sum   int32   // −128·Σq
	first int32   // −32·Σq of the first 16 columns
	total float32 // scale·Σq, what a minimum is multiplied by
}

// tiling splits rows into balanced tiles of at most a kernel's tile size, so
// that 9 rows are 5 + 4 and not 8 + 1.
type tiling struct{ rows, tiles, base, extra int }

func tileRows(rows, most int) tiling {
	n := (rows + most - 1) / most
	if n == 0 {
		return tiling{}
	}
	return tiling{rows: rows, tiles: n, base: rows / n, extra: rows % n}
}

// tile is the first row of tile i and its number of rows.
func (t tiling) tile(i int) (first, n int) {
	if i < t.extra {
		return i * (t.base + 1), t.base + 1
	}
	return i*t.base + t.extra, t.base
}

// of finds the tile of a row.
func (t tiling) of(row int) (first, n int) {
	if large := t.extra * (t.base + 1); row >= large {
		return t.tile(t.extra + (row-large)/t.base)
	}
	return t.tile(row / (t.base + 1))
}

// activations is the input of a linear layer, tile by tile: records as
// [block][row of the tile] for quantized weights, values as [column][row of
// the tile] for float weights. Only the form a layer needs is filled.
type activations struct {
	in        int
	quantized tiling // tiles of q
	float     tiling // tiles of x
	q         []record
	x         []float32
}

// setRow quantizes (or spreads) one row of input into its tile. Rows may be set
// from several goroutines.
func (a *activations) setRow(k *kernels, row int, x []float32) {
	first, n := a.quantized.of(row)
	blocks := a.in / blockCols
	k.quantize(a.q[first*blocks+row-first:], n, x[:a.in])
}

// setFloatRow spreads one row of input into its tile of floats.
func (a *activations) setFloatRow(row int, x []float32) {
	first, n := a.float.of(row)
	dst := a.x[first*a.in:][:n*a.in]
	for i, j := 0, row-first; i < a.in; i, j = i+1, j+n {
		dst[j] = x[i]
	}
}

// resize prepares for rows of input. It allocates only while growing.
func (a *activations) resize(k *kernels, rows, in int, quantized, float bool) {
	a.in = in
	if quantized {
		a.quantized = tileRows(rows, k.tile)
		a.q = grow(a.q, rows*(in/blockCols))
	}
	if float {
		a.float = tileRows(rows, k.floatTile)
		a.x = grow(a.x, rows*in)
	}
}

func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		s = make([]T, n+n/4)
	}
	return s[:n]
}
