package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"surmise/demo"
	"surmise/drafter"
	"surmise/drafter/cascade"
	"surmise/engine"
)

// demoFamily is the models inside the program.
func demoFamily() *family {
	return &family{
		files: demo.FS(), about: "the embedded demo model, which completes Go source", target: demo.Target,
		drafters: map[string]string{
			drafter.FullModel: demo.Draft, drafter.MTP: demo.MTP, drafter.DFlash: demo.DFlash,
			cascade.Name: demo.MTP, engine.Auto: demo.MTP,
		},
	}
}

func (a *app) demoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "The models inside the program: a small target that completes Go source, and a drafter of every kind",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "export DIR",
		Short: "Write the models out as Hugging Face directories in f16",
		Long: "Write the models out as the Hugging Face directories target, draft, mtp and dflash inside DIR, in f16, so that\n" +
			"other programs can open, convert or serve them. DIR must not exist yet, or be empty.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(fmt.Errorf("%d arguments: want the one directory to write to", len(args)))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.exportDemo(args[0]) },
	})
	return cmd
}

// exportDemo writes the family beside dir first and then puts it in place, so
// that nothing half-written is left there.
func (a *app) exportDemo(dir string) (err error) {
	if a.family == nil {
		return errors.New("demo export: this program has no models inside")
	}
	dir = filepath.Clean(dir)
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("demo export: %s is not empty: want a new or an empty directory", dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("demo export: %w", err)
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("demo export: %w", err)
	}
	staging, err := os.MkdirTemp(parent, ".demo-export-*")
	if err != nil {
		return fmt.Errorf("demo export: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(staging)) }()
	family := filepath.Join(staging, "family")
	if err := os.CopyFS(family, a.family.files); err != nil {
		return fmt.Errorf("demo export: %w", err)
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("demo export: %w", err)
	}
	if err := os.Rename(family, dir); err != nil {
		return fmt.Errorf("demo export: %w", err)
	}
	fmt.Fprintf(a.stderr, "wrote target, draft, mtp and dflash to %s\n", dir)
	return nil
}
