package compute

import "surmise/checkpoint"

// Buffer is a run of float32 in memory that both the device and the host can
// reach. The host may read or write it only while no Run is under way.
type Buffer interface {
	// Len is the number of float32 values.
	Len() int
	// Host is the buffer's memory, Len values long.
	Host() []float32
}

// Linear is a weight matrix [out, in] in a device's own layout, with an
// optional bias [out]. It is immutable and may be shared by programs.
type Linear interface {
	In() int
	Out() int
	// Bytes is the memory one pass over the weights reads.
	Bytes() int64
	// MACs is the number of multiply-adds for one row.
	MACs() int64
	// Quantized tells whether activations are quantized to int8 for it.
	Quantized() bool
}

// Table is a matrix [rows, cols] of which single rows are read: an embedding.
type Table interface {
	Rows() int
	Cols() int
}

// LinearPart is a run of output rows of a Linear. A Linear of several parts
// (query, key and value; gate and up) quantizes its input once and writes the
// parts' outputs side by side in the order given.
type LinearPart struct {
	Weight *checkpoint.Tensor // [out, in]
	Bias   *checkpoint.Tensor // [out] or nil
	// Row maps an output row to the row of Weight (and Bias) it is taken from;
	// nil is the identity. It must be a permutation of 0…out−1.
	Row func(int) int
	// Quantize converts float weights while loading: checkpoint.Q8_0 or
	// checkpoint.Q4_0. checkpoint.F32 (the zero value) keeps what is stored.
	Quantize checkpoint.Type
}

// KVType is the number format of a key/value cache.
type KVType uint8

// The formats a cache can be kept in.
const (
	KVF16 KVType = iota // IEEE binary16, rounded to nearest even when stored
	KVF32
)

// Bytes is the size of one element.
func (t KVType) Bytes() int {
	if t == KVF32 {
		return 4
	}
	return 2
}

func (t KVType) String() string {
	if t == KVF32 {
		return "f32"
	}
	return "f16"
}

// PageSize is the number of positions in a page of a key/value cache.
const PageSize = 64

// KVSpec says what a page store holds: Pages pages of PageSize positions, each
// with Heads keys and values of HeadDim elements for every one of Layers layers.
type KVSpec struct {
	Layers, Heads, HeadDim, Pages int
	Type                          KVType
}

// PageBytes is the memory of one page.
func (s KVSpec) PageBytes() int64 {
	return 2 * int64(s.Layers) * int64(s.Heads) * int64(s.HeadDim) * PageSize * int64(s.Type.Bytes())
}

// KV is a store of key/value pages on a device. Which sequence owns which page
// is not its business. Memory of a page is committed when first written.
type KV interface {
	Spec() KVSpec
	// CopyPage copies the whole of page src to page dst. It must not overlap a Run.
	CopyPage(dst, src int)
	// FillPage sets every element of a page: a test fills stale pages with NaN.
	FillPage(page int, v float32)
	// Close gives the memory back.
	Close() error
}

// Device runs programs. Every implementation gives the bits of package canon
// for every operation, whatever its threads, layout or instruction set; the
// suite in package conformance is the proof.
//
// A Device is used by one goroutine at a time.
type Device interface {
	// Name says which device and instruction set, e.g. "cpu avx512 2 threads".
	Name() string
	// Threads is the number of workers (1 for a GPU).
	Threads() int
	// Alloc gives a zeroed buffer of n values.
	Alloc(n int) (Buffer, error)
	// LoadLinear copies parts into the device's layout. All parts share In.
	LoadLinear(parts ...LinearPart) (Linear, error)
	// LoadTable keeps a reference to t's mapping and reads rows from it.
	LoadTable(t *checkpoint.Tensor) (Table, error)
	// NewKV reserves address space for a page store.
	NewKV(spec KVSpec) (KV, error)
	// Run executes the operations in order and returns when every result can
	// be read by the host. The program may be reset and recorded again.
	Run(p *Program) error
	// Close stops the workers. Buffers must not be used afterwards.
	Close() error
}
