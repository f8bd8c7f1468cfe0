package sampler

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// FieldError says which parameter is wrong, its value, and what would be valid.
type FieldError struct{ Field, Value, Want string }

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: %s is not valid: want %s", e.Field, e.Value, e.Want)
}

// Breaker ends DRY matches: a text, tokenized when the chain is made, or one
// token id when Text is empty.
type Breaker struct {
	Text  string
	Token int32
}

// TokenBias adds Bias to one token's logit: a token id, or a text that must be
// a single token when Text is not empty. A bias ≤ −100 bans.
type TokenBias struct {
	Token int32
	Text  string
	Bias  float64
}

// GroupBias adds Bias to all tokens of a named set. A bias ≤ −100 bans.
type GroupBias struct {
	Name   string
	Bias   float64
	Tokens []int32
}

// banBias is the bias at and below which a token is banned, and, negated, the
// largest one allowed.
const banBias = -100

func (b TokenBias) String() string {
	if b.Text != "" {
		return strconv.Quote(b.Text)
	}
	return strconv.Itoa(int(b.Token))
}

func parseID(text string) (int32, bool) {
	n, err := strconv.ParseInt(text, 10, 32)
	return int32(n), err == nil && n >= 0
}

// parseBias reads the forms of logit_bias in JSON: {"ID or text": number} and
// [[id or text, number or false], …].
func parseBias(raw json.RawMessage) ([]TokenBias, error) {
	want := &FieldError{"logit_bias", string(raw), "an object of token id or text to number, or a list of pairs"}
	var out []TokenBias
	var pairs [][]json.RawMessage
	if json.Unmarshal(raw, &pairs) == nil {
		for _, p := range pairs {
			if len(p) != 2 {
				return nil, want
			}
			var b TokenBias
			var off bool
			switch {
			case json.Unmarshal(p[0], &b.Token) == nil && b.Token >= 0:
			case json.Unmarshal(p[0], &b.Text) == nil && b.Text != "":
			default:
				return nil, want
			}
			switch {
			case json.Unmarshal(p[1], &off) == nil && !off && string(p[1]) != "null":
				b.Bias = banBias
			case string(p[1]) != "null" && json.Unmarshal(p[1], &b.Bias) == nil:
			default:
				return nil, want
			}
			out = append(out, b)
		}
		return out, nil
	}
	var object map[string]*float64
	if json.Unmarshal(raw, &object) != nil {
		return nil, want
	}
	for k, v := range object {
		if v == nil || k == "" {
			return nil, want
		}
		b := TokenBias{Bias: *v}
		if id, ok := parseID(k); ok {
			b.Token = id
		} else {
			b.Text = k
		}
		out = append(out, b)
	}
	// Maps have no order; sums of float32 do.
	slices.SortFunc(out, func(a, b TokenBias) int {
		// "5" and "05" are one token.
		return cmp.Or(cmp.Compare(a.Token, b.Token), strings.Compare(a.Text, b.Text), cmp.Compare(a.Bias, b.Bias))
	})
	return out, nil
}

// parseBiasFlag reads ID=NUMBER, TEXT=NUMBER and llama.cpp's ID+NUMBER.
func parseBiasFlag(text string) (TokenBias, error) {
	name, number := "", ""
	if i := strings.LastIndexByte(text, '='); i > 0 {
		name, number = text[:i], text[i+1:]
	} else if i := strings.IndexAny(text, "+-"); i > 0 {
		name, number = text[:i], text[i:]
		if _, ok := parseID(name); !ok {
			number = ""
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return TokenBias{}, &FieldError{"logit_bias", strconv.Quote(text), "ID=NUMBER or TEXT=NUMBER"}
	}
	if id, ok := parseID(name); ok {
		return TokenBias{Token: id, Bias: v}, nil
	}
	return TokenBias{Text: name, Bias: v}, nil
}

// parseGroups reads {"name": {"bias": number, "tokens": [ids]}}.
func parseGroups(raw json.RawMessage) ([]GroupBias, error) {
	var m map[string]struct {
		Bias   *float64 `json:"bias"`
		Tokens []int32  `json:"tokens"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	want := &FieldError{"language_bias", string(raw), `an object {"name": {"bias": number, "tokens": [ids]}}`}
	if d.Decode(&m) != nil {
		return nil, want
	}
	var out []GroupBias
	for name, g := range m {
		if g.Bias == nil || len(g.Tokens) == 0 {
			return nil, want
		}
		out = append(out, GroupBias{name, *g.Bias, g.Tokens})
	}
	slices.SortFunc(out, func(a, b GroupBias) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// parseGroupFlag reads NAME=NUMBER:ID,ID,….
func parseGroupFlag(text string) (GroupBias, error) {
	want := &FieldError{"language_bias", strconv.Quote(text), "NAME=NUMBER:ID,ID,…"}
	name, rest, ok := strings.Cut(text, "=")
	number, list, ok2 := strings.Cut(rest, ":")
	v, err := strconv.ParseFloat(number, 64)
	if !ok || !ok2 || err != nil || name == "" {
		return GroupBias{}, want
	}
	g := GroupBias{Name: name, Bias: v}
	for t := range strings.SplitSeq(list, ",") {
		id, ok := parseID(strings.TrimSpace(t))
		if !ok {
			return GroupBias{}, want
		}
		g.Tokens = append(g.Tokens, id)
	}
	return g, nil
}

func checkBias(field, name string, v float64) error {
	if !(v <= -banBias) || math.IsInf(v, 0) {
		return &FieldError{field, fmt.Sprintf("%v for %s", v, name), "a finite number of at most 100; −100 and below ban"}
	}
	return nil
}
