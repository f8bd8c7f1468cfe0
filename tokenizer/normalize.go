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

// form is a Unicode normalisation form, with two differences from what package
// norm does, both because the ids must be those of the reference library: runs
// of more than 30 combining marks get no U+034F inserted (the stream-safe
// format), and characters that the reference's older Unicode tables don't know
// are left alone.
func form(f norm.Form) normalizer {
	return func(s string) string {
		if f.IsNormalString(s) {
			return s
		}
		var out strings.Builder
		start := 0
		for i, r := range s {
			if isInert(r) {
				out.WriteString(normalizeSegment(f, s[start:i]))
				out.WriteRune(r)
				start = i + utf8.RuneLen(r)
			}
		}
		out.WriteString(normalizeSegment(f, s[start:]))
		return out.String()
	}
}

func normalizeSegment(f norm.Form, s string) string {
	if longMarks(f, s) {
		return normalizeUnbounded(f, s)
	}
	return f.String(s)
}

// inert lists the characters, as first and last, whose normalisation is newer
// than the reference's tables (Unicode 9): marks it doesn't reorder, letters it
// doesn't decompose, and the first halves of pairs it doesn't compose. Found by
// comparing every code point with the tokenizers library; frozen, so that ids
// don't change with the Unicode version of the Go release.
var inert = [][2]rune{
	{0x0558, 0x0558},
	{0x058B, 0x058C},
	{0x05C8, 0x05C9},
	{0x07FD, 0x07FD},
	{0x0897, 0x089F},
	{0x08CA, 0x08D3},
	{0x09FE, 0x09FE},
	{0x0C3C, 0x0C3C},
	{0x0D3B, 0x0D3C},
	{0x0EBA, 0x0EBA},
	{0x1715, 0x1715},
	{0x1ABF, 0x1AF0},
	{0x1DF6, 0x1DFA},
	{0x209D, 0x209F},
	{0x32FF, 0x32FF},
	{0xA7F1, 0xA7F4},
	{0xA82C, 0xA82C},
	{0xAB69, 0xAB69},
	{0x105C9, 0x105C9},
	{0x105D2, 0x105D2},
	{0x105DA, 0x105DA},
	{0x105E4, 0x105E4},
	{0x10781, 0x107BF},
	{0x10D24, 0x10D27},
	{0x10D69, 0x10D6D},
	{0x10EAB, 0x10EAC},
	{0x10ECB, 0x10ECF},
	{0x10EF0, 0x10EFB},
	{0x10EFD, 0x10EFF},
	{0x10F46, 0x10F50},
	{0x10F82, 0x10F85},
	{0x11070, 0x11070},
	{0x1133B, 0x1133B},
	{0x11382, 0x11385},
	{0x1138B, 0x11391},
	{0x113C2, 0x113C8},
	{0x113CE, 0x113D0},
	{0x1145E, 0x1145E},
	{0x11839, 0x1183A},
	{0x11935, 0x11935},
	{0x11938, 0x11938},
	{0x1193D, 0x1193E},
	{0x11943, 0x11943},
	{0x119E0, 0x119E0},
	{0x11A34, 0x11A34},
	{0x11A47, 0x11A47},
	{0x11A99, 0x11A99},
	{0x11D42, 0x11D42},
	{0x11D44, 0x11D45},
	{0x11D97, 0x11D97},
	{0x11F41, 0x11F42},
	{0x1611E, 0x1611E},
	{0x16121, 0x16129},
	{0x1612F, 0x1612F},
	{0x16D63, 0x16D63},
	{0x16D67, 0x16D6A},
	{0x16FF0, 0x16FF1},
	{0x1B123, 0x1B126},
	{0x1CCD6, 0x1CCF9},
	{0x1D127, 0x1D128},
	{0x1D250, 0x1D252},
	{0x1D25B, 0x1D25C},
	{0x1D25F, 0x1D25F},
	{0x1D280, 0x1D281},
	{0x1D6A6, 0x1D6A6},
	{0x1DF95, 0x1DF95},
	{0x1DFCD, 0x1DFFF},
	{0x1E030, 0x1E08F},
	{0x1E130, 0x1E136},
	{0x1E2AE, 0x1E2AE},
	{0x1E2EC, 0x1E2EF},
	{0x1E4EC, 0x1E4EF},
	{0x1E5EE, 0x1E5EF},
	{0x1E6E3, 0x1E6E3},
	{0x1E6E6, 0x1E6E6},
	{0x1E6EE, 0x1E6EF},
	{0x1E6F5, 0x1E6F5},
	{0x1F16C, 0x1F16C},
	{0x1FBF0, 0x1FBF9},
}

func isInert(r rune) bool {
	if r < inert[0][0] {
		return false
	}
	_, found := slices.BinarySearchFunc(inert, r, func(span [2]rune, r rune) int {
		switch {
		case span[1] < r:
			return -1
		case span[0] > r:
			return 1
		}
		return 0
	})
	return found
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
