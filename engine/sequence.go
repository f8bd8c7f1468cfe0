package engine

import (
	"context"
	"time"

	"surmise/drafter"
	"surmise/kvcache"
	"surmise/sampler"
	"surmise/verify"
)

// sequence is one sample under way.
type sequence struct {
	engine  *Engine
	ctx     context.Context
	request *Request
	index   int // of the sample
	limit   int // tokens it may draw

	seq    *kvcache.Seq // nil while the sample waits to be forked
	todo   []int32      // known tokens that are not cached
	chain  *sampler.Chain
	forced *forcedChain // of a request whose output is given
	out    stream
	draft  drafter.Seq
	kind   string // of draft
	row    verify.Row
	ask    drafter.Row

	// waiting are the samples forked from this one before the prompt's last
	// token.
	waiting []*sequence

	drawn   int
	ended   *Finish // set when a token ended the sample inside a round
	over    bool
	planned bool // takes part in the round under way
	begun   bool
	start   time.Time // of the prompt, then of generation
	timings Timings
}

// open makes the samples of a request. One of them owns the prompt, the others
// wait to be forked from it.
func (e *Engine) open(ctx context.Context, r Request) ([]*sequence, error) {
	if r.Params.Candidates() > r.Params.N {
		r.Params.Logprobs = true // to choose by
	}
	env, err := e.envOf(&r.Params)
	if err != nil {
		return nil, err
	}
	var samples []*sequence
	for i := range r.Params.Candidates() {
		s := &sequence{engine: e, ctx: ctx, request: &r, index: i, limit: e.Limit(len(r.Prompt), r.Params.MaxNewTokens)}
		if s.chain, err = sampler.NewChain(r.Params, env, r.Prompt, i); err == nil {
			s.out, err = e.newStream(&r, i, s.limit)
		}
		if err != nil {
			for _, o := range samples {
				o.chain.Release()
			}
			return nil, err
		}
		s.row.Emit = s.take
		samples = append(samples, s)
	}
	first := samples[0]
	first.waiting = samples[1:]
	if r.Fresh {
		first.seq = e.target.Cache().Open()
	} else {
		first.seq = e.target.Cache().Match(r.Prompt)
	}
	first.todo = r.Prompt[first.seq.Len():]
	first.timings.CachedN = first.seq.Len()
	first.timings.PromptN = len(first.todo)
	if r.Drafter != nil {
		first.openDraft()
	}
	return samples, nil
}

// openDraft starts drafting; a failure leaves the sample without a drafter.
func (s *sequence) openDraft() {
	r := s.request
	s.kind = r.Drafter.Contract().Kind
	d, err := r.Drafter.Open(drafter.Opening{Tokens: r.Prompt, Cached: s.seq.Len(), Pages: s.seq, Prediction: r.Prediction, Fresh: r.Fresh})
	if err != nil {
		s.declined(drafter.Failed)
		s.engine.warn(s.kind, err)
		return
	}
	s.draft = d
}

// fork lets the waiting samples go on from here, which is before the prompt's
// last token.
func (s *sequence) fork() {
	for _, w := range s.waiting {
		w.todo = append([]int32(nil), s.todo...)
		w.begun, w.start, w.timings = s.begun, s.start, s.timings
		var err error
		if w.seq, err = s.seq.Fork(); err != nil {
			w.finish(Finish{Reason: Failed, Token: -1, Err: err})
			continue
		}
		if w.kind = s.kind; s.draft == nil {
			continue
		}
		if w.draft, err = s.draft.Fork(); err != nil {
			w.draft = nil
			w.declined(drafter.Failed)
			w.engine.warn(w.kind, err)
		}
	}
	s.waiting = nil
}

// plan makes the sample's row of the next round with at most budget prompt
// tokens; it returns how many of them it takes, and false if it takes no part.
func (s *sequence) plan(budget int) (prompt int, ok bool) {
	if s.over || s.seq == nil {
		return 0, false
	}
	if len(s.todo) == 1 && len(s.waiting) > 0 {
		s.fork()
	}
	n := len(s.todo)
	if n > 1 {
		if budget <= 0 {
			return 0, false
		}
		n = min(n, budget)
		if len(s.waiting) > 0 {
			n = min(n, len(s.todo)-1)
		}
		prompt = n
	}
	s.row.Seq, s.row.Known, s.row.Draft = s.seq, s.todo[:n], s.draft
	s.row.Proposal, s.row.Chain, s.row.Rest = nil, nil, false
	if n == len(s.todo) {
		s.row.Chain = s.draws()
	}
	s.ask.Seq = nil
	if !s.begun {
		s.begun, s.start = true, s.engine.opts.Clock()
	}
	return prompt, true
}

