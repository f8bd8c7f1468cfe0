package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// maxLine bounds a line: far above a prompt and its answer.
const maxLine = 64 << 20

// Journal is an open file. It is safe for concurrent use.
type Journal struct {
	mu   sync.Mutex
	file *os.File
	size int64 // of all whole lines
}

// Open opens a journal to append to. A new file, or an empty one, gets the
// header. Of an existing file, accept is told the header, and each is told every
// line behind it, in order; their errors end Open. What follows the last whole
// line is cut off.
func Open(path string, header any, accept, each func(line []byte) error) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	j := &Journal{file: f}
	if err := j.open(path, header, accept, each); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return j, nil
}

func (j *Journal) open(path string, header any, accept, each func([]byte) error) error {
	info, err := j.file.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("not a regular file")
	}
	if j.size, err = scan(j.file, accept, each); err != nil {
		return err
	}
	if err := j.file.Truncate(j.size); err != nil {
		return err
	}
	if j.size > 0 {
		return nil
	}
	if err := j.Append(header); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the name of a new file last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync() // some file systems cannot
	return d.Close()
}

// Append writes a value as a line and waits until it is on disk. On error the
// journal is as before.
func (j *Journal) Append(v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("append to %s: %w", j.file.Name(), err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if buf.Len() > maxLine {
		return fmt.Errorf("append to %s: a line of %d bytes: want at most %d", j.file.Name(), buf.Len(), maxLine)
	}
	_, err := j.file.WriteAt(buf.Bytes(), j.size)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("append to %s: %w", j.file.Name(), err), j.file.Truncate(j.size))
	}
	j.size += int64(buf.Len())
	return nil
}

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }

// Read reads a journal that is not written to: the header goes to accept, the
// lines behind it to each. A cut-off line at the end is left out.
func Read(path string, accept, each func(line []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := scan(f, accept, each)
	if err == nil && size == 0 {
		err = errors.New("the file is empty")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// scan hands out the whole lines and returns the bytes they take.
func scan(r io.Reader, accept, each func([]byte) error) (size int64, err error) {
	in := bufio.NewReaderSize(r, 1<<16)
	for number := 1; ; number++ {
		line, whole, err := readLine(in)
		if err != nil {
			return size, fmt.Errorf("line %d: %w", number, err)
		}
		if !whole {
			return size, nil
		}
		if !json.Valid(line) {
			return size, fmt.Errorf("line %d is not JSON", number)
		}
		take := each
		if number == 1 {
			take = accept
		}
		if err := take(line); err != nil {
			return size, fmt.Errorf("line %d: %w", number, err)
		}
		size += int64(len(line)) + 1
	}
}

// readLine reads a line without its line break; whole is false at the end of
// the file, whatever stands there.
func readLine(in *bufio.Reader) (line []byte, whole bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			return nil, false, fmt.Errorf("longer than %d bytes", maxLine)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], true, nil
		case errors.Is(err, io.EOF):
			return nil, false, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		}
	}
}
