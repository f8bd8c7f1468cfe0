package tokenizer

import "unicode/utf8"

// Decode returns the text of ids: their bytes one after the other, with every
// maximal invalid UTF-8 sequence replaced by U+FFFD, as Rust and the WHATWG do.
// skipSpecial leaves control tokens out. Ids outside the vocabulary stand for
// nothing. Models that put a space in front of every text (Llama 2) lose that
// space again at the start.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	d := t.NewDecoder(skipSpecial)
	out := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		out = d.append(out, id)
	}
	return string(d.finish(out))
}

// Decoder turns a stream of ids into text piece by piece. What it returns is
// whole UTF-8 at every step; a character whose bytes are spread over tokens
// appears with its last byte. It is a small value: copying it (or calling
// [Decoder.Fork]) forks the stream.
type Decoder struct {
	t           *Tokenizer
	skipSpecial bool
	atStart     bool // the next text may lose its leading space
	held        [utf8.UTFMax]byte
	nHeld       uint8 // bytes of an unfinished character in held
}

// NewDecoder starts a stream whose concatenated output equals Decode of the
// same ids.
func (t *Tokenizer) NewDecoder(skipSpecial bool) *Decoder {
	return &Decoder{t: t, skipSpecial: skipSpecial, atStart: t.stripSpace}
}

// NewDecoderAfter starts a stream that continues prefix: it returns what
// follows the text of prefix, so a model that goes on with a new word keeps the
// space before it, and a character begun in prefix is finished.
func (t *Tokenizer) NewDecoderAfter(prefix []int32, skipSpecial bool) *Decoder {
	d := t.NewDecoder(skipSpecial)
	for _, id := range prefix {
		d.append(nil, id)
	}
	return d
}

// Fork returns an independent copy of the stream's state.
func (d *Decoder) Fork() *Decoder {
	c := *d
	return &c
}

// Push adds one id and returns the text that is now certain, possibly none.
func (d *Decoder) Push(id int32) string {
	var buf [64]byte
	return string(d.append(buf[:0], id))
}

// Flush ends the stream and returns what was held back: U+FFFD for an
// unfinished character, else nothing. The Decoder may be used again, as if it
// continued.
func (d *Decoder) Flush() string { return string(d.finish(nil)) }

func (d *Decoder) append(dst []byte, id int32) []byte {
	v := d.t.vocab
	if id < 0 || int(id) >= len(v.pieces) || d.skipSpecial && v.flags[id]&flagSpecial != 0 {
		return dst
	}
	piece := v.pieces[id]
	if piece == "" {
		return dst
	}
	if d.atStart {
		d.atStart = false
		if piece[0] == ' ' {
			piece = piece[1:]
		}
	}
	if d.nHeld == 0 {
		if utf8.ValidString(piece) {
			return append(dst, piece...)
		}
		return d.decode(dst, []byte(piece))
	}
	joined := append(append(make([]byte, 0, 64), d.held[:d.nHeld]...), piece...)
	return d.decode(dst, joined)
}

// decode appends b as valid UTF-8 and holds back an unfinished character.
func (d *Decoder) decode(dst, b []byte) []byte {
	d.nHeld = 0
	for len(b) > 0 {
		if r, w := utf8.DecodeRune(b); r != utf8.RuneError || w > 1 {
			dst = append(dst, b[:w]...)
			b = b[w:]
			continue
		}
		n := begunLen(b)
		if n == len(b) {
			d.nHeld = uint8(copy(d.held[:], b))
			return dst
		}
		dst = utf8.AppendRune(dst, utf8.RuneError)
		b = b[max(n, 1):]
	}
	return dst
}

func (d *Decoder) finish(dst []byte) []byte {
	if d.nHeld > 0 {
		d.nHeld = 0
		dst = utf8.AppendRune(dst, utf8.RuneError)
	}
	return dst
}

// begunLen returns how many bytes at the start of b, which does not start with
// a whole character, begin one (Unicode Standard, table 3-7).
func begunLen(b []byte) int {
	lo, hi, want := byte(0x80), byte(0xBF), 0
	switch c := b[0]; {
	case c >= 0xC2 && c <= 0xDF:
		want = 2
	case c >= 0xE0 && c <= 0xEF:
		want = 3
		if c == 0xE0 {
			lo = 0xA0
		} else if c == 0xED {
			hi = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		want = 4
		if c == 0xF0 {
			lo = 0x90
		} else if c == 0xF4 {
			hi = 0x8F
		}
	default:
		return 0
	}
	n := 1
	for n < want && n < len(b) && b[n] >= lo && b[n] <= hi {
		n++
		lo, hi = 0x80, 0xBF
	}
	return n
}
