package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"surmise/drafter"
	"surmise/model"
	"surmise/sampler"
	"surmise/tokenizer"
	"surmise/verify"
)

// defaultChunk is how many prompt tokens a round computes at most, so that
// sequences that are decoding wait no longer than for that.
const defaultChunk = 256

// Options configure an engine. The zero value is ready to use.
type Options struct {
	// Chunk is how many prompt tokens a round computes over all sequences: 256
	// if zero.
	Chunk int
	// Width decides how much is proposed; drafter.NewOwn() if nil.
	Width drafter.Width
	// Counters take what speculation did; nil for none.
	Counters *drafter.Counters
	// Clock times requests; without it all times are zero.
	Clock func() time.Time
	// Warn is told of drafters that fail, once for each kind; nil for nobody.
	Warn func(message string)
	// Processor makes the logits processor that a request's custom_params ask
	// for; without it they are an error.
	Processor func(custom json.RawMessage) (sampler.Processor, error)
	// Reference switches the sampler's fast paths off; the text is the same.
	Reference sampler.Reference
}

// Request asks for text.
type Request struct {
	// Prompt are at least one and fewer tokens than the context.
	Prompt []int32
	// Params are the sampling parameters. The seed must be set, see
	// sampler.Params.FixSeed.
	Params sampler.Params
	// Drafter proposes for the request's samples, bound to the engine's target;
	// nil decodes plainly.
	Drafter drafter.Drafter
	// MaxWidth caps this request's proposals per round; 0 leaves it to the
	// engine's width policy.
	MaxWidth int
	// Prediction are tokens the client expects as output.
	Prediction []int32
	// Fresh computes the whole prompt anew and leaves nothing behind for later
	// prompts, so that what came before changes no time and no count.
	Fresh bool
	// Forced are tokens to emit whatever the target would say: a recorded stream
	// is replayed at the speed it would have. Nil for none.
	Forced []int32
	// KeepSpecial shows control tokens in the text.
	KeepSpecial bool
	// Emit takes the events, in order for each sample, from within Tick.
	Emit func(Event)
}

// Engine decodes requests on one target. It is used by one goroutine at a time.
type Engine struct {
	target   model.Target
	text     *tokenizer.Tokenizer
	env      sampler.Env
	opts     Options
	verifier *verify.Verifier

	live   []*sequence
	rows   []*verify.Row
	asks   []*drafter.Row
	warned map[string]bool
}

