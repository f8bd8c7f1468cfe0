package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A splitter returns the length in bytes of the first word of s, which is not
// empty: at least 1, at most len(s). Each one is a regular expression of a
// published tokenizer written out by hand: Go's regexp has no lookahead, and
// backtracking engines are a hundred times slower.
type splitter func(s string) int

func isLetter(r rune) bool  { return unicode.IsLetter(r) }
func isNumber(r rune) bool  { return unicode.IsNumber(r) }
func isMark(r rune) bool    { return unicode.IsMark(r) }
func isSpace(r rune) bool   { return unicode.IsSpace(r) }
func isNewline(r rune) bool { return r == '\r' || r == '\n' }
func isSlashOrNewline(r rune) bool {
	return r == '/' || isNewline(r)
}
func isLetterOrMark(r rune) bool { return isLetter(r) || isMark(r) }

// isOther is [^\s\p{L}\p{N}].
func isOther(r rune) bool { return !isSpace(r) && !isLetter(r) && !isNumber(r) }

// isOtherNoMark is [^\s\p{L}\p{M}\p{N}].
func isOtherNoMark(r rune) bool { return isOther(r) && !isMark(r) }

// isUpperish is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]; isLowerish is
// [\p{Ll}\p{Lm}\p{Lo}\p{M}]. Letters without case are in both.
func isUpperish(r rune) bool {
	if r < utf8.RuneSelf {
		return 'A' <= r && r <= 'Z'
	}
	return unicode.In(r, unicode.Lu, unicode.Lt, unicode.Lm, unicode.Lo, unicode.M)
}

func isLowerish(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z'
	}
	return unicode.In(r, unicode.Ll, unicode.Lm, unicode.Lo, unicode.M)
}

func isPunctOrSymbol(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }

// span returns the end of the run of runes in class that starts at i.
func span(s string, i int, class func(rune) bool) int {
	for i < len(s) {
		r, w := utf8.DecodeRuneInString(s[i:])
		if !class(r) {
			break
		}
		i += w
	}
	return i
}

// contraction returns the length of (?i:'s|'t|'re|'ve|'m|'ll|'d) at the start
// of s, or 0. U+017F folds to s.
func contraction(s string) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	switch s[1] | 0x20 {
	case 's', 't', 'm', 'd':
		return 2
	}
	if strings.HasPrefix(s[1:], "ſ") {
		return 1 + len("ſ")
	}
	if len(s) > 2 {
		switch (uint16(s[1]|0x20) << 8) | uint16(s[2]|0x20) {
		case 'r'<<8 | 'e', 'v'<<8 | 'e', 'l'<<8 | 'l':
			return 3
		}
	}
	return 0
}

// lowerContraction is contraction without the (?i:…).
func lowerContraction(s string) int {
	if n := contraction(s); n > 0 && s[1:n] == strings.ToLower(s[1:n]) && s[1] < utf8.RuneSelf {
		return n
	}
	return 0
}

// spaces returns the length of \s*[\r\n]+|\s+(?!\S)|\s+ at the start of s,
// which begins with a space: up to the last line break of the run if it has
// one; else all but the last rune, which leads the next word; else all.
func spaces(s string) int { return spaceRun(s, true) }

func spaceRun(s string, breaks bool) int {
	end, lastBreak, lastStart := 0, 0, 0
	for end < len(s) {
		r, w := utf8.DecodeRuneInString(s[end:])
		if !isSpace(r) {
			break
		}
		lastStart = end
		end += w
		if breaks && isNewline(r) {
			lastBreak = end
		}
	}
	switch {
	case lastBreak > 0:
		return lastBreak
	case end == len(s) || lastStart == 0:
		return end
	}
	return lastStart
}

// numbers returns the length of \p{N}{1,most}, given that the first rune of s
// is a number of width w.
func numbers(s string, w, most int) int {
	for k := 1; k < most && w < len(s); k++ {
		r, n := utf8.DecodeRuneInString(s[w:])
		if !isNumber(r) {
			break
		}
		w += n
	}
	return w
}

// splitGPT2 is
// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+.
func splitGPT2(s string) int {
	if n := lowerContraction(s); n > 0 {
		return n
	}
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	for _, class := range [...]func(rune) bool{isLetter, isNumber, isOther} {
		if e := span(s, i, class); e > i {
			return e
		}
	}
	return spaceRun(s, false)
}

// splitCL100k is the family of Llama 3 and Qwen, which differ in how many
// digits make a word and whether marks count as letters:
// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?LETTERS+|\p{N}{1,digits}|
// ?OTHERS+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+.
func splitCL100k(digits int, letters, others func(rune) bool) splitter {
	return func(s string) int {
		if n := contraction(s); n > 0 {
			return n
		}
		r, w := utf8.DecodeRuneInString(s)
		if !isNewline(r) && !isLetter(r) && !isNumber(r) {
			if e := span(s, w, letters); e > w {
				return e
			}
		}
		if letters(r) {
			return span(s, w, letters)
		}
		return rest(s, r, w, digits, others, isNewline)
	}
}

