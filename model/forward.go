package model

import (
	"errors"
	"fmt"

	"surmise/compute"
	"surmise/kvcache"
)

// Forward computes a batch: see Target. After the first calls of a size it
// allocates nothing.
func (m *Model) Forward(b *Batch) error {
	if m.cache == nil {
		return errors.New("forward: model is closed")
	}
	if err := m.check(b); err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	if err := m.results.begin(m, b); err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	m.before = m.before[:0]
	for i := range b.Rows {
		m.before = append(m.before, b.Rows[i].Seq.Len())
		b.Rows[i].Seq.Mark()
	}
	err := m.chunks(b)
	for i := range b.Rows {
		if err != nil {
			err = errors.Join(err, b.Rows[i].Seq.Truncate(m.before[i]))
		}
		b.Rows[i].Seq.Unmark()
	}
	if err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	b.Results = &m.results
	return nil
}

// check refuses a batch that cannot be computed before anything is changed.
func (m *Model) check(b *Batch) error {
	for _, l := range b.Hidden {
		if l < 0 || l > m.spec.Layers {
			return fmt.Errorf("hidden states of layer %d: want 0 to %d, or %d for the state after the final norm", l, m.spec.Layers-1, m.spec.Layers)
		}
	}
	for i := range b.Rows {
		if err := m.checkRow(b, i); err != nil {
			return &RowError{Row: i, Err: err}
		}
	}
	return nil
}

func (m *Model) checkRow(b *Batch, i int) error {
	r := &b.Rows[i]
	switch {
	case r.Seq == nil || r.Seq.Cache() != m.cache:
		return errors.New("its sequence is not of this model's cache")
	case len(r.Tokens) == 0:
		return errors.New("no tokens")
	case r.Logits < 0 || r.Logits > len(r.Tokens):
		return fmt.Errorf("logits wanted for the last %d of %d tokens", r.Logits, len(r.Tokens))
	case len(r.Tokens) > m.spec.Context-r.Seq.Len():
		return fmt.Errorf("%w: %d tokens behind %d cached ones, but the context is %d",
			kvcache.ErrContext, len(r.Tokens), r.Seq.Len(), m.spec.Context)
	}
	for j, t := range r.Tokens {
		if t < 0 || int(t) >= m.embedding.Rows() {
			return fmt.Errorf("token %d at %d: want 0 to %d", t, j, m.embedding.Rows()-1)
		}
	}
	for j := range i {
		if b.Rows[j].Seq == r.Seq {
			return fmt.Errorf("has the sequence of row %d", j)
		}
	}
	return nil
}

// chunks runs the rows' tokens, one after the other, in programs of at most
// maxChunk of them.
func (m *Model) chunks(b *Batch) error {
	p, first := &m.pass, 0 // first token of the chunk, counted over the batch
	row, done := 0, 0      // tokens of row that are in the chunk or behind us
	outputs := 0           // wanted tokens behind us
	for row < len(b.Rows) {
		p.begin()
		for row < len(b.Rows) && p.rows < maxChunk {
			r := &b.Rows[row]
			n := min(len(r.Tokens)-done, maxChunk-p.rows)
			if err := p.extend(r, done, n); err != nil {
				return &RowError{Row: row, Err: err}
			}
			if done += n; done == len(r.Tokens) {
				row, done = row+1, 0
			}
		}
		if err := m.reach(int(maxOf(p.positions)) + 1); err != nil {
			return err
		}
		m.record(b, first, outputs)
		if err := m.dev.Run(&p.Program); err != nil {
			return err
		}
		first += p.rows
		outputs += len(p.want)
	}
	return nil
}

// extend takes tokens from…from+n−1 of a row into the chunk.
func (p *pass) extend(r *Row, from, n int) error {
	start := r.Seq.Len()
	if err := r.Seq.Append(r.Tokens[from : from+n]); err != nil {
		return err
	}
	p.tokens = append(p.tokens, r.Tokens[from:from+n]...)
	for i := range n {
		p.positions = append(p.positions, int32(start+i))
		if from+i >= len(r.Tokens)-r.Logits {
			p.want = append(p.want, int32(p.rows+i))
		}
	}
	for g := range p.groups {
		at, window := &p.groups[g], p.m.windows[g]
		at.slots = r.Seq.Slots(g, start, at.slots)
		pages := r.Seq.Pages(g)
		for i := range n {
			span := compute.Span{Pages: pages, Hi: int32(start + i + 1)}
			if window > 0 {
				span.Lo = max(0, span.Hi-int32(window))
			}
			at.spans = append(at.spans, span)
		}
	}
	p.rows += n
	return nil
}

// record writes the chunk's program: embedding, blocks, and for wanted rows
// the final norm and the head. first and outputs are where the chunk's tokens
// and wanted tokens stand in the batch.
func (m *Model) record(b *Batch, first, outputs int) {
	p := &m.pass
	p.Embed(p.x, m.embedding, p.tokens, m.embedScale)
	for l := range m.spec.Layers {
		m.arch.block(p, l)
		for i, wanted := range b.Hidden {
			if wanted == l {
				p.Copy(m.results.hidden[i].Skip(first), p.x, p.rows)
			}
		}
	}
	for i, wanted := range b.Hidden {
		if wanted == m.spec.Layers {
			p.norm(m.results.hidden[i].Skip(first), p.x, m.finalNorm)
		}
	}
	n := len(p.want)
	if n == 0 {
		return
	}
	p.Gather(p.last, p.x, p.want)
	p.Norm(p.last, p.last, n, m.finalNorm, float32(m.spec.RMSEps))
	logits := m.results.logits.Skip(outputs)
	p.Linear(logits, m.head, p.last, n)
	for from, to := 0, 0; from < n; from = to {
		only := m.results.argmaxOnly[outputs+from]
		for to = from + 1; to < n && m.results.argmaxOnly[outputs+to] == only; to++ {
		}
		if only {
			p.Argmax(m.results.argmax[outputs+from:outputs+to], logits.Skip(from))
		}
	}
}

func maxOf(v []int32) int32 {
	m := v[0]
	for _, x := range v {
		m = max(m, x)
	}
	return m
}
