package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ardanlabs/jinja"
)

// toJinja converts a Go value to one of the template engine. What is not a
// plain scalar goes through encoding/json, so structs and raw messages work and
// raw messages keep the order of their keys; map[string]any has none, and is
// sorted.
func toJinja(v any) (jinja.Value, error) {
	switch v := v.(type) {
	case nil:
		return jinja.None(), nil
	case string:
		return jinja.NewString(v), nil
	case bool:
		return jinja.NewBool(v), nil
	case int:
		return jinja.NewInt(int64(v)), nil
	case int64:
		return jinja.NewInt(v), nil
	case float64:
		return jinja.NewFloat(v), nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return jinja.Undefined(), err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return decodeJinja(dec, 0)
}

// decodeJinja reads one JSON value and keeps the order of its keys.
func decodeJinja(dec *json.Decoder, depth int) (jinja.Value, error) {
	if depth > maxTemplateDepth {
		return jinja.Undefined(), fmt.Errorf("nested more than %d deep", maxTemplateDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		return jinja.Undefined(), err
	}
	switch tok := tok.(type) {
	case nil:
		return jinja.None(), nil
	case bool:
		return jinja.NewBool(tok), nil
	case string:
		return jinja.NewString(tok), nil
	case json.Number:
		return numberValue(tok)
	case json.Delim:
		if tok == '[' {
			var items []jinja.Value
			for dec.More() {
				item, err := decodeJinja(dec, depth+1)
				if err != nil {
					return item, err
				}
				items = append(items, item)
			}
			_, err = dec.Token()
			return jinja.NewList(items), err
		}
		v := jinja.NewDict()
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return v, err
			}
			item, err := decodeJinja(dec, depth+1)
			if err != nil {
				return v, err
			}
			v.AsDict().Set(fmt.Sprint(key), item)
		}
		_, err = dec.Token()
		return v, err
	}
	return jinja.Undefined(), fmt.Errorf("unexpected %v", tok)
}

func numberValue(n json.Number) (jinja.Value, error) {
	if !strings.ContainsAny(n.String(), ".eE") {
		if i, err := n.Int64(); err == nil {
			return jinja.NewInt(i), nil
		}
	}
	f, err := n.Float64()
	return jinja.NewFloat(f), err
}

// tojson is the filter as Hugging Face defines it: Python's json.dumps with
// ensure_ascii off, in the order of the keys, nothing escaped for HTML.
func tojson(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if len(args) == 0 {
		return jinja.Undefined(), errors.New("tojson: nothing to write")
	}
	w := &jsonWriter{item: ", ", key: ": ", indent: -1}
	indent, ok := kwargs["indent"]
	if !ok && len(args) > 1 {
		indent = args[1]
	}
	if indent.IsInt() {
		w.indent = int(min(max(indent.AsInt(), 0), 16))
		w.item = ","
	}
	if sep, ok := kwargs["separators"]; ok && sep.IsList() {
		l := sep.AsList()
		if l.Len() != 2 || !l.Get(0).IsString() || !l.Get(1).IsString() {
			return jinja.Undefined(), errors.New("tojson: separators must be two strings")
		}
		w.item, w.key = l.Get(0).AsString(), l.Get(1).AsString()
	}
	if err := w.write(args[0], 0); err != nil {
		return jinja.Undefined(), fmt.Errorf("tojson: %w", err)
	}
	return jinja.NewString(w.out.String()), nil
}

type jsonWriter struct {
	out       strings.Builder
	item, key string
	indent    int // −1: on one line
}

func (w *jsonWriter) newline(depth int) {
	if w.indent >= 0 {
		w.out.WriteByte('\n')
		w.out.WriteString(strings.Repeat(" ", w.indent*depth))
	}
}

func (w *jsonWriter) write(v jinja.Value, depth int) error {
	switch {
	case depth > maxTemplateDepth:
		return fmt.Errorf("nested more than %d deep", maxTemplateDepth)
	case v.IsNone():
		w.out.WriteString("null")
	case v.IsBool():
		w.out.WriteString(strconv.FormatBool(v.AsBool()))
	case v.IsInt():
		w.out.WriteString(strconv.FormatInt(v.AsInt(), 10))
	case v.IsFloat():
		w.out.WriteString(pythonFloat(v.AsFloat()))
	case v.IsString():
		w.string(v.AsString())
	case v.IsList():
		items := v.AsList().Items
		return w.group('[', ']', len(items), depth, func(i int) error { return w.write(items[i], depth+1) })
	case v.IsDict():
		d := v.AsDict()
		return w.group('{', '}', len(d.Keys), depth, func(i int) error {
			w.string(d.Keys[i])
			w.out.WriteString(w.key)
			return w.write(d.Data[d.Keys[i]], depth+1)
		})
	default:
		return errors.New("the value is undefined or a function")
	}
	return nil
}

func (w *jsonWriter) group(open, end byte, n, depth int, write func(int) error) error {
	w.out.WriteByte(open)
	for i := range n {
		if i > 0 {
			w.out.WriteString(w.item)
		}
		w.newline(depth + 1)
		if err := write(i); err != nil {
			return err
		}
	}
	if n > 0 {
		w.newline(depth)
	}
	w.out.WriteByte(end)
	return nil
}

func (w *jsonWriter) string(s string) {
	const hex = "0123456789abcdef"
	w.out.WriteByte('"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			w.out.WriteByte('\\')
			w.out.WriteRune(r)
		case '\n':
			w.out.WriteString(`\n`)
		case '\r':
			w.out.WriteString(`\r`)
		case '\t':
			w.out.WriteString(`\t`)
		case '\b':
			w.out.WriteString(`\b`)
		case '\f':
			w.out.WriteString(`\f`)
		default:
			if r < ' ' {
				w.out.WriteString(`\u00`)
				w.out.WriteByte(hex[r>>4])
				w.out.WriteByte(hex[r&15])
				continue
			}
			w.out.WriteString(string(utf8.AppendRune(nil, r)))
		}
	}
	w.out.WriteByte('"')
}

// pythonFloat writes a float as Python's repr: the shortest digits that read
// back, with an exponent below 1e-4 and from 1e16 on, and always marked as a
// float.
func pythonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
