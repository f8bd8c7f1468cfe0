package drafter

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"surmise/checkpoint"
	"surmise/compute"
)

// None is the kind of plain decoding: no drafter.
const None = "none"

// Config is what a kind is made from.
type Config struct {
	// Device is where a drafter that runs a network runs it.
	Device compute.Device
	// Checkpoint is the drafter's own checkpoint; nil for kinds without one.
	Checkpoint *checkpoint.Checkpoint
	// Target is the target's checkpoint: kinds may use heads it carries.
	Target *checkpoint.Checkpoint
	// Options are the settings of the kind by name, as the user gave them.
	Options map[string]string
}

// Settings are the options that a kind knows, by name, each with its reader.
type Settings[O any] map[string]func(o *O, value string) error

// Names lists the settings in order.
func (s Settings[O]) Names() []string { return slices.Sorted(maps.Keys(s)) }

// Read reads the options of a configuration into o. An error names the kind, and
// for an unknown option those there are.
func (s Settings[O]) Read(c Config, kind string, o *O) error {
	for _, name := range slices.Sorted(maps.Keys(c.Options)) {
		read, ok := s[name]
		if !ok {
			return fmt.Errorf("draft kind %s: unknown option %q: want one of %s", kind, name, strings.Join(s.Names(), ", "))
		}
		if err := read(o, c.Options[name]); err != nil {
			return fmt.Errorf("draft kind %s: %w", kind, err)
		}
	}
	return nil
}

// Kind is a way to draft, registered under the name of its contract.
type Kind struct {
	Contract Contract
	// NeedsCheckpoint tells that the kind drafts with a checkpoint of its own,
	// OptionalCheckpoint that it may, and else uses a part of the target's. A
	// kind with neither takes no draft model.
	NeedsCheckpoint, OptionalCheckpoint bool
	// Options are the names of the settings the kind knows.
	Options []string
	// New makes a drafter. It is not bound yet.
	New func(Config) (Drafter, error)
}

// Kinds is a registry: the one place where kinds are known by name. It is an
// ordinary value, built once by the program and not changed afterwards.
type Kinds struct{ list []Kind }

// NewKinds registers kinds. A contract that is incomplete, a name that appears
// twice or a kind without New is an error.
func NewKinds(kinds ...Kind) (*Kinds, error) {
	k := new(Kinds)
	for _, x := range kinds {
		if err := x.Contract.Validate(); err != nil {
			return nil, fmt.Errorf("register drafter kinds: %w", err)
		}
		name := x.Contract.Kind
		if _, err := k.Find(name); err == nil || name == None {
			return nil, fmt.Errorf("register drafter kinds: kind %q is taken", name)
		}
		if x.New == nil {
			return nil, fmt.Errorf("register drafter kinds: kind %q has no constructor", name)
		}
		k.list = append(k.list, x)
	}
	return k, nil
}

// Find returns the kind of that name; the error lists the kinds there are.
func (k *Kinds) Find(name string) (Kind, error) {
	for _, x := range k.list {
		if x.Contract.Kind == name {
			return x, nil
		}
	}
	return Kind{}, fmt.Errorf("unknown draft kind %q: want one of %s", name, strings.Join(k.Names(), ", "))
}

// Names lists the names a user may give, "none" first.
func (k *Kinds) Names() []string {
	names := []string{None}
	for _, x := range k.list {
		names = append(names, x.Contract.Kind)
	}
	return names
}

// Options are the names of the settings that any kind knows, in order.
func (k *Kinds) Options() []string {
	var names []string
	for _, x := range k.list {
		names = append(names, x.Options...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Contracts lists the contracts in the order of registration.
func (k *Kinds) Contracts() []Contract {
	var out []Contract
	for _, x := range k.list {
		out = append(out, x.Contract)
	}
	return out
}