// rest is the tail most patterns share:
// \p{N}{1,digits}| ?OTHERS+TRAIL*|\s*[\r\n]+|\s+(?!\S)|\s+.
func rest(s string, r rune, w, digits int, others, trail func(rune) bool) int {
	if isNumber(r) {
		return numbers(s, w, digits)
	}
	i := 0
	if r == ' ' {
		i = 1
	}
	if e := span(s, i, others); e > i {
		return span(s, e, trail)
	}
	if !isSpace(r) {
		return w // matched by no branch; a word of its own
	}
	return spaces(s)
}

// splitCased is the family of o200k (GPT-4o, gpt-oss) and Tekken (Mistral),
// which cut words where case changes. X = [^\r\n\p{L}\p{N}]?, U and L the two
// classes above, C an optional contraction:
// XU*L+C|XU+L*C|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+.
func splitCased(digits int, contractions bool) splitter {
	tail := func(s string) int {
		if contractions {
			return contraction(s)
		}
		return 0
	}
	return func(s string) int {
		r, w := utf8.DecodeRuneInString(s)
		starts := [2]int{0, -1}
		if !isNewline(r) && !isLetter(r) && !isNumber(r) {
			starts = [2]int{w, 0} // the optional first rune is taken first, then left out
		}
		for _, start := range starts {
			if start >= 0 {
				if e := lowerWord(s, start); e > 0 {
					return e + tail(s[e:])
				}
			}
		}
		for _, start := range starts {
			if start >= 0 {
				if upper := span(s, start, isUpperish); upper > start {
					e := span(s, upper, isLowerish)
					return e + tail(s[e:])
				}
			}
		}
		return rest(s, r, w, digits, isOther, isSlashOrNewline)
	}
}

// lowerWord returns the end of U*L+ at start, or 0. When nothing of L follows
// the run of U, the run gives back runes until its last one is in both.
func lowerWord(s string, start int) int {
	upper := span(s, start, isUpperish)
	if e := span(s, upper, isLowerish); e > upper {
		return e
	}
	for p := upper; p > start; {
		r, w := utf8.DecodeLastRuneInString(s[start:p])
		if isLowerish(r) {
			return p
		}
		p -= w
	}
	return 0
}

// splitDeepSeek is [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|
// [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+, whose gaps (digits, other runes) are words too.
func splitDeepSeek(s string) int {
	if n := deepSeekMatch(s); n > 0 {
		return n
	}
	i := 0
	for i < len(s) && deepSeekMatch(s[i:]) == 0 {
		_, w := utf8.DecodeRuneInString(s[i:])
		i += w
	}
	return i
}

// deepSeekMatch returns the length of the match at the start of s, or 0.
func deepSeekMatch(s string) int {
	r, w := utf8.DecodeRuneInString(s)
	if r < utf8.RuneSelf && isPunctOrSymbol(r) {
		if e := span(s, w, isASCIILetter); e > w {
			return e
		}
	}
	if !isNewline(r) && !isLetter(r) && !isPunctOrSymbol(r) {
		if e := span(s, w, isLetterOrMark); e > w {
			return e
		}
	}
	if isLetterOrMark(r) {
		return span(s, w, isLetterOrMark)
	}
	i := 0
	if r == ' ' {
		i = 1
	}
	if e := span(s, i, isPunctOrSymbol); e > i {
		return span(s, e, isNewline)
	}
	if isSpace(r) {
		return spaces(s)
	}
	return 0
}

func isASCIILetter(r rune) bool { return 'a' <= r|0x20 && r|0x20 <= 'z' && r < utf8.RuneSelf }

// isolate cuts runs of class, at most most runes long, from what surrounds
// them; both sides are words.
func isolate(class func(rune) bool, most int) splitter {
	return func(s string) int {
		r, w := utf8.DecodeRuneInString(s)
		if !class(r) {
			return span(s, w, func(r rune) bool { return !class(r) })
		}
		for k := 1; k < most && w < len(s); k++ {
			r, n := utf8.DecodeRuneInString(s[w:])
			if !class(r) {
				break
			}
			w += n
		}
		return w
	}
}

// isCJKWord is [一-龥぀-ゟ゠-ヿ].
func isCJKWord(r rune) bool {
	return '一' <= r && r <= '龥' || 0x3040 <= r && r <= 0x309F || 0x30A0 <= r && r <= 0x30FF
}

// mergedWithPrevious cuts after every mark; mergedWithNext before every mark.
func mergedWithPrevious(mark string) splitter {
	return func(s string) int {
		if i := strings.Index(s, mark); i >= 0 {
			return i + len(mark)
		}
		return len(s)
	}
}

func mergedWithNext(mark string) splitter {
	return func(s string) int {
		from := 0
		if strings.HasPrefix(s, mark) {
			from = len(mark)
		}
		if i := strings.Index(s[from:], mark); i >= 0 && from+i > 0 {
			return from + i
		}
		return len(s)
	}
}
