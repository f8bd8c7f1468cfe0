package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"surmise/drafter"
	"surmise/kvcache"
	"surmise/model"
	"surmise/sampler"
)

// Chain draws a row's tokens. It is implemented by *sampler.Chain.
type Chain interface {
	// ArgmaxOnly tells that the token at the current position is the argmax of
	// the raw logits, and nothing else of them is wanted.
	ArgmaxOnly() bool
	// Sample draws the token at the current position. It only reads logits.
	Sample(logits []float32) (sampler.Draw, error)
	// Accept appends the emitted token to the history.
	Accept(token int32)
}

// Token is one emitted token.
type Token struct {
	sampler.Draw
	// Drafted tells that the token had been proposed.
	Drafted bool
}

// Row is a sequence's part in a round.
type Row struct {
	// Seq is the sequence in the target's cache.
	Seq *kvcache.Seq
	// Known are the tokens that follow the cached ones for certain, at least
	// one: a prompt chunk, or the pending token alone.
	Known []int32
	// Proposal are the tokens a drafter surmises behind Known, at most
	// drafter.MaxWidth of them; none in a plain step.
	Proposal []int32
	// Chain draws the tokens after Known. It is nil for a prompt chunk that is
	// not the last: such a row computes and emits nothing.
	Chain Chain
	// Emit takes every token as it is emitted and tells whether the row goes
	// on. It is called from within Round.
	Emit func(Token) (more bool)
	// Draft is the drafter's state to be told of the outcome; nil for none. With
	// Rest it is told without the hidden states it reads.
	Draft drafter.Seq
	Rest  bool

	// Result is set by Round.
	Result
}

// Result is what a round did to a row.
type Result struct {
	// Emitted is the number of tokens emitted: 0 for a prompt chunk, otherwise
	// at least 1 unless Err is set.
	Emitted int
	// Accepted is how many tokens of the proposal equalled the target's.
	Accepted int
	// Pending is the last emitted token, to be known in the next round; −1 if
	// nothing was emitted.
	Pending int32
	// Ended tells that Emit ended the row.
	Ended bool
	// Err is why the row failed. Tokens emitted before stay emitted.
	Err error
	// DraftErr is why the row's drafter failed to take the outcome; the row
	// itself is well.
	DraftErr error
}

// ErrNaN is returned, wrapped, for a row whose logits hold a NaN.
var ErrNaN = errors.New("logits hold a NaN")

// Verifier runs rounds of one target and keeps memory between them. It is used
// by one goroutine at a time.
type Verifier struct {
	target model.Target
	clock  func() time.Time
	cost   drafter.Cost

	batch    model.Batch
	live     []*Row // rows of the forward, in its order
	starts   []int  // their positions before it
	tokens   []int32
	layers   map[drafter.Drafter][]int
	asked    drafter.Drafter // whose layers were wanted last
	answer   []int
	outcomes []drafter.Outcome
	told     []*drafter.Outcome
}

// New prepares rounds of a target. The clock serves Cost only; nil leaves the
// times at zero.
func New(target model.Target, clock func() time.Time) *Verifier {
	if clock == nil {
		clock = func() time.Time { return time.Time{} }
	}
	return &Verifier{target: target, clock: clock, layers: map[drafter.Drafter][]int{}}
}

// Round is Verifier.Round of a verifier made for one round.
func Round(ctx context.Context, target model.Target, rows []*Row) error {
	return New(target, nil).Round(ctx, rows)
}

// Cost is what the last round took; its Draft is the time of observing only.
func (v *Verifier) Cost() drafter.Cost { return v.cost }

// Outcomes are what the last round told the drafters, valid until the next.
func (v *Verifier) Outcomes() []*drafter.Outcome { return v.told }

