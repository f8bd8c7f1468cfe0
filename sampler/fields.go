package sampler

import (
	"encoding/json"
	"math"
)

// Kind is how a field is written.
type Kind int

// The kinds. KindStrings, KindTokens, KindBreakers, KindBias and KindGroups are
// flags that may be repeated.
const (
	KindFloat Kind = iota
	KindInt
	KindBool
	KindString
	KindStrings
	KindTokens
	KindBreakers
	KindBias
	KindGroups
	KindChoice
	KindSeed
	KindJSON
	KindLogprobs
)

// Where says in which places a field is offered.
type Where uint8

// The places. Every field is a field of a request.
const (
	// InCommand: a flag of generate and run.
	InCommand Where = 1 << iota
	// InServer: a flag of serve that sets the server's default.
	InServer
	// InGenerationConfig: taken from a model's generation_config.json.
	InGenerationConfig
	// InProps: shown in a server's /props.
	InProps

	everywhere = InCommand | InServer | InGenerationConfig | InProps
	flagged    = InCommand | InServer | InProps
)

// Range is the set of valid numbers of a field: from Min to Max, without the
// ends that are open.
type Range struct {
	Min, Max         float64
	OpenMin, OpenMax bool
}

// Field describes one parameter: the row of the table that flags, requests,
// generation_config.json, documentation and validation are all made from.
type Field struct {
	// Name is the JSON name; Aliases are accepted too.
	Name    string
	Aliases []string
	// Flag is the name of the flag: Name with dashes, unless another is usual.
	Flag  string
	Kind  Kind
	Range Range    // of numbers
	Oneof []string // of choices
	Where Where
	// Valid and Off say in words what is valid and what switches the stage off.
	Valid, Off string
	Help       string

	target func(*Params) any
}

var (
	inf      = math.Inf(1)
	unit     = Range{Min: 0, Max: 1}
	share1   = Range{Min: 0, Max: 1, OpenMin: true}
	cutoff1  = Range{Min: 0, Max: 1, OpenMax: true}
	atLeast0 = Range{Min: 0, Max: inf, OpenMax: true}
	count    = Range{Min: 0, Max: maxCount}
	window   = Range{Min: -1, Max: maxCount}
	anyNum   = Range{Min: -inf, Max: inf, OpenMin: true, OpenMax: true}
)

// maxCount bounds counts of tokens: what a position can hold.
const maxCount = 1<<31 - 1

