package bench

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Field is what two headers must have in common: a name, and the values of the
// header at hand and of the one in a file.
type Field struct {
	Name      string
	Ours, Had any
}

// Differ names the fields that differ with both values; empty if none does.
func Differ(fields []Field) string {
	var out []string
	for _, f := range fields {
		if f.Ours != f.Had {
			out = append(out, fmt.Sprintf("its %s is %v, this one's %v", f.Name, f.Had, f.Ours))
		}
	}
	return strings.Join(out, "; ")
}

// ParamFields are the fields of sampling parameters, each a name of the JSON
// objects and its values in JSON.
func ParamFields(ours, had json.RawMessage) []Field {
	var a, b map[string]json.RawMessage
	if json.Unmarshal(ours, &a) != nil || json.Unmarshal(had, &b) != nil {
		return []Field{{"sampling parameters", string(ours), string(had)}}
	}
	names := map[string]json.RawMessage{}
	maps.Copy(names, a)
	maps.Copy(names, b)
	var out []Field
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = append(out, Field{name, valueOf(a, name), valueOf(b, name)})
	}
	return out
}

func valueOf(object map[string]json.RawMessage, name string) string {
	if v, ok := object[name]; ok {
		return string(v)
	}
	return "not there"
}
