package checkpoint

import (
	"fmt"
	"math"
)

// A Type is the way the weights of a tensor are stored.
//
// The quantized types up to Q6_K are those of ggml
// (https://github.com/ggml-org/ggml, ggml-common.h and ggml-quants.c), the MLX
// types those of mlx.core.quantize in its affine mode.
type Type uint8

// The types this package reads.
const (
	F32  Type = iota // IEEE single precision, little endian
	F16              // IEEE half precision, little endian
	BF16             // upper half of a single, little endian
	Q8_0             // per 32: f16 d, 32 × int8; w = d·q
	Q4_0             // per 32: f16 d, 32 × 4 bit; w = d·(q−8)
	Q4_1             // per 32: f16 d, f16 m, 32 × 4 bit; w = d·q + m
	Q5_0             // per 32: f16 d, 32 fifth bits, 32 × 4 bit; w = d·(q−16)
	Q5_1             // per 32: f16 d, f16 m, 32 fifth bits, 32 × 4 bit; w = d·q + m
	Q4_K             // per 256: f16 d, f16 dmin, 8 × (6-bit scale, 6-bit min), 256 × 4 bit
	Q5_K             // per 256: as Q4_K with 256 fifth bits
	Q6_K             // per 256: 256 × 6 bit, 16 × int8 scale, f16 d; w = d·scale·(q−32)
	MLX4             // uint32 words of 8 × 4 bit; w = scale·q + bias per group
	MLX8             // uint32 words of 4 × 8 bit; w = scale·q + bias per group

	numTypes
)

// typeInfo is what there is to know about a type without its tensor.
type typeInfo struct {
	name       string
	blockSize  int
	blockBytes int
}

var typeInfos = [numTypes]typeInfo{
	F32:  {"f32", 1, 4},
	F16:  {"f16", 1, 2},
	BF16: {"bf16", 1, 2},
	Q8_0: {"q8_0", 32, 34},
	Q4_0: {"q4_0", 32, 18},
	Q4_1: {"q4_1", 32, 20},
	Q5_0: {"q5_0", 32, 22},
	Q5_1: {"q5_1", 32, 24},
	Q4_K: {"q4_k", 256, 144},
	Q5_K: {"q5_k", 256, 176},
	Q6_K: {"q6_k", 256, 210},
	MLX4: {"mlx4", 8, 4},
	MLX8: {"mlx8", 4, 4},
}

// String returns the usual lower-case name: "f32", "q8_0", "q4_k", "mlx4".
func (t Type) String() string {
	if t >= numTypes {
		return fmt.Sprintf("type(%d)", uint8(t))
	}
	return typeInfos[t].name
}

// BlockSize returns how many consecutive weights of a row are stored together:
// 1 for floats, 32 or 256 for the ggml types, and the weights of one uint32
// word for MLX, whose scales have a coarser group (see [Tensor].Group).
// Columns are always a multiple of it. It is 0 for a value that is no type.
func (t Type) BlockSize() int {
	if t >= numTypes {
		return 0
	}
	return typeInfos[t].blockSize
}

// BlockBytes returns the bytes that BlockSize weights take in [Tensor].Data.
func (t Type) BlockBytes() int {
	if t >= numTypes {
		return 0
	}
	return typeInfos[t].blockBytes
}

// Float reports whether the type is a plain float format: F32, F16 or BF16.
func (t Type) Float() bool { return t <= BF16 }

// rowBytes returns the stored size of one row of cols weights, or an error when
// cols does not fill whole blocks or the size does not fit an int.
func (t Type) rowBytes(cols int) (int, error) {
	size, bytes := t.BlockSize(), t.BlockBytes()
	if cols%size != 0 {
		return 0, fmt.Errorf("rows of %d weights cannot be %s, which stores blocks of %d", cols, t, size)
	}
	blocks := cols / size
	if blocks > math.MaxInt/bytes {
		return 0, fmt.Errorf("rows of %d weights overflow", cols)
	}
	return blocks * bytes, nil
}

