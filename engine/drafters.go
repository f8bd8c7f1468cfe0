package engine

import (
	"errors"
	"fmt"
	"slices"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/drafter"
	"surmise/model"
)

// Basis is what further drafters of a target stand on. Device is where those
// that run a network run it, Checkpoint is the target's.
type Basis struct {
	Target     model.Target
	Device     compute.Device
	Checkpoint *checkpoint.Checkpoint
}

// Basis is the instance as the basis of further drafters.
func (in *Instance) Basis() Basis { return Basis{in.Model, in.Device, in.Checkpoint} }

// Draft is a drafter that was opened for itself.
type Draft struct {
	drafter.Drafter
	// Checkpoint is the drafter's own; nil if it has none.
	Checkpoint *checkpoint.Checkpoint

	close func() error
}

// Close closes drafter and checkpoint.
func (d *Draft) Close() error { return d.close() }

// OpenDraft makes another drafter for a target: experiments compare many. The
// choice of a kind is that of Open. Kind none is an error.
func OpenDraft(kinds *drafter.Kinds, d DraftSetup, b Basis, warn func(string)) (*Draft, error) {
	if err := d.check(kinds); err != nil {
		return nil, err
	}
	in := &Instance{Checkpoint: b.Checkpoint, Device: b.Device}
	err := in.bindDrafter(Setup{Kinds: kinds, Draft: d, Warn: warn}, b.Target)
	if err == nil && in.Drafter == nil {
		err = fmt.Errorf("draft kind %s drafts nothing", drafter.None)
	}
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return &Draft{in.Drafter, in.Draft, in.Close}, nil
}

// kindWithoutModel is what Auto means without a draft model: the target's own
// heads, else prompt lookup. Heads that config.json promises but that are gone
// are worth a warning, for the choice would be another with them.
func (in *Instance) kindWithoutModel(s Setup) string {
	if _, err := s.Kinds.Find(drafter.MTP); err != nil {
		return drafter.Lookup
	}
	if slices.ContainsFunc(in.Checkpoint.Names(), drafter.IsMTPTensor) {
		return drafter.MTP
	}
	n, field, err := drafter.PromisedHeads(in.Checkpoint.Config())
	switch path := in.Checkpoint.Path(); {
	case err != nil:
		s.warn(fmt.Sprintf("drafting by %s: %s: %v", drafter.Lookup, path, err))
	case n > 0:
		s.warn(fmt.Sprintf("drafting by %s: %s: config.json promises multi-token-prediction heads (%s is %d), but their tensors are gone", drafter.Lookup, path, field, n))
	}
	return drafter.Lookup
}
