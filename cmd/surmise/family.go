package main

import (
	"errors"
	"fmt"
	"io/fs"

	"surmise/checkpoint"
)

// family is a set of models inside the program: a target, taken when no model is
// given, and the drafters that belong to it.
type family struct {
	files    fs.FS
	about    string            // what it is, for the user
	target   string            // directory
	drafters map[string]string // directory by draft kind
}

// useFamily takes the family's target when no model is given, and with it the
// family's drafter of the kind asked for. Without a family a model must be given.
func (a *app) useFamily(f *modelFlags) error {
	if f.setup.Model != "" {
		return nil
	}
	if a.family == nil {
		return usage(errors.New("no model given: say --model PATH, a GGUF file, a Hugging Face directory, or a folder that holds exactly one of them"))
	}
	f.setup.FS, f.setup.Model = a.family.files, a.family.target
	if dir, ok := a.family.drafters[f.setup.Draft.Kind]; ok && f.setup.Draft.Model == "" {
		f.setup.Draft.FS, f.setup.Draft.Model = a.family.files, dir
	}
	return nil
}

// announce says that the family's target is opened, when it is.
func (a *app) announce(f *modelFlags) {
	if f.setup.FS != nil {
		fmt.Fprintf(a.stderr, "using %s; --model PATH takes another\n", a.family.about)
	}
}

// openCheckpoint opens the checkpoint alone, for commands that load no weights.
func (a *app) openCheckpoint(f *modelFlags) (*checkpoint.Checkpoint, error) {
	if err := a.useFamily(f); err != nil {
		return nil, err
	}
	a.announce(f)
	if f.setup.FS != nil {
		return checkpoint.OpenFS(f.setup.FS, f.setup.Model)
	}
	return checkpoint.Open(f.setup.Model)
}
