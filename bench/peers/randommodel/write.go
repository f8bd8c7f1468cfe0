package randommodel

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"surmise/checkpoint"
)

// Shapes are the names of the models whose shapes there are.
func Shapes() []string { return slices.Sorted(maps.Keys(shapes)) }

// Types are the names of the quantizations there are.
func Types() []string { return slices.Sorted(maps.Keys(mixes)) }

// Write writes a GGUF file of random weights; an unknown shape or type is an
// error that lists those there are.
func Write(w io.Writer, shape, typ string, seed uint64) error {
	s, m, err := find(shape, typ)
	if err != nil {
		return err
	}
	return checkpoint.WriteGGUF(w, metadata(s, m), tensors(s, m, seed))
}

// Check tells what is wrong with a shape and a type.
func Check(shape, typ string) error {
	_, _, err := find(shape, typ)
	return err
}

func find(name, typ string) (shape, mix, error) {
	s, ok := shapes[name]
	if !ok {
		return shape{}, mix{}, fmt.Errorf("shape %q: want one of %s", name, strings.Join(Shapes(), ", "))
	}
	m, ok := mixes[typ]
	if !ok {
		return shape{}, mix{}, fmt.Errorf("type %q: want one of %s", typ, strings.Join(Types(), ", "))
	}
	return s, m, nil
}
