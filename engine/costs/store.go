package costs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"surmise/model"
)

// Key is what a table is valid for.
type Key struct {
	Machine    string `json:"machine"`    // the processor's name
	Device     string `json:"device"`     // with instruction set and threads
	Checkpoint string `json:"checkpoint"` // its hash
	Weights    int64  `json:"weights"`    // bytes of a forward: tells quantizations apart
	KV         string `json:"kv"`         // format of keys and values
}

// KeyOf is the key of a target on this machine; hash is its checkpoint's.
func KeyOf(target model.Target, hash string) Key {
	s := target.Spec()
	return Key{Machine: machine(), Device: target.Device().Name(), Checkpoint: hash, Weights: s.Bytes, KV: s.KV.String()}
}

// Store keeps tables as files of a directory; with an empty Dir it keeps none.
type Store struct {
	Dir string
	// Warn is told by ForStart why a table could not be kept; nil for nobody.
	Warn func(message string)
}

// UserStore keeps tables in the user's cache directory, if there is one.
func UserStore() Store {
	dir, err := os.UserCacheDir()
	if err != nil {
		return Store{}
	}
	return Store{Dir: filepath.Join(dir, "surmise", "costs")}
}

// file is what is stored. Version changes when tables no longer mean the same.
type file struct {
	Version   int           `json:"version"`
	Key       Key           `json:"key"`
	Context   int           `json:"context"`
	ForwardNS map[int]int64 `json:"forward_ns"`
}

const (
	version = 3
	// maxFile bounds what is read; a table of 64 numbers of rows takes 2 KiB.
	maxFile = 1 << 16
	// maxContext is more than any table that is kept was measured at.
	maxContext = 1 << 12
	// minForward is shorter than any forward takes, maxForward longer than any of
	// MaxRows rows.
	minForward, maxForward = time.Microsecond, time.Hour
	// maxFall is how much less than a forward of fewer rows one may take by what
	// was measured, since clocks are noisy: a third.
	maxFall = 1. / 3
	// maxRow is how much more than a forward of one row each row may cost.
	maxRow = 4
)

// check tells why a table is none that forwards can have been measured to.
func (t Table) check() error {
	rows := slices.Sorted(maps.Keys(t.Forward))
	switch {
	case len(rows) < 2 || rows[0] != 1:
		return fmt.Errorf("rows %v: want 1 and more", rows)
	case rows[len(rows)-1] > MaxRows:
		return fmt.Errorf("%d rows: want at most %d", rows[len(rows)-1], MaxRows)
	case t.Context < 1 || t.Context > maxContext:
		return fmt.Errorf("context %d: want 1 to %d", t.Context, maxContext)
	}
	one, most := t.Forward[1], t.Forward[1]
	for _, k := range rows {
		d := t.Forward[k]
		switch {
		case d < minForward || d > maxForward:
			return fmt.Errorf("%d rows take %v: want %v to %v", k, d, minForward, maxForward)
		case float64(d) < float64(most)*(1-maxFall):
			return fmt.Errorf("%d rows take %v, and fewer rows %v", k, d, most)
		case d > time.Duration(k)*maxRow*one:
			return fmt.Errorf("%d rows take %v, and 1 row %v", k, d, one)
		}
		most = max(most, d)
	}
	return nil
}

func (s Store) path(k Key) (string, error) {
	name, err := json.Marshal(k)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(name)
	return filepath.Join(s.Dir, hex.EncodeToString(sum[:16])+".json"), nil
}

// Load gives the table of a key. A file that is damaged, of another version, of
// another key or with times that no machine takes is none.
func (s Store) Load(k Key) (Table, bool) {
	if s.Dir == "" {
		return Table{}, false
	}
	path, err := s.path(k)
	if err != nil {
		return Table{}, false
	}
	data, err := readSmall(path)
	if err != nil {
		return Table{}, false
	}
	return decode(data, k)
}

// decode checks a file's content.
func decode(data []byte, k Key) (Table, bool) {
	var f file
	if json.Unmarshal(data, &f) != nil || f.Version != version || f.Key != k {
		return Table{}, false
	}
	t := Table{Context: f.Context, Forward: make(map[int]time.Duration, len(f.ForwardNS))}
	for rows, ns := range f.ForwardNS {
		t.Forward[rows] = time.Duration(ns)
	}
	if t.check() != nil {
		return Table{}, false
	}
	return t, true
}

func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("%s is no table", path)
	}
	return os.ReadFile(path)
}

// Save stores a table; a reader sees the old one or the new one, never a part. One
// that Load would not give back, as a machine busy with other things may have it
// measured, is an error.
func (s Store) Save(k Key, t Table) error {
	if s.Dir == "" {
		return nil
	}
	if err := s.save(k, t); err != nil {
		return fmt.Errorf("save costs: %w", err)
	}
	return nil
}

func (s Store) save(k Key, t Table) (err error) {
	if err := t.check(); err != nil {
		return err
	}
	path, err := s.path(k)
	if err != nil {
		return err
	}
	f := file{Version: version, Key: k, Context: t.Context, ForwardNS: map[int]int64{}}
	for rows, d := range t.Forward {
		f.ForwardNS[rows] = int64(d)
	}
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(s.Dir, ".costs-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(tmp.Name())
		}
	}()
	_, err = tmp.Write(append(data, '\n'))
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// The measurement of ForStart: enough for the first decisions of the automatic
// width, which learns from then on.
var (
	quickRows = []int{1, 2, 4, 8, 16, 32}
	quick     = Options{Context: 32, Repeats: 5, Budget: 300 * time.Millisecond}
)

// ForStart gives a table to start with: the stored one, or else one measured in
// some tenths of a second and stored. It is nil when neither can be had. A context
// too short to measure more than one row in is measured at every start.
func ForStart(ctx context.Context, s Store, target model.Target, hash string, clock func() time.Time) map[int]time.Duration {
	k := KeyOf(target, hash)
	if t, ok := s.Load(k); ok {
		return t.Forward
	}
	o := quick
	o.Clock = clock
	room := target.Spec().Context
	for _, rows := range quickRows {
		if rows <= room {
			o.Rows = append(o.Rows, rows)
		}
	}
	if len(o.Rows) == 0 {
		return nil
	}
	o.Context = min(o.Context, room-o.Rows[len(o.Rows)-1])
	t, err := Measure(ctx, target, o)
	if err != nil {
		return nil
	}
	if len(t.Forward) == 1 || t.Context == 0 {
		return t.Forward
	}
	if err := s.Save(k, t); err != nil && s.Warn != nil {
		s.Warn(fmt.Sprintf("what forwards take was measured but not kept, so the next start measures again: %v", err))
	}
	return t.Forward
}
