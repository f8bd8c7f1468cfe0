package checkpoint

import (
	"fmt"
	"math"
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

// readMetadata reads the key/value pairs behind the header's counts.
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
