package recording

import (
	"context"
	"errors"

	"surmise/drafter"
	"surmise/model"
)

// Observer is a drafter that proposes nothing and keeps what a round shows to
// drafters: tokens and hidden states. It watches one sequence at a time.
type Observer struct {
	layers []int
	seq    *observed
}

// NewObserver watches the given layers.
func NewObserver(layers []int) *Observer { return &Observer{layers: layers} }

// watching is why an observer proposes nothing.
const watching drafter.Reason = "recording"

// Contract declares the layers.
func (o *Observer) Contract() drafter.Contract {
	return drafter.Contract{
		Kind: "recorder", Summary: "proposes nothing and keeps what it sees",
		Greedy: drafter.Stream, Sampling: drafter.Stream, Features: drafter.AllFeatures(), Proposes: drafter.ByCopy,
		Inputs: drafter.Inputs{Tokens: true, Layers: o.layers}, MaxWidth: 1,
		Engagement: append([]drafter.Rule{{Name: string(watching), When: "always", Why: "the recorder only watches"}}, drafter.CommonRules()...),
	}
}

// Bind accepts every target.
func (o *Observer) Bind(model.Target) error { return nil }

// Open starts anew. Whatever is in the target's cache already was not seen, so
// that is an error.
func (o *Observer) Open(p drafter.Opening) (drafter.Seq, error) {
	if p.Cached > 0 {
		return nil, errors.New("record: a part of the prompt was computed before")
	}
	o.seq = &observed{o: o, hidden: make([][]float32, len(o.layers))}
	return o.seq, nil
}

// Propose declines.
func (o *Observer) Propose(_ context.Context, rows []*drafter.Row) error {
	for _, r := range rows {
		r.Decline = watching
	}
	return nil
}

// Observe keeps tokens and states.
func (o *Observer) Observe(outcomes []*drafter.Outcome) error {
	for _, x := range outcomes {
		s := x.Seq.(*observed)
		s.tokens = append(s.tokens[:x.Position], x.Committed...)
		if x.Pending >= 0 {
			s.pending = []int32{x.Pending}
		}
		s.at = x.After()
		for l := range o.layers {
			for i := range x.Committed {
				s.hidden[l] = append(s.hidden[l], x.Hidden[l].Row(i)...)
			}
		}
	}
	return nil
}

// Close has nothing to free.
func (o *Observer) Close() error { return nil }

// Stream is what was seen of the last sequence: all its tokens, and by layer the
// states of all but the last one.
func (o *Observer) Stream() (tokens []int32, hidden [][]float32) {
	if o.seq == nil {
		return nil, nil
	}
	return append(o.seq.tokens[:len(o.seq.tokens):len(o.seq.tokens)], o.seq.pending...), o.seq.hidden
}

// observed is the state of the sequence.
type observed struct {
	o       *Observer
	tokens  []int32
	pending []int32
	at      int
	hidden  [][]float32
}

func (s *observed) Drafter() drafter.Drafter { return s.o }
func (s *observed) Position() int            { return s.at }
func (s *observed) Close() error             { return nil }
func (s *observed) Fork() (drafter.Seq, error) {
	return nil, errors.New("record: one sample at a time")
}
