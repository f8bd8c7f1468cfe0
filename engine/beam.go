package engine

import (
	"context"
	"fmt"
	"slices"

	"surmise/drafter"
	"surmise/kvcache"
	"surmise/sampler"
	"surmise/sampler/stop"
	"surmise/tokenizer"
	"surmise/verify"
)

// Beam answers a request by beam search and sends the events of its n best
// hypotheses, best first, as samples 0 to n−1; fewer if fewer were found. Beams
// are rows of rounds without proposals over forked sequences; a request's
// drafter is not asked, and declines every round. With one beam the answer is that of greedy decoding.
//
// A hypothesis that ends within the best of its group is set aside, with its
// score; a group is done when it has set aside as many as it has beams and none
// of those running scores better at its present length, or at the limit.
func (e *Engine) Beam(ctx context.Context, r Request) error {
	if err := e.check(r); err != nil {
		return fmt.Errorf("beam search: %w", err)
	}
	s, err := e.newSearch(&r)
	if err != nil {
		return fmt.Errorf("beam search: %w", err)
	}
	defer s.close()
	if s.limit == 0 { // as many answers as asked for, of no tokens
		s.groups[0].finished = make([]hypothesis, r.Params.N)
		return s.send()
	}
	start := e.opts.Clock()
	if err := s.prompt(ctx); err != nil {
		return fmt.Errorf("beam search: %w", err)
	}
	generating := e.opts.Clock()
	s.timings.Prompt = generating.Sub(start)
	for length := 1; s.extend(length); length++ {
		if err := s.round(ctx); err != nil {
			return fmt.Errorf("beam search: %w", err)
		}
	}
	if s.err != nil {
		return fmt.Errorf("beam search: %w", s.err)
	}
	s.timings.Predicted = e.opts.Clock().Sub(generating)
	return s.send()
}

// search is a beam search under way.
type search struct {
	engine  *Engine
	request *Request
	limit   int
	beams   []*beam // group by group; nil where a group has fewer
	groups  []group
	rows    []*verify.Row
	timings Timings
	err     error
}

// group is what a group of beams has set aside.
type group struct {
	finished []hypothesis
	done     bool
}

// beam is a hypothesis that goes on. It is the verify.Chain of its row: what it
// "draws" are candidates, of which the search takes what it wants.
type beam struct {
	seq     *kvcache.Seq
	chain   *sampler.Chain
	decoder *tokenizer.Decoder
	stopper *stop.Stopper
	tokens  []sampler.Draw
	sum     float64
	known   []int32
	width   int
	top     []sampler.TokenLogprob
	report  *sampler.Params // whose log probabilities are reported; nil for none
	reports []sampler.Draw  // of top
	row     verify.Row
}

// hypothesis is a finished beam.
type hypothesis struct {
	tokens []sampler.Draw
	score  float64
}

func (b *beam) ArgmaxOnly() bool { return false }
func (b *beam) Accept(int32)     {}
func (b *beam) Sample(logits []float32) (d sampler.Draw, err error) {
	n := b.width
	if b.report != nil {
		n = max(n, b.report.TopLogprobs)
	}
	if b.top, err = b.chain.Top(logits, n, b.top[:0]); err != nil {
		return d, err
	}
	all := b.top
	b.top = all[:min(b.width, len(all))]
	if b.report != nil {
		err = b.reportOn(logits, all)
	}
	return sampler.Draw{Token: b.top[0].Token}, err
}

// reportOn notes what the candidates' tokens have as log probabilities: those
// the search goes by, or the model's own.
func (b *beam) reportOn(logits []float32, all []sampler.TokenLogprob) (err error) {
	if b.report.LogprobsMode == sampler.LogprobsProcessed {
		list := slices.Clone(all[:min(b.report.TopLogprobs, len(all))])
		b.reports = nil
		for _, c := range b.top {
			b.reports = append(b.reports, sampler.Draw{Token: c.Token, Logprob: c.Logprob, Top: list})
		}
		return nil
	}
	ids := make([]int32, len(b.top))
	for i, c := range b.top {
		ids[i] = c.Token
	}
	b.reports, err = b.chain.Report(logits, ids)
	return err
}

func (e *Engine) newSearch(r *Request) (*search, error) {
	p := &r.Params
	s := &search{
		engine: e, request: r, limit: e.Limit(len(r.Prompt), p.MaxNewTokens),
		beams: make([]*beam, p.Beams), groups: make([]group, p.BeamGroups),
	}
	b := &beam{width: p.BeamWidth()}
	if p.Logprobs {
		b.report = p
	}
	env, err := e.envOf(p)
	if err != nil {
		return nil, err
	}
	if b.chain, err = sampler.NewChain(*p, env, r.Prompt, 0); err != nil {
		return nil, err
	}
	stream, err := e.newStream(r, 0, s.limit)
	if err != nil {
		b.chain.Release()
		return nil, err
	}
	b.decoder, b.stopper = stream.decoder, stream.stopper
	b.seq = e.target.Cache().Match(r.Prompt)
	b.known = r.Prompt[b.seq.Len():]
	s.timings.CachedN, s.timings.PromptN = b.seq.Len(), len(b.known)
	s.beams[0] = b
	return s, nil
}

func (s *search) close() {
	for _, b := range s.beams {
		if b != nil {
			b.seq.Close()
			b.chain.Release()
		}
	}
}

