package dflash

import (
	"context"
	"fmt"

	"surmise/drafter"
	"surmise/model"
)

// block is a row's place in the program.
type block struct {
	row   *drafter.Row
	seq   *seq
	start int // position of slot 0
	slots int
	first int // row of logits of slot 1
}

// Propose fills one block for every row, all of them in one pass.
func (d *Drafter) Propose(ctx context.Context, rows []*drafter.Row) error {
	for len(rows) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(len(rows), model.Chunk/d.cfg.block)
		if err := d.propose(rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func (d *Drafter) propose(rows []*drafter.Row) error {
	d.blocks = d.blocks[:0]
	if err := d.catchUp(rows); err != nil {
		return fmt.Errorf("%s: %w", Name, err)
	}
	for _, r := range rows {
		if b, ok := d.admit(r); ok {
			d.blocks = append(d.blocks, b)
		}
	}
	err := d.net.blocks()
	for _, b := range d.blocks {
		if cut := b.seq.Cache.Truncate(b.start); cut != nil {
			b.row.Err = fmt.Errorf("%s: %w", Name, cut)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", Name, err)
	}
	for _, b := range d.blocks {
		if b.row.Err == nil {
			d.choose(b)
		}
	}
	return nil
}

// catchUp computes the context that rows owe.
func (d *Drafter) catchUp(rows []*drafter.Row) error {
	d.net.begin()
	for _, r := range rows {
		if s := r.Seq.(*seq); !s.Lost {
			if err := d.net.settle(s); err != nil {
				return err
			}
		}
	}
	return d.net.context()
}

// admit takes a row's block into the program, or names why not.
func (d *Drafter) admit(r *drafter.Row) (block, bool) {
	s := r.Seq.(*seq)
	b := block{row: r, seq: s, start: r.Position, slots: min(r.Budget+1, d.cfg.block), first: len(d.net.want)}
	switch {
	case s.Lost:
		r.Decline = CacheFull
		return b, false
	case len(r.Known) != 1 || r.Position != s.At:
		r.Decline = ContextBehind
		return b, false
	case b.start+b.slots > d.cfg.Context:
		b.slots = d.cfg.Context - b.start
		if b.slots < 2 {
			r.Decline = ContextExceeded
			return b, false
		}
	}
	n := d.net
	have := len(n.tokens)
	n.tokens = append(n.tokens, r.Known[0])
	for range b.slots - 1 {
		n.tokens = append(n.tokens, d.cfg.mask)
	}
	if err := s.Cache.Append(n.tokens[have:]); err != nil {
		n.tokens = n.tokens[:have]
		r.Decline = CacheFull
		return b, false
	}
	for i := 1; i < b.slots; i++ {
		n.want = append(n.want, int32(n.Rows+i))
	}
	n.Place(s.Cache, b.start, b.slots, s.From)
	return b, true
}

// choose proposes a token for every slot in turn. The slots were filled without
// knowledge of each other; the chain still sees the tokens chosen before.
func (d *Drafter) choose(b block) {
	r := b.row
	var err error
	var token int32
	var confidence float32
	sure := float32(1)
	chain, release := r.ForkChain(d.opts.Noise)
	defer release()
	for i := 1; i < b.slots; i++ {
		z := d.net.logits.Row(b.first + i - 1)
		if token, confidence, err = d.proposer.Propose(chain, z); err != nil {
			r.Err = err
			return
		}
		if sure *= confidence; sure < r.Floor {
			break
		}
		r.Proposal = append(r.Proposal, token)
		r.Confidence = append(r.Confidence, confidence)
		if chain != nil {
			chain.Accept(token)
		}
	}
	if len(r.Proposal) == 0 {
		r.Decline = Unsure
	}
}
