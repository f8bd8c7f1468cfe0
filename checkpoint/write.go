package checkpoint

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
)

// An Output is a tensor to be written by [WriteGGUF] or [WriteSafetensors].
type Output struct {
	// Name is written as it is: GGUF names for GGUF.
	Name string
	Type Type
	// Shape is in Hugging Face order and counts weights.
	Shape []int
	// Data holds the rows as [Tensor].Data does; alternatively Write writes
	// exactly that many bytes, so that large files need no memory.
	Data  []byte
	Write func(w io.Writer) error
}

// size checks the tensor and returns its bytes.
func (o *Output) size() (int64, error) {
	rows, cols, err := matrix(o.Shape)
	if err != nil {
		return 0, fmt.Errorf("tensor %q: %w", o.Name, err)
	}
	rowBytes, err := o.Type.rowBytes(cols)
	if err != nil {
		return 0, fmt.Errorf("tensor %q: %w", o.Name, err)
	}
	if rowBytes > 0 && rows > math.MaxInt/rowBytes {
		return 0, fmt.Errorf("tensor %q: shape %v overflows", o.Name, o.Shape)
	}
	n := int64(rows) * int64(rowBytes)
	if o.Write == nil && int64(len(o.Data)) != n {
		return 0, fmt.Errorf("tensor %q: %s %v takes %d bytes, data has %d", o.Name, o.Type, o.Shape, n, len(o.Data))
	}
	return n, nil
}

// write writes the data and checks that it is as long as promised.
func (o *Output) write(w io.Writer, size int64) error {
	if o.Write == nil {
		_, err := w.Write(o.Data)
		return err
	}
	counted := &countingWriter{w: w}
	if err := o.Write(counted); err != nil {
		return fmt.Errorf("tensor %q: %w", o.Name, err)
	}
	if counted.n != size {
		return fmt.Errorf("tensor %q: %d bytes were written, expected %d", o.Name, counted.n, size)
	}
	return nil
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// checkOutputs returns the sizes, and refuses a name that appears twice.
func checkOutputs(tensors []Output) ([]int64, error) {
	seen := make(map[string]bool)
	sizes := make([]int64, len(tensors))
	for i := range tensors {
		if seen[tensors[i].Name] {
			return nil, fmt.Errorf("tensor %q appears twice", tensors[i].Name)
		}
		seen[tensors[i].Name] = true
		var err error
		if sizes[i], err = tensors[i].size(); err != nil {
			return nil, err
		}
	}
	return sizes, nil
}

// ggufCodes is the inverse of ggufTypes.
func ggufCode(t Type) (uint32, bool) {
	for code, typ := range ggufTypes {
		if typ == t {
			return code, true
		}
	}
	return 0, false
}

// WriteGGUF writes a GGUF file of version 3 with the default alignment. Values
// of metadata are bool, string, uint32, int32, uint64, int64, float32, float64,
// or slices of string, bool, uint32, int32, int64, float32; keys are written in
// order, so equal arguments give equal files.
func WriteGGUF(w io.Writer, metadata map[string]any, tensors []Output) error {
	sizes, err := checkOutputs(tensors)
	if err != nil {
		return fmt.Errorf("write gguf: %w", err)
	}
	header, err := ggufHeader(metadata, tensors, sizes)
	if err != nil {
		return fmt.Errorf("write gguf: %w", err)
	}
	buf := bufio.NewWriterSize(w, 1<<16)
	if _, err := buf.Write(header); err != nil {
		return fmt.Errorf("write gguf: %w", err)
	}
	for i := range tensors {
		if err := tensors[i].write(buf, sizes[i]); err != nil {
			return fmt.Errorf("write gguf: %w", err)
		}
		if _, err := buf.Write(make([]byte, ggufPadding(sizes[i]))); err != nil {
			return fmt.Errorf("write gguf: %w", err)
		}
	}
	if err := buf.Flush(); err != nil {
		return fmt.Errorf("write gguf: %w", err)
	}
	return nil
}

func ggufPadding(n int64) int64 { return (ggufAlignment - n%ggufAlignment) % ggufAlignment }

func ggufHeader(metadata map[string]any, tensors []Output, sizes []int64) ([]byte, error) {
	h := []byte("GGUF")
	h = binary.LittleEndian.AppendUint32(h, 3)
	h = binary.LittleEndian.AppendUint64(h, uint64(len(tensors)))
	h = binary.LittleEndian.AppendUint64(h, uint64(len(metadata)))
	for _, key := range sortedKeys(metadata) {
		if key == "general.alignment" {
			return nil, fmt.Errorf("general.alignment is fixed at %d", ggufAlignment)
		}
		var err error
		if h, err = appendValue(appendString(h, key), metadata[key]); err != nil {
			return nil, fmt.Errorf("metadata key %q: %w", key, err)
		}
	}
	offset := int64(0)
	for i, t := range tensors {
		code, ok := ggufCode(t.Type)
		if !ok || len(t.Shape) < 1 || len(t.Shape) > ggufMaxDims || sizes[i] == 0 {
			return nil, fmt.Errorf("tensor %q: %s %v cannot be stored in gguf", t.Name, t.Type, t.Shape)
		}
		h = binary.LittleEndian.AppendUint32(appendString(h, t.Name), uint32(len(t.Shape)))
		for _, d := range slices.Backward(t.Shape) {
			h = binary.LittleEndian.AppendUint64(h, uint64(d))
		}
		h = binary.LittleEndian.AppendUint32(h, code)
		h = binary.LittleEndian.AppendUint64(h, uint64(offset))
		offset += sizes[i] + ggufPadding(sizes[i])
	}
	return append(h, make([]byte, ggufPadding(int64(len(h))))...), nil
}

func appendString(h []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(h, uint64(len(s))), s...)
}