// Round does one round over all rows:
//
//  1. one forward computes every row's known tokens and proposal;
//  2. position by position the row's chain draws the target's own token, which
//     is emitted; the row goes on while that token equals the proposal's next;
//  3. what is emitted at the first difference is the replacement, after a
//     full match it is the bonus token: a row that draws emits at least one;
//  4. caches are rolled back to everything but the last emitted token, and the
//     drafters are told.
//
// A failure of one row is left in its Err and stops no other row. A failed
// forward is left in Err of all rows, whose caches are as before, and returned;
// so is a cancelled context, which is looked at before the round starts.
func (v *Verifier) Round(ctx context.Context, rows []*Row) error {
	v.cost, v.told = drafter.Cost{}, v.told[:0]
	for _, r := range rows {
		r.Result = Result{Pending: -1}
	}
	if err := ctx.Err(); err != nil {
		return fail(rows, err)
	}
	start := v.clock()
	if err := v.forward(rows); err != nil {
		return fail(rows, err)
	}
	forwarded := v.clock()
	for i, r := range v.live {
		v.draw(i, r)
		v.rollBack(i, r)
	}
	drawn := v.clock()
	v.tell()
	v.cost.Verify = forwarded.Sub(start)
	v.cost.Sample = drawn.Sub(forwarded)
	v.cost.Draft = v.clock().Sub(drawn)
	return nil
}

func fail(rows []*Row, err error) error {
	for _, r := range rows {
		if r.Err == nil {
			r.Err = err
		}
	}
	return err
}

// forward computes all rows that are in order. A row that the target refuses
// leaves the batch, and the others are computed without it.
func (v *Verifier) forward(rows []*Row) error {
	v.live = v.live[:0]
	for _, r := range rows {
		if r.Err = v.check(r); r.Err == nil {
			v.live = append(v.live, r)
		}
	}
	for len(v.live) > 0 {
		v.record()
		err := v.target.Forward(&v.batch)
		if err == nil {
			return nil
		}
		var one *model.RowError
		if !errors.As(err, &one) || one.Row < 0 || one.Row >= len(v.live) {
			return fmt.Errorf("forward of %d rows: %w", len(v.live), err)
		}
		v.live[one.Row].Err = one.Err
		v.live = append(v.live[:one.Row], v.live[one.Row+1:]...)
	}
	return nil
}

// check refuses a row that would spoil the forward, and cuts its proposal at
// the first id that is no token of the target: such a token is never drawn.
func (v *Verifier) check(r *Row) error {
	spec := v.target.Spec()
	if len(r.Known) == 0 {
		return errors.New("round: row without known tokens")
	}
	for _, t := range r.Known {
		if t < 0 || int(t) >= spec.Vocab {
			return fmt.Errorf("round: token %d is not of the target's vocabulary of %d", t, spec.Vocab)
		}
	}
	if r.Chain == nil && len(r.Proposal) > 0 {
		return fmt.Errorf("round: a proposal of %d tokens for a row that draws nothing", len(r.Proposal))
	}
	for i, t := range r.Proposal {
		if t < 0 || int(t) >= spec.Vocab {
			r.Proposal = r.Proposal[:i]
			break
		}
	}
	if len(r.Proposal) > drafter.MaxWidth {
		return fmt.Errorf("round: a proposal of %d tokens: want at most %d", len(r.Proposal), drafter.MaxWidth)
	}
	if n := r.Seq.Len() + len(r.Known) + len(r.Proposal); n > spec.Context {
		return fmt.Errorf("round: %w: %d cached, %d known and %d proposed tokens, but the context is %d",
			kvcache.ErrContext, r.Seq.Len(), len(r.Known), len(r.Proposal), spec.Context)
	}
	return nil
}

// record makes the batch of the live rows.
func (v *Verifier) record() {
	v.batch.Rows, v.batch.Hidden = v.batch.Rows[:0], v.batch.Hidden[:0]
	v.starts, v.tokens = v.starts[:0], v.tokens[:0]
	for _, r := range v.live {
		v.tokens = append(append(v.tokens, r.Known...), r.Proposal...)
	}
	v.cost.Rows, v.cost.Tokens = len(v.live), len(v.tokens)
	at := 0
	for _, r := range v.live {
		n := len(r.Known) + len(r.Proposal)
		row := model.Row{Seq: r.Seq, Tokens: v.tokens[at : at+n : at+n]}
		if r.Chain != nil {
			row.Logits = len(r.Proposal) + 1
			row.ArgmaxOnly = r.Chain.ArgmaxOnly()
		}
		v.batch.Rows = append(v.batch.Rows, row)
		v.starts = append(v.starts, r.Seq.Len())
		at += n
		for _, l := range v.layersOf(r) {
			v.batch.Hidden = addLayer(v.batch.Hidden, l)
		}
	}
}

