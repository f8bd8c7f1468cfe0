package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// problems collects what is wrong with a configuration, so that a parser reads
// like a list of fields. Only the first is reported: the others often follow
// from it.
type problems struct{ first error }

func (p *problems) add(format string, args ...any) {
	if p.first == nil {
		p.first = fmt.Errorf(format, args...)
	}
}

// A jsonObject gives typed access to the members of a JSON object. A getter
// returns the default when the member is absent or null, and records a problem
// when it is something else than expected.
type jsonObject struct {
	path    string // for messages: "" or "text_config."
	members map[string]json.RawMessage
	*problems
}

func (o jsonObject) has(key string) bool {
	v, ok := o.members[key]
	return ok && !bytes.Equal(v, []byte("null"))
}

func (o jsonObject) bad(key, expected string) {
	var line bytes.Buffer
	_ = json.Compact(&line, o.members[key]) // it was read as JSON
	value := []rune(line.String())
	if len(value) > 60 {
		value = append(value[:60], '…')
	}
	o.add("%s%s is %s, expected %s", o.path, key, string(value), expected)
}

// object returns a member that is an object.
func (o jsonObject) object(key string) (jsonObject, bool) {
	inner := jsonObject{path: o.path + key + ".", problems: o.problems}
	if !o.has(key) {
		return inner, false
	}
	if err := json.Unmarshal(o.members[key], &inner.members); err != nil {
		o.bad(key, "an object")
		return inner, false
	}
	return inner, true
}

// int returns an integer in [lo, hi]; "4096.0" counts as one.
func (o jsonObject) int(key string, lo, hi, absent int) int {
	if !o.has(key) {
		return absent
	}
	n, ok := parseInt(o.members[key])
	if !ok || n < lo || n > hi {
		o.bad(key, fmt.Sprintf("an integer from %d to %d", lo, hi))
		return absent
	}
	return n
}

// integers returns a list of integers; null is none.
func (o jsonObject) integers(key string) []int64 {
	list := member[[]*int64](o, key, "a list of integers", nil)
	out := make([]int64, len(list))
	for i, n := range list {
		if n == nil {
			o.bad(key, "a list of integers")
			return nil
		}
		out[i] = *n
	}
	return out
}

// parseInt reads a JSON number that is an integer of at most 53 bits.
func parseInt(raw []byte) (int, bool) {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > min(1<<53, math.MaxInt) {
		return 0, false
	}
	return int(f), true
}

// float returns a number in [lo, hi].
func (o jsonObject) float(key string, lo, hi, absent float64) float64 {
	if !o.has(key) {
		return absent
	}
	f, err := strconv.ParseFloat(string(o.members[key]), 64)
	if err != nil || !(f >= lo && f <= hi) {
		o.bad(key, fmt.Sprintf("a number from %g to %g", lo, hi))
		return absent
	}
	return f
}

func (o jsonObject) bool(key string, absent bool) bool {
	return member(o, key, "true or false", absent)
}

func (o jsonObject) string(key, absent string) string {
	return member(o, key, "a string", absent)
}

func (o jsonObject) strings(key string) []string {
	return member[[]string](o, key, "a list of strings", nil)
}

// ids returns token ids: one number or a list, nil when absent. Negative ids
// mean "none" in some configurations and are left out.
func (o jsonObject) ids(key string) []int {
	if !o.has(key) {
		return nil
	}
	list := []json.RawMessage{o.members[key]}
	if o.members[key][0] == '[' {
		list = member[[]json.RawMessage](o, key, "a list", nil)
	}
	var ids []int
	for _, raw := range list {
		id, ok := parseInt(raw)
		if !ok || id > math.MaxInt32 {
			o.bad(key, "a token id or a list of them")
			return nil
		}
		if id >= 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

func member[T any](o jsonObject, key, expected string, absent T) T {
	if !o.has(key) {
		return absent
	}
	var v T
	if err := json.Unmarshal(o.members[key], &v); err != nil {
		o.bad(key, expected)
		return absent
	}
	return v
}

// jsonProblem says what is wrong with a JSON file in the file's terms, not in
// those of the Go type it was read into.
func jsonProblem(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &wrong):
		return fmt.Errorf("malformed: %w", err)
	case wrong.Field == "":
		return fmt.Errorf("is %s, expected an object", article(wrong.Value))
	}
	return fmt.Errorf("%s is %s, which it must not be", wrong.Field, article(wrong.Value))
}

// article puts "a" or "an" before the name of a JSON type.
func article(kind string) string {
	if strings.HasPrefix(kind, "a") || strings.HasPrefix(kind, "o") {
		return "an " + kind
	}
	return "a " + kind
}
