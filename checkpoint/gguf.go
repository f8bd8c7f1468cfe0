package checkpoint

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits on what a GGUF header may claim, far above any real file. They bound
// work and memory by something smaller than the file where that is large.
const (
	ggufMaxTensors  = 1 << 20
	ggufMaxKeys     = 1 << 16
	ggufMaxKeyBytes = 1 << 16
	ggufMaxName     = 1 << 10
	ggufMaxArray    = 1 << 24
	ggufMaxDims     = 4
	ggufAlignment   = 32
)

// ggufTypes maps ggml's type numbers to ours.
var ggufTypes = map[uint32]Type{
	0: F32, 1: F16, 2: Q4_0, 3: Q4_1, 6: Q5_0, 7: Q5_1, 8: Q8_0, 12: Q4_K, 13: Q5_K, 14: Q6_K, 30: BF16,
}

// ggufOtherTypes names what we do not read, for messages.
var ggufOtherTypes = map[uint32]string{
	9: "q8_1", 10: "q2_k", 11: "q3_k", 15: "q8_k", 16: "iq2_xxs", 17: "iq2_xs", 18: "iq3_xxs", 19: "iq1_s",
	20: "iq4_nl", 21: "iq3_s", 22: "iq2_s", 23: "iq4_xs", 24: "i8", 25: "i16", 26: "i32", 27: "i64", 28: "f64",
	29: "iq1_m", 34: "tq1_0", 35: "tq2_0", 39: "mxfp4",
}

// A ggufFile is the checked contents of a GGUF file. Tensors carry the names of
// the file.
type ggufFile struct {
	metadata  Metadata
	tensors   map[string]*Tensor
	dataStart int
}

// ggufInfo is a tensor's entry in the header.
type ggufInfo struct {
	name   string
	typ    Type
	shape  []int
	offset uint64
}

// parseGGUF checks a whole file and cuts it into tensors.
// The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
func parseGGUF(m *mapping) (*ggufFile, error) {
	c := &cursor{data: m.data}
	if magic := c.take(4, "the magic"); c.err == nil && !bytes.Equal(magic, []byte("GGUF")) {
		return nil, fmt.Errorf("starts with %q, a gguf file starts with \"GGUF\"", magic)
	}
	version := c.u32("the version")
	if c.err == nil && version != 2 && version != 3 {
		if swapped := bits.ReverseBytes32(version); swapped == 2 || swapped == 3 {
			return nil, fmt.Errorf("is a big-endian gguf file; only little-endian ones are read")
		}
		return nil, fmt.Errorf("has gguf version %d, versions 2 and 3 are read", version)
	}
	tensors, keys := c.u64("the tensor count"), c.u64("the key count")
	// The smallest tensor entry takes 32 bytes, the smallest key 14.
	if c.err == nil && (tensors > ggufMaxTensors || tensors > uint64(c.left())/32) {
		return nil, fmt.Errorf("claims %d tensors in %d bytes", tensors, len(m.data))
	}
	if c.err == nil && (keys > ggufMaxKeys || keys > uint64(c.left())/13) {
		return nil, fmt.Errorf("claims %d metadata keys in %d bytes", keys, len(m.data))
	}
	metadata := readMetadata(c, keys)
	infos := readInfos(c, tensors)
	if c.err != nil {
		return nil, c.err
	}
	alignment, err := ggufAlign(metadata)
	if err != nil {
		return nil, err
	}
	f := &ggufFile{metadata: metadata, dataStart: min((c.pos+alignment-1)/alignment*alignment, len(m.data))}
	f.tensors, err = cutTensors(m, infos, f.dataStart, alignment)
	return f, err
}

func ggufAlign(md Metadata) (int, error) {
	if md.Value("general.alignment") == nil {
		return ggufAlignment, nil
	}
	a, ok := md.smallInt("general.alignment")
	if !ok || a < 1 || a > 1<<20 || a&(a-1) != 0 {
		return 0, fmt.Errorf("general.alignment is %v, expected a power of two up to %d", md.Value("general.alignment"), 1<<20)
	}
	return a, nil
}

