package drafter

import (
	"context"
	"fmt"

	"surmise/compute"
	"surmise/kvcache"
	"surmise/model"
	"surmise/sampler"
)

// MaxWidth is the greatest number of tokens one row may propose in a round. It
// is what every cache of the target can roll back.
const MaxWidth = 64

// A Drafter proposes tokens for many sequences at once. Its life has five steps:
//
//  1. Bind, once: compatibility with the target is checked and borrowed tensors
//     are resolved. An error names what was found and what was expected.
//  2. Open, once per sequence, before the sequence's first round.
//  3. Propose, in every round that may speculate, for all rows together.
//  4. Observe, after every round, for all its rows together: prompt chunks,
//     plain rounds and rounds the drafter made no proposal for are told too.
//  5. Close of each sequence's state (Seq.Close), and in the end of the drafter.
//
// A Drafter is used by one goroutine at a time. It must not keep slices or
// views of its arguments after a method returns; it copies what it needs.
type Drafter interface {
	// Contract is what this drafter promises and demands. It is complete after
	// Bind; before, Inputs.Layers may be missing.
	Contract() Contract
	// Bind ties the drafter to the target it drafts for.
	Bind(t model.Target) error
	// Open prepares state for a sequence. Afterwards Seq.Position equals o.Cached.
	Open(o Opening) (Seq, error)
	// Propose fills Proposal of every row with at most Budget token ids that
	// may follow the row's last known token, or leaves it empty and names a
	// reason of the contract in Decline. All rows belong to this drafter. A
	// failure of one row goes to its Err; an error fails all rows. Either way
	// the sequences go on without a drafter.
	Propose(ctx context.Context, rows []*Row) error
	// Observe tells what a round did. Afterwards Seq.Position equals the
	// target's position for every outcome. Errors as for Propose.
	Observe(outcomes []*Outcome) error
	// Close frees everything; sequences still open are closed with it.
	Close() error
}

// Opening describes a sequence to a drafter.
type Opening struct {
	// Tokens are those known so far: the prompt, or prompt and output when a
	// drafter takes over in the middle of a stream.
	Tokens []int32
	// Cached is how many of Tokens are in the target's cache already, of a
	// shared prefix or of rounds before the drafter took over. Their hidden
	// states will not be observed.
	Cached int
	// Pages is the target's cache of the sequence: drafter state kept per page
	// is found and stored through it. It is nil in tests of drafters that keep none.
	Pages *kvcache.Seq
	// Prediction is a text the client expects as output (OpenAI's
	// `prediction`); empty for none.
	Prediction []int32
	// Fresh asks for a state that shares nothing with earlier sequences, so
	// that what drafting costs does not depend on what came before.
	Fresh bool
}

// Check refuses an opening that contradicts itself, or of a drafter of a kind that
// is not bound yet.
func (o *Opening) Check(kind string, bound bool) error {
	if !bound {
		return fmt.Errorf("open a %s sequence: the drafter is not bound to a target", kind)
	}
	if o.Cached < 0 || o.Cached > len(o.Tokens) {
		return fmt.Errorf("open a %s sequence: %d tokens cached of %d", kind, o.Cached, len(o.Tokens))
	}
	return nil
}

// Seq is a drafter's state for one sequence.
type Seq interface {
	// Drafter is the drafter that opened the sequence.
	Drafter() Drafter
	// Position is the number of leading tokens of the sequence whose presence
	// in the target's cache this state has taken in.
	Position() int
	// Fork copies the state for another sample that shares everything so far.
	Fork() (Seq, error)
	// Close frees the state.
	Close() error
}

// Owing is what a Seq implements that puts work off until it is asked to propose.
type Owing interface {
	// Owed is how many positions must be taken in before the next proposal.
	Owed() int
}

// Chain is the part of a row's sampler chain a drafter may use: a copy to
// pass its own logits through. The copy is thrown away, the row's own chain
// never moves.
type Chain interface {
	Fork() *sampler.Chain
}

// Row asks for a proposal and takes it.
type Row struct {
	Seq Seq
	// Position is the number of tokens in the target's cache.
	Position int
	// Known are the tokens that follow them for certain; the last one is the
	// pending token. A proposal continues after it.
	Known []int32
	// Budget is the greatest number of tokens to propose, at most MaxWidth.
	Budget int
	// Steps caps, below Budget, proposals that take time to draft; kinds that
	// copy are not bound by it. 0 is no cap, below 0 is none of them.
	Steps int
	// Chain is the row's sampler chain, at the position after Known. It is nil
	// for a row that draws by other rules (a beam).
	Chain Chain
	// Floor is the chance of surviving below which a further proposal does not
	// pay: a kind that knows its confidence stops where the product of
	// confidences falls below it. 0 asks for all of Budget.
	Floor float32

	// Rest is set by the width policy on a row that will not be asked for long: the
	// target's hidden states are not read for it in this round.
	Rest bool

	// Proposal is the answer. Its memory is the row's and is reused.
	Proposal []int32
	// Confidence says for each proposed token how likely the drafter holds it
	// to survive, given that those before it did, in (0, 1]; empty if the kind
	// cannot say.
	Confidence []float32
	// Match is the length of the suffix match a lookup proposal rests on.
	Match int
	// Source is the part of a composed kind that proposed; empty for the kind
	// itself.
	Source string
	// Decline is why Proposal is empty.
	Decline Reason
	// Err is a failure of this row alone.
	Err error
}

// Reset empties the answer and keeps its memory.
func (r *Row) Reset() {
	r.Proposal, r.Confidence = r.Proposal[:0], r.Confidence[:0]
	r.Match, r.Source, r.Decline, r.Err = 0, "", "", nil
}

// Outcome tells a drafter what a round did to one of its sequences.
type Outcome struct {
	Seq Seq
	// Position is the number of tokens in the target's cache before the round.
	Position int
	// Committed are the tokens the round left in the cache, at positions
	// Position, Position+1, …: the known tokens and those accepted proposals
	// that are not the row's last token.
	Committed []int32
	// Pending is the last emitted token, which is not in the cache yet; −1 if
	// the round emitted nothing (a prompt chunk).
	Pending int32
	// Proposed is the proposal that was verified, of which Accepted tokens
	// equalled the target's.
	Proposed []int32
	Accepted int
	// Hidden holds a view [len(Committed), hidden] for each layer of the
	// contract's Inputs.Layers, in that order; row i belongs to Committed[i].
	// The views are valid until Observe returns. It is empty when the sequence
	// rested: the drafter was not going to be asked for long, and may forget what it
	// knows of the text before.
	Hidden []compute.View
	Rested bool
	// Ended tells that the sequence emitted its last token.
	Ended bool
	// Err is where Observe reports a failure of this sequence alone.
	Err error
}

// After is the target's position after the round.
func (o *Outcome) After() int { return o.Position + len(o.Committed) }
