package dflash

import (
	"fmt"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/drafter"
	"surmise/drafter/hidden"
	"surmise/model"
)

// Name is the kind's name.
const Name = drafter.DFlash

// The kind's own reasons to decline.
const (
	// ContextExceeded: the block would reach past what the drafter was trained for.
	ContextExceeded drafter.Reason = "draft_context"
	// ContextBehind: the target has not computed all tokens before the last one yet.
	ContextBehind drafter.Reason = "draft_context_behind"
	// CacheFull: the drafter's memory for context is used up by other rows.
	CacheFull drafter.Reason = "draft_cache"
	// Unsure: the drafter's confidence in its first slot is too low to pay.
	Unsure = drafter.Unsure
)

// Contract is the kind's contract.
func Contract() drafter.Contract {
	return drafter.Contract{
		Kind:     Name,
		Summary:  "fills a whole block in one pass from hidden states of the target",
		Greedy:   drafter.Stream,
		Sampling: drafter.Stream,
		Features: drafter.AllFeatures(),
		Proposes: drafter.BySharedNoise,
		Qualification: []drafter.Rule{
			{Name: "configuration", When: "architecture DFlashDraftModel or a dflash_config with block_size, target_layer_ids and mask_token_id", Why: "they say what is read and what is filled"},
			{Name: "hidden", When: "fc.weight has as many columns as the chosen target layers have hidden states together", Why: "the drafter was made for a target of that width"},
			{Name: "layers", When: "num_target_layers, if said, is the number of the target's layers", Why: "the drafter was made for a target of that depth"},
			{Name: "vocabulary", When: "the mask token is one of the target's", Why: "embedding and head are the target's"},
		},
		Inputs: drafter.Inputs{Tokens: true},
		Engagement: append([]drafter.Rule{
			{Name: string(ContextExceeded), When: "the block would end past the drafter's context", Why: "the drafter was not trained for positions that far"},
			{Name: string(ContextBehind), When: "more than one known token is not in the target's cache yet", Why: "hidden states of those tokens are still to come"},
			{Name: string(CacheFull), When: "the drafter's key/value budget is used up", Why: "other sequences hold the drafter's memory"},
			{Name: string(Unsure), When: "the drafter gives its best first token a chance below what pays", Why: "the first proposal would probably be rejected"},
		}, drafter.CommonRules()...),
		MaxWidth: maxBlock - 1,
	}
}

// Kind registers the drafter. Options of the configuration: "quantize" (as
// model.ParseQuantize), "noise" ("shared" or "off").
func Kind() drafter.Kind {
	return drafter.Kind{Contract: Contract(), NeedsCheckpoint: true, Options: settings.Names(), New: open}
}

var settings = drafter.Settings[Options]{
	"quantize": func(o *Options, v string) (err error) { o.Quantize, err = model.ParseQuantize(v); return err },
	"noise":    func(o *Options, v string) (err error) { o.Noise, err = drafter.ParseNoise(v); return err },
}

func open(c drafter.Config) (drafter.Drafter, error) {
	if c.Checkpoint == nil {
		return nil, fmt.Errorf("draft kind %s needs a drafter's checkpoint: give it with --draft-model", Name)
	}
	o := Options{Noise: true}
	if err := settings.Read(c, Name, &o); err != nil {
		return nil, err
	}
	return New(c.Device, c.Checkpoint, o)
}

// Options configure the drafter.
type Options struct {
	Quantize model.Quantize
	// Noise proposes with the target's own noise where it draws; without it,
	// proposals are the drafter's most likely tokens.
	Noise bool
	// KV is the format of the context's keys and values.
	KV compute.KVType
}

// Drafter fills blocks. It implements drafter.Drafter.
type Drafter struct {
	cfg  *config
	dev  compute.Device
	ck   *checkpoint.Checkpoint
	opts Options
	net  *network

	bound bool

	rooms    hidden.Rooms
	ended    []*seq // whose prompts end in the round
	blocks   []block
	proposer drafter.Proposer
}

// New loads a drafter onto the device its target runs on. The checkpoint must
// stay open as long as the drafter.
func New(dev compute.Device, ck *checkpoint.Checkpoint, o Options) (*Drafter, error) {
	cfg, err := readConfig(ck)
	if err != nil {
		return nil, fmt.Errorf("draft kind %s: %w", Name, err)
	}
	d := &Drafter{cfg: cfg, dev: dev, ck: ck, opts: o}
	if d.net, err = load(dev, ck, cfg, o.Quantize); err != nil {
		return nil, fmt.Errorf("draft kind %s: %w", Name, err)
	}
	return d, nil
}

// Contract is the kind's contract as configured; the target layers are known
// once the drafter is bound, or before if the configuration names them.
func (d *Drafter) Contract() drafter.Contract {
	c := Contract()
	c.Inputs.Layers = d.cfg.layers
	c.MaxWidth = d.cfg.block - 1
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
	if t.Device() != d.dev {
		return bad("the drafter is on device %s, the target on %s", d.dev.Name(), t.Device().Name())
	}
	if d.cfg.target != 0 && d.cfg.target != spec.Layers {
		return bad("num_target_layers is %d, but the target has %d layers", d.cfg.target, spec.Layers)
	}
	if d.cfg.layers == nil {
		d.cfg.layers = defaultLayers(spec.Layers, d.cfg.Layers)
	}
	for _, l := range d.cfg.layers {
		if l >= spec.Layers {
			return bad("target_layer_ids has layer %d, but the target has layers 0 to %d", l, spec.Layers-1)
		}
	}
	if want := len(d.cfg.layers) * spec.Hidden; d.net.fc.In() != want {
		return bad("fc.weight has %d columns, want %d: %d layers of the target's hidden size %d", d.net.fc.In(), want, len(d.cfg.layers), spec.Hidden)
	}
	if int(d.cfg.mask) >= spec.Vocab {
		return bad("mask_token_id is %d, but the target's vocabulary has %d tokens", d.cfg.mask, spec.Vocab)
	}
	if own := d.net.embedding; own != nil && own.Rows() < spec.Vocab {
		return bad("embed_tokens.weight is [%d, %d], want %d rows or more: the target's vocabulary", own.Rows(), own.Cols(), spec.Vocab)
	} else if own == nil {
		if spec.Hidden != d.cfg.HiddenSize {
			return bad("hidden_size is %d, but the target's embedding, which it borrows, is %d wide", d.cfg.HiddenSize, spec.Hidden)
		}
		d.net.embedding, d.net.embedScale = t.Embedding(), t.EmbedScale()
	}
	if d.net.head == nil {
		d.net.head = t.Head()
	}
	if d.net.head.In() != d.cfg.HiddenSize || d.net.head.Out() != spec.Vocab {
		return bad("head is [%d, %d], want [%d, %d]", d.net.head.Out(), d.net.head.In(), spec.Vocab, d.cfg.HiddenSize)
	}
	if err := d.net.OpenCache(spec.Context+d.cfg.block, d.opts.KV, t.Cache()); err != nil {
		return bad("%v", err)
	}
	d.bound = true
	return nil
}

// Close frees the context.
func (d *Drafter) Close() error { return d.net.Close() }
