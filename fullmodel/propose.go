package fullmodel

import (
	"context"
	"errors"
	"fmt"

	"surmise/drafter"
	"surmise/kvcache"
	"surmise/model"
	"surmise/sampler"
)

// proposing is a row while its proposal grows.
type proposing struct {
	row     *drafter.Row
	seq     *seq
	chain   *sampler.Chain // nil: argmax
	release func()
	next    [1]int32 // the token to read next, in the draft model's ids
	sure    float32  // product of the confidences so far
}

// Propose drafts all rows together: one forward of the draft model for every
// further position, each over the rows that still want one.
func (d *Drafter) Propose(ctx context.Context, rows []*drafter.Row) error {
	d.begin(rows)
	defer d.end()
	for first := true; len(d.live) > 0; first = false {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := d.forward(first); err != nil {
			return fmt.Errorf("%s: %w", Name, err)
		}
		kept := d.live[:0]
		for i, p := range d.live {
			more, err := d.step(i, p)
			if err != nil {
				p.row.Err = fmt.Errorf("%s: %w", Name, err)
			} else if more {
				kept = append(kept, p)
			}
		}
		d.live = kept
	}
	return nil
}

// begin takes the rows that can be drafted; the others get their reason.
func (d *Drafter) begin(rows []*drafter.Row) {
	d.live = d.live[:0]
	if len(d.slots) < len(rows) {
		d.slots = make([]proposing, len(rows))
	}
	limit := d.model.Spec().Context
	for i, r := range rows {
		s := r.Seq.(*seq)
		s.learn(r.Position, r.Known)
		s.text = s.text[:r.Position+len(r.Known)]
		switch {
		case s.readable() < len(s.text):
			r.Decline = UnknownToken
			continue
		case len(s.text) > limit:
			r.Decline = ContextExceeded
			continue
		}
		// The last proposal is never read, so k proposals need k−1 positions.
		r.Budget = min(r.Budget, limit-len(s.text)+1)
		p := &d.slots[i]
		*p = proposing{row: r, seq: s, sure: 1}
		p.chain, p.release = r.ForkChain(d.noise)
		d.live = append(d.live, p)
	}
}

// end gives the chains back.
func (d *Drafter) end() {
	for i := range d.slots {
		if release := d.slots[i].release; release != nil {
			release()
		}
		d.slots[i] = proposing{}
	}
	d.live = d.live[:0]
}

// forward reads every live row's next tokens. A row the draft model refuses
// leaves the batch: for want of room it declines, else it fails.
func (d *Drafter) forward(first bool) error {
	for len(d.live) > 0 {
		d.batch.Rows = d.batch.Rows[:0]
		for _, p := range d.live {
			tokens := p.next[:]
			if first {
				tokens = p.seq.owed()
			}
			d.batch.Rows = append(d.batch.Rows, model.Row{Seq: p.seq.cache, Tokens: tokens, Logits: 1})
		}
		err := d.model.Forward(&d.batch)
		if err == nil {
			return nil
		}
		var one *model.RowError
		if !errors.As(err, &one) || one.Row < 0 || one.Row >= len(d.live) {
			return err
		}
		r := d.live[one.Row].row
		if errors.Is(one.Err, kvcache.ErrFull) {
			if len(r.Proposal) == 0 {
				r.Decline = CacheFull
			}
		} else {
			r.Err = fmt.Errorf("%s: %w", Name, one.Err)
		}
		d.live = append(d.live[:one.Row], d.live[one.Row+1:]...)
	}
	return nil
}

// step takes the token after what row i of the batch has just read, and tells
// whether another one is wanted.
func (d *Drafter) step(i int, p *proposing) (more bool, err error) {
	z := d.vocab.logits(d.wide, d.batch.Logits(i, 0))
	token, confidence, err := d.proposer.Propose(p.chain, z)
	if err != nil {
		return false, err
	}
	r := p.row
	id := d.vocab.toDraft[token]
	if p.sure *= confidence; p.sure < r.Floor || id < 0 {
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
	if p.chain != nil {
		p.chain.Accept(token)
	}
	p.next[0] = id
	return true, nil
}