// wants tells whether the sample asks for a proposal, and makes ready to.
func (s *sequence) wants() bool {
	if s.draft == nil || s.row.Chain == nil || len(s.row.Known) != 1 {
		return false
	}
	s.ask.Seq, s.ask.Position, s.ask.Known, s.ask.Chain = s.draft, s.seq.Len(), s.row.Known, s.chain
	s.ask.Decline, s.ask.Rest = "", false
	s.ask.Budget = min(drafter.MaxWidth, s.limit-s.drawn-1, s.engine.target.Spec().Context-s.seq.Len()-1)
	if m := s.request.MaxWidth; m > 0 {
		s.ask.Budget = min(s.ask.Budget, m)
	}
	return true
}

// take is told every token as it is emitted and says whether the sample goes on.
func (s *sequence) take(t verify.Token) bool {
	s.drawn++
	source := ""
	if t.Drafted {
		source = s.source()
	}
	s.ended = s.out.push(t, source)
	return s.ended == nil
}

// source is who made the proposal of the round.
func (s *sequence) source() string {
	if s.ask.Source != "" {
		return s.ask.Source
	}
	return s.kind
}

// settle takes in what the round did.
func (s *sequence) settle(cost drafter.Cost) {
	if s.row.Chain != nil {
		s.count(cost)
	}
	for _, err := range []error{s.ask.Err, s.row.DraftErr} {
		if err != nil {
			s.dropDraft(err)
		}
	}
	switch {
	case s.row.Err != nil:
		s.finish(Finish{Reason: Failed, Token: -1, Err: s.row.Err})
	case s.row.Ended:
		s.finish(*s.ended)
	case s.row.Chain == nil:
		s.todo = s.todo[len(s.row.Known):]
	default:
		s.todo = append(s.todo[:0:0], s.row.Pending)
	}
}

// count counts a round that drew tokens, and notes the end of the prompt.
func (s *sequence) count(cost drafter.Cost) {
	t := &s.timings
	first := s.drawn > 0 && s.drawn == s.row.Emitted
	if first {
		now := s.engine.opts.Clock()
		t.Prompt, s.start = now.Sub(s.start), now
		s.publish()
	}
	if s.row.Err != nil {
		return
	}
	t.Draft.Round(len(s.row.Proposal), s.row.Accepted)
	if !first { // the time of the first is the prompt's
		t.Draft.Draft += cost.Draft
		t.Draft.Verify += cost.Verify
		t.Draft.Sample += cost.Sample
	}
	if s.kind == "" {
		return
	}
	why := drafter.Reason("")
	if len(s.row.Proposal) > 0 {
		t.DraftKind = s.kind
		t.drafted(s.source(), len(s.row.Proposal), s.row.Accepted)
	} else if s.ask.Seq != nil {
		if why = s.ask.Decline; why == "" {
			why = drafter.Failed // what was proposed were no tokens
		}
		t.declined(why)
	}
	if c := s.engine.opts.Counters; c != nil {
		rows := time.Duration(max(cost.Rows, 1))
		share := drafter.Cost{Draft: cost.Draft / rows, Verify: cost.Verify / rows, Sample: cost.Sample / rows}
		c.Settle(s.kind, s.source(), len(s.row.Proposal), s.row.Accepted, share, why)
	}
}

func (s *sequence) declined(why drafter.Reason) { s.engine.declined(&s.timings, s.kind, why) }

// declined counts a round in which a kind proposed nothing.
func (e *Engine) declined(t *Timings, kind string, why drafter.Reason) {
	t.declined(why)
	if c := e.opts.Counters; c != nil {
		c.Decline(kind, why)
	}
}

func (s *sequence) dropDraft(err error) {
	if s.draft == nil {
		return
	}
	if s.ask.Err == nil {
		s.declined(drafter.Failed) // a failure to propose has been counted
	}
	s.engine.warn(s.kind, err)
	_ = s.draft.Close()
	s.draft = nil
}

// finish ends the sample: its last event goes out and everything is given back.
func (s *sequence) finish(f Finish) {
	if s.over {
		return
	}
	s.over = true
	if s.drawn > 0 {
		s.timings.Predicted = s.engine.opts.Clock().Sub(s.start)
	}
	s.timings.PredictedN = s.drawn
	f.Timings = s.timings
	if s.draft != nil {
		_ = s.draft.Close()
	}
	if s.seq != nil {
		if f.Reason == Stop || f.Reason == Length {
			s.publish()
		}
		s.seq.Close()
	}
	s.chain.Release()
	for _, w := range s.waiting {
		w.finish(Finish{Reason: f.Reason, Token: -1, Err: f.Err})
	}
	s.out.finish(f)
}

// publish offers what is computed to later prompts with the same beginning.
func (s *sequence) publish() {
	if !s.request.Fresh {
		s.seq.Publish()
	}
}