// A Tensor is one named array of weights inside an open checkpoint. Its fields
// are read only.
type Tensor struct {
	// Name is the Hugging Face name, StoredName what the file calls it.
	Name, StoredName string
	// Type says how Data is stored.
	Type Type
	// Shape is in Hugging Face order, outermost first: [out, in] for a linear
	// layer. For MLX types it counts weights, not words.
	Shape []int
	// Data holds the rows one after the other, exactly as stored. It is the
	// file mapping: read only, of no guaranteed alignment, and valid until
	// [Checkpoint.Close].
	Data []byte

	// Scales and Biases, of shape [rows, cols/Group] and a float type, and
	// Group, the number of weights that share one pair of them, are set for
	// MLX types only.
	Scales, Biases *Tensor
	Group          int

	rows, cols int
	rowBytes   int
	source     *mapping // nil when Data is ordinary memory
}

// newTensor checks that shape × type is exactly the length of data.
func newTensor(name string, typ Type, shape []int, data []byte, source *mapping) (*Tensor, error) {
	rows, cols, err := matrix(shape)
	if err != nil {
		return nil, err
	}
	rowBytes, err := typ.rowBytes(cols)
	if err != nil {
		return nil, err
	}
	if rowBytes > 0 && rows > math.MaxInt/rowBytes {
		return nil, fmt.Errorf("shape %v of %s overflows", shape, typ)
	}
	if rows*rowBytes != len(data) {
		return nil, fmt.Errorf("shape %v of %s needs %d bytes, the file gives %d", shape, typ, rows*rowBytes, len(data))
	}
	return &Tensor{
		Name: name, StoredName: name, Type: typ, Shape: shape, Data: data,
		rows: rows, cols: cols, rowBytes: rowBytes, source: source,
	}, nil
}

// matrix folds a shape into rows × columns: the columns are the last dimension.
// A scalar is 1 × 1 and a vector one row.
func matrix(shape []int) (rows, cols int, err error) {
	rows, cols = 1, 1
	for i, n := range shape {
		if n < 0 {
			return 0, 0, fmt.Errorf("shape %v has a negative dimension", shape)
		}
		if i == len(shape)-1 {
			cols = n
			break
		}
		if n > 0 && rows > math.MaxInt/n {
			return 0, 0, fmt.Errorf("shape %v overflows", shape)
		}
		rows *= n
	}
	if cols > 0 && rows > math.MaxInt/cols {
		return 0, 0, fmt.Errorf("shape %v overflows", shape)
	}
	return rows, cols, nil
}

// Rows returns the product of all dimensions but the last: the output width of
// a linear layer, 1 for a vector.
func (t *Tensor) Rows() int { return t.rows }

// Cols returns the last dimension: the input width of a linear layer, the
// length of a vector.
func (t *Tensor) Cols() int { return t.cols }

// RowBytes returns row i as stored, Cols/BlockSize blocks. It is part of the
// mapping: read only and valid until [Checkpoint.Close].
// The index must be in [0, Rows).
func (t *Tensor) RowBytes(i int) []byte {
	start := i * t.rowBytes
	return t.Data[start : start+t.rowBytes : start+t.rowBytes]
}

// Size returns the bytes the tensor takes in the file, scales and biases
// included.
func (t *Tensor) Size() int64 {
	n := int64(len(t.Data))
	if t.Scales != nil {
		n += t.Scales.Size() + t.Biases.Size()
	}
	return n
}

// DropPages tells the system that rows from ≤ i < to will not be needed soon,
// so that their pages stop counting as this process's memory; reading them
// again stays correct and costs a page fault. Loaders call it while they repack
// weights. It is advice: where there is no mapping it does nothing. It may be
// called from many goroutines, also after [Checkpoint.Close].
func (t *Tensor) DropPages(from, to int) {
	from, to = max(from, 0), min(to, t.rows)
	if from >= to {
		return
	}
	t.source.drop(t.Data, from*t.rowBytes, to*t.rowBytes)
	if t.Scales != nil {
		t.Scales.DropPages(from, to)
		t.Biases.DropPages(from, to)
	}
}
