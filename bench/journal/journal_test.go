package journal_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"surmise/bench/journal"
)

type line struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

func ok([]byte) error { return nil }

// lines opens the journal and closes it again, and returns what it holds.
func lines(t require.TestingT, path string) (header string, all []line) {
	j, err := journal.Open(path, "header", func(b []byte) error { header = string(b); return nil }, func(b []byte) error {
		var l line
		require.NoError(t, json.Unmarshal(b, &l))
		all = append(all, l)
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, j.Close())
	return header, all
}

func TestGivenAFileCutAnywhereWhenOpenedThenEveryWholeLineIsThere(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		path := filepath.Join(t.TempDir(), "work.jsonl")
		j, err := journal.Open(path, "header", ok, ok)
		require.NoError(rt, err)
		var want []line
		var ends []int64
		for i := range rapid.IntRange(0, 8).Draw(rt, "lines") {
			l := line{i, rapid.String().Draw(rt, "text")}
			require.NoError(rt, j.Append(l))
			want = append(want, l)
			info, err := os.Stat(path)
			require.NoError(rt, err)
			ends = append(ends, info.Size())
		}
		require.NoError(rt, j.Close())
		info, err := os.Stat(path)
		require.NoError(rt, err)
		const first = int64(len(`"header"` + "\n"))
		cut := rapid.Int64Range(first, info.Size()).Draw(rt, "cut")
		require.NoError(rt, os.Truncate(path, cut))
		n := 0
		for n < len(ends) && ends[n] <= cut {
			n++
		}
		header, got := lines(rt, path)
		require.Equal(rt, `"header"`, header)
		require.Equal(rt, append([]line(nil), want[:n]...), got)

		// What is appended then stands behind the whole lines.
		j, err = journal.Open(path, "other", ok, ok)
		require.NoError(rt, err)
		require.NoError(rt, j.Append(line{99, "after"}))
		require.NoError(rt, j.Close())
		_, got = lines(rt, path)
		require.Equal(rt, line{99, "after"}, got[n])
	})
}

func TestGivenADamagedLineInTheMiddleWhenOpenedThenTheErrorNamesIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "work.jsonl")
	require.NoError(t, os.WriteFile(path, []byte("{}\n{\"n\":1}\n{\"n\":\n{\"n\":3}\n"), 0o600))
	_, err := journal.Open(path, "header", ok, ok)
	require.ErrorContains(t, err, "line 3 is not JSON")
	require.ErrorContains(t, journal.Read(path, ok, ok), "line 3")
}

func TestGivenAnEmptyFileWhenReadThenThatIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "work.jsonl")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.ErrorContains(t, journal.Read(path, ok, ok), "empty")
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("{}\n{}\n"))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "f")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		_ = journal.Read(path, ok, ok)
	})
}
