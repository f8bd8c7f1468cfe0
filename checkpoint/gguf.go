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

// Value types of GGUF metadata.
const (
	ggufUint8 uint32 = iota
	ggufInt8
	ggufUint16
	ggufInt16
	ggufUint32
	ggufInt32
	ggufFloat32
	ggufBool
	ggufString
	ggufArray
	ggufUint64
	ggufInt64
	ggufFloat64
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

func readMetadata(c *cursor, keys uint64) Metadata {
	md := Metadata{values: make(map[string]any)}
	for i := uint64(0); i < keys && c.err == nil; i++ {
		key := c.str(fmt.Sprintf("metadata key %d", i), ggufMaxKeyBytes)
		typ := c.u32("the type of " + key)
		if c.err != nil {
			break
		}
		if _, twice := md.values[key]; twice {
			c.fail("metadata key %q appears twice", key)
			break
		}
		if typ == ggufArray {
			md.values[key] = readArray(c, key)
		} else {
			md.values[key] = readScalar(c, key, typ)
		}
	}
	return md
}

// ggufSizes holds the bytes of each fixed-size value type, 0 for the others.
var ggufSizes = [...]uint64{
	ggufUint8: 1, ggufInt8: 1, ggufUint16: 2, ggufInt16: 2, ggufUint32: 4, ggufInt32: 4, ggufFloat32: 4,
	ggufBool: 1, ggufUint64: 8, ggufInt64: 8, ggufFloat64: 8,
}

func readScalar(c *cursor, key string, typ uint32) any {
	if typ == ggufString {
		return c.str("the value of "+key, uint64(len(c.data)))
	}
	if typ >= uint32(len(ggufSizes)) || ggufSizes[typ] == 0 {
		c.fail("metadata key %q has value type %d, known types are 0 to %d", key, typ, len(ggufSizes)-1)
		return nil
	}
	b := c.take(ggufSizes[typ], "the value of "+key)
	if b == nil {
		return nil
	}
	v, err := scalar(b, typ)
	if err != nil {
		c.fail("metadata key %q: %w", key, err)
	}
	return v
}

// scalar widens one fixed-size value to int64, uint64 (above the range of
// int64), float64 or bool.
func scalar(b []byte, typ uint32) (any, error) {
	var u uint64
	for i, x := range b {
		u |= uint64(x) << (8 * i)
	}
	switch typ {
	case ggufInt8:
		return int64(int8(u)), nil
	case ggufInt16:
		return int64(int16(u)), nil
	case ggufInt32:
		return int64(int32(u)), nil
	case ggufInt64:
		return int64(u), nil
	case ggufFloat32:
		return float64(math.Float32frombits(uint32(u))), nil
	case ggufFloat64:
		return math.Float64frombits(u), nil
	case ggufBool:
		if u > 1 {
			return nil, fmt.Errorf("a boolean is %d, expected 0 or 1", u)
		}
		return u == 1, nil
	}
	if u > math.MaxInt64 {
		return u, nil
	}
	return int64(u), nil
}

// readArray reads an array of scalars or strings. Arrays of arrays exist in the
// format but in no model; refusing them bounds the recursion.
func readArray(c *cursor, key string) any {
	typ, n := c.u32("the element type of "+key), c.u64("the length of "+key)
	if c.err != nil {
		return nil
	}
	if typ == ggufArray {
		c.fail("metadata key %q is an array of arrays, which is not supported", key)
		return nil
	}
	size := uint64(8) // a string takes at least its length
	if typ != ggufString {
		if typ >= uint32(len(ggufSizes)) || ggufSizes[typ] == 0 {
			c.fail("metadata key %q has element type %d, known types are 0 to %d", key, typ, len(ggufSizes)-1)
			return nil
		}
		size = ggufSizes[typ]
	}
	if n > ggufMaxArray || n > uint64(c.left())/size {
		c.fail("metadata key %q claims an array of %d elements; at most %d are allowed, and %d bytes are left", key, n, ggufMaxArray, c.left())
		return nil
	}
	switch typ {
	case ggufString:
		return readStrings(c, key, int(n))
	case ggufFloat32, ggufFloat64:
		return readNumbers[float64](c, key, typ, int(n))
	case ggufBool:
		return readNumbers[bool](c, key, typ, int(n))
	default:
		return readNumbers[int64](c, key, typ, int(n))
	}
}

func readNumbers[T any](c *cursor, key string, typ uint32, n int) []T {
	out := make([]T, 0, n)
	for i := range n {
		v, err := scalar(c.take(ggufSizes[typ], key), typ)
		x, ok := v.(T)
		if err == nil && !ok {
			err = fmt.Errorf("%v is out of range", v)
		}
		if err != nil {
			c.fail("metadata key %q, element %d: %w", key, i, err)
			return nil
		}
		out = append(out, x)
	}
	return out
}

// readStrings reads n strings, which then share one copy of their bytes: a
// vocabulary has hundreds of thousands.
func readStrings(c *cursor, key string, n int) []string {
	start := c.pos
	for range n {
		c.take(c.u64("the strings of "+key), "the strings of "+key)
	}
	if c.err != nil {
		return nil
	}
	shared := string(c.data[start:c.pos])
	again := &cursor{data: c.data[start:c.pos]}
	out := make([]string, n)
	for i := range out {
		size := int(again.u64(key))
		out[i] = shared[again.pos : again.pos+size]
		again.pos += size
	}
	return out
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
