package mtp

import (
	"context"
	"fmt"

	"surmise/drafter"
	"surmise/model"
	"surmise/sampler"
)

// chaining is a row while its proposal grows.
type chaining struct {
	row     *drafter.Row
	seq     *seq
	chain   *sampler.Chain
	release func()
	next    int32     // the token to consume
	state   []float32 // the state before it
	sure    float32   // product of the confidences so far
}

// Propose chains the head for all rows together: one pass for every further
// position, each over the rows that still want one.
func (d *Drafter) Propose(ctx context.Context, rows []*drafter.Row) error {
	for len(rows) > 0 {
		n := min(len(rows), model.Chunk/2)
		if err := d.propose(ctx, rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func (d *Drafter) propose(ctx context.Context, rows []*drafter.Row) error {
	d.admit(rows)
	defer d.end()
	for step := 0; len(d.live) > 0; step++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := d.extend(step); err != nil {
			return fmt.Errorf("%s: %w", Name, err)
		}
		if err := d.net.run(d.dev); err != nil {
			return fmt.Errorf("%s: %w", Name, err)
		}
		kept := d.live[:0]
		for i, c := range d.live {
			more, err := d.step(i, c)
			if err != nil {
				c.row.Err = fmt.Errorf("%s: %w", Name, err)
			} else if more {
				kept = append(kept, c)
			}
		}
		d.live = kept
	}
	return nil
}

// admit takes the rows that can be drafted; the others get their reason.
func (d *Drafter) admit(rows []*drafter.Row) {
	if len(d.chains) < len(rows) {
		d.chains = make([]chaining, len(rows))
	}
	d.live = d.live[:0]
	for i, r := range rows {
		s := r.Seq.(*seq)
		switch {
		case s.Lost:
			r.Decline = CacheFull
			continue
		case len(r.Known) != 1 || r.Position != s.At || len(s.last) == 0 || s.At < s.From:
			r.Decline = StateMissing
			continue
		}
		c := &d.chains[i]
		*c = chaining{row: r, seq: s, next: r.Known[0], state: append(c.state[:0], s.last...), sure: 1}
		c.chain, c.release = r.ForkChain(d.opts.Noise)
		d.live = append(d.live, c)
	}
}

// extend takes every live row's next entry into the program, at first with
// those it owes. A row for which there is no room keeps what it has.
func (d *Drafter) extend(step int) error {
	d.net.begin()
	if step == 0 {
		if err := d.settleAll(); err != nil {
			return err
		}
	}
	kept := d.live[:0]
	for _, c := range d.live {
		s := c.seq
		position := s.At + step
		// The pending token's entry may be there from a proposal that was not
		// verified; it is made anew, for its output.
		err := s.Cache.Truncate(position)
		if err == nil {
			err = s.Cache.Append([]int32{c.next})
		}
		if err != nil {
			if len(c.row.Proposal) == 0 {
				c.row.Decline = CacheFull
			}
			continue
		}
		d.net.entry(s.Cache, position, s.From, c.next, c.state, true)
		if step == 0 {
			s.Made, s.States = position+1, s.States[:0]
		}
		kept = append(kept, c)
	}
	d.live = kept
	return nil
}

// settleAll takes the owed entries of all live rows into the program, and runs
// it when there would be no room for the pending ones behind them.
func (d *Drafter) settleAll() error {
	for _, c := range d.live {
		if err := d.settle(c.seq); err != nil {
			return err
		}
	}
	if d.net.Rows+len(d.live) > model.Chunk {
		return d.net.run(d.dev)
	}
	return nil
}

// step takes the token that row i of the pass predicts, and tells whether
// another one is wanted.
func (d *Drafter) step(i int, c *chaining) (more bool, err error) {
	r := c.row
	token, confidence, err := d.proposer.Propose(c.chain, d.net.logits.Row(i))
	if err != nil {
		return false, err
	}
	if c.sure *= confidence; c.sure < r.Floor {
		if len(r.Proposal) == 0 {
			r.Decline = Unsure
		}
		return false, nil
	}
	r.Proposal = append(r.Proposal, token)
	r.Confidence = append(r.Confidence, confidence)
	if len(r.Proposal) >= r.Budget {
		return false, nil
	}
	if c.chain != nil {
		c.chain.Accept(token)
	}
	c.next = token
	c.state = append(c.state[:0], d.net.chained(i)...)
	return true, nil
}

// end drops the entries made from the head's own outputs; that of the pending
// token, made from the target's state, stays.
func (d *Drafter) end() {
	for i := range d.chains {
		c := &d.chains[i]
		if c.row == nil {
			continue
		}
		if n := c.seq.At + 1; c.seq.Cache.Len() > n {
			if err := c.seq.Cache.Truncate(n); err != nil && c.row.Err == nil {
				c.row.Err = fmt.Errorf("%s: %w", Name, err)
			}
		}
		c.release()
		*c = chaining{state: c.state}
	}
	d.live = d.live[:0]
}
