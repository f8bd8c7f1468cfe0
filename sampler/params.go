package sampler

import (
	"encoding/json"
	"fmt"
)

// Params are all parameters of one request. Their JSON names, aliases, ranges
// and defaults are in [Fields], their definitions in docs/sampling.md. The zero
// value is not valid: start from [Default] or [Profile.Params].
type Params struct {
	Temperature float64 // ≤ 0 is greedy; 0 < T < 1e-6 counts as 0
	TopK        int     // −1 and 0 off; 1 is greedy
	TopP        float64
	MinP        float64
	TypicalP    float64
	TopNSigma   float64 // ≤ 0 off
	PLess       bool

	EpsilonCutoff float64
	EtaCutoff     float64
	TFSZ          float64

	XTCProbability float64
	XTCThreshold   float64

	RepetitionPenalty float64
	FrequencyPenalty  float64
	PresencePenalty   float64
	PenaltyLastN      int // window of the repetition penalty: −1 all, 0 off
	NoRepeatNgramSize int

	DRYMultiplier       float64
	DRYBase             float64
	DRYAllowedLength    int
	DRYPenaltyLastN     int // −1 all, 0 off
	DRYSequenceBreakers []Breaker

	DynatempRange    float64
	DynatempExponent float64

	Mirostat    int // 0 off, 1, 2
	MirostatTau float64
	MirostatEta float64

	AdaptiveTarget float64 // < 0 off
	AdaptiveDecay  float64

	MinKeep int
	Order   Order

	LogitBias      []TokenBias
	LanguageBias   []GroupBias
	SuppressTokens []int32

	// Seed is nil for "choose one": the caller does, with FixSeed, and reports it.
	Seed *uint64

	N      int
	BestOf int // 0 stands for N
	// BestOfBy is how the N answers are chosen from BestOf samples.
	BestOfBy Choice

	Beams            int
	LengthPenalty    float64
	BeamGroups       int
	DiversityPenalty float64

	MaxNewTokens int // −1: to the end of the context
	MinNewTokens int
	IgnoreEOS    bool
	Stop         []string
	StopTokenIDs []int32
	StopRegex    []string

	JSONSchema json.RawMessage
	Regex      string
	EBNF       string

	Logprobs     bool
	TopLogprobs  int
	LogprobsMode LogprobsMode

	CustomParams json.RawMessage
}

// Order says where the temperature stands in the chain.
type Order string

// The orders. OrderLlama, the default, filters untempered logits, so that the
// temperature decides weights and never the candidate set. OrderHF divides by
// the temperature first and renormalizes between top-k, top-p and min-p.
const (
	OrderLlama Order = "llama"
	OrderHF    Order = "hf"
)

// LogprobsMode says which distribution log probabilities are those of.
type LogprobsMode string

// The modes: the model's own distribution (no penalty, filter or temperature),
// or the one the token was drawn from.
const (
	LogprobsRaw       LogprobsMode = "raw"
	LogprobsProcessed LogprobsMode = "processed"
)

// Profile names a set of defaults.
type Profile string

// The profiles. ProfileRun and ProfileServe have the same defaults but the
// same names need not be offered (see [Field.Where]).
const (
	ProfileLibrary  Profile = "library"
	ProfileGenerate Profile = "generate"
	ProfileRun      Profile = "run"
	ProfileServe    Profile = "serve"
)

// Default returns the parameters a Go caller starts from: temperature 1,
// everything else off, tokens to the end of the context.
func Default() Params {
	return Params{
		Temperature: 1, TopP: 1, TypicalP: 1, TopNSigma: -1, TFSZ: 1, XTCThreshold: 0.1,
		RepetitionPenalty: 1, PenaltyLastN: -1,
		DRYBase: 1.75, DRYAllowedLength: 2, DRYPenaltyLastN: -1,
		DynatempExponent: 1, MirostatTau: 5, MirostatEta: 0.1,
		AdaptiveTarget: -1, AdaptiveDecay: 0.9,
		Order: OrderLlama, N: 1, BestOfBy: ChooseRank, Beams: 1, LengthPenalty: 0.65, BeamGroups: 1,
		MaxNewTokens: -1, LogprobsMode: LogprobsRaw,
	}
}

// Params returns the defaults of the profile. An unknown profile is an error.
func (f Profile) Params() (Params, error) {
	p := Default()
	switch f {
	case ProfileLibrary:
	case ProfileGenerate:
		p.Temperature, p.MaxNewTokens = 0, 128
	case ProfileRun, ProfileServe:
		p.Temperature, p.TopK, p.TopP, p.MinP = 0.8, 40, 0.9, 0.1
		p.PenaltyLastN, p.DRYPenaltyLastN = 64, 64
		p.DRYSequenceBreakers = []Breaker{{Text: "\n"}, {Text: ":"}, {Text: `"`}, {Text: "*"}}
	default:
		return p, fmt.Errorf("sampling profile %q is unknown: want %s, %s, %s or %s",
			f, ProfileLibrary, ProfileGenerate, ProfileRun, ProfileServe)
	}
	return p, nil
}

// FixSeed gives p a seed from random when it has none, and returns the seed.
func (p *Params) FixSeed(random func() uint64) uint64 {
	if p.Seed == nil {
		s := random()
		p.Seed = &s
	}
	return *p.Seed
}

// Candidates returns how many samples are drawn: best_of, or n without it.
func (p *Params) Candidates() int { return max(p.BestOf, p.N) }

// Greedy reports whether the token is the largest logit after masks, bias and
// penalties, whatever the other parameters say.
func (p *Params) Greedy() bool { return p.Temperature < minTemperature || p.TopK == 1 }

// minTemperature is the smallest temperature that divides; less counts as 0.
const minTemperature = 1e-6
