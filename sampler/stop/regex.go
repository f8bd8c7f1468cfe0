package stop

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// Unbounded is the length of an expression without a longest match.
const Unbounded = 1 << 30

// RegexLength returns the length in runes of the longest text that expr (RE2
// syntax) can match: a literal, class or any counts 1 a rune, branches their
// maximum, repeats are multiplied, and what has no bound is [Unbounded]. An
// expression that does not parse or that matches only, or also, the empty text
// is an error: it would stop every answer at once.
func RegexLength(expr string) (int, error) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return 0, fmt.Errorf("%q is not valid: %w", expr, err)
	}
	if regexp.MustCompile(expr).MatchString("") {
		return 0, fmt.Errorf("%q is not valid: it matches the empty text, want one that does not", expr)
	}
	return longest(re), nil
}

func longest(re *syntax.Regexp) int {
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1
	case syntax.OpCapture, syntax.OpQuest:
		return longest(re.Sub[0])
	case syntax.OpStar, syntax.OpPlus:
		return times(longest(re.Sub[0]), Unbounded)
	case syntax.OpRepeat:
		if re.Max < 0 {
			return times(longest(re.Sub[0]), Unbounded)
		}
		return times(longest(re.Sub[0]), re.Max)
	case syntax.OpConcat:
		n := 0
		for _, s := range re.Sub {
			n = min(n+longest(s), Unbounded)
		}
		return n
	case syntax.OpAlternate:
		n := 0
		for _, s := range re.Sub {
			n = max(n, longest(s))
		}
		return n
	}
	return 0 // empty matches, anchors, and what matches nothing
}

func times(a, b int) int {
	if a == 0 || b == 0 {
		return 0
	}
	if a > Unbounded/b {
		return Unbounded
	}
	return a * b
}

// expression is a compiled stop expression.
type expression struct {
	text    string
	length  int
	atStart *regexp.Regexp // on text that begins where the answer begins
	inside  *regexp.Regexp // on text with one rune before it, which it consumes
	eager   bool           // asserts something about the end of the text
}

func newExpression(text string) (expression, error) {
	n, err := RegexLength(text)
	if err != nil {
		return expression{}, err
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return expression{}, err
	}
	inside, err := regexp.Compile(`(?s:.)(?:` + text + `)`)
	if err != nil {
		return expression{}, fmt.Errorf("%q is not valid: %w", text, err)
	}
	return expression{text, n, regexp.MustCompile(text), inside, looksAhead(tree)}, nil
}

// looksAhead reports whether more text can make a match disappear.
func looksAhead(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpEndLine, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	}
	for _, s := range re.Sub {
		if looksAhead(s) {
			return true
		}
	}
	return false
}

// first finds the shortest prefix of b, longer than fresh bytes, in which the
// expression matches, and the leftmost match in it. before is the rune before
// b, or −1. Prefixes of up to fresh bytes are known not to match.
func (e *expression) first(b []byte, fresh int, before rune) (found, bool) {
	if !e.eager {
		if _, ok := e.match(b, before); !ok {
			return found{}, false // then no prefix matches either
		}
	}
	for end := fresh; end < len(b); {
		_, size := utf8.DecodeRune(b[end:])
		end += size
		if start, ok := e.match(b[:end], before); ok {
			return found{start, end, e.text}, true
		}
	}
	return found{}, false
}

// match returns where the leftmost match in b starts.
func (e *expression) match(b []byte, before rune) (int, bool) {
	if before < 0 {
		m := e.atStart.FindIndex(b)
		if m == nil {
			return 0, false
		}
		return m[0], true
	}
	text := append(utf8.AppendRune(nil, before), b...)
	m := e.inside.FindIndex(text)
	if m == nil {
		return 0, false
	}
	_, skip := utf8.DecodeRune(text[m[0]:])
	return m[0] + skip - utf8.RuneLen(before), true
}
