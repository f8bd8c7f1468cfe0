package cascade

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"surmise/compute"
	"surmise/drafter"
	"surmise/model"
)

// Name is the kind's name.
const Name = "cascade"

// Kind registers the cascade of a copying kind and the model kind that a
// checkpoint serves as; without a checkpoint of its own, that of the target's
// heads. Options of the configuration go to the model kind.
func Kind(copies drafter.Kind, models ...drafter.Kind) drafter.Kind {
	c := drafter.Contract{
		Kind:     Name,
		Summary:  "copies where a long suffix matches, else drafts with a model",
		Greedy:   drafter.Stream,
		Sampling: drafter.Stream,
		Features: drafter.AllFeatures(),
		Proposes: drafter.BySharedNoise,
		Inputs:   drafter.Inputs{Tokens: true},
		MaxWidth: drafter.MaxWidth,
		Parts:    []string{copies.Contract.Kind},
	}
	c.Engagement = copies.Contract.Engagement
	for _, k := range models {
		c.Parts = append(c.Parts, k.Contract.Kind)
		c.Qualification = append(c.Qualification, drafter.Rule{
			Name: k.Contract.Kind, When: "the draft model serves as a drafter of kind " + k.Contract.Kind, Why: k.Contract.Summary,
		})
		c.Engagement = union(c.Engagement, k.Contract.Engagement)
	}
	return drafter.Kind{Contract: c, OptionalCheckpoint: true, Options: common(models), New: func(cfg drafter.Config) (drafter.Drafter, error) {
		kind := drafter.MTP
		if cfg.Checkpoint != nil {
			found, err := drafter.Detect(cfg.Checkpoint)
			if err != nil {
				return nil, err
			}
			kind = found.Kind
		}
		for _, k := range models {
			if k.Contract.Kind != kind {
				continue
			}
			m, err := k.New(cfg)
			if err != nil {
				return nil, fmt.Errorf("draft kind %s: %w", Name, err)
			}
			of, err := copies.New(drafter.Config{Device: cfg.Device, Target: cfg.Target})
			if err != nil {
				return nil, errors.Join(fmt.Errorf("draft kind %s: %w", Name, err), m.Close())
			}
			return New(of, m), nil
		}
		return nil, fmt.Errorf("draft kind %s: no part of kind %s", Name, kind)
	}}
}

// common are the options that every kind knows.
func common(models []drafter.Kind) []string {
	var out []string
	for i, k := range models {
		if i == 0 {
			out = slices.Clone(k.Options)
		}
		out = slices.DeleteFunc(out, func(name string) bool { return !slices.Contains(k.Options, name) })
	}
	return out
}

func union(a, b []drafter.Rule) []drafter.Rule {
	out := append([]drafter.Rule(nil), a...)
	for _, r := range b {
		if !(drafter.Contract{Engagement: out}).Allows(drafter.Reason(r.Name)) {
			out = append(out, r)
		}
	}
	return out
}

// Drafter routes between two drafters. It implements drafter.Drafter.
type Drafter struct {
	copies, model drafter.Drafter
	// The parts' names, and how many of the target's layers the model reads;
	// the latter is known once bound.
	copiesKind, modelKind string
	layers                int
	// gain is how many tokens survive of a copy, by length of match, and of the
	// model's proposals, on average of late.
	copied  [matchBins]average
	modeled average

	asks   []drafter.Row
	copyTo []*drafter.Row
	toAsk  []*drafter.Row
	back   []*drafter.Row
	told   []drafter.Outcome
	tell   []*drafter.Outcome
}

// New makes a cascade of a drafter that copies and one that runs a model. It
// owns both.
func New(copies, model drafter.Drafter) *Drafter {
	return &Drafter{copies: copies, model: model, copiesKind: copies.Contract().Kind, modelKind: model.Contract().Kind}
}

// Contract unites the contracts of the parts.
func (d *Drafter) Contract() drafter.Contract {
	of, m := d.copies.Contract(), d.model.Contract()
	m.Summary = fmt.Sprintf("%s where a long suffix matches, else %s: %s", of.Kind, m.Kind, m.Summary)
	m.Parts = []string{of.Kind, m.Kind}
	m.Engagement = union(of.Engagement, m.Engagement)
	m.MaxWidth = max(of.MaxWidth, m.MaxWidth)
	m.Kind = Name
	return m
}

// Bind binds both parts.
func (d *Drafter) Bind(t model.Target) error {
	if err := errors.Join(d.copies.Bind(t), d.model.Bind(t)); err != nil {
		return err
	}
	d.layers = len(d.model.Contract().Inputs.Layers)
	return nil
}

