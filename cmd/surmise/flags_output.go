package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"surmise/bench/report"
)

// outputFlags say where results go.
type outputFlags struct {
	json bool
	html string
}

func (f *outputFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object instead of a table")
	cmd.Flags().StringVar(&f.html, "html", "", "write the report as a web page to this file too")
}

// check tells before anything is measured that the page could not be written.
func (f *outputFlags) check() error {
	if f.html == "" {
		return nil
	}
	if err := overwritable(f.html); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--html %s: %w", f.html, err)
	}
	// Also a page that is there already is written beside it first.
	if err := creatable(f.html); err != nil {
		return fmt.Errorf("--html %s: %w", f.html, err)
	}
	return nil
}

// checkOut tells before anything is measured that results could not be kept.
func checkOut(path string) error {
	if path == "" {
		return nil
	}
	err := overwritable(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = creatable(path)
	}
	if err != nil {
		return fmt.Errorf("--out %s: %w", path, err)
	}
	return nil
}

// overwritable tells why a file that is there cannot be written.
func overwritable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return reason(err)
	}
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return reason(err)
	}
	return f.Close()
}

// creatable tells why no file can be made in a path's directory.
func creatable(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".surmise-*")
	if err != nil {
		return reason(err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// reason is an error of a file without what was done to it.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// write prints a report and writes its page.
func (a *app) write(r *report.Report, f *outputFlags) error {
	var page error
	if f.html != "" {
		// What was measured is printed even if the page cannot be written.
		page = writeFile(f.html, r.HTML)
	}
	if f.json {
		return errors.Join(page, r.JSON(a.stdout))
	}
	return errors.Join(page, r.Table(a.stdout))
}

// writeFile writes a file through a function; a reader sees all of it or none.
func writeFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".surmise-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	err = write(f)
	if e := f.Chmod(0o644); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}
