package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/text/unicode/norm"
)

// The small parts of tokenizer.json: each is an object with a "type", or a
// Sequence of them, or null. A type not listed here is an error.

const maxParts = 64

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}

type hfPattern struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

func parseNormalizers(raw json.RawMessage, depth int) ([]normalizer, error) {
	if isNull(raw) {
		return nil, nil
	}
	var n struct {
		Type        string            `json:"type"`
		Normalizers []json.RawMessage `json:"normalizers"`
		Prepend     string            `json:"prepend"`
		Pattern     hfPattern         `json:"pattern"`
		Content     string            `json:"content"`
	}
	if err := json.Unmarshal(raw, &n); err != nil {
		return nil, err
	}
	switch n.Type {
	case "Sequence":
		if depth > 0 || len(n.Normalizers) > maxParts {
			return nil, errors.New("a sequence inside a sequence, or too long a one")
		}
		var all []normalizer
		for _, part := range n.Normalizers {
			steps, err := parseNormalizers(part, depth+1)
			if err != nil {
				return nil, err
			}
			all = append(all, steps...)
		}
		return all, nil
	case "NFC":
		return []normalizer{form(norm.NFC)}, nil
	case "NFD":
		return []normalizer{form(norm.NFD)}, nil
	case "NFKC":
		return []normalizer{form(norm.NFKC)}, nil
	case "NFKD":
		return []normalizer{form(norm.NFKD)}, nil
	case "Prepend":
		return []normalizer{prepend(n.Prepend)}, nil
	case "Replace":
		if n.Pattern.String == nil || *n.Pattern.String == "" {
			return nil, errors.New("of Replace, only a pattern {\"String\": …} is supported")
		}
		return []normalizer{replace(*n.Pattern.String, n.Content)}, nil
	}
	return nil, fmt.Errorf("unknown type %q (known: Sequence, NFC, NFD, NFKC, NFKD, Prepend, Replace)", n.Type)
}

type hfPreTokenizer struct {
	Type             string            `json:"type"`
	PreTokenizers    []json.RawMessage `json:"pretokenizers"`
	Pattern          hfPattern         `json:"pattern"`
	Behavior         string            `json:"behavior"`
	Invert           bool              `json:"invert"`
	AddPrefixSpace   *bool             `json:"add_prefix_space"`
	UseRegex         *bool             `json:"use_regex"`
	IndividualDigits bool              `json:"individual_digits"`
	Replacement      string            `json:"replacement"`
	PrependScheme    string            `json:"prepend_scheme"`
	Split            *bool             `json:"split"`
}

func parsePreTokenizer(raw json.RawMessage) (*preTokenizer, error) {
	p := &preTokenizer{name: "none"}
	if isNull(raw) {
		return p, nil
	}
	if err := p.add(raw, 0); err != nil {
		return nil, err
	}
	return p, nil
}

// add appends one pre-tokenizer object.
func (p *preTokenizer) add(raw json.RawMessage, depth int) error {
	var h hfPreTokenizer
	if err := json.Unmarshal(raw, &h); err != nil {
		return err
	}
	if p.byteLevel {
		return fmt.Errorf("%s after ByteLevel is not supported", h.Type)
	}
	switch h.Type {
	case "Sequence":
		if depth > 0 || len(h.PreTokenizers) > maxParts {
			return errors.New("a sequence inside a sequence, or too long a one")
		}
		for _, part := range h.PreTokenizers {
			if err := p.add(part, depth+1); err != nil {
				return err
			}
		}
		return nil
	case "ByteLevel":
		return p.addByteLevel(&h)
	case "Split":
		return p.addSplit(&h)
	case "Digits":
		most := maxRun
		if h.IndividualDigits {
			most = 1
		}
		p.stage("digits", isolate(isNumber, most))
		return nil
	case "Metaspace":
		return p.addMetaspace(&h)
	}
	return fmt.Errorf("unknown type %q (known: Sequence, ByteLevel, Split, Digits, Metaspace)", h.Type)
}

func (p *preTokenizer) stage(name string, s ...splitter) {
	if p.name == "none" {
		p.name = name
	} else {
		p.name += " + " + name
	}
	p.stages = append(p.stages, s...)
}

func (p *preTokenizer) addByteLevel(h *hfPreTokenizer) error {
	p.byteLevel = true
	if h.AddPrefixSpace == nil || *h.AddPrefixSpace {
		if len(p.stages) > 0 {
			return errors.New("type ByteLevel with add_prefix_space after another splitter is not supported")
		}
		p.prefixSpace = true
	}
	if h.UseRegex == nil || *h.UseRegex {
		p.stage("gpt2", splitGPT2)
	}
	return nil
}

func (p *preTokenizer) addSplit(h *hfPreTokenizer) error {
	switch {
	case h.Invert:
		return errors.New("type Split with invert is not supported")
	case h.Pattern.String != nil && *h.Pattern.String != "" && h.Behavior == "MergedWithPrevious":
		p.stage(fmt.Sprintf("after %q", *h.Pattern.String), mergedWithPrevious(*h.Pattern.String))
		return nil
	case h.Pattern.String != nil && *h.Pattern.String != "" && h.Behavior == "MergedWithNext":
		p.stage(fmt.Sprintf("before %q", *h.Pattern.String), mergedWithNext(*h.Pattern.String))
		return nil
	case h.Pattern.Regex == nil:
		return fmt.Errorf("type Split with pattern %+v and behavior %q is not supported", h.Pattern, h.Behavior)
	}
	known, err := patternByRegex(*h.Pattern.Regex)
	if err != nil {
		return err
	}
	if h.Behavior != "Isolated" {
		return fmt.Errorf("type Split with behavior %q is not supported: want Isolated", h.Behavior)
	}
	p.stage(known.name, known.stages...)
	return nil
}