// Open opens a sequence of both parts.
func (d *Drafter) Open(o drafter.Opening) (drafter.Seq, error) {
	c, err := d.copies.Open(o)
	if err != nil {
		return nil, err
	}
	m, err := d.model.Open(o)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &seq{d: d, copies: c, model: m}, nil
}

// Close closes both parts.
func (d *Drafter) Close() error { return errors.Join(d.copies.Close(), d.model.Close()) }

// Propose asks for a copy for every row, and the model for the rows whose copy is
// not expected to bring as much.
func (d *Drafter) Propose(ctx context.Context, rows []*drafter.Row) error {
	if len(d.asks) < 2*len(rows) {
		d.asks = make([]drafter.Row, 2*len(rows))
	}
	d.copyTo = d.copyTo[:0]
	for i, r := range rows {
		d.copyTo = append(d.copyTo, d.ask(i, r, r.Seq.(*seq).copies, r.Budget))
	}
	if err := d.copies.Propose(ctx, d.copyTo); err != nil {
		return err
	}
	d.toAsk, d.back = d.toAsk[:0], d.back[:0]
	for i, r := range rows {
		a, s := d.copyTo[i], r.Seq.(*seq)
		s.remember(r, a)
		budget := r.Budget
		if r.Steps > 0 {
			budget = min(budget, r.Steps)
		}
		if r.Steps < 0 || a.Err == nil && len(a.Proposal) > 0 && d.prefersCopy(a, budget) {
			take(r, a, d.copiesKind)
			continue
		}
		d.toAsk = append(d.toAsk, d.ask(len(rows)+i, r, s.model, budget))
		d.back = append(d.back, r)
	}
	if len(d.toAsk) == 0 {
		return nil
	}
	if err := d.model.Propose(ctx, d.toAsk); err != nil {
		return err
	}
	for i, r := range d.back {
		take(r, d.toAsk[i], d.modelKind)
		if s := r.Seq.(*seq); len(r.Proposal) == 0 && r.Err == nil && len(s.copy) > 0 {
			// The model declines; the copy is better than nothing.
			r.Proposal, r.Match, r.Source, r.Decline = append(r.Proposal, s.copy...), s.match, d.copiesKind, ""
		}
	}
	return nil
}

// ask is slot i of the inner rows, asking a part for row r.
func (d *Drafter) ask(i int, r *drafter.Row, s drafter.Seq, budget int) *drafter.Row {
	a := &d.asks[i]
	a.Reset()
	a.Seq, a.Position, a.Known, a.Budget, a.Chain, a.Floor = s, r.Position, r.Known, budget, r.Chain, r.Floor
	return a
}

// take hands a part's answer to the row.
func take(r, a *drafter.Row, part string) {
	r.Proposal, r.Confidence = append(r.Proposal[:0], a.Proposal...), append(r.Confidence[:0], a.Confidence...)
	r.Match, r.Decline, r.Err, r.Source = a.Match, a.Decline, a.Err, part
}

// Observe tells both parts, and compares the round's copy with what was said.
func (d *Drafter) Observe(outcomes []*drafter.Outcome) error {
	for _, o := range outcomes {
		d.learn(o.Seq.(*seq), o)
	}
	err := d.pass(outcomes, d.copies, 0, func(s *seq) drafter.Seq { return s.copies })
	if e := d.pass(outcomes, d.model, d.layers, func(s *seq) drafter.Seq { return s.model }); e != nil {
		err = errors.Join(err, e)
	}
	return err
}

// pass tells one part the outcomes, with as many of the hidden states as it reads.
func (d *Drafter) pass(outcomes []*drafter.Outcome, part drafter.Drafter, layers int, of func(*seq) drafter.Seq) error {
	if len(d.told) < len(outcomes) {
		d.told = make([]drafter.Outcome, len(outcomes))
	}
	d.tell = d.tell[:0]
	for i, o := range outcomes {
		t := &d.told[i]
		*t = *o
		t.Seq, t.Err, t.Hidden = of(o.Seq.(*seq)), nil, []compute.View(nil)
		if layers <= len(o.Hidden) {
			t.Hidden = o.Hidden[:layers]
		}
		d.tell = append(d.tell, t)
	}
	if err := part.Observe(d.tell); err != nil {
		return err
	}
	for i, o := range outcomes {
		if o.Err == nil {
			o.Err = d.told[i].Err
		}
	}
	return nil
}