// draw emits the tokens of live row i.
func (v *Verifier) draw(i int, r *Row) {
	if r.Chain == nil {
		return
	}
	for at := 0; ; at++ {
		d, err := v.token(i, at, r.Chain)
		if err != nil {
			r.Err = fmt.Errorf("draw the token at position %d: %w", v.starts[i]+len(r.Known)+at, err)
			return
		}
		matches := at < len(r.Proposal) && r.Proposal[at] == d.Token
		r.Chain.Accept(d.Token)
		r.Emitted, r.Pending = at+1, d.Token
		if matches {
			r.Accepted++
		}
		if !r.Emit(Token{d, matches}) {
			r.Ended = true
			return
		}
		if !matches {
			return
		}
		if v.batch.Rows[i].ArgmaxOnly && !r.Chain.ArgmaxOnly() {
			return // the logits the chain wants from here on were not read back
		}
	}
}

// token draws wanted token at of live row i.
func (v *Verifier) token(i, at int, c Chain) (sampler.Draw, error) {
	if !v.batch.Rows[i].ArgmaxOnly {
		return c.Sample(v.batch.Logits(i, at))
	}
	token, ok := v.batch.Argmax(i, at)
	if !ok {
		return sampler.Draw{}, ErrNaN
	}
	return sampler.Draw{Token: token}, nil
}

// rollBack cuts the cache of live row i to what one-by-one decoding leaves.
func (v *Verifier) rollBack(i int, r *Row) {
	if r.Chain == nil {
		return
	}
	if err := r.Seq.Truncate(v.starts[i] + len(r.Known) + max(r.Emitted, 1) - 1); err != nil && r.Err == nil {
		r.Err = fmt.Errorf("roll back: %w", err)
	}
}

// tell reports the outcomes of all rows that are well to their drafters.
func (v *Verifier) tell() {
	n := 0
	for i, r := range v.live {
		if r.Err != nil || r.Draft == nil {
			continue
		}
		if n == len(v.outcomes) {
			v.outcomes = append(v.outcomes, drafter.Outcome{})
		}
		o := &v.outcomes[n]
		n++
		*o = drafter.Outcome{
			Seq: r.Draft, Position: v.starts[i],
			Committed: v.batch.Rows[i].Tokens[:r.Seq.Len()-v.starts[i]],
			Pending:   r.Pending, Proposed: r.Proposal, Accepted: r.Accepted,
			Hidden: o.Hidden[:0], Rested: r.Rest, Ended: r.Ended,
		}
		for _, l := range v.layersOf(r) {
			o.Hidden = append(o.Hidden, v.batch.HiddenOf(i, indexOf(v.batch.Hidden, l)))
		}
	}
	v.told = v.told[:0]
	for i := range v.outcomes[:n] {
		v.told = append(v.told, &v.outcomes[i])
	}
	drafter.Observe(v.told)
	n = 0
	for _, r := range v.live {
		if r.Err == nil && r.Draft != nil {
			r.DraftErr = v.outcomes[n].Err
			n++
		}
	}
}

// layersOf are the hidden states that a row's drafter observes in this round.
func (v *Verifier) layersOf(r *Row) []int {
	if r.Draft == nil || r.Rest {
		return nil
	}
	d := r.Draft.Drafter()
	if d == v.asked {
		return v.answer
	}
	layers, ok := v.layers[d]
	if !ok {
		layers = d.Contract().Inputs.Layers
		v.layers[d] = layers
	}
	v.asked, v.answer = d, layers
	return layers
}

func addLayer(layers []int, l int) []int {
	if indexOf(layers, l) >= 0 {
		return layers
	}
	return append(layers, l)
}

func indexOf(layers []int, l int) int {
	for i, x := range layers {
		if x == l {
			return i
		}
	}
	return -1
}