// prompt computes the prompt, and the first candidates for every group.
func (s *search) prompt(ctx context.Context) error {
	b := s.beams[0]
	for len(b.known) > s.engine.opts.Chunk {
		row := verify.Row{Seq: b.seq, Known: b.known[:s.engine.opts.Chunk]}
		if err := s.verify(ctx, &row); err != nil {
			return err
		}
		b.known = b.known[len(row.Known):]
	}
	if err := s.round(ctx); err != nil {
		return err
	}
	b.seq.Publish()
	size := s.request.Params.Beams / s.request.Params.BeamGroups
	for g := 1; g < len(s.groups); g++ {
		c, err := b.fork()
		if err != nil {
			return err
		}
		c.top, c.reports = slices.Clone(b.top), b.reports
		s.beams[g*size] = c
	}
	return nil
}

// round computes the candidates of all beams.
func (s *search) round(ctx context.Context) error {
	s.rows = s.rows[:0]
	for _, b := range s.beams {
		if b != nil {
			b.row = verify.Row{Seq: b.seq, Known: b.known, Chain: b, Emit: func(verify.Token) bool { return true }}
			s.rows = append(s.rows, &b.row)
		}
	}
	s.timings.Draft.Round(0, 0)
	if d := s.request.Drafter; d != nil {
		s.engine.declined(&s.timings, d.Contract().Kind, drafter.Beams)
	}
	err := s.verify(ctx, s.rows...)
	cost := s.engine.verifier.Cost()
	s.timings.Draft.Verify += cost.Verify
	s.timings.Draft.Sample += cost.Sample
	return err
}

func (s *search) verify(ctx context.Context, rows ...*verify.Row) error {
	if err := s.engine.verifier.Round(ctx, rows); err != nil {
		return err
	}
	for _, r := range rows {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// extend replaces the beams by their best extensions, of the given length, and
// tells whether the search goes on.
func (s *search) extend(length int) bool {
	p := &s.request.Params
	sums, candidates := make([]float64, len(s.beams)), make([][]sampler.TokenLogprob, len(s.beams))
	for i, b := range s.beams {
		if b != nil && !s.groups[i/(p.Beams/p.BeamGroups)].done {
			sums[i], candidates[i] = b.sum, b.top
		}
	}
	next := make([]*beam, len(s.beams))
	goesOn := false
	for g, extensions := range p.ExtendBeams(sums, candidates) {
		goesOn = s.extendGroup(g, length, extensions, next) || goesOn
	}
	s.close()
	s.beams = next
	return goesOn && s.err == nil
}

// extendGroup fills a group's part of next. Extensions that end are set aside if
// they are among the best.
func (s *search) extendGroup(g, length int, extensions []sampler.Extension, next []*beam) bool {
	p := &s.request.Params
	size := p.Beams / p.BeamGroups
	group := &s.groups[g]
	n := 0
	best := 0.0
	for rank, x := range extensions {
		if n == size {
			break
		}
		b, ended, err := s.beams[x.Beam].grow(x)
		if err != nil {
			s.err = err
			break
		}
		if ended {
			if rank < size {
				group.add(hypothesis{b.tokens, sampler.BeamScore(x.Sum, length, p.LengthPenalty)}, size)
			}
			b.seq.Close()
			b.chain.Release()
			continue
		}
		if n == 0 {
			best = sampler.BeamScore(x.Sum, length, p.LengthPenalty)
		}
		next[g*size+n] = b
		n++
	}
	if full := len(group.finished) == size; n == 0 || full && best <= group.finished[size-1].score {
		group.done = true
		for i := range n {
			next[g*size+i].seq.Close()
			next[g*size+i].chain.Release()
			next[g*size+i] = nil
		}
	}
	return !group.done
}

// add keeps the best hypotheses, best first.
func (g *group) add(h hypothesis, most int) {
	i := len(g.finished)
	for i > 0 && g.finished[i-1].score < h.score {
		i--
	}
	g.finished = slices.Insert(g.finished, i, h)
	g.finished = g.finished[:min(len(g.finished), most)]
}

// fork copies a beam.
func (b *beam) fork() (*beam, error) {
	seq, err := b.seq.Fork()
	if err != nil {
		return nil, err
	}
	c := &beam{
		seq: seq, chain: b.chain.Fork(), stopper: b.stopper.Clone(), width: b.width,
		tokens: slices.Clone(b.tokens), sum: b.sum, known: b.known, report: b.report,
	}
	if b.decoder != nil {
		c.decoder = b.decoder.Fork()
	}
	return c, nil
}

// grow is the beam with one more token; ended tells that this token ends it.
func (b *beam) grow(x sampler.Extension) (c *beam, ended bool, err error) {
	if c, err = b.fork(); err != nil {
		return nil, false, err
	}
	d := sampler.Draw{Token: x.Token, Logprob: x.Logprob}
	if i := slices.IndexFunc(b.reports, func(d sampler.Draw) bool { return d.Token == x.Token }); i >= 0 {
		d = b.reports[i]
	}
	c.tokens = append(c.tokens, d)
	c.sum, c.known = x.Sum, []int32{x.Token}
	c.chain.Accept(x.Token)
	text := ""
	if c.decoder != nil {
		text = c.decoder.Push(x.Token)
	}
	return c, c.stopper.Push(x.Token, text).Done(), nil
}

// send replays the best hypotheses as streams of events.
func (s *search) send() error {
	var all []hypothesis
	for _, g := range s.groups {
		all = append(all, g.finished...)
	}
	slices.SortStableFunc(all, func(a, b hypothesis) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	for i, h := range all[:min(len(all), s.request.Params.N)] {
		out, err := s.engine.newStream(s.request, i, s.limit)
		if err != nil {
			return err
		}
		end := &Finish{Reason: Length, Token: -1}
		for _, d := range h.tokens {
			end = out.push(verify.Token{Draw: d}, "")
		}
		end.Timings = s.timings
		end.Timings.PredictedN = len(h.tokens)
		out.finish(*end)
	}
	return nil
}
