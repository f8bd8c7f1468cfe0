package tokenizer

import "unicode/utf8"

// Byte-level vocabularies write each byte as a printable character: those that
// are printable in Latin-1 as themselves, the others, in order, as U+0100 and
// up (the convention of GPT-2's encoder).

// byteRune returns the character that stands for a byte.
func byteRune(b byte) rune {
	switch {
	case isPlainByte(b):
		return rune(b)
	case b <= ' ':
		return 0x100 + rune(b)
	case b <= 0xA0:
		return 0x100 + 33 + rune(b) - 0x7F
	}
	return 0x100 + 67 // 0xAD, the soft hyphen
}

func isPlainByte(b byte) bool {
	return b >= '!' && b <= '~' || b >= 0xA1 && b != 0xAD
}

// runeByte is the inverse of byteRune.
func runeByte(r rune) (byte, bool) {
	switch {
	case r < 0x100:
		return byte(r), isPlainByte(byte(r))
	case r <= 0x120:
		return byte(r - 0x100), true
	case r <= 0x142:
		return byte(r - 0x100 - 33 + 0x7F), true
	case r == 0x143:
		return 0xAD, true
	}
	return 0, false
}

// appendBytes appends the bytes that a byte-level token stands for. ok is false
// if a character of it stands for no byte; such tokens are their own text.
func appendBytes(dst []byte, token []byte) (out []byte, ok bool) {
	for i := 0; i < len(token); {
		r, w := utf8.DecodeRune(token[i:])
		b, ok := runeByte(r)
		if !ok {
			return dst, false
		}
		dst = append(dst, b)
		i += w
	}
	return dst, true
}
