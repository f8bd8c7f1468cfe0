package tokenizer

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// A chat template comes with a checkpoint and is not trusted. The library that
// runs it has no limits of its own and recurses on the Go stack, which cannot
// be recovered from, so depth is limited before and while it runs. Loops over
// long ranges are limited too; what a template computes otherwise is its own
// time.
const (
	maxTemplate      = 256 << 10
	maxTemplateDepth = 200 // brackets in a tag, and open block tags
	maxMacroDepth    = 100 // macros calling each other
	maxRange         = 1 << 20
)

// Names the rewritten template calls; a template cannot see what they do.
const (
	enterMacro = "surmise_enter_macro"
	leaveMacro = "surmise_leave_macro"
	toJSON     = "surmise_tojson"
)

var (
	tojsonFilter = regexp.MustCompile(`\|\s*tojson\b`)
	macroTag     = regexp.MustCompile(`^\{%[-+]?\s*(macro|endmacro)\b`)
	openTag      = regexp.MustCompile(`^\{%[-+]?\s*(if|for|macro|call|filter|block|generation)\b`)
	closeTag     = regexp.MustCompile(`^\{%[-+]?\s*end(if|for|macro|call|filter|block|generation)\b`)
)

// prepareTemplate checks a template's size and depth and rewrites two things:
// the tojson filter becomes ours, because the library's sorts keys and escapes
// <, > and & where it indents; and macros count how deep they are.
func prepareTemplate(src string) (string, error) {
	if len(src) > maxTemplate {
		return "", fmt.Errorf("%d bytes long, more than %d", len(src), maxTemplate)
	}
	var out strings.Builder
	blocks := 0
	for len(src) > 0 {
		i := nextTag(src)
		out.WriteString(src[:i])
		src = src[i:]
		if src == "" {
			break
		}
		n := tagLen(src)
		tag := src[:n]
		src = src[n:]
		if tag[1] == '#' {
			out.WriteString(tag)
			continue
		}
		if d := bracketDepth(tag); d > maxTemplateDepth {
			return "", fmt.Errorf("brackets nested %d deep, more than %d", d, maxTemplateDepth)
		}
		if openTag.MatchString(tag) {
			blocks++
		} else if closeTag.MatchString(tag) {
			blocks--
		}
		if blocks > maxTemplateDepth {
			return "", fmt.Errorf("blocks nested more than %d deep", maxTemplateDepth)
		}
		out.WriteString(countMacro(tojsonFilter.ReplaceAllString(tag, "| "+toJSON)))
	}
	return out.String(), nil
}

// nextTag returns the offset of the next tag in src, or its length.
func nextTag(src string) int {
	for i := 0; i+1 < len(src); i++ {
		if src[i] == '{' && (src[i+1] == '{' || src[i+1] == '%' || src[i+1] == '#') {
			return i
		}
	}
	return len(src)
}

// tagLen returns the length of the tag at the start of src; a tag without an
// end reaches to the end, and the library says so.
func tagLen(src string) int {
	closer := map[byte]string{'{': "}}", '%': "%}", '#': "#}"}[src[1]]
	quote := byte(0)
	for i := 2; i < len(src); i++ {
		c := src[i]
		switch {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case src[1] != '#' && (c == '\'' || c == '"'):
			quote = c
		case strings.HasPrefix(src[i:], closer):
			return i + 2
		}
	}
	return len(src)
}

func bracketDepth(tag string) int {
	depth, deepest := 0, 0
	for i := 0; i < len(tag); i++ {
		switch tag[i] {
		case '(', '[', '{':
			if depth++; depth > deepest {
				deepest = depth
			}
		case ')', ']', '}':
			depth--
		}
	}
	return deepest
}

