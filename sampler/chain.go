package sampler

import (
	"fmt"
	"math"

	"surmise/compute/vocab"
)

// Chain samples one sequence. It is not safe for concurrent use; different
// chains are independent.
type Chain struct {
	core    *core
	sample  int
	length  int // prompt and output
	outLen  int
	history history
	output  []int32 // kept for a Processor only
	longest table   // DRY's work space
	mask    []uint64
	top     []TokenLogprob

	constraint Constraint
	feedback   feedback
}

// core is what all chains of a request share; it never changes.
type core struct {
	params    Params
	env       Env
	pool      *Pool
	seed      uint64
	invT      float32
	greedy    bool
	bias      []idBias
	bans      []int32
	eos       []int32
	breakers  [][]int32
	processor Processor

	dryOn       bool
	needHistory bool // any penalty
	needPrompt  bool // one that looks at the prompt
	needTokens  bool // the token sequence itself
}

type idBias struct {
	id    int32
	value float32
}

// Draw is one sampled token.
type Draw struct {
	Token int32
	// Logprob is the token's log probability, when Params.Logprobs asks for it.
	Logprob float64
	// Top holds the most likely tokens, best first, valid until the next Sample.
	Top []TokenLogprob
}

// TokenLogprob is a token with its log probability.
type TokenLogprob struct {
	Token   int32
	Logprob float64
}

// NewChain makes the chain of one sequence with the given prompt. sample is the
// index among the n samples of the request; index 0 draws what n = 1 draws. It
// validates p, resolves text to token ids and draws nothing. The errors name
// the parameter, its value and what would be valid.
func NewChain(p Params, env Env, prompt []int32, sample int) (*Chain, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if env.Vocab <= 0 || int64(env.Vocab) > math.MaxInt32-vocab.Block {
		return nil, fmt.Errorf("vocabulary of %d tokens: want 1 to 2³¹−65", env.Vocab)
	}
	if sample < 0 {
		return nil, fmt.Errorf("sample index %d: want 0 or more", sample)
	}
	for i, t := range prompt {
		if t < 0 || int(t) >= env.Vocab {
			return nil, fmt.Errorf("prompt token %d is %d: want 0 to %d", i, t, env.Vocab-1)
		}
	}
	c := &core{params: p, env: env, pool: env.Pool, greedy: p.Greedy(), processor: env.Processor}
	if c.pool == nil {
		c.pool = NewPool()
	}
	if p.Seed != nil {
		c.seed = *p.Seed
	} else if !c.greedy {
		return nil, fmt.Errorf("seed is not chosen: call FixSeed before sampling at temperature %v", p.Temperature)
	}
	c.invT = 1
	if !c.greedy {
		c.invT = inverse(p.Temperature)
	}
	if err := c.resolve(); err != nil {
		return nil, err
	}
	ch := &Chain{core: c, sample: sample, length: len(prompt)}
	if env.Constraint != nil {
		ch.constraint = env.Constraint.Fork()
		ch.mask = make([]uint64, (env.Vocab+63)/64)
	}
	ch.feedback.begin(&c.params)
	ch.history.begin(c, prompt)
	return ch, nil
}

// Position returns the absolute position of the token Sample would draw.
func (c *Chain) Position() int { return c.length }

// Seed returns the seed of the noise.
func (c *Chain) Seed() uint64 { return c.core.seed }

// Params returns the parameters; the caller must not change what they refer to.
func (c *Chain) Params() Params { return c.core.params }

// ArgmaxOnly reports that Sample at this position returns the first largest
// logit and nothing else, so that a device may find it without handing the
// logits over.
func (c *Chain) ArgmaxOnly() bool {
	return c.core.greedy && !c.core.params.Logprobs && !c.edits()
}

// edits reports whether any logit may change before the filters.
func (c *Chain) edits() bool {
	k := c.core
	p := &k.params
	return c.constraint != nil || k.processor != nil || len(k.bias) > 0 || len(k.bans) > 0 ||
		p.IgnoreEOS || c.outLen < p.MinNewTokens ||
		(k.needHistory && len(c.history.table.entries) > 0)
}