// New makes an engine over a target. Without a tokenizer events have no text,
// and parameters that are text are errors.
func New(target model.Target, text *tokenizer.Tokenizer, o Options) *Engine {
	if o.Chunk <= 0 {
		o.Chunk = defaultChunk
	}
	if o.Width == nil {
		o.Width = drafter.NewOwn()
	}
	if o.Clock == nil {
		o.Clock = func() time.Time { return time.Time{} }
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	env := environment(target, text)
	env.Pool, env.Reference = sampler.NewPool(), o.Reference
	return &Engine{
		target: target, text: text, opts: o, env: env,
		verifier: verify.New(target, o.Clock), warned: map[string]bool{},
	}
}

// environment is what the sampler needs to know of vocabulary and text.
func environment(target model.Target, text *tokenizer.Tokenizer) sampler.Env {
	spec := target.Spec()
	env := sampler.Env{Vocab: spec.Vocab}
	ends := map[int32]bool{}
	add := func(id int32) {
		if id >= 0 && int(id) < spec.Vocab && !ends[id] {
			ends[id] = true
			env.EOS = append(env.EOS, id)
		}
	}
	for _, id := range spec.EOS {
		add(int32(id))
	}
	if text == nil {
		env.Special = func(int32) bool { return false }
		env.Encode = func(string) ([]int32, error) { return nil, errors.New("there is no tokenizer to read text with") }
		env.Piece = func(int32) []byte { return nil }
		return env
	}
	for _, id := range text.EOS() {
		add(id)
	}
	env.Special, env.Piece = text.IsSpecial, text.Piece
	env.Encode = func(s string) ([]int32, error) { return text.Encode(s, tokenizer.EncodeOptions{}) }
	return env
}

// envOf is the environment of a request's samplers.
func (e *Engine) envOf(p *sampler.Params) (sampler.Env, error) {
	env := e.env
	if len(p.CustomParams) == 0 {
		return env, nil
	}
	if e.opts.Processor == nil {
		return env, &sampler.FieldError{Field: "custom_params", Value: string(p.CustomParams), Want: "none, since no logits processor is registered"}
	}
	var err error
	if env.Processor, err = e.opts.Processor(p.CustomParams); err != nil {
		return env, fmt.Errorf("custom_params: %w", err)
	}
	return env, nil
}

// Target is the target the engine decodes on.
func (e *Engine) Target() model.Target { return e.target }

// Tokenizer is the engine's tokenizer; nil if it has none.
func (e *Engine) Tokenizer() *tokenizer.Tokenizer { return e.text }

// Env is what samplers of this engine's target know of its vocabulary.
func (e *Engine) Env() sampler.Env { return e.env }

// Live is the number of samples under way.
func (e *Engine) Live() int { return len(e.live) }

// Limit is how many tokens a request with this prompt may emit at most.
func (e *Engine) Limit(prompt int, maxNew int) int {
	room := e.target.Spec().Context - prompt
	if maxNew >= 0 {
		return min(maxNew, room)
	}
	return room
}

// Add checks a request and puts its samples under way. They end when ctx is
// done, or the request is. An error names the field, its value and what would
// be valid; nothing is under way then.
func (e *Engine) Add(ctx context.Context, r Request) error {
	if r.Params.Beams > 1 {
		return fmt.Errorf("request: beams %d: samples are drawn with 1; Beam runs a beam search", r.Params.Beams)
	}
	if err := e.check(r); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	samples, err := e.open(ctx, r)
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	e.live = append(e.live, samples...)
	return nil
}

func (e *Engine) check(r Request) error {
	spec := e.target.Spec()
	switch {
	case len(r.Prompt) == 0:
		return errors.New("the prompt is empty: want at least one token")
	case len(r.Prompt) >= spec.Context:
		return fmt.Errorf("the prompt has %d tokens, but the context of %d has room for at most %d and an answer: want a shorter prompt or a larger context",
			len(r.Prompt), spec.Context, spec.Context-1)
	case r.Params.Seed == nil:
		return errors.New("the seed is not set")
	case r.MaxWidth < 0 || r.MaxWidth > drafter.MaxWidth:
		return fmt.Errorf("draft width %d: want 0..%d", r.MaxWidth, drafter.MaxWidth)
	case slices.ContainsFunc(r.Forced, func(t int32) bool { return t < 0 || int(t) >= spec.Vocab }):
		return fmt.Errorf("forced tokens hold one that is not of the vocabulary: want 0..%d", spec.Vocab-1)
	case r.Emit == nil:
		return errors.New("nobody takes the events")
	}
	for _, t := range r.Prompt {
		if t < 0 || int(t) >= spec.Vocab {
			return fmt.Errorf("prompt token %d is not of the vocabulary: want 0..%d", t, spec.Vocab-1)
		}
	}
	return r.Params.Validate()
}

// Run adds requests and decodes until all that is under way is done. When ctx
// is done first, samples end as cancelled and its error is returned.
func (e *Engine) Run(ctx context.Context, requests ...Request) error {
	for i, r := range requests {
		if err := e.Add(ctx, r); err != nil {
			e.Close()
			if len(requests) == 1 {
				return err
			}
			return fmt.Errorf("request %d of %d: %w", i+1, len(requests), err)
		}
	}
	for {
		more, err := e.Tick(ctx)
		if err != nil {
			e.Close()
			return err
		}
		if !more {
			return nil
		}
	}
}

// Close ends everything under way as cancelled. The engine may be used again.
func (e *Engine) Close() {
	for _, s := range e.live {
		s.finish(Finish{Reason: Cancelled, Token: -1, Err: context.Canceled})
	}
	e.live = e.live[:0]
}

// warn logs a drafter's failure, once for each kind.
func (e *Engine) warn(kind string, err error) {
	if !e.warned[kind] {
		e.warned[kind] = true
		e.opts.Warn(fmt.Sprintf("drafter %s dropped from a sequence, which goes on without it: %v", kind, err))
	}
}
