package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/compute/cpu"
	"surmise/drafter"
	"surmise/model"
	"surmise/tokenizer"
)

// Auto is the draft kind that takes what there is: the draft model given, else
// the target's own multi-token-prediction heads, else prompt lookup.
const Auto = "auto"

// Setup says what to put together. The texts are settings as a user gives them.
type Setup struct {
	// Model is the target: a GGUF file, a Hugging Face directory, or a folder
	// that holds exactly one of them; inside FS, if that is set.
	Model string
	FS    fs.FS
	// Threads is the number of workers, 0 for all cores; ISA the instruction
	// set, "" for the best.
	Threads int
	ISA     string
	// Quantize is "none", "q8_0", "q4_0" or "" for the default.
	Quantize string
	// KV is the format of the key/value cache: "f16" (also if empty) or "f32".
	KV string
	// KVBudget bounds the cache in bytes; 0 is the model's default, which has
	// room for Sequences full sequences (0 is two) up to 4 GiB.
	KVBudget  int64
	Sequences int
	// Context is how many positions a sequence may have; 0 is what the model
	// was trained for.
	Context int
	// Draft chooses the drafter.
	Draft DraftSetup
	// Kinds are the kinds there are.
	Kinds *drafter.Kinds
	// Engine are the engine's options. Width and Counters are set by Open.
	Engine Options
	// Costs gives what forwards take by their number of tokens, if that was
	// measured, for the automatic width; without it the width learns from the
	// rounds themselves.
	Costs func(*Instance) map[int]time.Duration
	// Progress is told of stored bytes done while weights are loaded.
	Progress func(done, total int64)
	// Warn takes warnings; nil drops them.
	Warn func(message string)
}

// DraftSetup chooses a drafter.
type DraftSetup struct {
	// Kind is the name of a kind, "none" (also if empty, without a Model) or "auto".
	Kind string
	// Model is the draft checkpoint's path; inside FS, if that is set.
	Model string
	FS    fs.FS
	// BlockSize caps proposals: 1..64, or "auto" (also if empty).
	BlockSize string
	// Options are settings by name. Each is handed to a kind that knows it and
	// means nothing to others; one that no kind knows is an error.
	Options map[string]string
	// Optional turns a drafter that cannot be opened into a warning.
	Optional bool
}

// Instance is an engine with all it stands on.
type Instance struct {
	Checkpoint *checkpoint.Checkpoint
	Device     compute.Device
	Model      *model.Model
	Tokenizer  *tokenizer.Tokenizer
	// Drafter is nil when nothing drafts; Draft is its checkpoint, if it has one.
	Drafter drafter.Drafter
	Draft   *checkpoint.Checkpoint
	// Probe is what the width probe found with this checkpoint on this machine;
	// it runs when there is a drafter.
	Probe    Probe
	Counters *drafter.Counters
	Engine   *Engine

	closers []func() error
}

// Close gives everything back, in the reverse order of opening.
func (in *Instance) Close() error {
	var errs []error
	if in.Engine != nil {
		in.Engine.Close()
	}
	for _, c := range slices.Backward(in.closers) {
		errs = append(errs, c())
	}
	in.closers = nil
	return errors.Join(errs...)
}

// settings are the parts of a Setup that can be checked before anything is
// opened.
type settings struct {
	quantize model.Quantize
	kv       compute.KVType
	width    drafter.Width
}

// Check tells what is wrong with the settings, as far as can be known without
// opening a file.
func (s Setup) Check() error {
	_, err := s.parse()
	return err
}

func (s Setup) parse() (settings, error) {
	var out settings
	var err error
	if s.Model == "" {
		return out, errors.New("no model: want a GGUF file, a Hugging Face directory, or a folder that holds one of them")
	}
	if s.Threads < 0 || s.Threads > cpu.MaxThreads {
		return out, fmt.Errorf("threads %d: want 1 to %d, or 0 for all cores", s.Threads, cpu.MaxThreads)
	}
	if s.Context < 0 {
		return out, fmt.Errorf("context %d: want 1 or more, or 0 for what the model was trained for", s.Context)
	}
	if out.quantize, err = model.ParseQuantize(s.Quantize); err != nil {
		return out, err
	}
	switch s.KV {
	case "", "f16":
		out.kv = compute.KVF16
	case "f32":
		out.kv = compute.KVF32
	default:
		return out, fmt.Errorf("kv %q: want f16 or f32", s.KV)
	}
	size := s.Draft.BlockSize
	if size == "" {
		size = "auto"
	}
	if out.width, err = drafter.ParseWidth(size); err != nil {
		return out, err
	}
	return out, s.Draft.check(s.Kinds)
}

