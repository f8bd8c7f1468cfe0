package model

import (
	"fmt"

	"surmise/checkpoint"
	"surmise/compute"
)

// Loader takes a drafter's tensors out of its checkpoint and onto a device. After
// the first error its methods do nothing and return nil; Err is looked at once,
// at the end.
type Loader struct{ ld loader }

// NewLoader prepares loading from ck, which must stay open as long as what is
// loaded.
func NewLoader(dev compute.Device, ck *checkpoint.Checkpoint, q Quantize) *Loader {
	l := &Loader{loader{dev: dev, ck: ck, cfg: ck.Config()}}
	l.ld.quantize = q.of(ck).target()
	return l
}

// Err is the first error.
func (l *Loader) Err() error {
	if l.ld.err != nil {
		return fmt.Errorf("open %s: %w", l.ld.ck.Path(), l.ld.err)
	}
	return nil
}

// Has tells whether the checkpoint has a tensor of that name.
func (l *Loader) Has(name string) bool {
	_, ok := l.ld.ck.Lookup(name)
	return ok
}

// Norm loads the norm weight [width] of that name, with 1 added where the
// checkpoint stores zero-centred norms.
func (l *Loader) Norm(name string, width int) compute.Buffer { return l.ld.norm(name, width) }

// Linear loads the matrices "name.weight" (with "name.bias" where there is one)
// side by side as one [Σ out, in]. Every weight must have in columns.
func (l *Loader) Linear(in int, names ...string) compute.Linear {
	parts := make([]compute.LinearPart, len(names))
	for i, name := range names {
		parts[i] = l.ld.projection(name)
		if w := parts[i].Weight; l.ld.err == nil && w.Cols() != in {
			l.ld.err = fmt.Errorf("tensor %q has shape %v, want [%d, %d]", w.Name, w.Shape, w.Rows(), in)
		}
	}
	return l.ld.linear(parts...)
}

// Table loads a matrix of which rows are read.
func (l *Loader) Table(name string) compute.Table { return l.ld.table(name) }

// ZeroCentred says that norms are stored as w for a factor of 1 + w.
func (l *Loader) ZeroCentred() {
	cfg := *l.ld.cfg
	cfg.NormPlusOne = true
	l.ld.cfg = &cfg
}
