package fullmodel

import (
	"fmt"

	"surmise/drafter"
	"surmise/model"
	"surmise/tokenizer"
)

// Name is the kind's name.
const Name = drafter.FullModel

// The kind's own reasons to decline.
const (
	// ContextExceeded: the sequence is longer than the draft model's context.
	ContextExceeded drafter.Reason = "draft_context"
	// UnknownToken: the sequence holds a special token the draft model lacks.
	UnknownToken drafter.Reason = "draft_vocabulary"
	// CacheFull: the draft model's key/value budget is used up by other rows.
	CacheFull drafter.Reason = "draft_cache"
	// Unsure: the draft model's confidence in its first token is too low to pay.
	Unsure = drafter.Unsure
)

// Contract is the kind's contract.
func Contract() drafter.Contract {
	return drafter.Contract{
		Kind:     Name,
		Summary:  "an ordinary smaller checkpoint drafts token by token from its own cache",
		Greedy:   drafter.Stream,
		Sampling: drafter.Stream,
		Features: drafter.AllFeatures(),
		Proposes: drafter.BySharedNoise,
		Qualification: []drafter.Rule{
			{Name: "architecture", When: "the draft checkpoint is one of the target architectures", Why: "it runs as an ordinary model"},
			{Name: "vocabulary", When: "every ordinary token of the target has one of the same text in the draft model", Why: "a proposal is a token of the target"},
		},
		Inputs: drafter.Inputs{Tokens: true},
		Engagement: append([]drafter.Rule{
			{Name: string(ContextExceeded), When: "the sequence is longer than the draft model's context", Why: "the draft model cannot see the end of the text"},
			{Name: string(UnknownToken), When: "the sequence holds a special token the draft model lacks", Why: "the draft model cannot read the text"},
			{Name: string(CacheFull), When: "the draft model's key/value budget is used up", Why: "other sequences hold the draft model's memory"},
			{Name: string(Unsure), When: "the draft model gives its best token a chance below what pays", Why: "the first proposal would probably be rejected"},
		}, drafter.CommonRules()...),
		MaxWidth: drafter.MaxWidth,
	}
}

// Kind registers the drafter. Options of the configuration: "quantize" (as
// model.ParseQuantize), "noise" ("shared" or "off").
func Kind() drafter.Kind {
	return drafter.Kind{Contract: Contract(), NeedsCheckpoint: true, Options: settings.Names(), New: open}
}

type options struct {
	model model.Options
	noise bool // propose with the target's own noise where it draws
}

var settings = drafter.Settings[options]{
	"quantize": func(o *options, v string) (err error) { o.model.Quantize, err = model.ParseQuantize(v); return err },
	"noise":    func(o *options, v string) (err error) { o.noise, err = drafter.ParseNoise(v); return err },
}

// open makes the drafter of a configuration.
func open(c drafter.Config) (drafter.Drafter, error) {
	if c.Checkpoint == nil {
		return nil, fmt.Errorf("draft kind %s needs a draft model: give its checkpoint with --draft-model", Name)
	}
	o := options{noise: true}
	if err := settings.Read(c, Name, &o); err != nil {
		return nil, err
	}
	pieces, err := tokenizer.FromCheckpoint(c.Checkpoint)
	if err != nil {
		return nil, fmt.Errorf("draft kind %s: %w", Name, err)
	}
	theirs, err := tokenizer.FromCheckpoint(c.Target)
	if err != nil {
		return nil, fmt.Errorf("draft kind %s: the target's tokenizer: %w", Name, err)
	}
	m, err := model.Open(c.Device, c.Checkpoint, o.model)
	if err != nil {
		return nil, fmt.Errorf("draft kind %s: %w", Name, err)
	}
	return New(m, pieces, theirs, o.noise), nil
}

// Drafter drafts with a model. It implements drafter.Drafter.
type Drafter struct {
	model           model.Target
	pieces, targets Pieces
	noise           bool // propose with the target's own noise where it draws
	vocab           *vocabulary

	batch model.Batch
	live  []*proposing
	slots []proposing
	wide  []float32 // logits in the target's order

	proposer drafter.Proposer
}

// New makes a drafter of a model. pieces are the tokens of the draft model,
// targets those of the target it will be bound to. With noise, proposals at
// temperature > 0 are drawn with the target's own noise; without, they are the
// draft model's most likely tokens. The drafter owns the model.
func New(m model.Target, pieces, targets Pieces, noise bool) *Drafter {
	return &Drafter{model: m, pieces: pieces, targets: targets, noise: noise}
}

// Contract is the kind's contract as configured.
func (d *Drafter) Contract() drafter.Contract {
	c := Contract()
	if !d.noise {
		c.Proposes = drafter.ByArgmax
	}
	return c
}

// Bind pairs the vocabularies.
func (d *Drafter) Bind(t model.Target) error {
	v, err := mapVocabulary(d.targets, d.pieces, t.Spec().Vocab, d.model.Spec().Vocab)
	if err != nil {
		return fmt.Errorf("draft kind %s: %w", Name, err)
	}
	d.vocab = v
	d.wide = make([]float32, t.Spec().Vocab)
	return nil
}

// Open starts a sequence; the draft model reads it when it is first asked to
// propose. A prefix the draft model has cached already is shared.
func (d *Drafter) Open(o drafter.Opening) (drafter.Seq, error) {
	if err := o.Check(Name, d.vocab != nil); err != nil {
		return nil, err
	}
	s := &seq{d: d, position: o.Cached}
	s.learn(0, o.Tokens)
	if n := s.readable(); n > 1 && !o.Fresh {
		s.cache = d.model.Cache().Match(s.text[:n])
	}
	if s.cache == nil {
		s.cache = d.model.Cache().Open()
	}
	s.agreed = s.cache.Len()
	return s, nil
}

// Observe takes in what the round added to the sequences.
func (d *Drafter) Observe(outcomes []*drafter.Outcome) error {
	for _, o := range outcomes {
		s := o.Seq.(*seq)
		if o.Position != s.position {
			o.Err = fmt.Errorf("%s: outcome of a round at position %d, expected one at %d", Name, o.Position, s.position)
			continue
		}
		s.learn(o.Position, o.Committed)
		s.position = o.After()
		if o.Pending >= 0 {
			s.learn(s.position, []int32{o.Pending})
		}
	}
	return nil
}

// Close closes the draft model.
func (d *Drafter) Close() error { return d.model.Close() }
