package tokenizer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// protoField is one field of a protocol buffer message.
type protoField struct {
	number int
	varint uint64 // wire types 0, 1 and 5
	bytes  []byte // wire type 2
	wire   int
}

// eachField calls field for every field of a message, in order.
func eachField(b []byte, field func(protoField) error) error {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 || tag>>3 == 0 || tag>>3 > math.MaxInt32 {
			return errors.New("not a protocol buffer: bad field tag")
		}
		b = b[n:]
		f := protoField{number: int(tag >> 3), wire: int(tag & 7)}
		switch f.wire {
		case 0:
			if f.varint, n = binary.Uvarint(b); n <= 0 {
				return fmt.Errorf("field %d: bad number", f.number)
			}
		case 1:
			if n = 8; len(b) < n {
				return fmt.Errorf("field %d: cut off", f.number)
			}
			f.varint = binary.LittleEndian.Uint64(b)
		case 2:
			size, w := binary.Uvarint(b)
			if w <= 0 || size > uint64(len(b)-w) {
				return fmt.Errorf("field %d: %d bytes announced, %d left", f.number, size, len(b))
			}
			n = w + int(size)
			f.bytes = b[w:n]
		case 5:
			if n = 4; len(b) < n {
				return fmt.Errorf("field %d: cut off", f.number)
			}
			f.varint = uint64(binary.LittleEndian.Uint32(b))
		default:
			return fmt.Errorf("field %d: wire type %d is unknown", f.number, f.wire)
		}
		b = b[n:]
		if err := field(f); err != nil {
			return err
		}
	}
	return nil
}

// want fails if the field has another wire type than its number calls for.
func (f protoField) want(wire int) error {
	if f.wire != wire {
		return fmt.Errorf("field %d has wire type %d, want %d", f.number, f.wire, wire)
	}
	return nil
}
