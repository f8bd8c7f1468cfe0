package model

import (
	"fmt"

	"surmise/compute"
	"surmise/compute/canon"
)

// results is what a Forward leaves behind, in buffers that the next one uses
// again. Wanted tokens and tokens are counted over the batch, in row order.
type results struct {
	logits     compute.View // [wanted tokens, vocab]
	logitRows  int          // capacity
	argmax     []int32      // by wanted token, where argmaxOnly
	argmaxOnly []bool       // by wanted token
	hidden     []compute.View
	hiddenRows []int // capacity of each
	rows       []rowResults
}

type rowResults struct {
	first       int // tokens of the batch before this row
	out, wanted int // wanted tokens before this row; its own
}

// begin makes room for a batch's outputs.
func (r *results) begin(m *Model, b *Batch) error {
	r.rows, r.argmaxOnly = r.rows[:0], r.argmaxOnly[:0]
	tokens, wanted := 0, 0
	for i := range b.Rows {
		row := &b.Rows[i]
		r.rows = append(r.rows, rowResults{tokens, wanted, row.Logits})
		tokens += len(row.Tokens)
		wanted += row.Logits
		for range row.Logits {
			r.argmaxOnly = append(r.argmaxOnly, row.ArgmaxOnly)
		}
	}
	for len(r.argmax) < wanted {
		r.argmax = append(r.argmax, 0)
	}
	if err := grow(m.dev, &r.logits, &r.logitRows, wanted, m.spec.Vocab); err != nil {
		return fmt.Errorf("logits of %d tokens: %w", wanted, err)
	}
	for len(r.hidden) < len(b.Hidden) {
		r.hidden = append(r.hidden, compute.View{})
		r.hiddenRows = append(r.hiddenRows, 0)
	}
	for i := range b.Hidden {
		if err := grow(m.dev, &r.hidden[i], &r.hiddenRows[i], tokens, m.spec.Hidden); err != nil {
			return fmt.Errorf("hidden states of %d tokens: %w", tokens, err)
		}
	}
	return nil
}

// grow replaces a buffer that has room for less than the given rows.
func grow(dev compute.Device, v *compute.View, have *int, rows, cols int) error {
	if rows <= *have {
		return nil
	}
	n := grown(rows)
	buf, err := dev.Alloc(n * cols)
	if err != nil {
		return err
	}
	*v, *have = compute.ViewOf(buf, cols), n
	return nil
}

// at is the number of wanted token i of a row; it panics when there is none,
// as indexing does.
func (r *results) at(row, i int) int {
	if i < 0 || i >= r.rows[row].wanted {
		panic(fmt.Sprintf("model: output %d of row %d, which wanted %d", i, row, r.rows[row].wanted))
	}
	return r.rows[row].out + i
}

func (r *results) Logits(row, i int) []float32 {
	n := r.at(row, i)
	if r.argmaxOnly[n] {
		return nil
	}
	return r.logits.Row(n)
}

func (r *results) Argmax(row, i int) (int32, bool) {
	n := r.at(row, i)
	best := r.argmax[n]
	if !r.argmaxOnly[n] {
		best = canon.Argmax(r.logits.Row(n))
	}
	return best, best >= 0
}

func (r *results) Hidden(row, index int) compute.View {
	return r.hidden[index].Skip(r.rows[row].first)
}