// Sample draws the token for Position from logits [vocab]. It leaves them as
// they were, bit by bit, but with penalties, bias or masks it changes some of
// them while it runs: two chains must not sample the same row at the same time.
// The chain advances with Accept alone: Sample may be called again and returns
// the same. A NaN or +Inf among the logits, or a row in which every token is
// banned, is an error.
func (c *Chain) Sample(logits []float32) (Draw, error) {
	if len(logits) != c.core.env.Vocab {
		return Draw{}, errLogits(len(logits), c.core.env.Vocab)
	}
	s := c.core.pool.get(len(logits))
	defer c.core.pool.put(s)
	return c.sampleWith(s, logits)
}

func errLogits(n, want int) error { return fmt.Errorf("%d logits: want %d", n, want) }

// prepare loads the row and applies steps 1 to 3.
func (c *Chain) prepare(s *scratch, logits []float32) (*row, error) {
	s.edited = c.edits()
	r, err := s.load(logits, s.edited && c.copies(), 1)
	if err == nil && s.edited {
		err = c.edit(s, r)
	}
	if err == nil && math.IsInf(float64(r.max), -1) {
		err = fmt.Errorf("no token is left at position %d: every logit is −Inf or banned", c.length)
	}
	return r, err
}

func (c *Chain) sampleWith(s *scratch, logits []float32) (Draw, error) {
	c.feedback.drawn = false
	s.editor.undo = s.editor.undo[:0]
	defer s.editor.restore(logits)
	r, err := c.prepare(s, logits)
	if err != nil {
		return Draw{}, err
	}
	d := Draw{}
	if c.core.greedy {
		d.Token = int32(vocab.Argmax(r.z, r.bm, r.max))
	} else {
		d.Token = c.choose(s, r)
	}
	switch {
	case !c.core.params.Logprobs:
	case c.core.params.LogprobsMode == LogprobsProcessed:
		c.processed(s, r, &d)
	default:
		s.editor.restore(logits)
		c.rawLogprobs(s, r, logits, &d)
	}
	return d, nil
}

// choose applies steps 4 to 7 to a row with penalties applied.
func (c *Chain) choose(s *scratch, r *row) int32 {
	p := &c.core.params
	s.finalInvT = 1
	switch {
	case p.Mirostat > 0:
		c.temper(s, r)
		return c.mirostat(s, r)
	case p.Order == OrderHF:
		c.temper(s, r)
		c.rowFilters(s, r)
		c.setFilters(s, r, true)
	default:
		c.rowFilters(s, r)
		c.setFilters(s, r, false)
	}
	s.gather(r, c.core.env.Reference.Sort)
	if p.XTCProbability > 0 && c.xtcActs() {
		c.xtc(s, r)
	}
	if p.Order == OrderLlama {
		s.finalInvT = c.inverseTemperature(s, r)
	}
	if p.AdaptiveTarget >= 0 {
		return c.adaptive(s, r, s.finalInvT)
	}
	return c.draw(s, r, s.finalInvT)
}

// Accept appends an emitted token: penalties, constraint and feedback state
// advance. Feedback (mirostat, adaptive-p) advances only when token is the one
// the last Sample drew.
func (c *Chain) Accept(token int32) {
	c.history.accept(c.core, token, c.length)
	c.length++
	c.outLen++
	if c.constraint != nil {
		c.constraint.Accept(token)
	}
	if c.core.processor != nil {
		c.output = append(c.output, token)
	}
	c.feedback.accept(&c.core.params, token)
}

// Fork returns an independent copy: a drafter's tentative chain, or a beam.
// Hand it back with Release to reuse its memory.
func (c *Chain) Fork() *Chain {
	f := c.core.pool.getChain()
	f.core, f.sample, f.length, f.outLen = c.core, c.sample, c.length, c.outLen
	f.history.copyFrom(&c.history)
	f.output = append(f.output[:0], c.output...)
	f.constraint, f.feedback = nil, c.feedback
	if c.constraint != nil {
		f.constraint = c.constraint.Fork()
		if len(f.mask) != len(c.mask) {
			f.mask = make([]uint64, len(c.mask))
		}
	}
	return f
}

// Release gives the chain's memory back; the chain must not be used afterwards.
func (c *Chain) Release() {
	pool := c.core.pool
	c.core, c.constraint = nil, nil
	pool.putChain(c)
}