func (d DraftSetup) check(kinds *drafter.Kinds) error {
	if err := d.checkOptions(kinds); err != nil {
		return err
	}
	switch d.Kind {
	case "", Auto:
		return nil
	case drafter.None:
		if d.Model != "" {
			return fmt.Errorf("draft kind none together with the draft model %s: leave one of them out", d.Model)
		}
		return nil
	}
	k, err := kinds.Find(d.Kind)
	switch {
	case err != nil:
		return fmt.Errorf("%w (or %s)", err, Auto)
	case d.Model != "" && !k.NeedsCheckpoint && !k.OptionalCheckpoint:
		return fmt.Errorf("draft kind %s takes no draft model, got %s: leave one of them out", d.Kind, d.Model)
	case d.Model == "" && k.NeedsCheckpoint:
		return fmt.Errorf("draft kind %s needs a draft model", d.Kind)
	}
	return nil
}

// checkOptions finds a setting that no kind knows.
func (d DraftSetup) checkOptions(kinds *drafter.Kinds) error {
	for name := range d.Options {
		if known := kinds.Options(); !slices.Contains(known, name) {
			return fmt.Errorf("unknown draft option %q: want one of %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// optionsOf are the settings that a kind knows.
func (d DraftSetup) optionsOf(k drafter.Kind) map[string]string {
	out := maps.Clone(d.Options)
	maps.DeleteFunc(out, func(name, _ string) bool { return !slices.Contains(k.Options, name) })
	return out
}

// Open puts an engine together. On error everything opened is closed again.
func Open(s Setup) (in *Instance, err error) {
	set, err := s.parse()
	if err != nil {
		return nil, err
	}
	in = &Instance{Counters: drafter.NewCounters(s.Kinds.Contracts()...)}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.Close())
			in = nil
		}
	}()
	if in.Checkpoint, err = openCheckpoint(s.FS, s.Model); err != nil {
		return in, err
	}
	in.closers = append(in.closers, in.Checkpoint.Close)
	if found, err := drafter.Detect(in.Checkpoint); err != nil {
		return in, err
	} else if found.Kind != drafter.FullModel {
		return in, fmt.Errorf("%s is a drafter of kind %s (%s), not a target: give it as the draft model", in.Checkpoint.Path(), found.Kind, found.Because)
	}
	if in.Tokenizer, err = tokenizer.FromCheckpoint(in.Checkpoint); err != nil {
		return in, err
	}
	dev, err := cpu.New(cpu.Options{Threads: s.Threads, ISA: s.ISA})
	if err != nil {
		return in, err
	}
	in.Device = dev
	in.closers = append(in.closers, dev.Close)
	in.Model, err = model.Open(dev, in.Checkpoint, model.Options{
		Quantize: set.quantize, Context: s.Context, KV: set.kv, KVBudget: s.KVBudget, Sequences: s.Sequences, Progress: s.Progress,
	})
	if err != nil {
		return in, err
	}
	in.closers = append(in.closers, in.Model.Close)
	if n, v := in.Tokenizer.VocabSize(), in.Model.Spec().Vocab; n > v {
		return in, fmt.Errorf("%s: the tokenizer has %d tokens, but the model only %d", in.Checkpoint.Path(), n, v)
	}
	if err := in.openDrafter(s); err != nil {
		if !s.Draft.Optional {
			return in, err
		}
		in.Drafter = nil
		s.warn(fmt.Sprintf("no drafter, decoding plainly: %v", err))
	}
	if in.Drafter != nil {
		if err := in.probe(s); err != nil {
			return in, err
		}
	}
	o := s.Engine
	o.Width, o.Counters = set.width, in.Counters
	if _, own := set.width.(drafter.Own); own && in.Drafter != nil {
		var table map[int]time.Duration
		if s.Costs != nil {
			table = s.Costs(in)
		}
		o.Width = drafter.NewAuto(drafter.NewCosts(table), drafter.MaxWidth)
	}
	in.Engine = New(in.Model, in.Tokenizer, o)
	return in, nil
}

// probe runs the width probe and warns if blocks are not exact.
func (in *Instance) probe(s Setup) (err error) {
	if in.Probe, err = ProbeWidth(in.Model); err != nil {
		return err
	}
	if !in.Probe.Exact {
		s.warn("blocks of tokens are not exact on this machine, so drafting may change the text where two tokens nearly tie: " + in.Probe.Difference)
	}
	return nil
}

// Contract is the drafter's contract as it holds on this machine; it is the zero
// value when nothing drafts.
func (in *Instance) Contract() drafter.Contract {
	if in.Drafter == nil {
		return drafter.Contract{}
	}
	return in.Probe.Apply(in.Drafter.Contract())
}

func openCheckpoint(fsys fs.FS, path string) (*checkpoint.Checkpoint, error) {
	if fsys != nil {
		return checkpoint.OpenFS(fsys, path)
	}
	return checkpoint.Open(path)
}

// openDrafter makes and binds the drafter the setup asks for.
func (in *Instance) openDrafter(s Setup) error {
	return in.bindDrafter(s, in.Model)
}

// bindDrafter makes the drafter the setup asks for and binds it to a target.
func (in *Instance) bindDrafter(s Setup, target model.Target) error {
	kind, err := in.chooseKind(s)
	if err != nil || kind == drafter.None {
		return err
	}
	k, err := s.Kinds.Find(kind)
	if err != nil {
		return err
	}
	if !k.NeedsCheckpoint && !k.OptionalCheckpoint && in.Draft != nil {
		return fmt.Errorf("draft kind %s takes no draft model, got %s", kind, in.Draft.Path())
	}
	d, err := k.New(drafter.Config{Device: in.Device, Checkpoint: in.Draft, Target: in.Checkpoint, Options: s.Draft.optionsOf(k)})
	if err != nil {
		return fmt.Errorf("open the drafter: %w", err)
	}
	in.closers = append(in.closers, d.Close)
	if err := d.Bind(target); err != nil {
		return fmt.Errorf("bind the drafter: %w", err)
	}
	in.Drafter = d
	return nil
}

// chooseKind opens the draft checkpoint, if one is given, and says which kind
// drafts.
func (in *Instance) chooseKind(s Setup) (string, error) {
	if s.Draft.Model == "" {
		switch s.Draft.Kind {
		case "":
			return drafter.None, nil
		case Auto:
			return in.kindWithoutModel(s), nil
		}
		return s.Draft.Kind, nil
	}
	ck, err := openCheckpoint(s.Draft.FS, s.Draft.Model)
	if err != nil {
		return "", fmt.Errorf("draft model: %w", err)
	}
	in.Draft = ck
	in.closers = append(in.closers, ck.Close)
	found, err := drafter.Detect(ck)
	if err != nil {
		return "", err
	}
	switch s.Draft.Kind {
	case "", Auto, found.Kind:
		if _, err := s.Kinds.Find(found.Kind); err != nil {
			return "", fmt.Errorf("draft model %s is of kind %s (%s), which this program cannot run yet: want one of %s",
				ck.Path(), found.Kind, found.Because, strings.Join(s.Kinds.Names(), ", "))
		}
		return found.Kind, nil
	}
	// A kind that checkpoints are detected as can be at odds with this one.
	if k := s.Draft.Kind; k == drafter.FullModel || k == drafter.MTP || k == drafter.DFlash {
		s.warn(fmt.Sprintf("draft kind %s is used as asked, but %s looks like %s (%s)", k, ck.Path(), found.Kind, found.Because))
	}
	return s.Draft.Kind, nil
}

func (s Setup) warn(message string) {
	if s.Warn != nil {
		s.Warn(message)
	}
}
