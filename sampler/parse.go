package sampler

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

func dashes(s string) string { return strings.ReplaceAll(s, "_", "-") }

func orList(s []string) string {
	if len(s) < 2 {
		return strings.Join(s, "")
	}
	return strings.Join(s[:len(s)-1], ", ") + " or " + s[len(s)-1]
}

// String writes the range as in mathematics: (0, 1].
func (r Range) String() string {
	num := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	switch {
	case math.IsInf(r.Min, -1) && math.IsInf(r.Max, 1):
		return "a finite number"
	case math.IsInf(r.Max, 1) || r.Max == maxCount:
		return "≥ " + num(r.Min)
	}
	open, end := "[", "]"
	if r.OpenMin {
		open = "("
	}
	if r.OpenMax {
		end = ")"
	}
	return open + num(r.Min) + ", " + num(r.Max) + end
}

// Has reports whether v lies in the range; NaN and infinities never do.
func (r Range) Has(v float64) bool {
	if v != v || math.IsInf(v, 0) {
		return false
	}
	return (v > r.Min || (v == r.Min && !r.OpenMin)) && (v < r.Max || (v == r.Max && !r.OpenMax))
}

func (f *Field) bad(value string) error { return &FieldError{f.Name, value, f.Valid} }

// Set replaces the field's value in p by one written on a command line; a
// repeatable field takes all occurrences at once. The error names field, value
// and range.
func (f Field) Set(p *Params, values ...string) error {
	if len(values) == 0 || (len(values) > 1 && !f.Repeatable()) {
		return f.bad(fmt.Sprintf("%d values", len(values)))
	}
	text := values[0]
	switch t := f.target(p).(type) {
	case *float64:
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !f.Range.Has(v) {
			return f.bad(strconv.Quote(text))
		}
		*t = v
	case *int:
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || !f.Range.Has(float64(v)) {
			return f.bad(strconv.Quote(text))
		}
		*t = int(v)
	case *bool:
		return f.setBool(p, t, text)
	case *string:
		if f.Kind == KindChoice && !slices.Contains(f.Oneof, text) {
			return f.bad(strconv.Quote(text))
		}
		*t = text
	case **uint64:
		return f.setSeed(t, text)
	case *json.RawMessage:
		if !json.Valid([]byte(text)) {
			return f.bad(strconv.Quote(text))
		}
		*t = json.RawMessage(text)
	default:
		return f.setList(t, values)
	}
	return nil
}

func (f *Field) setBool(p *Params, t *bool, text string) error {
	if f.Kind == KindLogprobs {
		if n, err := strconv.Atoi(text); err == nil && len(text) > 0 {
			return f.setLogprobs(p, float64(n), text)
		}
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		return f.bad(strconv.Quote(text))
	}
	*t = v
	if f.Kind == KindLogprobs && !v {
		p.TopLogprobs = 0 // takes an earlier number back
	}
	return nil
}

// setLogprobs takes the number form of logprobs: that many top_logprobs.
func (f *Field) setLogprobs(p *Params, n float64, text string) error {
	if n != math.Trunc(n) || !(Range{Min: 0, Max: 20}).Has(n) {
		return f.bad(text)
	}
	p.Logprobs, p.TopLogprobs = true, int(n)
	return nil
}

func (f *Field) setSeed(t **uint64, text string) error {
	if text == "-1" {
		*t = nil
		return nil
	}
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return f.bad(text)
	}
	*t = &v
	return nil
}

func (f *Field) setList(target any, values []string) error {
	switch t := target.(type) {
	case *[]string:
		*t = slices.Clone(values)
	case *[]int32:
		*t = nil
		for _, v := range values {
			for part := range strings.SplitSeq(v, ",") {
				id, ok := parseID(strings.TrimSpace(part))
				if !ok {
					return f.bad(strconv.Quote(v))
				}
				*t = append(*t, id)
			}
		}
	case *[]Breaker:
		*t = nil
		for _, v := range values {
			if v == "none" {
				*t = nil
				continue
			}
			b := Breaker{Text: v}
			if id, ok := parseID(v); ok {
				b = Breaker{Token: id}
			} else if v == "" {
				return f.bad(`""`)
			}
			*t = append(*t, b)
		}
	case *[]TokenBias:
		*t = nil
		for _, v := range values {
			b, err := parseBiasFlag(v)
			if err != nil {
				return err
			}
			*t = append(*t, b)
		}
	case *[]GroupBias:
		*t = nil
		for _, v := range values {
			g, err := parseGroupFlag(v)
			if err != nil {
				return err
			}
			*t = append(*t, g)
		}
	}
	return nil
}