// countMacro puts a tag inside a macro's first and last one that counts calls.
// It takes over the delimiters of its neighbour, so that white space is
// trimmed as before.
func countMacro(tag string) string {
	m := macroTag.FindStringSubmatch(tag)
	if m == nil {
		return tag
	}
	if m[1] == "macro" {
		closer := "%}"
		if k := len(tag) - 3; k > 0 && (tag[k] == '-' || tag[k] == '+') {
			closer = tag[k:]
		}
		return tag + "{% set " + enterMacro + "_done = " + enterMacro + "() " + closer
	}
	opener := "{%"
	if tag[2] == '-' || tag[2] == '+' {
		opener = tag[:3]
	}
	return opener + " set " + leaveMacro + "_done = " + leaveMacro + "() %}{%" + strings.TrimPrefix(tag, opener)
}

// addTemplateFunctions defines what prepareTemplate refers to, with a fresh
// count of macros, and replaces builtins that need a limit.
func addTemplateFunctions(data map[string]jinja.Value) {
	depth := 0
	data[enterMacro] = jinja.NewCallable(enterMacro, func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
		if depth++; depth > maxMacroDepth {
			return jinja.Undefined(), fmt.Errorf("macros call each other more than %d deep", maxMacroDepth)
		}
		return jinja.None(), nil
	})
	data[leaveMacro] = jinja.NewCallable(leaveMacro, func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
		depth--
		return jinja.None(), nil
	})
	data[toJSON] = jinja.NewCallable("tojson", tojson)
	data["range"] = jinja.NewCallable("range", boundedRange)
}

// boundedRange is Python's range as a list.
func boundedRange(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	n := [3]int64{0, 0, 1}
	for i, a := range args {
		if !a.IsInt() || i > 2 {
			return jinja.Undefined(), errors.New("range: want one to three whole numbers")
		}
		n[i] = a.AsInt()
	}
	start, stop, step := n[0], n[1], n[2]
	switch {
	case len(args) == 0:
		return jinja.Undefined(), errors.New("range: want one to three whole numbers")
	case len(args) == 1:
		start, stop = 0, n[0]
	case step == 0:
		return jinja.Undefined(), errors.New("range: the step is 0")
	}
	var items []jinja.Value
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(items) >= maxRange {
			return jinja.Undefined(), fmt.Errorf("range: more than %d numbers", maxRange)
		}
		items = append(items, jinja.NewInt(i))
	}
	return jinja.NewList(items), nil
}

// strftimeAt is strftime_now at a fixed time.
func strftimeAt(now time.Time) func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
	return func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if len(args) != 1 || !args[0].IsString() {
			return jinja.Undefined(), errors.New("strftime_now: want one format string")
		}
		out, err := strftime(now, args[0].AsString())
		return jinja.NewString(out), err
	}
}

// strftimeLayouts are the directives of Python's strftime that a layout of
// package time can say; "-" after the percent sign drops leading zeros.
var strftimeLayouts = map[string]string{
	"a": "Mon", "A": "Monday", "b": "Jan", "B": "January", "d": "02", "-d": "2", "e": "_2",
	"m": "01", "-m": "1", "y": "06", "Y": "2006", "H": "15", "I": "03", "-I": "3", "M": "04", "-M": "4",
	"S": "05", "-S": "5", "p": "PM", "Z": "MST", "z": "-0700", "j": "002", "F": "2006-01-02", "T": "15:04:05", "D": "01/02/06",
}

func strftime(now time.Time, format string) (string, error) {
	var out strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			out.WriteByte(format[i])
			continue
		}
		rest := format[i+1:]
		switch {
		case strings.HasPrefix(rest, "%"):
			out.WriteByte('%')
			i++
			continue
		case strings.HasPrefix(rest, "-") && len(rest) > 1:
			rest = rest[:2]
		case rest != "":
			rest = rest[:1]
		}
		layout, ok := strftimeLayouts[rest]
		if !ok {
			return "", fmt.Errorf("strftime_now: unknown directive %%%s in %q", rest, format)
		}
		out.WriteString(now.Format(layout))
		i += len(rest)
	}
	return out.String(), nil
}
