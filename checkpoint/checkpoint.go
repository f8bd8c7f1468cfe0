package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// A Format is a way to store a checkpoint.
type Format uint8

// The formats [Open] reads.
const (
	FormatHF   Format = iota // a Hugging Face directory with safetensors
	FormatGGUF               // a GGUF file
)

// String returns "huggingface" or "gguf".
func (f Format) String() string {
	if f == FormatGGUF {
		return "gguf"
	}
	return "huggingface"
}

// A Checkpoint is an open checkpoint. All methods may be called from many
// goroutines; Close only when no tensor is in use.
type Checkpoint struct {
	path    string
	format  Format
	config  *Config
	tensors map[string]*Tensor
	// refused are tensors that exist but have a type this package does not
	// read, such as integer buffers, with the reason.
	refused  map[string]string
	metadata Metadata
	files    source // side files of an HF directory; nil for GGUF
	maps     []*mapping
	hash     string
}

// Path returns the file or directory that was opened, which is inside the
// folder given to Open when that holds exactly one checkpoint.
func (c *Checkpoint) Path() string { return c.path }

// Format returns the storage format.
func (c *Checkpoint) Format() Format { return c.format }

// Config returns the normalized configuration, validated against the shapes of
// the tensors when the architecture is known. It must not be modified.
func (c *Checkpoint) Config() *Config { return c.config }

// Metadata returns the key/value pairs of a GGUF file; none for a Hugging Face
// directory.
func (c *Checkpoint) Metadata() Metadata { return c.metadata }

// Hash returns a stable identity in hex: a SHA-256 over headers, configuration,
// sizes and samples of the weights. It is cheap (not all weights are read), so
// it tells checkpoints apart but proves nothing about a file somebody forged.
func (c *Checkpoint) Hash() string { return c.hash }

// Lookup returns the tensor with a Hugging Face name.
func (c *Checkpoint) Lookup(name string) (*Tensor, bool) {
	t, ok := c.tensors[name]
	return t, ok
}

// Tensor is Lookup with an error that names the file and the tensor, and says
// why a tensor that exists cannot be used.
func (c *Checkpoint) Tensor(name string) (*Tensor, error) {
	if t, ok := c.tensors[name]; ok {
		return t, nil
	}
	if reason, ok := c.refused[name]; ok {
		return nil, fmt.Errorf("%s: tensor %q: %s", c.path, name, reason)
	}
	return nil, fmt.Errorf("%s: tensor %q is missing%s", c.path, name, c.similar(name))
}

// similar names a tensor with the same ending, to help with a wrong prefix.
func (c *Checkpoint) similar(name string) string {
	names := sortedKeys(c.tensors)
	for _, tail := range []string{name, name[strings.IndexByte(name, '.')+1:]} {
		for _, other := range names {
			if other == tail || strings.HasSuffix(other, "."+tail) {
				return fmt.Sprintf(" (there is %q)", other)
			}
		}
	}
	return ""
}

// Tensors returns all tensors, sorted by name. Scales and biases of MLX
// matrices are part of their tensor and not listed.
func (c *Checkpoint) Tensors() []*Tensor {
	return slices.SortedFunc(maps.Values(c.tensors), func(a, b *Tensor) int {
		return strings.Compare(a.Name, b.Name)
	})
}

// Names returns the names of all tensors, also of those that cannot be read, sorted.
func (c *Checkpoint) Names() []string {
	names := append(sortedKeys(c.tensors), sortedKeys(c.refused)...)
	slices.Sort(names)
	return names
}

// maxSideFile bounds what File reads; the largest tokenizer.json of known
// models has 35 MB.
const maxSideFile = 256 << 20

// File returns a side file of a Hugging Face directory, such as
// "tokenizer.json". The name is a plain file name. The error is
// [fs.ErrNotExist] when there is none, as always for GGUF.
func (c *Checkpoint) File(name string) ([]byte, error) {
	if c.files == nil {
		return nil, fmt.Errorf("%s: a gguf file has no side file %q: %w", c.path, name, fs.ErrNotExist)
	}
	return readFile(c.files, name, maxSideFile)
}

// Close unmaps the files. No tensor may be used afterwards; DropPages is safe.
// Closing again does nothing.
func (c *Checkpoint) Close() error {
	var errs []error
	for _, m := range c.maps {
		if err := m.close(); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", c.path, err))
		}
	}
	return errors.Join(errs...)
}
