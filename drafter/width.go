package drafter

import (
	"fmt"
	"strconv"
	"time"
)

// Width decides how many tokens the rows of a round may propose. Whatever it
// decides, the emitted stream is the same; it decides only how fast it comes.
//
// A round calls Ask before the drafters propose, Trim when they have, and Learn
// when the outcome is known. It is used by one goroutine at a time.
type Width interface {
	// Ask lowers Budget of rows that should propose less than their limits
	// allow. A row it wants no proposal from gets Budget 0.
	Ask(rows []*Row)
	// Trim may shorten proposals, down to nothing; a row it empties gets
	// Decline Unprofitable.
	Trim(rows []*Row)
	// Learn takes the outcomes of the round's drafted rows and what it cost.
	Learn(outcomes []*Outcome, cost Cost)
	// String is the setting as a user would give it: "8" or "auto".
	String() string
}

// Cost is the time a round took.
type Cost struct {
	// Rows and Tokens are the sequences of the batch and the positions the
	// target computed for them, drafted or not.
	Rows, Tokens int
	// Draft, Verify and Sample are the seconds of proposing and observing, of
	// the target's forward, and of drawing tokens.
	Draft, Verify, Sample time.Duration
}

// Fixed is the policy that caps every proposal at the same number of tokens.
type Fixed int

// Ask lowers every budget to the cap.
func (k Fixed) Ask(rows []*Row) {
	for _, r := range rows {
		r.Budget = min(r.Budget, int(k))
	}
}

// Trim leaves proposals as they are.
func (k Fixed) Trim([]*Row) {}

// Learn ignores what it is told.
func (k Fixed) Learn([]*Outcome, Cost) {}

func (k Fixed) String() string { return strconv.Itoa(int(k)) }

// Own is the policy "auto" of kinds that size their proposals themselves, such
// as prompt lookup, whose width grows with the length of the match: it caps
// proposals at MaxWidth only.
type Own struct{ Fixed }

// NewOwn gives the policy.
func NewOwn() Own { return Own{MaxWidth} }

func (Own) String() string { return "auto" }

// ParseWidth reads a setting: a number of proposals from 1 to MaxWidth, or
// "auto".
func ParseWidth(s string) (Width, error) {
	if s == "auto" {
		return NewOwn(), nil
	}
	k, err := strconv.Atoi(s)
	switch {
	case err == nil && k == 0:
		return nil, fmt.Errorf("draft block size 0: to generate without drafting use draft kind none")
	case err != nil || k < 1 || k > MaxWidth:
		return nil, fmt.Errorf("draft block size %q: want a number of proposals from 1 to %d, or auto", s, MaxWidth)
	}
	return Fixed(k), nil
}