// Fields returns the table, in the order of the documentation. The caller may
// change the copy it gets.
func Fields() []Field {
	f := []Field{
		{Name: "temperature", Aliases: []string{"temp"}, Flag: "temp", Kind: KindFloat, Range: anyNum, Where: everywhere, Valid: "a finite number; 0 and below are greedy", Off: "greedy at 0", Help: "divides the logits before the draw; 0 takes the most likely token", target: func(p *Params) any { return &p.Temperature }},
		{Name: "top_k", Kind: KindInt, Range: window, Where: everywhere, Valid: "-1, 0 or ≥ 1", Off: "-1, 0, ≥ vocabulary", Help: "keep the k most likely tokens", target: func(p *Params) any { return &p.TopK }},
		{Name: "top_p", Kind: KindFloat, Range: share1, Where: everywhere, Off: "1", Help: "keep the smallest set of tokens whose probability reaches p", target: func(p *Params) any { return &p.TopP }},
		{Name: "min_p", Kind: KindFloat, Range: unit, Where: everywhere, Off: "0", Help: "keep tokens at least this fraction as likely as the most likely one", target: func(p *Params) any { return &p.MinP }},
		{Name: "typical_p", Aliases: []string{"typ_p", "typical"}, Kind: KindFloat, Range: share1, Where: everywhere, Off: "1", Help: "keep the tokens whose surprise is nearest the entropy until probability p", target: func(p *Params) any { return &p.TypicalP }},
		{Name: "top_n_sigma", Kind: KindFloat, Range: anyNum, Where: everywhere, Off: "≤ 0", Help: "keep logits within n standard deviations of the largest", target: func(p *Params) any { return &p.TopNSigma }},
		{Name: "p_less", Kind: KindBool, Where: InCommand, Off: "false", Help: "keep tokens at least as likely as the expected probability of a draw", target: func(p *Params) any { return &p.PLess }},
		{Name: "epsilon_cutoff", Kind: KindFloat, Range: cutoff1, Where: everywhere, Off: "0", Help: "keep tokens with at least this probability", target: func(p *Params) any { return &p.EpsilonCutoff }},
		{Name: "eta_cutoff", Kind: KindFloat, Range: cutoff1, Where: everywhere, Off: "0", Help: "like epsilon_cutoff, lowered when the entropy is high", target: func(p *Params) any { return &p.EtaCutoff }},
		{Name: "tfs_z", Aliases: []string{"tfs"}, Kind: KindFloat, Range: share1, Where: everywhere, Off: "1", Help: "tail-free sampling: cut where the curvature of the sorted probabilities is spent", target: func(p *Params) any { return &p.TFSZ }},
		{Name: "xtc_probability", Kind: KindFloat, Range: unit, Where: InCommand, Off: "0", Help: "chance per token that XTC removes the top choices", target: func(p *Params) any { return &p.XTCProbability }},
		{Name: "xtc_threshold", Kind: KindFloat, Range: Range{Min: 0, Max: 0.5}, Where: InCommand, Off: "xtc_probability 0", Help: "probability from which a token is a top choice for XTC", target: func(p *Params) any { return &p.XTCThreshold }},
		{Name: "repetition_penalty", Aliases: []string{"repeat_penalty"}, Kind: KindFloat, Range: Range{Min: 0, Max: 2, OpenMin: true}, Where: everywhere, Off: "1", Help: "divide (or, below zero, multiply) the logits of tokens seen in the window", target: func(p *Params) any { return &p.RepetitionPenalty }},
		{Name: "frequency_penalty", Kind: KindFloat, Range: Range{Min: -2, Max: 2}, Where: flagged, Off: "0", Help: "lower a logit by this much for each time the output has the token", target: func(p *Params) any { return &p.FrequencyPenalty }},
		{Name: "presence_penalty", Kind: KindFloat, Range: Range{Min: -2, Max: 2}, Where: flagged, Off: "0", Help: "lower a logit by this much once the output has the token", target: func(p *Params) any { return &p.PresencePenalty }},
		{Name: "penalty_last_n", Aliases: []string{"repeat_last_n"}, Kind: KindInt, Range: window, Where: flagged, Valid: "-1 (all), 0 (off) or a number of tokens", Off: "0", Help: "window of the repetition penalty, prompt included", target: func(p *Params) any { return &p.PenaltyLastN }},
		{Name: "no_repeat_ngram_size", Kind: KindInt, Range: count, Where: everywhere, Off: "0", Help: "ban tokens that would repeat an n-gram of this size", target: func(p *Params) any { return &p.NoRepeatNgramSize }},
		{Name: "dry_multiplier", Kind: KindFloat, Range: atLeast0, Where: flagged, Off: "0", Help: "strength of the DRY penalty on continued repetitions", target: func(p *Params) any { return &p.DRYMultiplier }},
		{Name: "dry_base", Kind: KindFloat, Range: Range{Min: 1, Max: inf, OpenMax: true}, Where: flagged, Off: "dry_multiplier 0", Help: "growth of the DRY penalty per repeated token", target: func(p *Params) any { return &p.DRYBase }},
		{Name: "dry_allowed_length", Kind: KindInt, Range: count, Where: flagged, Off: "dry_multiplier 0", Help: "repetitions up to this length are not penalized by DRY", target: func(p *Params) any { return &p.DRYAllowedLength }},
		{Name: "dry_penalty_last_n", Kind: KindInt, Range: window, Where: flagged, Valid: "-1 (all), 0 (off) or a number of tokens", Off: "0", Help: "window DRY looks for repetitions in", target: func(p *Params) any { return &p.DRYPenaltyLastN }},
		{Name: "dry_sequence_breakers", Flag: "dry-sequence-breaker", Kind: KindBreakers, Where: InCommand | InServer, Valid: "texts or token ids; none clears", Off: "none", Help: "a text or token id that DRY matches do not cross", target: func(p *Params) any { return &p.DRYSequenceBreakers }},
		{Name: "dynatemp_range", Kind: KindFloat, Range: atLeast0, Where: flagged, Off: "0", Help: "dynamic temperature: from temp − range to temp + range, by entropy", target: func(p *Params) any { return &p.DynatempRange }},
		{Name: "dynatemp_exponent", Aliases: []string{"dynatemp_exp"}, Kind: KindFloat, Range: atLeast0, Where: flagged, Off: "dynatemp_range 0", Help: "exponent of the normalized entropy in the dynamic temperature", target: func(p *Params) any { return &p.DynatempExponent }},
		{Name: "mirostat", Kind: KindInt, Range: Range{Min: 0, Max: 2}, Where: flagged, Valid: "0, 1 or 2", Off: "0", Help: "version of mirostat, which holds the surprise of the output near a target", target: func(p *Params) any { return &p.Mirostat }},
		{Name: "mirostat_tau", Aliases: []string{"mirostat_ent"}, Kind: KindFloat, Range: atLeast0, Where: flagged, Off: "mirostat 0", Help: "mirostat's target surprise, in bits", target: func(p *Params) any { return &p.MirostatTau }},
		{Name: "mirostat_eta", Aliases: []string{"mirostat_lr"}, Kind: KindFloat, Range: atLeast0, Where: flagged, Off: "mirostat 0", Help: "mirostat's learning rate", target: func(p *Params) any { return &p.MirostatEta }},
		{Name: "adaptive_target", Kind: KindFloat, Range: Range{Min: -inf, Max: 1, OpenMin: true}, Where: flagged, Valid: "≤ 1", Off: "< 0", Help: "adaptive-p: the probability of drawn tokens to aim at", target: func(p *Params) any { return &p.AdaptiveTarget }},
		{Name: "adaptive_decay", Kind: KindFloat, Range: Range{Min: 0, Max: 0.99}, Where: flagged, Off: "adaptive_target < 0", Help: "adaptive-p: how slowly the running mean forgets", target: func(p *Params) any { return &p.AdaptiveDecay }},
		{Name: "min_keep", Kind: KindInt, Range: count, Where: flagged, Off: "0", Help: "no filter leaves fewer tokens than this", target: func(p *Params) any { return &p.MinKeep }},
		{Name: "sampler_order", Kind: KindChoice, Oneof: []string{string(OrderLlama), string(OrderHF)}, Where: flagged, Off: "llama", Help: "llama filters before the temperature, hf after it", target: func(p *Params) any { return (*string)(&p.Order) }},
		{Name: "logit_bias", Kind: KindBias, Where: InCommand, Valid: "token id or text → number ≤ 100; ≤ -100 bans", Off: "none", Help: "add to a token's logit: ID=NUMBER or TEXT=NUMBER", target: func(p *Params) any { return &p.LogitBias }},
		{Name: "language_bias", Kind: KindGroups, Where: InCommand, Valid: "name → bias ≤ 100 and ids; ≤ -100 bans", Off: "none", Help: "add to the logits of a named set of tokens: NAME=NUMBER:ID,ID,…", target: func(p *Params) any { return &p.LanguageBias }},
		{Name: "suppress_tokens", Kind: KindTokens, Where: InCommand | InGenerationConfig, Off: "none", Help: "ids of tokens that must not be drawn", target: func(p *Params) any { return &p.SuppressTokens }},
		{Name: "seed", Aliases: []string{"sampling_seed"}, Kind: KindSeed, Where: InCommand | InServer, Valid: "0 to 2⁶⁴−1; -1 or absent is random", Help: "seed of the noise; -1 chooses one and reports it", target: func(p *Params) any { return &p.Seed }},
		{Name: "n", Flag: "samples", Kind: KindInt, Range: Range{Min: 1, Max: 128}, Where: InCommand, Off: "1", Help: "number of answers", target: func(p *Params) any { return &p.N }},
		{Name: "best_of", Kind: KindInt, Range: Range{Min: 1, Max: 128}, Where: InCommand, Valid: "1 to 128, at least n", Off: "n", Help: "number of samples the answers are chosen from", target: func(p *Params) any { return &p.BestOf }},
		{Name: "best_of_by", Kind: KindChoice, Oneof: []string{string(ChooseRank), string(ChooseVote), string(ChooseAll)}, Where: InCommand, Off: "best_of = n", Help: "rank: best mean log probability; vote: majority of final answers; all: every sample", target: func(p *Params) any { return (*string)(&p.BestOfBy) }},
		{Name: "beams", Kind: KindInt, Range: Range{Min: 1, Max: 64}, Where: InCommand, Off: "1", Help: "width of beam search", target: func(p *Params) any { return &p.Beams }},
		{Name: "length_penalty", Kind: KindFloat, Range: unit, Where: InCommand, Off: "beams 1", Help: "beam scores are divided by length to this power", target: func(p *Params) any { return &p.LengthPenalty }},
		{Name: "beam_groups", Kind: KindInt, Range: Range{Min: 1, Max: 64}, Where: InCommand, Valid: "a divisor of beams", Off: "1", Help: "groups of beams that are kept different from each other", target: func(p *Params) any { return &p.BeamGroups }},
		{Name: "diversity_penalty", Kind: KindFloat, Range: atLeast0, Where: InCommand, Off: "0", Help: "lowers a token by this much per earlier beam group that took it", target: func(p *Params) any { return &p.DiversityPenalty }},
		{Name: "max_new_tokens", Aliases: []string{"max_tokens", "max_completion_tokens", "n_predict"}, Kind: KindInt, Range: window, Where: InCommand | InServer, Valid: "≥ 0, or -1 for the rest of the context", Help: "how many tokens to make; -1 fills the context", target: func(p *Params) any { return &p.MaxNewTokens }},
		{Name: "min_new_tokens", Aliases: []string{"min_tokens"}, Kind: KindInt, Range: count, Where: InCommand, Valid: "0 to max_new_tokens", Off: "0", Help: "no end token and no stop before this many tokens", target: func(p *Params) any { return &p.MinNewTokens }},
		{Name: "ignore_eos", Kind: KindBool, Where: InCommand, Off: "false", Help: "never draw an end token", target: func(p *Params) any { return &p.IgnoreEOS }},
		{Name: "stop", Kind: KindStrings, Where: InCommand, Valid: "a text or a list of texts, none empty", Off: "none", Help: "stop before this text", target: func(p *Params) any { return &p.Stop }},
		{Name: "stop_token_ids", Kind: KindTokens, Where: InCommand, Off: "none", Help: "stop at this token", target: func(p *Params) any { return &p.StopTokenIDs }},
		{Name: "stop_regex", Kind: KindStrings, Where: InCommand, Valid: "RE2 expressions that match no empty text", Off: "none", Help: "stop before a match of this expression", target: func(p *Params) any { return &p.StopRegex }},
		{Name: "json_schema", Kind: KindJSON, Where: InCommand, Valid: "a JSON schema; at most one of json_schema, regex, ebnf", Off: "none", Help: "constrain the output to a JSON schema; not built yet", target: func(p *Params) any { return &p.JSONSchema }},
		{Name: "regex", Kind: KindString, Where: InCommand, Valid: "at most one of json_schema, regex, ebnf", Off: "none", Help: "constrain the output to a regular expression; not built yet", target: func(p *Params) any { return &p.Regex }},
		{Name: "ebnf", Aliases: []string{"grammar"}, Kind: KindString, Where: InCommand, Valid: "at most one of json_schema, regex, ebnf", Off: "none", Help: "constrain the output to a grammar; not built yet", target: func(p *Params) any { return &p.EBNF }},
		{Name: "logprobs", Kind: KindLogprobs, Where: InCommand, Valid: "true, false, or 0 to 20 for top_logprobs", Off: "false", Help: "report the log probability of each token", target: func(p *Params) any { return &p.Logprobs }},
		{Name: "top_logprobs", Kind: KindInt, Range: Range{Min: 0, Max: 20}, Where: InCommand, Valid: "[0, 20]; with logprobs", Off: "0", Help: "report this many most likely tokens beside it", target: func(p *Params) any { return &p.TopLogprobs }},
		{Name: "logprobs_mode", Kind: KindChoice, Oneof: []string{string(LogprobsRaw), string(LogprobsProcessed)}, Where: InCommand | InServer, Help: "raw: of the model; processed: of what was drawn from", target: func(p *Params) any { return (*string)(&p.LogprobsMode) }},
		{Name: "custom_params", Kind: KindJSON, Where: 0, Valid: "an object; a logits processor must be registered", Off: "none", Help: "handed to a registered logits processor", target: func(p *Params) any { return &p.CustomParams }},
	}
	for i := range f {
		f[i].complete()
	}
	return f
}

