package stop

import (
	"fmt"
	"regexp"
	"regexp/syntax"
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
