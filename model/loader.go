package model

import (
	"fmt"
	"slices"
	"strings"

	"surmise/checkpoint"
	"surmise/compute"
)

// Loader takes a drafter's tensors out of its checkpoint and onto a device. After
// the first error its methods do nothing and return nil; Err is looked at once,
// at the end.
type Loader struct {
	ld    loader
	asked map[string]bool
}

// NewLoader prepares loading from ck, which must stay open as long as what is
// loaded.
func NewLoader(dev compute.Device, ck *checkpoint.Checkpoint, q Quantize) *Loader {
	l := &Loader{ld: loader{dev: dev, ck: ck, cfg: ck.Config()}, asked: map[string]bool{}}
	l.ld.quantize = q.of(ck).target()
	return l
}

// Err is the first error. It begins with the checkpoint's path.
func (l *Loader) Err() error {
	if err := l.ld.err; err != nil && !strings.HasPrefix(err.Error(), l.ld.ck.Path()+":") {
		return fmt.Errorf("%s: %w", l.ld.ck.Path(), err)
	}
	return l.ld.err
}

// Has tells whether the checkpoint has a tensor of that name, be it one of a type
// that cannot be read.
func (l *Loader) Has(name string) bool { return slices.Contains(l.ld.ck.Names(), name) }

// Dropped returns the names of tensors, of those that begin with prefix, that
// nobody has asked for: without them the network is another one. Tables of
// rotary frequencies, which some checkpoints carry, are made from config.json.
func (l *Loader) Dropped(prefix string) []string {
	return slices.DeleteFunc(l.ld.ck.Names(), func(name string) bool {
		return l.asked[name] || !strings.HasPrefix(name, prefix) || strings.HasSuffix(name, "rotary_emb.inv_freq")
	})
}

// Norm loads the norm weight [width] of that name, with 1 added where the
// checkpoint stores zero-centred norms.
func (l *Loader) Norm(name string, width int) compute.Buffer {
	l.asked[name] = true
	return l.ld.norm(name, width)
}

// Linear loads the matrices "name.weight" (with "name.bias" where there is one)
// side by side as one [Σ out, in]. Every weight must have in columns.
func (l *Loader) Linear(in int, names ...string) compute.Linear {
	parts := make([]compute.LinearPart, len(names))
	for i, name := range names {
		parts[i] = l.projection(name)
		if w := parts[i].Weight; l.ld.err == nil && (len(w.Shape) != 2 || w.Cols() != in) {
			l.ld.err = fmt.Errorf("tensor %q has shape %v, want a matrix of %d columns", w.Name, w.Shape, in)
		}
	}
	return l.ld.linear(parts...)
}

// Matrix loads "name.weight" (with "name.bias" where there is one), which must
// be [out, in].
func (l *Loader) Matrix(name string, out, in int) compute.Linear {
	part := l.projection(name)
	if w := part.Weight; l.ld.err == nil && !slices.Equal(w.Shape, []int{out, in}) {
		l.ld.err = fmt.Errorf("tensor %q has shape %v, want [%d, %d]", w.Name, w.Shape, out, in)
	}
	return l.ld.linear(part)
}

// Embedding loads the matrix of that name, of which rows of hidden are read. As
// in whole models, vocab_size of config.json, if it is there, is the number of
// rows: padding is counted in it.
func (l *Loader) Embedding(name string, hidden int) compute.Table {
	l.asked[name] = true
	t := l.ld.tensor(name)
	if l.ld.err != nil {
		return nil
	}
	vocab := l.ld.cfg.VocabSize
	switch {
	case len(t.Shape) != 2 || t.Cols() != hidden:
		l.ld.err = fmt.Errorf("tensor %q has shape %v, want a matrix of hidden_size %d columns", name, t.Shape, hidden)
	case vocab > 0 && t.Rows() != vocab:
		l.ld.err = fmt.Errorf("tensor %q has shape %v, want [%d, %d] by vocab_size and hidden_size", name, t.Shape, vocab, hidden)
	}
	return l.ld.table(name)
}

// projection names a matrix with its bias, which must be there where config.json
// says so.
func (l *Loader) projection(name string) compute.LinearPart {
	l.asked[name+".weight"], l.asked[name+".bias"] = true, true
	part := compute.LinearPart{Weight: l.ld.tensor(name + ".weight")}
	if l.biased(name) || l.Has(name+".bias") {
		part.Bias = l.ld.tensor(name + ".bias")
	}
	return part
}

// biased tells whether config.json promises a bias.
func (l *Loader) biased(name string) bool {
	switch name[strings.LastIndexByte(name, '.')+1:] {
	case "q_proj", "k_proj", "v_proj":
		return l.ld.cfg.AttentionBias
	case "gate_proj", "up_proj", "down_proj":
		return l.ld.cfg.MLPBias
	}
	return false
}

// ZeroCentred says that norms are stored as w for a factor of 1 + w.
func (l *Loader) ZeroCentred() {
	cfg := *l.ld.cfg
	cfg.NormPlusOne = true
	l.ld.cfg = &cfg
}