func (p *preTokenizer) addMetaspace(h *hfPreTokenizer) error {
	if len(p.stages) > 0 || p.meta != nil {
		return errors.New("type Metaspace after another splitter is not supported")
	}
	if h.Replacement != "" && h.Replacement != spaceMark {
		return fmt.Errorf("type Metaspace with replacement %q: want %q", h.Replacement, spaceMark)
	}
	p.meta = &metaspace{mark: spaceMark, prefix: h.PrependScheme}
	if h.PrependScheme == "" {
		p.meta.prefix = "always"
		if h.AddPrefixSpace != nil && !*h.AddPrefixSpace {
			p.meta.prefix = "never"
		}
	}
	switch p.meta.prefix {
	case "always", "first", "never":
	default:
		return fmt.Errorf("type Metaspace with prepend_scheme %q: want always, first or never", h.PrependScheme)
	}
	p.name = "metaspace"
	if h.Split == nil || *h.Split {
		p.stages = append(p.stages, mergedWithNext(spaceMark))
	}
	return nil
}

// parsePostProcessor returns the ids put before and after a text.
func parsePostProcessor(raw json.RawMessage, vocab int) (prefix, suffix []int32, err error) {
	if isNull(raw) {
		return nil, nil, nil
	}
	var p struct {
		Type       string            `json:"type"`
		Processors []json.RawMessage `json:"processors"`
		Single     []struct {
			SpecialToken *struct {
				ID string `json:"id"`
			} `json:"SpecialToken"`
			Sequence *struct {
				ID string `json:"id"`
			} `json:"Sequence"`
		} `json:"single"`
		SpecialTokens map[string]struct {
			IDs []int64 `json:"ids"`
		} `json:"special_tokens"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, nil, err
	}
	switch p.Type {
	case "ByteLevel":
		return nil, nil, nil
	case "Sequence":
		if len(p.Processors) > maxParts {
			return nil, nil, errors.New("too long a sequence")
		}
		for _, part := range p.Processors {
			before, after, err := parsePostProcessor(part, vocab)
			if err != nil {
				return nil, nil, err
			}
			prefix, suffix = append(before, prefix...), append(suffix, after...)
		}
		return prefix, suffix, nil
	case "TemplateProcessing":
	default:
		return nil, nil, fmt.Errorf("unknown type %q (known: Sequence, ByteLevel, TemplateProcessing)", p.Type)
	}
	seen := false
	for _, part := range p.Single {
		switch {
		case part.Sequence != nil && !seen:
			seen = true
		case part.SpecialToken != nil:
			known, ok := p.SpecialTokens[part.SpecialToken.ID]
			if !ok {
				return nil, nil, fmt.Errorf("special token %q is not in special_tokens", part.SpecialToken.ID)
			}
			for _, id := range known.IDs {
				if id < 0 || id >= int64(vocab) {
					return nil, nil, fmt.Errorf("special token %q has id %d, out of range for %d tokens", part.SpecialToken.ID, id, vocab)
				}
				if seen {
					suffix = append(suffix, int32(id))
				} else {
					prefix = append(prefix, int32(id))
				}
			}
		default:
			return nil, nil, errors.New("single: want special tokens around one sequence")
		}
	}
	if !seen {
		return nil, nil, errors.New("single: no sequence")
	}
	return prefix, suffix, nil
}

// parseDecoder checks that the decoder is the one its kind of vocabulary has,
// and reports whether it drops a leading space.
func parseDecoder(raw json.RawMessage, byteLevel bool, depth int) (strip bool, err error) {
	if isNull(raw) {
		return false, nil
	}
	var d struct {
		Type           string            `json:"type"`
		Decoders       []json.RawMessage `json:"decoders"`
		Pattern        hfPattern         `json:"pattern"`
		Content        string            `json:"content"`
		Start          int               `json:"start"`
		Stop           int               `json:"stop"`
		AddPrefixSpace *bool             `json:"add_prefix_space"`
		PrependScheme  string            `json:"prepend_scheme"`
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return false, err
	}
	switch d.Type {
	case "Sequence":
		if depth > 0 || len(d.Decoders) > maxParts {
			return false, errors.New("a sequence inside a sequence, or too long a one")
		}
		for _, part := range d.Decoders {
			s, err := parseDecoder(part, byteLevel, depth+1)
			if err != nil {
				return false, err
			}
			strip = strip || s
		}
		return strip, nil
	case "ByteLevel":
		if !byteLevel {
			return false, errors.New("type ByteLevel, but the pre_tokenizer is not")
		}
		return false, nil
	case "ByteFallback", "Fuse":
		return false, nil
	case "Replace":
		if d.Pattern.String == nil || *d.Pattern.String != spaceMark || d.Content != " " {
			return false, fmt.Errorf("of Replace, only %q by a space is supported", spaceMark)
		}
		return false, nil
	case "Strip":
		if d.Content != " " || d.Start < 0 || d.Start > 1 || d.Stop != 0 {
			return false, fmt.Errorf("type Strip of %q, %d at the start and %d at the end: only one space at the start is supported", d.Content, d.Start, d.Stop)
		}
		return d.Start == 1, nil
	case "Metaspace":
		if d.PrependScheme != "" {
			return d.PrependScheme != "never", nil
		}
		return d.AddPrefixSpace == nil || *d.AddPrefixSpace, nil
	}
	return false, fmt.Errorf("unknown type %q (known: Sequence, ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace)", d.Type)
}
