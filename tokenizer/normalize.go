package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizer is one step that rewrites text before it is cut into words.
type normalizer func(string) string

// nfc is the normaliser of the Qwen family.
var nfc = form(norm.NFC)

func prepend(prefix string) normalizer {
	return func(s string) string {
		if s == "" {
			return s
		}
		return prefix + s
	}
}

func replace(old, replacement string) normalizer {
	return func(s string) string { return strings.ReplaceAll(s, old, replacement) }
}

// form is a Unicode normalisation form. The norm package inserts U+034F into
// runs of more than 30 combining marks (the stream-safe format), which the
// standard's own algorithm and the reference tokenizers don't; texts with long
// runs take a slower path that doesn't either.
func form(f norm.Form) normalizer {
	return func(s string) string {
		switch {
		case longMarks(f, s):
			return normalizeUnbounded(f, s)
		case f.IsNormalString(s):
			return s
		}
		return f.String(s)
	}
}

// longMarks reports whether s may hold a run of marks near the limit of the
// stream-safe format. A rune decomposes into at most a handful of marks, so 6
// in a row are still far from it.
func longMarks(f norm.Form, s string) bool {
	run := 0
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			run = 0
			i++
			continue
		}
		p := f.PropertiesString(s[i:])
		if p.CCC() != 0 || p.TrailCCC() != 0 {
			if run++; run > 6 {
				return true
			}
		} else {
			run = 0
		}
		i += max(p.Size(), 1)
	}
	return false
}

// normalizeUnbounded is the algorithm of the Unicode Standard, section 3.11:
// decompose, order the marks of each run by class, compose if the form does.
func normalizeUnbounded(f norm.Form, s string) string {
	decompose, composes := norm.NFD, f == norm.NFC || f == norm.NFKC
	if f == norm.NFKC || f == norm.NFKD {
		decompose = norm.NFKD
	}
	var runes []rune
	for _, r := range s {
		runes = append(runes, []rune(decompose.String(string(r)))...)
	}
	class := func(r rune) uint8 { return norm.NFD.PropertiesString(string(r)).CCC() }
	for i := 0; i < len(runes); {
		j := i
		for j < len(runes) && class(runes[j]) != 0 {
			j++
		}
		slices.SortStableFunc(runes[i:j], func(a, b rune) int { return int(class(a)) - int(class(b)) })
		i = max(j, i+1)
	}
	if composes {
		runes = composeRunes(runes, class)
	}
	return string(runes)
}

// composeRunes applies canonical composition: each rune joins the last starter
// unless something between them blocks it.
func composeRunes(runes []rune, class func(rune) uint8) []rune {
	out := runes[:0]
	starter, last := -1, uint8(0) // last: class of the rune before, where it blocks
	for _, r := range runes {
		c := class(r)
		if starter >= 0 && (starter == len(out)-1 || last < c) {
			if p := []rune(norm.NFC.String(string(out[starter]) + string(r))); len(p) == 1 {
				out[starter] = p[0]
				continue
			}
		}
		out = append(out, r)
		if c == 0 {
			starter = len(out) - 1
		}
		last = c
	}
	return out
}
