package journal_test

import (
	"fmt"
	"os"
	"path/filepath"

	"surmise/bench/journal"
)

func Example() {
	dir, _ := os.MkdirTemp("", "journal")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "work.jsonl")
	accept := func(header []byte) error { return nil }
	done := 0
	count := func(line []byte) error { done++; return nil }

	j, _ := journal.Open(path, map[string]string{"work": "squares"}, accept, count)
	_ = j.Append(map[string]int{"square": 1})
	_ = j.Append(map[string]int{"square": 4})
	_ = j.Close()

	j, _ = journal.Open(path, nil, accept, count)
	defer j.Close()
	fmt.Println("done before:", done)
	// Output: done before: 2
}
