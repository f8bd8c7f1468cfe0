package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"surmise/bench"
	"surmise/kvcache"
	"surmise/model"
	"surmise/sampler"
)

// Format and Version are those of the header.
const (
	Format  = "surmise-recording"
	Version = 1
)

// The sources of a recording.
const (
	Local  = "local"  // a target of this program
	Server = "server" // an OpenAI-compatible server
)

// Header says what was recorded.
type Header struct {
	Format  string        `json:"format"`
	Version int           `json:"version"`
	Program string        `json:"program"`
	Started time.Time     `json:"started"`
	Source  string        `json:"source"`
	Machine bench.Machine `json:"machine"`

	// Target is what answered. Of a server, Path is its address and model, and
	// Hash that of the checkpoint whose tokenizer was used.
	Target bench.Checkpoint `json:"target"`
	// Spec is what a drafter must know of the target.
	Spec Spec `json:"spec"`
	// Layers are the hidden states recorded: l is the output of block l, and the
	// number of layers the state after the final norm.
	Layers []int `json:"hidden_layers,omitempty"`

	Data string `json:"data"`
	Chat bool   `json:"chat_template"`
	// Params are the sampling parameters; every item has its own seed.
	Params json.RawMessage `json:"params"`
	// Costs are what forwards took on the machine, for predictions.
	Costs *bench.Costs `json:"costs,omitempty"`
}

// Spec is the part of a target's description that drafters look at.
type Spec struct {
	Architecture string `json:"architecture,omitempty"`
	Vocab        int    `json:"vocab"`
	Hidden       int    `json:"hidden,omitempty"`
	Layers       int    `json:"layers,omitempty"`
	Context      int    `json:"context"`
	EOS          []int  `json:"eos"`
}

// SpecOf takes the part of a target's description; eos are all its end tokens.
func SpecOf(s model.Spec, eos []int32) Spec {
	out := Spec{Architecture: s.Architecture, Vocab: s.Vocab, Hidden: s.Hidden, Layers: s.Layers, Context: s.Context}
	for _, id := range eos {
		out.EOS = append(out.EOS, int(id))
	}
	return out
}

// Model is the description a replayed target gives of itself.
func (s Spec) Model() model.Spec {
	return model.Spec{
		Architecture: s.Architecture, Vocab: s.Vocab, Hidden: s.Hidden, Layers: s.Layers,
		Context: s.Context, BOS: -1, EOS: slices.Clone(s.EOS), Windows: make([]int, max(s.Layers, 1)),
	}
}

// Sampling are the parameters of the header.
func (h *Header) Sampling() (sampler.Params, error) {
	p := sampler.Default()
	unknown, err := p.SetJSON(h.Params)
	if err == nil && len(unknown) > 0 {
		err = fmt.Errorf("unknown parameters %q", unknown)
	}
	if err != nil {
		return p, fmt.Errorf("params: %w", err)
	}
	return p, p.Validate()
}

// check refuses a header that cannot be used.
func (h *Header) check() error {
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("%s %v: want %s", field, value, want)
	}
	switch s := h.Spec; {
	case h.Format != Format:
		return fmt.Errorf("format %q: want %q", h.Format, Format)
	case h.Version != Version:
		return fmt.Errorf("version %d of %s: this program reads %d", h.Version, Format, Version)
	case s.Vocab < 1 || s.Vocab > 1<<24:
		return bad("vocab", s.Vocab, "1 to 2²⁴")
	case s.Context < 1 || s.Context > 1<<28:
		return bad("context", s.Context, "1 to 2²⁸")
	case s.Hidden < 0 || s.Hidden > 1<<20:
		return bad("hidden", s.Hidden, "0 to 2²⁰")
	case s.Layers < 0 || s.Layers > 1<<16:
		return bad("layers", s.Layers, "0 to 2¹⁶")
	case len(h.Layers) > s.Layers+1 || len(h.Layers) > 0 && s.Hidden == 0:
		return bad("hidden_layers", h.Layers, "layers of the target")
	}
	if h.Spec.Hidden*len(h.Layers) > 1<<26 {
		return bad("hidden_layers", h.Layers, "at most 2²⁶ values a token")
	}
	for i, l := range h.Layers {
		if l < 0 || l > h.Spec.Layers || slices.Contains(h.Layers[:i], l) {
			return bad("hidden_layers", h.Layers, fmt.Sprintf("different layers from 0 to %d", h.Spec.Layers))
		}
	}
	return nil
}

