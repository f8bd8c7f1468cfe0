package checkpoint

import (
	"encoding/binary"
	"fmt"
)

// A cursor reads little-endian values from untrusted bytes. After the first
// read past the end every further read returns zero and err stays set, so a
// parser may check once per record.
type cursor struct {
	data []byte
	pos  int
	err  error
}

func (c *cursor) left() int { return len(c.data) - c.pos }

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// take returns the next n bytes, or nil after setting err; what names them.
func (c *cursor) take(n uint64, what string) []byte {
	if c.err != nil {
		return nil
	}
	if n > uint64(c.left()) {
		c.fail("the file ends inside %s: %d bytes needed at byte %d, %d left", what, n, c.pos, c.left())
		return nil
	}
	b := c.data[c.pos : c.pos+int(n)]
	c.pos += int(n)
	return b
}

func (c *cursor) u32(what string) uint32 {
	b := c.take(4, what)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint32(b)
}

func (c *cursor) u64(what string) uint64 {
	b := c.take(8, what)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// str reads a length-prefixed string of at most limit bytes.
func (c *cursor) str(what string, limit uint64) string {
	n := c.u64(what)
	if n > limit && c.err == nil {
		c.fail("%s is %d bytes long, at most %d are allowed", what, n, limit)
	}
	return string(c.take(n, what))
}