func (f *Field) complete() {
	if f.Flag == "" {
		f.Flag = dashes(f.Name)
	}
	if f.Valid == "" {
		switch f.Kind {
		case KindFloat, KindInt:
			f.Valid = f.Range.String()
		case KindBool:
			f.Valid = "true or false"
		case KindChoice:
			f.Valid = orList(f.Oneof)
		case KindTokens:
			f.Valid = "token ids"
		}
	}
}

// Flags returns every name the field has on a command line, Flag first: the
// name and all aliases with dashes.
func (f Field) Flags() []string {
	out := []string{f.Flag}
	for _, n := range append([]string{f.Name}, f.Aliases...) {
		// A flag named n would read as the number of tokens, which is -n.
		if d := dashes(n); d != f.Flag && len(d) > 1 {
			out = append(out, d)
		}
	}
	return out
}

// Repeatable reports that the flag may be given more than once.
func (f Field) Repeatable() bool {
	switch f.Kind {
	case KindStrings, KindTokens, KindBreakers, KindBias, KindGroups:
		return true
	}
	return false
}

// Lookup finds a field by name or alias, with dashes or underscores.
func Lookup(name string) (Field, bool) {
	for _, f := range Fields() {
		for _, n := range append(f.Flags(), f.Name) {
			if dashes(n) == dashes(name) {
				return f, true
			}
		}
	}
	return Field{}, false
}

// Value returns the field's value in p as JSON.
func (f Field) Value(p *Params) json.RawMessage {
	if f.Name == "best_of" && p.BestOf == 0 {
		return json.RawMessage("null") // follows n
	}
	return encode(f.target(p))
}