// appendValue appends a value with its type in front.
func appendValue(h []byte, value any) ([]byte, error) {
	typ, payload, err := encodeValue(value)
	if err == nil {
		return append(binary.LittleEndian.AppendUint32(h, typ), payload...), nil
	}
	switch v := value.(type) {
	case []string:
		return appendArray(h, v)
	case []bool:
		return appendArray(h, v)
	case []uint32:
		return appendArray(h, v)
	case []int32:
		return appendArray(h, v)
	case []int64:
		return appendArray(h, v)
	case []float32:
		return appendArray(h, v)
	}
	return nil, err
}

func appendArray[T any](h []byte, values []T) ([]byte, error) {
	var zero T
	elem, _, err := encodeValue(zero)
	if err != nil {
		return nil, err
	}
	h = binary.LittleEndian.AppendUint32(h, ggufArray)
	h = binary.LittleEndian.AppendUint32(h, elem)
	h = binary.LittleEndian.AppendUint64(h, uint64(len(values)))
	for _, v := range values {
		_, payload, err := encodeValue(v)
		if err != nil {
			return nil, err
		}
		h = append(h, payload...)
	}
	return h, nil
}

// encodeValue returns the type number and the bytes of one scalar or string.
func encodeValue(value any) (typ uint32, payload []byte, err error) {
	le := binary.LittleEndian
	switch v := value.(type) {
	case bool:
		if v {
			return ggufBool, []byte{1}, nil
		}
		return ggufBool, []byte{0}, nil
	case string:
		return ggufString, appendString(nil, v), nil
	case uint32:
		return ggufUint32, le.AppendUint32(nil, v), nil
	case int32:
		return ggufInt32, le.AppendUint32(nil, uint32(v)), nil
	case uint64:
		return ggufUint64, le.AppendUint64(nil, v), nil
	case int64:
		return ggufInt64, le.AppendUint64(nil, uint64(v)), nil
	case float32:
		return ggufFloat32, le.AppendUint32(nil, math.Float32bits(v)), nil
	case float64:
		return ggufFloat64, le.AppendUint64(nil, math.Float64bits(v)), nil
	}
	return 0, nil, fmt.Errorf("a %T cannot be stored", value)
}

// safetensorsTypes maps types to dtypes; packed MLX words are U32.
var safetensorsTypes = map[Type]string{F32: "F32", F16: "F16", BF16: "BF16", MLX4: "U32", MLX8: "U32"}

// WriteSafetensors writes a safetensors file. Scales and biases of MLX tensors
// are tensors of their own here. Equal arguments give equal files.
func WriteSafetensors(w io.Writer, metadata map[string]string, tensors []Output) error {
	sizes, err := checkOutputs(tensors)
	if err != nil {
		return fmt.Errorf("write safetensors: %w", err)
	}
	type entry struct {
		Dtype   string   `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	members := make(map[string]any, len(tensors)+1)
	if metadata != nil {
		members["__metadata__"] = metadata
	}
	offset := int64(0)
	for i, t := range tensors {
		dtype, ok := safetensorsTypes[t.Type]
		if !ok || t.Name == "__metadata__" {
			return fmt.Errorf("write safetensors: tensor %q of type %s cannot be stored", t.Name, t.Type)
		}
		shape := append([]int{}, t.Shape...)
		if !t.Type.Float() {
			shape[len(shape)-1] /= t.Type.BlockSize()
		}
		members[t.Name] = entry{dtype, shape, [2]int64{offset, offset + sizes[i]}}
		offset += sizes[i]
	}
	header, err := json.Marshal(members) // sorts the keys
	if err != nil {
		return fmt.Errorf("write safetensors: %w", err)
	}
	for len(header)%8 != 0 { // the format pads with spaces, so that data is aligned
		header = append(header, ' ')
	}
	buf := bufio.NewWriterSize(w, 1<<16)
	if _, err := buf.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)); err != nil {
		return fmt.Errorf("write safetensors: %w", err)
	}
	for i := range tensors {
		if err := tensors[i].write(buf, sizes[i]); err != nil {
			return fmt.Errorf("write safetensors: %w", err)
		}
	}
	if err := buf.Flush(); err != nil {
		return fmt.Errorf("write safetensors: %w", err)
	}
	return nil
}
