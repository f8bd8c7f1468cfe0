package checkpoint

import (
	"maps"
	"math"
	"slices"
)

// Metadata holds the key/value pairs of a GGUF file. The zero value is empty.
// Slices it returns must not be modified.
//
// A getter's second result is false when the key is absent or its value cannot
// be expressed exactly in the type that was asked for.
type Metadata struct {
	// values hold int64, uint64 (only above MaxInt64), float64, bool, string,
	// []string, []int64, []float64 or []bool.
	values map[string]any
}

// Keys returns all keys, ascending.
func (m Metadata) Keys() []string { return slices.Sorted(maps.Keys(m.values)) }

// Value returns the value as stored, widened: int64 (uint64 above its range),
// float64, bool, string, or a slice of one of them; nil when absent.
func (m Metadata) Value(key string) any { return m.values[key] }

// String returns a string value.
func (m Metadata) String(key string) (string, bool) {
	v, ok := m.values[key].(string)
	return v, ok
}

// Int returns a value of any integer type.
func (m Metadata) Int(key string) (int64, bool) {
	v, ok := m.values[key].(int64)
	return v, ok
}

// Float returns a value of any number type.
func (m Metadata) Float(key string) (float64, bool) {
	switch v := m.values[key].(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), v > -1<<53 && v < 1<<53
	}
	return 0, false
}

// Bool returns a boolean value.
func (m Metadata) Bool(key string) (bool, bool) {
	v, ok := m.values[key].(bool)
	return v, ok
}

// Strings returns an array of strings.
func (m Metadata) Strings(key string) ([]string, bool) {
	v, ok := m.values[key].([]string)
	return v, ok
}

// Ints returns an array of any integer type.
func (m Metadata) Ints(key string) ([]int64, bool) {
	v, ok := m.values[key].([]int64)
	return v, ok
}

// Floats returns an array of floats.
func (m Metadata) Floats(key string) ([]float64, bool) {
	v, ok := m.values[key].([]float64)
	return v, ok
}

// Bools returns an array of booleans.
func (m Metadata) Bools(key string) ([]bool, bool) {
	v, ok := m.values[key].([]bool)
	return v, ok
}

// smallInt returns an integer value that fits an int32, the range all counts of
// a model live in.
func (m Metadata) smallInt(key string) (int, bool) {
	v, ok := m.Int(key)
	if !ok || v < math.MinInt32 || v > math.MaxInt32 {
		return 0, false
	}
	return int(v), true
}
