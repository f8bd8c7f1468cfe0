package costs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
type Store struct{ Dir string }

// UserStore keeps tables in the user's cache directory, if there is one.
func UserStore() Store {
	dir, err := os.UserCacheDir()
	if err != nil {
		return Store{}
	}
	return Store{filepath.Join(dir, "surmise", "costs")}
}

// file is what is stored. Version changes when tables no longer mean the same.
type file struct {
	Version   int           `json:"version"`
	Key       Key           `json:"key"`
	Context   int           `json:"context"`
	ForwardNS map[int]int64 `json:"forward_ns"`
}

const (
	version = 2
	// maxFile bounds what is read; a table of 64 numbers of rows takes 2 KiB.
	maxFile = 1 << 16
	// maxForward is longer than any forward of MaxRows rows takes.
	maxForward = time.Hour
)

func (s Store) path(k Key) (string, error) {
	name, err := json.Marshal(k)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(name)
	return filepath.Join(s.Dir, hex.EncodeToString(sum[:16])+".json"), nil
}

// Load gives the table of a key. A file that is damaged, of another version or
// of another key is none.
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
	if json.Unmarshal(data, &f) != nil || f.Version != version || f.Key != k || len(f.ForwardNS) == 0 || f.Context < 0 {
		return Table{}, false
	}
	t := Table{Context: f.Context, Forward: make(map[int]time.Duration, len(f.ForwardNS))}
	for rows, ns := range f.ForwardNS {
		if rows < 1 || rows > MaxRows || ns < 1 || ns > int64(maxForward) {
			return Table{}, false
		}
		t.Forward[rows] = time.Duration(ns)
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

// Save stores a table; a reader sees the old one or the new one, never a part.
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
// some tenths of a second and stored. It is nil when neither can be had.
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
	_ = s.Save(k, t) // without it the next start measures again
	return t.Forward
}