// SetJSON replaces the field's value in p by a JSON value; null leaves it.
func (f Field) SetJSON(p *Params, raw json.RawMessage) error {
	text := strings.TrimSpace(string(raw))
	if text == "null" {
		return nil
	}
	bad := f.bad(text)
	switch t := f.target(p).(type) {
	case *float64:
		var v float64
		if json.Unmarshal(raw, &v) != nil || !f.Range.Has(v) {
			return bad
		}
		*t = v
	case *int:
		var v float64 // 4.0 is a whole number in JSON
		if json.Unmarshal(raw, &v) != nil || v != math.Trunc(v) || !f.Range.Has(v) {
			return bad
		}
		*t = int(v)
	case *bool:
		var n float64
		if f.Kind == KindLogprobs && json.Unmarshal(raw, &n) == nil {
			return f.setLogprobs(p, n, text)
		}
		if json.Unmarshal(raw, t) != nil {
			return bad
		}
	case *string:
		var v string
		if json.Unmarshal(raw, &v) != nil || (f.Kind == KindChoice && !slices.Contains(f.Oneof, v)) {
			return bad
		}
		*t = v
	case **uint64:
		return f.setSeed(t, text)
	case *json.RawMessage:
		if !json.Valid(raw) || text[0] != '{' && f.Name == "custom_params" {
			return bad
		}
		*t = slices.Clone(raw)
	default:
		return f.setListJSON(t, raw, bad)
	}
	return nil
}

func (f *Field) setListJSON(target any, raw json.RawMessage, bad error) error {
	switch t := target.(type) {
	case *[]string:
		var one string
		var many []string
		switch {
		case json.Unmarshal(raw, &one) == nil:
			many = []string{one}
		case json.Unmarshal(raw, &many) != nil:
			return bad
		}
		*t = many
	case *[]int32:
		var one int32
		var many []int32
		switch {
		case json.Unmarshal(raw, &one) == nil:
			many = []int32{one}
		case json.Unmarshal(raw, &many) != nil:
			return bad
		}
		for _, id := range many {
			if id < 0 {
				return bad
			}
		}
		*t = many
	case *[]Breaker:
		return f.setBreakersJSON(t, raw, bad)
	case *[]TokenBias:
		b, err := parseBias(raw)
		if err != nil {
			return err
		}
		*t = b
	case *[]GroupBias:
		g, err := parseGroups(raw)
		if err != nil {
			return err
		}
		*t = g
	}
	return nil
}

func (f *Field) setBreakersJSON(t *[]Breaker, raw json.RawMessage, bad error) error {
	var word string
	if json.Unmarshal(raw, &word) == nil {
		if word == "" {
			return bad
		}
		return f.setList(t, []string{word})
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return bad
	}
	out := []Breaker{}
	for _, i := range items {
		var b Breaker
		switch {
		case json.Unmarshal(i, &b.Text) == nil && b.Text != "":
		case json.Unmarshal(i, &b.Token) == nil && b.Token >= 0 && string(i) != "null":
		default:
			return bad
		}
		out = append(out, b)
	}
	*t = out
	return nil
}

// SetJSON applies the members of a JSON object whose names are in the table, as
// names or aliases, and returns the names of the others, sorted: what to do
// about those is the caller's policy. A parameter given under two names with
// different values is an error, as is a value out of range; p is then half
// changed and not to be used.
func (p *Params) SetJSON(object []byte) (unknown []string, err error) {
	return p.setObject(object, func(Field) bool { return true })
}

// SetGenerationConfig applies what a model's generation_config.json says about
// sampling and ignores everything else. XTC and p-less are never taken from it.
func (p *Params) SetGenerationConfig(object []byte) error {
	_, err := p.setObject(object, func(f Field) bool { return f.Where&InGenerationConfig != 0 })
	if err != nil {
		return fmt.Errorf("generation_config.json: %w", err)
	}
	return nil
}

func (p *Params) setObject(object []byte, take func(Field) bool) (unknown []string, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, fmt.Errorf("parameters are not a json object: %w", err)
	}
	for _, f := range Fields() {
		from := ""
		for _, name := range append([]string{f.Name}, f.Aliases...) {
			raw, ok := members[name]
			if !ok {
				continue
			}
			delete(members, name)
			if !take(f) || strings.TrimSpace(string(raw)) == "null" {
				continue
			}
			before := string(f.Value(p))
			if err := f.SetJSON(p, raw); err != nil {
				return nil, err
			}
			if from != "" && string(f.Value(p)) != before {
				return nil, &FieldError{name, string(raw), "one name for it, or the same value under " + from}
			}
			from = name
		}
	}
	for name := range members {
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	return unknown, nil
}

// encode writes the value behind a field's target as JSON.
func encode(target any) json.RawMessage {
	v := any(nil)
	switch t := target.(type) {
	case *[]Breaker:
		list := []any{}
		for _, b := range *t {
			if b.Text != "" {
				list = append(list, b.Text)
			} else {
				list = append(list, b.Token)
			}
		}
		v = list
	case *[]TokenBias:
		list := [][2]any{}
		for _, b := range *t {
			if b.Text != "" {
				list = append(list, [2]any{b.Text, b.Bias})
			} else {
				list = append(list, [2]any{b.Token, b.Bias})
			}
		}
		v = list
	case *[]GroupBias:
		m := map[string]any{}
		for _, g := range *t {
			m[g.Name] = map[string]any{"bias": g.Bias, "tokens": g.Tokens}
		}
		v = m
	case **uint64:
		v = -1
		if *t != nil {
			v = **t
		}
	default:
		v = target
	}
	b, err := json.Marshal(v)
	if err != nil { // a NaN or an infinity
		return json.RawMessage("null")
	}
	return b
}

// MarshalJSON writes every parameter under its name.
func (p Params) MarshalJSON() ([]byte, error) {
	m := map[string]json.RawMessage{}
	for _, f := range Fields() {
		m[f.Name] = f.Value(&p)
	}
	return json.Marshal(m)
}
