// Package layout is what the generators know of the packed layouts: the same
// facts as layout.go and kernels_attention.go of package cpu.
package layout

const (
	Tile    = 8    // most rows of a quantized linear tile
	Pairs   = 6    // most pairs of an attention tile, most rows of a float tile
	ScoreLd = 1024 // bytes between rows of scores: 256 float32
	QueryLd = 2112 // bytes between rows of queries: 528 float32
)

// Offsets in a record of 32 activations.
const (
	RecordBytes = 48
	Scale       = 32 // f32
	Sum         = 36 // i32, −128·Σq
	First       = 40 // i32, −32·Σq of the first half
	Total       = 44 // f32, scale·Σq
)

// ScaleKind says what lies beside the weights.
type ScaleKind int

// The kinds of scales.
const (
	ScaleHalf ScaleKind = iota
	ScaleHalfMin
	ScaleSuper
	ScaleSuper6
	ScaleFloatMin
)

// Format is a packed form of block-quantized weights.
type Format struct {
	Name   string
	Bits   int
	Offset int // added to weights to make them unsigned
	Scales ScaleKind
}

// Formats are all packed forms.
var Formats = []Format{
	{"Q8", 8, 128, ScaleHalf},
	{"Q4", 4, 8, ScaleHalf},
	{"Q4Min", 4, 0, ScaleHalfMin},
	{"Q5", 5, 16, ScaleHalf},
	{"Q5Min", 5, 0, ScaleHalfMin},
	{"Q4K", 4, 0, ScaleSuper},
	{"Q5K", 5, 0, ScaleSuper},
	{"Q6K", 6, 32, ScaleSuper6},
	{"MLX4", 4, 0, ScaleFloatMin},
	{"MLX8", 8, 0, ScaleFloatMin},
}

// Super tells whether blocks come in super-blocks of 8.
func (f Format) Super() bool { return f.Scales == ScaleSuper || f.Scales == ScaleSuper6 }

// BlockBytes is the size of a block of 16 × 32 weights.
func (f Format) BlockBytes() int { return f.Bits * 64 }

// HighLine is the line, counted from the block's start, that holds the high
// bits of the four columns of step t, and how far they must be shifted to the
// left (to the right if negative) to lie on top of a nibble.
func (f Format) HighLine(t int) (line, shift int) {
	if f.Bits == 6 {
		return 4 + t/4, 4 - t%4*2
	}
	return 4, 4 - t
}
