package recording_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"surmise/bench/recording"
)

func Example() {
	dir, _ := os.MkdirTemp("", "recording")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "rec.jsonl")
	w, err := recording.Create(path, recording.Header{
		Source: recording.Server, Params: json.RawMessage(`{"temperature":0}`),
		Spec: recording.Spec{Vocab: 100, Context: 1000, EOS: []int{2}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = w.Append(recording.Item{ID: "q1", Prompt: []int32{5, 6}, Tokens: []int32{7, 8, 2}, Finish: "stop", Limit: 64}, nil)
	_ = w.Close()

	r, err := recording.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	fmt.Println(r.Items[0].Key(), r.Items[0].Tokens)
	// Output: q1#0 [7 8 2]
}
