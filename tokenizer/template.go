package tokenizer

import (
	"errors"
	"fmt"
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
	maxTemplateDepth = 200 // brackets in a tag, and open blocks
	maxMacroDepth    = 100 // macros calling each other
	maxRange         = 1 << 20
)

// Names the rewritten template calls; a template cannot see what they do.
const (
	enterMacro = "surmise_enter_macro"
	leaveMacro = "surmise_leave_macro"
	toJSON     = "surmise_tojson"
)

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
