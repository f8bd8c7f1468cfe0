package engine

import (
	"context"

	"surmise/drafter"
)

// Tick does one round over everything under way and tells whether anything is
// left. Failures of requests go to their events. The error is that of ctx,
// after which the same sequences may go on with another Tick.
func (e *Engine) Tick(ctx context.Context) (more bool, err error) {
	if err := ctx.Err(); err != nil {
		return len(e.live) > 0, err
	}
	e.plan()
	if len(e.rows) == 0 {
		e.sweep()
		return len(e.live) > 0, nil
	}
	began := e.opts.Clock()
	e.propose(ctx)
	drafted := e.opts.Clock().Sub(began)
	if err := e.verifier.Round(ctx, e.rows); err != nil && ctx.Err() != nil {
		return true, err
	}
	cost := e.verifier.Cost()
	cost.Draft += drafted
	if len(e.asks) > 0 {
		e.opts.Width.Learn(e.verifier.Outcomes(), cost)
	}
	for _, s := range e.live {
		if s.planned {
			s.settle(cost)
		}
	}
	e.sweep()
	return len(e.live) > 0, nil
}

// plan collects the rows of the round: every sequence that is decoding, and
// prompt chunks in the order the requests came, up to the chunk size together.
func (e *Engine) plan() {
	e.rows, e.asks = e.rows[:0], e.asks[:0]
	budget := e.opts.Chunk
	for _, s := range e.live {
		s.planned = false
		if s.over {
			continue
		}
		if err := s.ctx.Err(); err != nil {
			s.finish(Finish{Reason: Cancelled, Token: -1, Err: err})
			continue
		}
		if s.limit == 0 {
			s.finish(Finish{Reason: Length, Token: -1})
			continue
		}
		prompt, ok := s.plan(budget)
		if !ok {
			continue
		}
		s.planned = true
		budget -= prompt
		e.rows = append(e.rows, &s.row)
		if s.wants() {
			e.asks = append(e.asks, &s.ask)
		}
	}
}

// propose fills the rows' proposals.
func (e *Engine) propose(ctx context.Context) {
	if len(e.asks) == 0 {
		return
	}
	e.opts.Width.Ask(e.asks)
	drafter.Propose(ctx, e.asks)
	e.opts.Width.Trim(e.asks)
	for _, s := range e.live {
		if s.planned && s.ask.Seq != nil {
			s.row.Proposal, s.row.Rest = s.ask.Proposal, s.ask.Rest
		}
	}
}

// sweep lets go of samples that are over.
func (e *Engine) sweep() {
	kept := e.live[:0]
	for _, s := range e.live {
		if !s.over {
			kept = append(kept, s)
		}
	}
	clear(e.live[len(kept):])
	e.live = kept
}
