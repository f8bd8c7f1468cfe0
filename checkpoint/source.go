package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A source is a directory: of the operating system, where files are mapped, or
// inside an [fs.FS], where they are read.
type source interface {
	name(file string) string            // for messages
	open(file string) (fs.File, error)  // for small files
	load(file string) (*mapping, error) // for weights
	list() ([]string, []string, error)  // names of files and of directories, sorted
}

// osDir is a directory on disk.
type osDir string

func (d osDir) name(file string) string            { return filepath.Join(string(d), file) }
func (d osDir) open(file string) (fs.File, error)  { return openRegular(d.name(file)) }
func (d osDir) load(file string) (*mapping, error) { return mapFile(d.name(file)) }

// openRegular opens a file, but nothing that only looks like one: opening a
// named pipe would wait until somebody writes to it, a device may never end.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a regular file", path)
	}
	return os.Open(path)
}

func (d osDir) list() (files, dirs []string, err error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		// Model caches link names to blobs, so follow links.
		info, err := os.Stat(d.name(e.Name()))
		switch {
		case err != nil:
			continue // a dangling link holds no model
		case info.IsDir():
			dirs = append(dirs, e.Name())
		case info.Mode().IsRegular():
			files = append(files, e.Name())
		}
	}
	return files, dirs, nil
}

// fsDir is a directory inside a file system.
type fsDir struct {
	fsys fs.FS
	dir  string
}

func (d fsDir) name(file string) string           { return path.Join(d.dir, file) }
func (d fsDir) open(file string) (fs.File, error) { return d.fsys.Open(d.name(file)) }

func (d fsDir) load(file string) (*mapping, error) {
	data, err := fs.ReadFile(d.fsys, d.name(file))
	if err != nil {
		return nil, err
	}
	return &mapping{data: data}, nil
}

func (d fsDir) list() (files, dirs []string, err error) {
	entries, err := fs.ReadDir(d.fsys, d.dir)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, e.Name())
		} else {
			files = append(files, e.Name())
		}
	}
	return files, dirs, nil
}

// plainName reports whether name is a file directly inside a directory, on
// every operating system.
func plainName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\\:\x00")
}

// readFile reads a small file, at most limit bytes.
func readFile(src source, name string, limit int64) ([]byte, error) {
	if !plainName(name) {
		return nil, fmt.Errorf("%q is not a plain file name", name)
	}
	f, err := src.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", src.name(name), err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s: is larger than %d bytes", src.name(name), limit)
	}
	return data, nil
}

// Open opens a GGUF file, a Hugging Face directory, or a folder that holds
// exactly one of them.
func Open(path string) (*Checkpoint, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open checkpoint: %w", err)
	}
	var c *Checkpoint
	if info.IsDir() {
		c, err = openFolder(path)
	} else {
		c, err = openFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("open checkpoint: %w", err)
	}
	return c, nil
}

// OpenFS opens a Hugging Face directory inside a file system, such as files
// embedded in the program. Weights are read into memory.
func OpenFS(fsys fs.FS, dir string) (*Checkpoint, error) {
	c, err := openHF(dir, fsDir{fsys, dir})
	if err != nil {
		return nil, fmt.Errorf("open checkpoint: %w", err)
	}
	return c, nil
}

func openFile(path string) (*Checkpoint, error) {
	switch filepath.Ext(path) {
	case ".safetensors", ".json", ".bin":
		return nil, fmt.Errorf("%s: is one file of a checkpoint; give its directory", path)
	}
	m, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	c, err := openGGUF(path, m)
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	return c, nil
}

// openFolder finds the one checkpoint a folder holds: the folder itself, a GGUF
// file in it, or one subfolder that is a Hugging Face directory.
func openFolder(path string) (*Checkpoint, error) {
	files, dirs, err := osDir(path).list()
	if err != nil {
		return nil, err
	}
	var found []string
	if isHF(files) {
		found = append(found, path)
	}
	for _, f := range files {
		if strings.HasSuffix(f, ".gguf") {
			found = append(found, filepath.Join(path, f))
		}
	}
	if len(found) == 0 { // only then look deeper: side folders of a model are its own business
		for _, d := range dirs {
			if inner, _, err := osDir(filepath.Join(path, d)).list(); err == nil && isHF(inner) {
				found = append(found, filepath.Join(path, d))
			}
		}
	}
	switch {
	case len(found) == 1 && strings.HasSuffix(found[0], ".gguf") && found[0] != path:
		return openFile(found[0])
	case len(found) == 1:
		return openHF(found[0], osDir(found[0]))
	case len(found) > 1:
		return nil, fmt.Errorf("%s: holds %d checkpoints (%s); name one", path, len(found), strings.Join(found[:min(len(found), 8)], ", "))
	case slices.Contains(files, "config.json"):
		return nil, fmt.Errorf("%s: has a config.json but no *.safetensors (other weight formats are not read; convert them to safetensors or gguf)", path)
	default:
		return nil, fmt.Errorf("%s: holds no checkpoint: expected one *.gguf file, or config.json with *.safetensors", path)
	}
}

// isHF reports whether files are those of a Hugging Face directory. Weights
// alone count, so that a missing config.json is reported as just that.
func isHF(files []string) bool {
	return slices.ContainsFunc(files, func(f string) bool {
		return strings.HasSuffix(f, ".safetensors") || f == "model.safetensors.index.json"
	})
}
