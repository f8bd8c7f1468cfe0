package engine

import (
	"slices"
	"time"

	"surmise/drafter"
	"surmise/sampler"
)

// Token is an emitted token.
type Token struct {
	ID int32
	// Drafted tells that it had been proposed and was accepted.
	Drafted bool
	// Source is the kind that proposed it, for a composed kind the part that
	// did; empty if it was not drafted.
	Source string
	// Logprob and Top are what the parameters ask for, as the sampler gives them.
	Logprob float64
	Top     []sampler.TokenLogprob
}

// Event is a piece of a sample's stream. The Texts of a sample's events, put
// together, are its text; their Tokens are its ids.
type Event struct {
	// Sample is the index of the sample, 0 to n−1.
	Sample int
	// Token is the token whose text begins with this event; nil when Text
	// only completes the text of the token before, which had been held back.
	Token *Token
	// Text is whole UTF-8, possibly empty.
	Text string
	// Finish is set in the last event of a sample.
	Finish *Finish
}

// Reason is why a sample ended.
type Reason string

// The reasons. Stop and Length are OpenAI's finish reasons.
const (
	Stop      Reason = "stop"      // an end token, a stop string, regex or token
	Length    Reason = "length"    // max_new_tokens or the end of the context
	Failed    Reason = "error"     // Finish.Err says why
	Cancelled Reason = "cancelled" // the request's context was done
)

// Finish is the end of a sample.
type Finish struct {
	Reason Reason
	// Matched is the stop string, the stop regex or the text of the token that
	// ended the sample; empty for other reasons.
	Matched string
	// Token is the token that ended the sample; it is not among the events
	// when it is an end token. −1 for other reasons.
	Token int32
	Err   error
	// Timings are the sample's times and counts.
	Timings Timings
}

// Timings say what a sample took. Times are zero without a clock.
type Timings struct {
	// PromptN is the number of prompt tokens computed, CachedN of those found
	// in the cache.
	PromptN, CachedN int
	Prompt           time.Duration
	// PredictedN is the number of tokens drawn, an end token included.
	PredictedN int
	Predicted  time.Duration
	// Draft counts the rounds of the sample.
	Draft drafter.Tally
	// DraftKind is the kind of the drafter; empty when no round had a proposal.
	DraftKind string
	// Sources are the drafted rounds of Draft by who proposed, in the order they
	// first did: the kind itself, or the parts of a composed one.
	Sources []SourceTally
	// Declines are the rounds without a proposal by reason, in the order the
	// reasons first came. Rounds that complete the prompt ask for none.
	Declines []Declined
}

// SourceTally counts the rounds in which a kind proposed.
type SourceTally struct {
	Kind string
	drafter.Tally
}

// Declined counts rounds without a proposal for one reason.
type Declined struct {
	Reason drafter.Reason
	Rounds int64
}

// drafted counts a round in which source proposed.
func (t *Timings) drafted(source string, proposed, accepted int) {
	t.source(source).Round(proposed, accepted)
}

// source finds or makes the tally of a kind.
func (t *Timings) source(kind string) *drafter.Tally {
	i := slices.IndexFunc(t.Sources, func(s SourceTally) bool { return s.Kind == kind })
	if i < 0 {
		i = len(t.Sources)
		t.Sources = append(t.Sources, SourceTally{Kind: kind})
	}
	return &t.Sources[i].Tally
}

// declined counts a round without a proposal.
func (t *Timings) declined(why drafter.Reason) { t.decline(why, 1) }

func (t *Timings) decline(why drafter.Reason, rounds int64) {
	i := slices.IndexFunc(t.Declines, func(d Declined) bool { return d.Reason == why })
	if i < 0 {
		i = len(t.Declines)
		t.Declines = append(t.Declines, Declined{Reason: why})
	}
	t.Declines[i].Rounds += rounds
}

// add adds up what another sample of the same request counted, and takes its times
// where they are longer.
func (t *Timings) add(o Timings) {
	draft, verify, sample := max(t.Draft.Draft, o.Draft.Draft), max(t.Draft.Verify, o.Draft.Verify), max(t.Draft.Sample, o.Draft.Sample)
	t.Draft.Add(&o.Draft)
	t.Draft.Draft, t.Draft.Verify, t.Draft.Sample = draft, verify, sample
	t.Prompt, t.Predicted = max(t.Prompt, o.Prompt), max(t.Predicted, o.Predicted)
	t.PredictedN += o.PredictedN
	if t.DraftKind == "" {
		t.DraftKind = o.DraftKind
	}
	for i := range o.Sources {
		s := &o.Sources[i]
		t.source(s.Kind).Add(&s.Tally)
	}
	for _, d := range o.Declines {
		t.decline(d.Reason, d.Rounds)
	}
}

// PredictedPerSecond is the speed of generation, 0 without a clock.
func (t Timings) PredictedPerSecond() float64 {
	if t.Predicted <= 0 {
		return 0
	}
	return float64(t.PredictedN) / t.Predicted.Seconds()
}
