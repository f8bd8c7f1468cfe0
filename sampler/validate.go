package sampler

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"surmise/sampler/stop"
)

// Validate checks every parameter that can be checked without a model, and the
// rules between them. The error is a [FieldError] naming field, value and what
// is valid.
func (p Params) Validate() error {
	for _, f := range Fields() {
		if err := f.check(&p); err != nil {
			return err
		}
	}
	return p.checkTogether()
}

// ValidateOpenAI also enforces what OpenAI's API requires: a temperature that is
// not negative.
func (p Params) ValidateOpenAI() error {
	if p.Temperature < 0 {
		return &FieldError{"temperature", number(p.Temperature), "≥ 0"}
	}
	return p.Validate()
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// check holds one field against its range or choices.
func (f *Field) check(p *Params) error {
	switch t := f.target(p).(type) {
	case *float64:
		if !f.Range.Has(*t) {
			return f.bad(number(*t))
		}
	case *int:
		if f.Name == "best_of" && *t == 0 {
			return nil // stands for n
		}
		if !f.Range.Has(float64(*t)) {
			return f.bad(strconv.Itoa(*t))
		}
	case *string:
		if f.Kind == KindChoice {
			for _, c := range f.Oneof {
				if *t == c {
					return nil
				}
			}
			return f.bad(strconv.Quote(*t))
		}
	case *json.RawMessage:
		return f.checkJSON(*t)
	case *[]int32:
		for _, id := range *t {
			if id < 0 {
				return f.bad(strconv.Itoa(int(id)))
			}
		}
	case *[]string:
		for _, s := range *t {
			if s == "" || !utf8.ValidString(s) {
				return f.bad(strconv.Quote(s)) // text is UTF-8, it would never match
			}
		}
	}
	return nil
}

// checkJSON takes objects, and for a schema true and false, which are schemas.
func (f *Field) checkJSON(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	var v any
	if json.Unmarshal(raw, &v) == nil {
		switch v.(type) {
		case map[string]any:
			return nil
		case bool:
			if f.Name == "json_schema" {
				return nil
			}
		}
	}
	return f.bad(string(raw))
}

func (p *Params) checkTogether() error {
	if p.BestOf != 0 && p.BestOf < p.N {
		return &FieldError{"best_of", strconv.Itoa(p.BestOf), fmt.Sprintf("at least n, which is %d", p.N)}
	}
	if p.Beams%p.BeamGroups != 0 {
		return &FieldError{"beam_groups", strconv.Itoa(p.BeamGroups), fmt.Sprintf("a divisor of beams, which is %d", p.Beams)}
	}
	if p.Beams > 1 && p.N > p.Beams {
		return &FieldError{"n", strconv.Itoa(p.N), fmt.Sprintf("at most beams, which is %d", p.Beams)}
	}
	if p.Beams > 1 && p.BestOf > p.N {
		return &FieldError{"best_of", strconv.Itoa(p.BestOf), "no best_of beside beams: a beam search chooses by itself"}
	}
	if p.TopLogprobs > 0 && !p.Logprobs {
		return &FieldError{"top_logprobs", strconv.Itoa(p.TopLogprobs), "0 without logprobs"}
	}
	if p.MaxNewTokens >= 0 && p.MinNewTokens > p.MaxNewTokens {
		return &FieldError{"min_new_tokens", strconv.Itoa(p.MinNewTokens), fmt.Sprintf("0 to max_new_tokens, which is %d", p.MaxNewTokens)}
	}
	for _, b := range p.LogitBias {
		if b.Token < 0 {
			return &FieldError{"logit_bias", strconv.Itoa(int(b.Token)), "a token id of 0 or more, or a text"}
		}
		if err := checkBias("logit_bias", b.String(), b.Bias); err != nil {
			return err
		}
	}
	for _, g := range p.LanguageBias {
		if err := checkBias("language_bias", strconv.Quote(g.Name), g.Bias); err != nil {
			return err
		}
	}
	for _, b := range p.DRYSequenceBreakers {
		if b.Text == "" && b.Token < 0 {
			return &FieldError{"dry_sequence_breakers", strconv.Itoa(int(b.Token)), "a text or a token id of 0 or more"}
		}
	}
	for _, e := range p.StopRegex {
		if _, err := stop.RegexLength(e); err != nil {
			return fmt.Errorf("stop_regex: %w", err)
		}
	}
	return p.checkGrammar()
}

func (p *Params) checkGrammar() error {
	given := ""
	for _, g := range []struct {
		name string
		on   bool
	}{{"json_schema", len(p.JSONSchema) > 0}, {"regex", p.Regex != ""}, {"ebnf", p.EBNF != ""}} {
		if !g.on {
			continue
		}
		if given != "" {
			return &FieldError{g.name, "beside " + given, "at most one of json_schema, regex and ebnf"}
		}
		given = g.name
	}
	return nil
}

// CheckBuilt refuses what is checked but cannot be done yet: structured output.
func (p *Params) CheckBuilt() error {
	if g := p.Constrained(); g != "" {
		return fmt.Errorf("%s: structured output is not built yet", g)
	}
	return nil
}

// Constrained returns the name of the field that asks for structured output
// ("json_schema", "regex", "ebnf"), or "".
func (p *Params) Constrained() string {
	switch {
	case len(p.JSONSchema) > 0:
		return "json_schema"
	case p.Regex != "":
		return "regex"
	case p.EBNF != "":
		return "ebnf"
	}
	return ""
}
