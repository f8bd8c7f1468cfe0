package recording

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"strings"
	"sync"

	"surmise/bench/journal"
)

// castagnoli is the polynomial of Span.Sum.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// HiddenPath is the file of hidden states beside a recording.
func HiddenPath(path string) string { return strings.TrimSuffix(path, ".jsonl") + ".hidden" }

// Writer appends to a recording. It is safe for concurrent use.
type Writer struct {
	mu     sync.Mutex
	done   map[string]*Item // by key
	header *Header
	lines  *journal.Journal
	hidden *os.File // nil without layers
	end    int64    // of the hidden states
}

// Create opens a recording to append to: a new one, or one whose header is that
// of the same work. What an interruption has left half done is cut off.
func Create(path string, h Header) (*Writer, error) {
	h.Format, h.Version = Format, Version
	if err := h.check(); err != nil {
		return nil, fmt.Errorf("record to %s: %w", path, err)
	}
	w := &Writer{header: &h, done: map[string]*Item{}}
	var err error
	if w.lines, err = journal.Open(path, h, w.accept, w.found); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	if len(h.Layers) == 0 {
		return w, nil
	}
	if err := w.openHidden(HiddenPath(path)); err != nil {
		return nil, errors.Join(fmt.Errorf("record: %w", err), w.lines.Close())
	}
	return w, nil
}

func (w *Writer) accept(line []byte) error {
	var have Header
	if err := json.Unmarshal(line, &have); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	return w.header.same(&have)
}

func (w *Writer) found(line []byte) error {
	i, err := parseItem(line, w.header)
	if err != nil {
		return err
	}
	w.done[i.Key()] = i
	if i.Hidden != nil {
		w.end = max(w.end, i.Hidden.Offset+i.Hidden.size(w.header))
	}
	return nil
}

func parseItem(line []byte, h *Header) (*Item, error) {
	i := new(Item)
	if err := json.Unmarshal(line, i); err != nil {
		return nil, fmt.Errorf("item: %w", err)
	}
	return i, i.check(h)
}

// size is the number of bytes of a span.
func (s *Span) size(h *Header) int64 {
	return 4 * int64(s.Positions) * int64(h.Spec.Hidden) * int64(len(h.Layers))
}

func (w *Writer) openHidden(path string) error {
	flags := os.O_RDWR
	if w.end == 0 {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size() < w.end {
		err = fmt.Errorf("%s has %d bytes, but the recording names %d", path, info.Size(), w.end)
	}
	if err == nil {
		err = f.Truncate(w.end)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	w.hidden = f
	return nil
}

// Append adds an item; hidden are its states by layer of the header, each
// [positions, hidden]. When it returns, the item is on disk.
func (w *Writer) Append(i Item, hidden [][]float32) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hidden != nil && i.Skipped == "" {
		span, err := w.appendHidden(&i, hidden)
		if err != nil {
			return fmt.Errorf("record item %s: hidden states: %w", i.ID, err)
		}
		i.Hidden = span
	}
	if err := i.check(w.header); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if err := w.lines.Append(&i); err != nil {
		return fmt.Errorf("record item %s: %w", i.ID, err)
	}
	if i.Hidden != nil {
		w.end += i.Hidden.size(w.header)
	}
	w.done[i.Key()] = &i
	return nil
}

// Find is the item of a key, if it is recorded.
func (w *Writer) Find(key string) *Item {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done[key]
}

func (w *Writer) appendHidden(i *Item, hidden [][]float32) (*Span, error) {
	s := &Span{Offset: w.end, Positions: len(i.Prompt) + len(i.Tokens) - 1}
	want := s.Positions * w.header.Spec.Hidden
	var buf []byte
	for l := range w.header.Layers {
		if l >= len(hidden) || len(hidden[l]) != want {
			return nil, fmt.Errorf("layer %d of %d has not the %d values of %d positions", l, len(w.header.Layers), want, s.Positions)
		}
		for _, x := range hidden[l] {
			buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(x))
		}
	}
	s.Sum = crc32.Checksum(buf, castagnoli)
	if _, err := w.hidden.WriteAt(buf, s.Offset); err != nil {
		return nil, err
	}
	return s, w.hidden.Sync()
}