// same tells what keeps items of another recording from being appended.
func (h *Header) same(o *Header) error {
	if err := o.check(); err != nil {
		return err
	}
	fields := []bench.Field{
		{Name: "source", Ours: h.Source, Had: o.Source},
		{Name: "target", Ours: h.Target.Path, Had: o.Target.Path},
		{Name: "target's hash", Ours: h.Target.Hash, Had: o.Target.Hash},
		{Name: "target's weights", Ours: h.Target.Bytes, Had: o.Target.Bytes},
		{Name: "data", Ours: h.Data, Had: o.Data},
		{Name: "chat template", Ours: h.Chat, Had: o.Chat},
		{Name: "context", Ours: h.Spec.Context, Had: o.Spec.Context},
		{Name: "hidden layers", Ours: fmt.Sprint(h.Layers), Had: fmt.Sprint(o.Layers)},
	}
	if d := bench.Differ(append(fields, bench.ParamFields(h.Params, o.Params)...)); d != "" {
		return fmt.Errorf("the file is another recording: %s", d)
	}
	return nil
}

// Item is one request and what answered it.
type Item struct {
	ID       string  `json:"id"`
	Category string  `json:"category"`
	Turn     int     `json:"turn"`
	Prompt   []int32 `json:"prompt"`
	// Tokens are all that were drawn, an end token included, and those a stop
	// string swallowed.
	Tokens []int32 `json:"tokens"`
	Text   string  `json:"text"`
	Finish string  `json:"finish_reason"`
	// Limit is how many tokens could have been drawn.
	Limit int    `json:"limit"`
	Seed  uint64 `json:"seed"`

	PromptSeconds float64 `json:"prompt_s"`
	DecodeSeconds float64 `json:"decode_s"`
	// SampleSeconds and RoundSeconds are the parts of DecodeSeconds spent on
	// sampling, and on what is neither that nor forwards nor recording.
	SampleSeconds float64 `json:"sample_s,omitempty"`
	RoundSeconds  float64 `json:"round_s,omitempty"`

	// Retokenized tells that the ids were made from the text, which they give
	// back exactly; they may still differ from those the target drew.
	Retokenized bool `json:"retokenized,omitempty"`
	// Hidden says where the hidden states are; nil if none were recorded.
	Hidden *Span `json:"hidden,omitempty"`
	// Skipped says why there is no answer.
	Skipped string `json:"skipped,omitempty"`
}

// Span is a place in the file of hidden states.
type Span struct {
	Offset int64 `json:"offset"`
	// Positions are those of the prompt and of all tokens but the last.
	Positions int    `json:"positions"`
	Sum       uint32 `json:"crc32c"`
}

// Key names the request within the recording.
func (i *Item) Key() string { return Key(i.ID, i.Turn) }

// Key names a request within a recording.
func Key(id string, turn int) string { return id + "#" + strconv.Itoa(turn) }

// check refuses an item that does not fit the header.
func (i *Item) check(h *Header) error {
	bad := func(what string) error { return fmt.Errorf("item %s turn %d: %s", i.ID, i.Turn, what) }
	if i.Skipped != "" {
		return nil
	}
	switch n := len(i.Prompt) + len(i.Tokens); {
	case i.ID == "":
		return errors.New("item without an id")
	case len(i.Prompt) == 0 || len(i.Tokens) == 0:
		return bad(fmt.Sprintf("%d prompt tokens and %d tokens: want one at least of both", len(i.Prompt), len(i.Tokens)))
	case n > h.Spec.Context:
		return bad(fmt.Sprintf("%d tokens, but the context is %d", n, h.Spec.Context))
	case i.Limit < len(i.Tokens) || i.Limit > h.Spec.Context:
		return bad(fmt.Sprintf("limit %d with %d tokens: want at least those and at most the context of %d", i.Limit, len(i.Tokens), h.Spec.Context))
	case len(h.Layers) > 0 && i.Hidden == nil:
		return bad("its hidden states are missing")
	case i.Hidden != nil && i.Hidden.Positions != n-1:
		return bad(fmt.Sprintf("hidden states of %d positions: want %d", i.Hidden.Positions, n-1))
	case i.Hidden != nil && i.Hidden.Offset < 0:
		return bad(fmt.Sprintf("hidden states at %d", i.Hidden.Offset))
	}
	for _, ids := range [][]int32{i.Prompt, i.Tokens} {
		for _, t := range ids {
			if t < 0 || int(t) >= h.Spec.Vocab {
				return bad(fmt.Sprintf("token %d: want 0 to %d", t, h.Spec.Vocab-1))
			}
		}
	}
	return nil
}

// Cache is the configuration of a cache that has room for one sequence of the
// target and keeps nothing but its tokens.
func (s Spec) Cache() kvcache.Config {
	cfg := kvcache.Config{Groups: []kvcache.Group{{Layers: 1}}, Heads: 1, HeadDim: 1, Context: s.Context}
	cfg.Budget = cfg.PageBytes() * int64(s.Context/64+4)
	return cfg
}
