package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// jsonScanner walks a JSON document once, without building it. tokenizer.json
// holds some 10 to 35 MB of vocabulary and merges; encoding/json takes ten times
// as long for them and silently keeps the last of two equal keys.
type jsonScanner struct {
	b []byte
	i int
}

// maxJSONDepth bounds nesting; real files stay under 10.
const maxJSONDepth = 64

func (s *jsonScanner) errorf(format string, args ...any) error {
	return fmt.Errorf("at byte %d: %w", s.i, fmt.Errorf(format, args...))
}

// peek skips white space and returns the next byte, or 0 at the end.
func (s *jsonScanner) peek() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

func (s *jsonScanner) expect(c byte) error {
	if got := s.peek(); got != c {
		if got == 0 && s.i >= len(s.b) {
			return s.errorf("want %q, found the end", c)
		}
		return s.errorf("want %q, found %q", c, got)
	}
	s.i++
	return nil
}

// end fails unless nothing follows.
func (s *jsonScanner) end() error {
	if s.peek(); s.i < len(s.b) {
		return s.errorf("text after the end of the document")
	}
	return nil
}

// object calls field for each key with the scanner at its value, which field
// must consume.
func (s *jsonScanner) object(field func(key []byte) error) error {
	if err := s.expect('{'); err != nil {
		return err
	}
	if s.peek() == '}' {
		s.i++
		return nil
	}
	for {
		key, err := s.string()
		if err != nil {
			return err
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		if err := field(key); err != nil {
			return err
		}
		if s.peek() != ',' {
			return s.expect('}')
		}
		s.i++
	}
}

// array calls element with the scanner at each element, which it must consume.
func (s *jsonScanner) array(element func() error) error {
	if err := s.expect('['); err != nil {
		return err
	}
	if s.peek() == ']' {
		s.i++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if s.peek() != ',' {
			return s.expect(']')
		}
		s.i++
	}
}

// string returns a string's contents, which may alias the document.
func (s *jsonScanner) string() ([]byte, error) {
	if err := s.expect('"'); err != nil {
		return nil, err
	}
	start, escaped := s.i, false
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '\\':
			escaped = true
			s.i++
		case c == '"':
			raw := s.b[start:s.i]
			s.i++
			if !escaped {
				if !utf8.Valid(raw) {
					return nil, s.errorf("string %.60q is not valid UTF-8", raw)
				}
				return raw, nil
			}
			var out string
			if err := json.Unmarshal(s.b[start-1:s.i], &out); err != nil {
				return nil, s.errorf("string %.60q: %w", raw, err)
			}
			return []byte(out), nil
		case c < ' ':
			return nil, s.errorf("control character 0x%02X in a string", c)
		}
	}
	s.i = len(s.b)
	return nil, s.errorf("string without an end")
}

// int returns an integer.
func (s *jsonScanner) int() (int64, error) {
	s.peek()
	start := s.i
	for s.i < len(s.b) && (s.b[s.i] == '-' || s.b[s.i] >= '0' && s.b[s.i] <= '9') {
		s.i++
	}
	n, err := strconv.ParseInt(string(s.b[start:s.i]), 10, 64)
	if err != nil {
		s.i = start
		return 0, s.errorf("want a whole number, found %.20q", s.b[start:min(len(s.b), start+20)])
	}
	return n, nil
}

// value skips one value and returns it as it stands. Only brackets and strings
// are checked: whoever uses the value parses it.
func (s *jsonScanner) value() (json.RawMessage, error) {
	s.peek()
	start, depth := s.i, 0
	for {
		switch c := s.peek(); {
		case c == 0 && s.i >= len(s.b):
			return nil, s.errorf("value without an end")
		case c == '"':
			if _, err := s.string(); err != nil {
				return nil, err
			}
		case c == '{' || c == '[':
			if depth++; depth > maxJSONDepth {
				return nil, s.errorf("nested deeper than %d", maxJSONDepth)
			}
			s.i++
			continue
		case c == '}' || c == ']':
			depth--
			s.i++
		case c == ',' || c == ':':
			if depth == 0 {
				return nil, s.errorf("want a value, found %q", c)
			}
			s.i++
			continue
		default:
			n := bytes.IndexAny(s.b[s.i:], ",:]}[{\" \t\r\n")
			if n < 0 {
				n = len(s.b) - s.i
			}
			s.i += n
		}
		if depth < 0 {
			return nil, s.errorf("unexpected %q", s.b[s.i-1])
		}
		if depth == 0 {
			return s.b[start:s.i], nil
		}
	}
}