// Close closes the files.
func (w *Writer) Close() error {
	err := w.lines.Close()
	if w.hidden != nil {
		err = errors.Join(err, w.hidden.Close())
	}
	return err
}

// Recording is a recording that is read.
type Recording struct {
	Header Header
	// Items are the requests that were answered, Skipped the others.
	Items   []*Item
	Skipped []*Item

	hidden *os.File
	broken error // why hidden states cannot be read
}

// Open reads a recording. Hidden states stay in their file; what is wrong with it
// is told by Readable, since most drafters do without.
func Open(path string) (*Recording, error) {
	r := new(Recording)
	seen := map[string]bool{}
	err := journal.Read(path, func(line []byte) error {
		if err := json.Unmarshal(line, &r.Header); err != nil {
			return fmt.Errorf("header: %w", err)
		}
		return r.Header.check()
	}, func(line []byte) error {
		i, err := parseItem(line, &r.Header)
		switch {
		case err != nil:
			return err
		case seen[i.Key()]:
			return fmt.Errorf("item %s turn %d is there twice", i.ID, i.Turn)
		case i.Skipped != "":
			r.Skipped = append(r.Skipped, i)
		default:
			r.Items = append(r.Items, i)
		}
		seen[i.Key()] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("recording %w", err)
	}
	if len(r.Header.Layers) > 0 {
		if err := r.openHidden(HiddenPath(path)); err != nil {
			r.broken = fmt.Errorf("hidden states: %w", err)
		}
	}
	return r, nil
}

// openHidden opens the file of hidden states, if it has those of all items.
func (r *Recording) openHidden(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	for _, i := range r.Items {
		if size := i.Hidden.size(&r.Header); size > info.Size() || i.Hidden.Offset > info.Size()-size {
			return errors.Join(fmt.Errorf("%s has %d bytes, but item %s takes %d from %d on", path, info.Size(), i.ID, size, i.Hidden.Offset), f.Close())
		}
	}
	r.hidden = f
	return nil
}

// Readable tells why the hidden states cannot be read, naming their file: it is
// not there, or lacks some. It is nil where none were recorded.
func (r *Recording) Readable() error { return r.broken }

// Hidden reads the states of an item: by layer of the header, [positions, hidden].
func (r *Recording) Hidden(i *Item) ([][]float32, error) {
	switch {
	case r.broken != nil:
		return nil, fmt.Errorf("item %s: %w", i.ID, r.broken)
	case i.Hidden == nil || r.hidden == nil:
		return nil, fmt.Errorf("item %s: no hidden states were recorded", i.ID)
	}
	buf := make([]byte, i.Hidden.size(&r.Header))
	if _, err := io.ReadFull(io.NewSectionReader(r.hidden, i.Hidden.Offset, int64(len(buf))), buf); err != nil {
		return nil, fmt.Errorf("item %s: hidden states: %w", i.ID, err)
	}
	if sum := crc32.Checksum(buf, castagnoli); sum != i.Hidden.Sum {
		return nil, fmt.Errorf("item %s: hidden states have checksum %08x, want %08x", i.ID, sum, i.Hidden.Sum)
	}
	out := make([][]float32, len(r.Header.Layers))
	for l := range out {
		out[l] = make([]float32, i.Hidden.Positions*r.Header.Spec.Hidden)
		for j := range out[l] {
			out[l][j] = math.Float32frombits(binary.LittleEndian.Uint32(buf[4*j:]))
		}
		buf = buf[4*len(out[l]):]
	}
	return out, nil
}

// Close closes the file of hidden states.
func (r *Recording) Close() error {
	if r.hidden == nil {
		return nil
	}
	return r.hidden.Close()
}
