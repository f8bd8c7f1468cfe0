package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// EncodeOptions says what is made of text besides its words.
type EncodeOptions struct {
	// AddSpecial puts the tokens around the text that the model expects, such
	// as a beginning-of-sequence token. Leave it off for text that a chat
	// template has rendered: templates write those tokens themselves.
	AddSpecial bool
	// ParseSpecial turns the spelling of a control token in the text, such as
	// <|im_end|>, into that token. Leave it off for text from outside, which
	// must not be able to end a turn. Added tokens that are not control tokens
	// are always found.
	ParseSpecial bool
}

// Encode returns the ids of text. It fails if text is not valid UTF-8 (the
// message names the offset). A part that the vocabulary has no token for, not
// even for its bytes or an unknown token, is left out, as the reference does.
// Encode takes time linear in the text, times the logarithm of the longest word.
func (t *Tokenizer) Encode(text string, opts EncodeOptions) ([]int32, error) {
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("tokenizer: text is not valid UTF-8 at byte %d", invalidAt(text))
	}
	e := encoder{t: t, special: opts.ParseSpecial, out: make([]int32, 0, len(text)/3+8)}
	if opts.AddSpecial {
		e.out = append(e.out, t.prefix...)
	}
	t.raw.scan(text, e.special, e.token, e.segment)
	if opts.AddSpecial {
		e.out = append(e.out, t.suffix...)
	}
	return e.out, nil
}

// encoder is the state of one Encode call.
type encoder struct {
	t       *Tokenizer
	special bool
	out     []int32
}

func (e *encoder) token(id int32) { e.out = append(e.out, id) }

// segment encodes text between added tokens of the raw text.
func (e *encoder) segment(s string, offset int) {
	for _, n := range e.t.normalizers {
		s = n(s)
	}
	e.t.normalized.scan(s, e.special, e.token, func(part string, at int) {
		e.t.pre.each(e.t.pre.prepare(part, offset == 0 && at == 0), e.word)
	})
}

func (e *encoder) word(w string) { e.out = e.t.vocab.word(e.out, w) }

// invalidAt returns the offset of the first byte that is not part of valid
// UTF-8.
func invalidAt(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, w := utf8.DecodeRuneInString(s[i:]); w == 1 {
				return i
			}
		}
	}
	return len(s)
}
