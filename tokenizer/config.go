package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// config is tokenizer_config.json, as far as it decides something here.
type config struct {
	Class        string                  `json:"tokenizer_class"`
	AddBOS       *bool                   `json:"add_bos_token"`
	AddEOS       *bool                   `json:"add_eos_token"`
	AddedDecoder map[string]hfAddedToken `json:"added_tokens_decoder"`
	ChatTemplate json.RawMessage         `json:"chat_template"`
	BOS          tokenText               `json:"bos_token"`
	EOS          tokenText               `json:"eos_token"`
	Unk          tokenText               `json:"unk_token"`
	Pad          tokenText               `json:"pad_token"`
	Sep          tokenText               `json:"sep_token"`
	Cls          tokenText               `json:"cls_token"`
	Mask         tokenText               `json:"mask_token"`
	added        []hfAddedToken          // AddedDecoder, ascending
	templates    []namedTemplate
}

type namedTemplate struct {
	Name     string `json:"name"`
	Template string `json:"template"`
}

// tokenText is a token given as a string or as an object with its content.
type tokenText string

// UnmarshalJSON accepts "text", {"content": "text"} and null.
func (t *tokenText) UnmarshalJSON(b []byte) error {
	if isNull(b) {
		return nil
	}
	if b[0] == '{' {
		var o struct {
			Content string `json:"content"`
		}
		if err := json.Unmarshal(b, &o); err != nil {
			return err
		}
		*t = tokenText(o.Content)
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("want a token as a string or an object with \"content\": %w", err)
	}
	*t = tokenText(s)
	return nil
}

// parseConfig reads tokenizer_config.json; nil stands for an empty one.
func parseConfig(data []byte) (*config, error) {
	c := &config{}
	if data == nil {
		return c, nil
	}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, err
	}
	for key, tok := range c.AddedDecoder {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("added_tokens_decoder: %.40q is not a token id", key)
		}
		tok.ID = id
		c.added = append(c.added, tok)
	}
	slices.SortFunc(c.added, func(a, b hfAddedToken) int { return int(a.ID - b.ID) })
	if isNull(c.ChatTemplate) {
		return c, nil
	}
	if c.ChatTemplate[0] == '[' {
		if err := json.Unmarshal(c.ChatTemplate, &c.templates); err != nil {
			return nil, fmt.Errorf("chat_template: %w", err)
		}
		return c, nil
	}
	var text string
	if err := json.Unmarshal(c.ChatTemplate, &text); err != nil {
		return nil, fmt.Errorf("chat_template: want a string or a list of named templates: %w", err)
	}
	c.templates = []namedTemplate{{"default", text}}
	return c, nil
}

// addsByConfig are the tokenizer classes of Transformers that let
// tokenizer_config.json, if it says so, decide over the tokens around a text,
// whatever the post-processor of tokenizer.json is (DeepSeek's has none).
var addsByConfig = map[string]bool{
	"LlamaTokenizer": true, "LlamaTokenizerFast": true, "GemmaTokenizer": true, "GemmaTokenizerFast": true,
}

// configure applies tokenizer_config.json to a tokenizer.
func (t *Tokenizer) configure(c *config) error {
	t.finish()
	for name, text := range map[string]tokenText{
		"bos_token": c.BOS, "eos_token": c.EOS, "unk_token": c.Unk, "pad_token": c.Pad,
		"sep_token": c.Sep, "cls_token": c.Cls, "mask_token": c.Mask,
	} {
		if text != "" {
			t.specials[name] = string(text)
		}
	}
	if c.BOS != "" {
		id, ok := t.Lookup(string(c.BOS))
		if !ok {
			return fmt.Errorf("bos_token %q is not in the vocabulary", c.BOS)
		}
		t.bos = id
	}
	if t.bos < 0 && len(t.prefix) > 0 {
		t.bos = t.prefix[0]
	}
	if c.EOS != "" {
		id, ok := t.Lookup(string(c.EOS))
		if !ok {
			return fmt.Errorf("eos_token %q is not in the vocabulary", c.EOS)
		}
		t.addEOS(id)
		if addsByConfig[c.Class] && c.AddEOS != nil {
			t.suffix = nil
			if *c.AddEOS {
				t.suffix = []int32{id}
			}
		}
	}
	if addsByConfig[c.Class] && c.AddBOS != nil && t.bos >= 0 {
		t.prefix = nil
		if *c.AddBOS {
			t.prefix = []int32{t.bos}
		}
	}
	for _, n := range c.templates {
		t.setTemplate(n.Name, n.Template)
	}
	return nil
}

func (t *Tokenizer) setTemplate(name, text string) {
	if name == "default" {
		t.template = text
		return
	}
	if t.namedTemplates == nil {
		t.namedTemplates = map[string]string{}
	}
	t.namedTemplates[name] = text
}
