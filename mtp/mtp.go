package mtp

import (
	"fmt"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/drafter"
	"surmise/drafter/hidden"
	"surmise/model"
)

// Name is the kind's name.
const Name = drafter.MTP

// The kind's own reasons to decline.
const (
	// StateMissing: the target's hidden state before the last token is not known.
	StateMissing drafter.Reason = "draft_state_missing"
	// CacheFull: the head's key/value budget is used up by other rows.
	CacheFull drafter.Reason = "draft_cache"
	// Unsure: the head's confidence in its first token is too low to pay.
	Unsure = drafter.Unsure
)

// Contract is the kind's contract.
func Contract() drafter.Contract {
	return drafter.Contract{
		Kind:     Name,
		Summary:  "a multi-token-prediction head of the target, chained",
		Greedy:   drafter.Stream,
		Sampling: drafter.Stream,
		Features: drafter.AllFeatures(),
		Proposes: drafter.BySharedNoise,
		Qualification: []drafter.Rule{
			{Name: "layout", When: "tensors of a head in the layout of Qwen3.5, DeepSeek and GLM, or MiMo, over dense attention and feed-forward", Why: "these are the heads we can run"},
			{Name: "hidden", When: "the head's hidden_size is the target's", Why: "the head reads the target's states"},
			{Name: "context", When: "the head's max_position_embeddings, if said, is no less than the positions the target is used for", Why: "the head was not trained for positions beyond"},
		},
		Inputs: drafter.Inputs{Tokens: true},
		Engagement: append([]drafter.Rule{
			{Name: string(StateMissing), When: "the target has not computed the token before the last one in sight of the head", Why: "the head continues from that token's hidden state"},
			{Name: string(CacheFull), When: "the head's key/value budget is used up", Why: "other sequences hold the head's memory"},
			{Name: string(Unsure), When: "the head gives its best token a chance below what pays", Why: "the first proposal would probably be rejected"},
		}, drafter.CommonRules()...),
		MaxWidth: drafter.MaxWidth,
	}
}

// Kind registers the drafter. Without a checkpoint of its own it uses the heads
// that the target's carries. Options of the configuration: "quantize" (as
// model.ParseQuantize), "noise" ("shared" or "off"), "hidden" ("normed", "raw"
// or "auto", the layout's).
func Kind() drafter.Kind {
	return drafter.Kind{Contract: Contract(), OptionalCheckpoint: true, Options: settings.Names(), New: open}
}

var settings = drafter.Settings[Options]{
	"quantize": func(o *Options, v string) (err error) { o.Quantize, err = model.ParseQuantize(v); return err },
	"noise":    func(o *Options, v string) (err error) { o.Noise, err = drafter.ParseNoise(v); return err },
	"hidden":   func(o *Options, v string) (err error) { o.Hidden, err = ParseHidden(v); return err },
}

func open(c drafter.Config) (drafter.Drafter, error) {
	o := Options{Noise: true}
	if err := settings.Read(c, Name, &o); err != nil {
		return nil, err
	}
	ck := c.Checkpoint
	if ck == nil {
		ck = c.Target
	}
	if ck == nil {
		return nil, fmt.Errorf("draft kind %s: no checkpoint to take heads from", Name)
	}
	return New(c.Device, ck, o)
}

// ParseHidden reads "normed", "raw", or "auto" (the layout's own choice).
func ParseHidden(s string) (Hidden, error) {
	switch s {
	case "auto", "":
		return "", nil
	case string(Normed), string(Raw):
		return Hidden(s), nil
	}
	return "", fmt.Errorf("hidden state %q: want normed, raw or auto", s)
}

// Options configure the drafter.
type Options struct {
	Quantize model.Quantize
	// Noise proposes with the target's own noise where it draws; without it,
	// proposals are the head's most likely tokens.
	Noise bool
	// Hidden is the target's state the head reads; empty for the layout's.
	Hidden Hidden
	// KV is the format of the head's keys and values.
	KV compute.KVType
}

// Drafter chains a head. It implements drafter.Drafter.
type Drafter struct {
	dev  compute.Device
	ck   *checkpoint.Checkpoint
	opts Options
	net  *network

	layer  int // of the target's hidden states
	width  int // of the hidden state
	bound  bool
	rooms  hidden.Rooms
	ended  []*seq // whose prompts end in the round
	chains []chaining
	live   []*chaining

	proposer drafter.Proposer
}

// New loads the head of a checkpoint, which may be the target's own, onto the
// device the target runs on. The checkpoint must stay open as long as the drafter.
func New(dev compute.Device, ck *checkpoint.Checkpoint, o Options) (*Drafter, error) {
	net, err := load(dev, ck, o.Quantize)
	if err != nil {
		return nil, fmt.Errorf("draft kind %s: %w", Name, err)
	}
	if o.Hidden == "" {
		o.Hidden = net.layout.hidden
	}
	return &Drafter{dev: dev, ck: ck, opts: o, net: net}, nil
}

// Layout names the head's layout: "qwen3.5", "deepseek" or "mimo".
func (d *Drafter) Layout() string { return d.net.layout.name }

// Hidden is the target's state the head reads.
func (d *Drafter) Hidden() Hidden { return d.opts.Hidden }

// Contract is the kind's contract as configured; the target's layer is known
// once the drafter is bound.
func (d *Drafter) Contract() drafter.Contract {
	c := Contract()
	if d.bound {
		c.Inputs.Layers = []int{d.layer}
	}
	if !d.opts.Noise {
		c.Proposes = drafter.ByArgmax
	}
	return c
}

// Bind checks the widths and borrows the target's embedding and head.
func (d *Drafter) Bind(t model.Target) error {
	spec := t.Spec()
	bad := func(format string, args ...any) error {
		return fmt.Errorf("draft kind %s: %s: %s", Name, d.ck.Path(), fmt.Sprintf(format, args...))
	}
	hidden := d.net.norm.Len()
	switch {
	case t.Device() != d.dev:
		return bad("the head is on device %s, the target on %s", d.dev.Name(), t.Device().Name())
	case hidden != spec.Hidden:
		return bad("hidden_size is %d, but the target's hidden states are %d wide", hidden, spec.Hidden)
	}
	if d.net.embedding == nil {
		d.net.embedding, d.net.embedScale = t.Embedding(), t.EmbedScale()
	}
	if d.net.head == nil {
		d.net.head = t.Head()
	}
	switch head, embedding, context := d.net.head, d.net.embedding, d.ck.Config().Context; {
	case head.Out() != spec.Vocab || head.In() != hidden:
		return bad("%s.weight is [%d, %d], want [%d, %d]", d.net.layout.head, head.Out(), head.In(), spec.Vocab, hidden)
	case embedding.Rows() < spec.Vocab:
		return bad("%s is [%d, %d], want %d rows or more: the target's vocabulary", d.net.layout.embedding, embedding.Rows(), embedding.Cols(), spec.Vocab)
	case context > 0 && context < spec.Context:
		return bad("max_position_embeddings is %d, but the target is used up to %d positions: want as many, or a smaller context", context, spec.Context)
	}
	d.layer, d.width = spec.Layers, hidden
	if d.opts.Hidden == Raw {
		d.layer = spec.Layers - 1
	}
	if err := d.net.OpenCache(spec.Context+drafter.MaxWidth, d.opts.KV, t.Cache()); err != nil {
		return bad("%v", err)
	}
	d.bound = true
	return nil
}

// Close frees the head's cache.
func (d *Drafter) Close() error { return d.net.Close() }