func readInfos(c *cursor, n uint64) []ggufInfo {
	var infos []ggufInfo
	for i := uint64(0); i < n && c.err == nil; i++ {
		info := ggufInfo{name: c.str(fmt.Sprintf("the name of tensor %d", i), ggufMaxName)}
		what := fmt.Sprintf("the entry of tensor %q", info.name)
		dims := c.u32(what)
		if c.err == nil && (info.name == "" || !utf8.ValidString(info.name)) {
			c.fail("tensor %d has the name %q, expected UTF-8 text", i, info.name)
		}
		if c.err == nil && (dims < 1 || dims > ggufMaxDims) {
			c.fail("tensor %q has %d dimensions, expected 1 to %d", info.name, dims, ggufMaxDims)
		}
		for j := uint32(0); j < dims && c.err == nil; j++ {
			d := c.u64(what)
			if c.err == nil && (d < 1 || d > math.MaxInt/2) {
				c.fail("tensor %q has a dimension of %d", info.name, d)
			}
			info.shape = append(info.shape, int(d))
		}
		slices.Reverse(info.shape) // ggml counts dimensions from the innermost
		typ := c.u32(what)
		info.offset = c.u64(what)
		if c.err != nil {
			break
		}
		var known bool
		if info.typ, known = ggufTypes[typ]; !known {
			c.fail("tensor %q is stored as %s, which is not supported (supported: %s)", info.name, ggufTypeName(typ), supportedTypes())
		}
		infos = append(infos, info)
	}
	return infos
}

func ggufTypeName(typ uint32) string {
	if name, ok := ggufOtherTypes[typ]; ok {
		return name
	}
	return fmt.Sprintf("ggml type %d", typ)
}

func supportedTypes() string {
	var names []string
	for t := F32; t <= Q6_K; t++ {
		names = append(names, t.String())
	}
	return strings.Join(names, ", ")
}

// cutTensors checks every tensor's range against the file and against the other
// tensors, and slices the mapping.
func cutTensors(m *mapping, infos []ggufInfo, dataStart, alignment int) (map[string]*Tensor, error) {
	tensors := make(map[string]*Tensor, len(infos))
	var spans []span
	for _, info := range infos {
		t, err := cutTensor(m, info, dataStart, alignment)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", info.name, err)
		}
		if _, twice := tensors[info.name]; twice {
			return nil, fmt.Errorf("tensor %q appears twice", info.name)
		}
		tensors[info.name] = t
		start := dataStart + int(info.offset)
		spans = append(spans, span{info.name, start, start + len(t.Data)})
	}
	return tensors, checkOverlap(spans)
}

func cutTensor(m *mapping, info ggufInfo, dataStart, alignment int) (*Tensor, error) {
	rows, cols, err := matrix(info.shape)
	if err != nil {
		return nil, err
	}
	rowBytes, err := info.typ.rowBytes(cols)
	if err != nil {
		return nil, err
	}
	if rows > math.MaxInt/rowBytes {
		return nil, fmt.Errorf("shape %v of %s overflows", info.shape, info.typ)
	}
	if info.offset%uint64(alignment) != 0 {
		return nil, fmt.Errorf("offset %d is not a multiple of the alignment %d", info.offset, alignment)
	}
	size, room := uint64(rows*rowBytes), uint64(len(m.data)-dataStart)
	if info.offset > room || size > room-info.offset {
		return nil, fmt.Errorf("%s %v takes %d bytes from offset %d, but the file holds only %d bytes of tensors: it is truncated or damaged",
			info.typ, info.shape, size, info.offset, room)
	}
	start := dataStart + int(info.offset)
	return newTensor(info.name, info.typ, info.shape, m.data[start:start+int(size):start+int(size)], m)
}

// A span is the byte range of a tensor in its file.
type span struct {
	name       string
	start, end int
}

// checkOverlap sorts the spans by start and reports the first two that share a
// byte.
func checkOverlap(spans []span) error {
	slices.SortFunc(spans, func(a, b span) int {
		if a.start != b.start {
			return a.start - b.start
		}
		return a.end - b.end
	})
	for i := 1; i < len(spans); i++ {
		if a, b := spans[i-1], spans[i]; b.start < a.end {
			return fmt.Errorf("tensors %q (bytes %d to %d) and %q (bytes %d to %d) overlap", a.name, a.start, a.end, b.name, b.start, b.end)
		}
	}
	return nil
}

// openGGUF makes a checkpoint of a mapped GGUF file.
func openGGUF(path string, m *mapping) (*Checkpoint, error) {
	f, err := parseGGUF(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if n, ok := f.metadata.Int("split.count"); ok && n > 1 {
		return nil, fmt.Errorf("%s: is one of %d parts of a split gguf file; merge them first (llama-gguf-split --merge)", path, n)
	}
	c := &Checkpoint{path: path, format: FormatGGUF, metadata: f.metadata, maps: []*mapping{m}}
	if c.tensors, err = translateGGUF(f.tensors); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if c.config, err = ggufConfig(f.metadata, c.tensors); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := c.config.checkShapes(c.tensors, c.refused); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	id := newIdentity()
	id.file("", m.data, f.dataStart)
	c.hash = id.sum()
	return c, nil
}
