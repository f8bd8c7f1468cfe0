package checkpoint

import (
	"encoding/json"
	"fmt"
)

// Fields gives typed access to an object of config.json, for members that only
// drafters know. A member has exactly the name asked for; null is as good as
// none. The first that is missing though needed, of another kind or out of its
// range is what Err reports.
type Fields struct{ o jsonObject }

// Fields returns the members of config.json; none for GGUF.
func (c *Config) Fields() Fields {
	f := Fields{jsonObject{problems: &problems{}}}
	if c.Raw != nil {
		if err := json.Unmarshal(c.Raw, &f.o.members); err != nil {
			f.o.add("%w", jsonProblem(err))
		}
	}
	return f
}

// Text returns the fields of the text model: text_config where there is one, as
// in multimodal checkpoints, else f itself.
func (f Fields) Text() Fields {
	if text := f.Object("text_config"); text.o.members != nil {
		return text
	}
	return f
}

// Object returns a member that is an object; one without members if it is absent.
func (f Fields) Object(key string) Fields {
	inner, _ := f.o.object(key)
	return Fields{inner}
}

// Has tells whether there is a member of that name that is not null.
func (f Fields) Has(key string) bool { return f.o.has(key) }

// Int returns an integer in [lo, hi], or absent if there is none; "8.0" counts
// as one.
func (f Fields) Int(key string, lo, hi, absent int) int { return f.o.int(key, lo, hi, absent) }

// Need is Int of a member that must be there.
func (f Fields) Need(key string, lo, hi int) int {
	if !f.Has(key) {
		f.o.add("%s%s is missing, expected an integer from %d to %d", f.o.path, key, lo, hi)
	}
	return f.o.int(key, lo, hi, 0)
}

// Ints returns a list of integers in [lo, hi]; nil if there is none.
func (f Fields) Ints(key string, lo, hi int) []int {
	list := member[[]json.RawMessage](f.o, key, "a list of integers", nil)
	var out []int
	for _, raw := range list {
		n, ok := parseInt(raw)
		if !ok || n < lo || n > hi {
			f.o.bad(key, fmt.Sprintf("a list of integers from %d to %d", lo, hi))
			return nil
		}
		out = append(out, n)
	}
	return out
}

// Strings returns a list of strings; nil if there is none.
func (f Fields) Strings(key string) []string { return f.o.strings(key) }

// Float returns a number in [lo, hi], or absent if there is none.
func (f Fields) Float(key string, lo, hi, absent float64) float64 {
	return f.o.float(key, lo, hi, absent)
}

// Bool returns a truth value, or absent if there is none.
func (f Fields) Bool(key string, absent bool) bool { return f.o.bool(key, absent) }

// Refuse reports a member that is what it must not be for a reason of the caller's.
func (f Fields) Refuse(key, expected string) {
	if !f.Has(key) {
		f.o.add("%s%s is missing, expected %s", f.o.path, key, expected)
		return
	}
	f.o.bad(key, expected)
}

// Err is the first problem met; it begins with the name of the file.
func (f Fields) Err() error {
	if f.o.first == nil {
		return nil
	}
	return fmt.Errorf("config.json: %w", f.o.first)
}
