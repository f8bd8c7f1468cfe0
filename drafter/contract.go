package drafter

import (
	"fmt"
	"strings"
)

// Reason names an engagement rule: why a row made no proposal in a round. A
// decline is not an error; it is counted under its reason.
type Reason string

// The reasons that are decided outside the drafters. Kinds add their own in
// their contracts.
const (
	// NothingLeft: the row's limits leave room for the target's own token only.
	NothingLeft Reason = "nothing_left"
	// Unprofitable: the width policy expects a plain step to be faster.
	Unprofitable Reason = "unprofitable"
	// Unsure: the drafter's own confidence in its first token is too low to pay.
	// Kinds that know their confidence have a rule for it.
	Unsure Reason = "unsure"
	// Beams: the request searches beams.
	Beams Reason = "beam_search"
	// Failed: the drafter failed on this sequence and was dropped from it.
	Failed Reason = "failed"
)

// CommonRules are the engagement rules that hold for every kind.
func CommonRules() []Rule {
	return []Rule{
		{string(NothingLeft), "the output limit or the context leaves room for one token only", "there is nothing left to generate that a proposal could speed up"},
		{string(Unprofitable), "the width policy gave the row no slots", "drafting costs more than it is expected to save in this batch"},
		{string(Beams), "the request is a beam search", "its rows choose among candidates and draw no token that a proposal could equal"},
		{string(Failed), "the drafter failed on this sequence", "the drafter was dropped from the sequence, which goes on without it"},
	}
}

// Exactness is what speculation does to the emitted bytes.
type Exactness string

// The levels of exactness, from strongest to weakest.
const (
	// Stream: the same bytes as plain decoding with the same parameters and seed.
	Stream Exactness = "stream"
	// UpToNearTies: the same bytes unless two logits nearly tie.
	UpToNearTies Exactness = "up to near-ties"
	// Distribution: not the same bytes, but drawn from the same distribution.
	Distribution Exactness = "distribution"
)

// Proposing is how a kind chooses its proposals.
type Proposing string

// The ways to propose.
const (
	// ByCopy repeats what followed the same tokens before.
	ByCopy Proposing = "copy"
	// ByArgmax proposes the drafter's most likely token.
	ByArgmax Proposing = "argmax"
	// BySharedNoise draws from the drafter's distribution with the target's own
	// noise at temperature > 0, and is ByArgmax at 0.
	BySharedNoise Proposing = "shared noise"
)

// Rule is one named line of a contract.
type Rule struct {
	Name string `json:"name"`
	// When is the condition.
	When string `json:"when"`
	// Why is the reason shown to the user.
	Why string `json:"why"`
}

// Inputs is what a kind needs to see of the target.
type Inputs struct {
	// Tokens is true for every kind: it sees the sequence's tokens.
	Tokens bool `json:"tokens"`
	// Layers are the target's hidden states the drafter observes: l is the
	// output of block l (0-based, after both residual additions), and the
	// number of layers is the output of the final norm.
	Layers []int `json:"layers,omitempty"`
}

// Contract is what a drafter promises and demands, as data: printed by
// `surmise explain`, returned by the server, and checked in tests.
type Contract struct {
	Kind     string    `json:"kind"`
	Summary  string    `json:"summary"`
	Greedy   Exactness `json:"exactness_greedy"`
	Sampling Exactness `json:"exactness_sampling"`
	// Features are the sampling features the kind works with.
	Features []Feature `json:"sampling_features"`
	Proposes Proposing `json:"proposes"`
	// Qualification lists what a checkpoint must have to serve as this drafter.
	Qualification []Rule `json:"qualification"`
	Inputs        Inputs `json:"inputs"`
	// Engagement lists every reason the kind may decline for, the common ones included.
	Engagement []Rule `json:"engagement"`
	// Parts are the kinds a composed kind routes between: first the one whose
	// proposals cost no time, last the one whose do. Empty for other kinds. A
	// registered kind lists all that can be its last part.
	Parts []string `json:"parts,omitempty"`
	// MaxWidth is the most tokens the kind ever proposes in a round.
	MaxWidth int `json:"max_width"`
}

// Feature is a group of sampling features.
type Feature string

// AllFeatures are the features of the sampler. Since a proposal is accepted
// only if it equals the token the full chain draws, every kind works with all.
func AllFeatures() []Feature {
	return []Feature{
		"temperature", "top_k", "top_p", "min_p", "typical_p", "top_n_sigma", "p_less", "cutoffs", "tail_free", "xtc",
		"dynamic_temperature", "mirostat", "adaptive_p", "penalties", "dry", "no_repeat_ngram",
		"logit_bias", "min_new_tokens", "stop", "logprobs", "n", "seed",
	}
}

// Allows tells whether reason is one the contract names.
func (c Contract) Allows(reason Reason) bool {
	for _, r := range c.Engagement {
		if r.Name == string(reason) {
			return true
		}
	}
	return false
}

// Validate checks that a contract is complete: an error names the missing part.
func (c Contract) Validate() error {
	missing := func(what string) error { return fmt.Errorf("contract of drafter kind %q: %s missing", c.Kind, what) }
	switch {
	case c.Kind == "" || strings.ToLower(c.Kind) != c.Kind || strings.ContainsAny(c.Kind, " _"):
		return fmt.Errorf("contract: kind %q must be a lower-case name with dashes", c.Kind)
	case c.Summary == "":
		return missing("summary")
	case c.Greedy == "" || c.Sampling == "":
		return missing("exactness")
	case len(c.Features) == 0:
		return missing("sampling features")
	case c.Proposes == "":
		return missing("way of proposing")
	case c.MaxWidth < 1 || c.MaxWidth > MaxWidth:
		return fmt.Errorf("contract of drafter kind %q: max width %d, want 1..%d", c.Kind, c.MaxWidth, MaxWidth)
	}
	for _, r := range CommonRules() {
		if !c.Allows(Reason(r.Name)) {
			return missing("engagement rule " + r.Name)
		}
	}
	for _, r := range append(append([]Rule(nil), c.Qualification...), c.Engagement...) {
		if r.Name == "" || r.When == "" || r.Why == "" {
			return missing(fmt.Sprintf("name, condition or reason of rule %+v", r))
		}
	}
	return nil
}
