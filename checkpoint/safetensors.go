package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"
)

const (
	safetensorsMaxHeader = 100 << 20 // the reference implementation's limit
	safetensorsMaxDims   = 8
)

// dtypeSizes holds the bytes per element of the dtypes of safetensors.
var dtypeSizes = map[string]int{
	"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1,
	"I16": 2, "U16": 2, "F16": 2, "BF16": 2,
	"I32": 4, "U32": 4, "F32": 4,
	"F64": 8, "I64": 8, "U64": 8, "C64": 8,
}

// A stored array is one checked entry of a safetensors file.
type storedArray struct {
	name   string
	dtype  string
	shape  []int
	data   []byte
	source *mapping
}

// parseSafetensors checks a whole file and cuts it into arrays; headerSize is
// where the data begins.
// The format: https://github.com/huggingface/safetensors (README, "Format").
func parseSafetensors(m *mapping) (arrays map[string]*storedArray, headerSize int, err error) {
	if len(m.data) < 8 {
		return nil, 0, fmt.Errorf("has %d bytes, a safetensors file begins with 8 bytes of header length", len(m.data))
	}
	n := binary.LittleEndian.Uint64(m.data)
	if n > safetensorsMaxHeader || n > uint64(len(m.data)-8) {
		return nil, 0, fmt.Errorf("claims a header of %d bytes in a file of %d (at most %d are allowed): it is truncated or no safetensors file",
			n, len(m.data), safetensorsMaxHeader)
	}
	headerSize = 8 + int(n)
	arrays = make(map[string]*storedArray)
	var spans []span
	err = eachMember(m.data[8:headerSize], func(name string, value json.RawMessage) error {
		if name == "__metadata__" {
			return nil
		}
		a, s, err := cutArray(m, headerSize, name, value)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		arrays[name] = a
		spans = append(spans, s)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	if err := checkOverlap(spans); err != nil {
		return nil, 0, err
	}
	return arrays, headerSize, checkGaps(spans, headerSize, len(m.data))
}

// checkGaps refuses bytes that belong to no tensor, as the format demands: they
// could hide something, and mean that the header belongs to another file.
// The spans are sorted and do not overlap.
func checkGaps(spans []span, start, end int) error {
	for _, s := range spans {
		if s.start != start {
			return fmt.Errorf("bytes %d to %d before tensor %q belong to no tensor", start, s.start, s.name)
		}
		start = s.end
	}
	if start != end {
		return fmt.Errorf("the last %d bytes belong to no tensor: header and data do not fit together", end-start)
	}
	return nil
}

// cutArray checks one header entry and slices the mapping.
func cutArray(m *mapping, headerSize int, name string, value json.RawMessage) (*storedArray, span, error) {
	// A map, since a struct's fields would also take "Dtype" or "shaPe".
	entry := jsonObject{problems: &problems{}}
	if err := json.Unmarshal(value, &entry.members); err != nil {
		return nil, span{}, fmt.Errorf("is %.60s, expected {dtype, shape, data_offsets}", value)
	}
	dtype, dims, offsets := entry.string("dtype", ""), entry.integers("shape"), entry.integers("data_offsets")
	for _, key := range []string{"dtype", "shape", "data_offsets"} {
		if !entry.has(key) {
			entry.add("has no %s, expected {dtype, shape, data_offsets}", key)
		}
	}
	if entry.first != nil {
		return nil, span{}, entry.first
	}
	if name == "" || !utf8.ValidString(name) {
		return nil, span{}, errors.New("the name is not text")
	}
	size, ok := dtypeSizes[dtype]
	if !ok {
		return nil, span{}, fmt.Errorf("unknown dtype %q", dtype)
	}
	if len(dims) > safetensorsMaxDims {
		return nil, span{}, fmt.Errorf("has %d dimensions, at most %d are allowed", len(dims), safetensorsMaxDims)
	}
	shape := make([]int, len(dims))
	for i, d := range dims {
		if d < 0 || d > math.MaxInt/2 {
			return nil, span{}, fmt.Errorf("has a dimension of %d", d)
		}
		shape[i] = int(d)
	}
	rows, cols, err := matrix(shape)
	if err != nil {
		return nil, span{}, err
	}
	if n := rows * cols; n > math.MaxInt/size {
		return nil, span{}, fmt.Errorf("shape %v of %s overflows", shape, dtype)
	}
	if len(offsets) != 2 {
		return nil, span{}, fmt.Errorf("has %d data_offsets, expected begin and end", len(offsets))
	}
	begin, end, room := offsets[0], offsets[1], int64(len(m.data)-headerSize)
	if begin < 0 || begin > end || end > room {
		return nil, span{}, fmt.Errorf("data_offsets %d to %d do not lie in the file's %d bytes of data: it is truncated or damaged", begin, end, room)
	}
	if want := int64(rows * cols * size); end-begin != want {
		return nil, span{}, fmt.Errorf("shape %v of %s needs %d bytes, data_offsets give %d", shape, dtype, want, end-begin)
	}
	from, to := headerSize+int(begin), headerSize+int(end)
	return &storedArray{name, dtype, shape, m.data[from:to:to], m}, span{name, from, to}, nil
}

// eachMember calls visit for every member of a JSON object. Unlike
// [json.Unmarshal] it refuses a name that appears twice, of which a reader would
// otherwise silently see only the last.
func eachMember(object []byte, visit func(name string, value json.RawMessage) error) error {
	dec := json.NewDecoder(bytes.NewReader(object))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.New("expected a JSON object")
	}
	seen := make(map[string]bool)
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return fmt.Errorf("malformed JSON: %w", err)
		}
		name := key.(string) // the decoder lets nothing else stand here
		if seen[name] {
			return fmt.Errorf("%q appears twice", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return fmt.Errorf("malformed JSON at %q: %w", name, err)
		}
		if err := visit(name, value); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("malformed JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON object")
	}
	return nil
}
