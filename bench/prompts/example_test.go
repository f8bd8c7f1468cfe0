package prompts_test

import (
	"fmt"
	"strings"

	"surmise/bench/prompts"
)

func ExampleRead() {
	set, err := prompts.Read(strings.NewReader(`{"question_id": 7, "category": "code", "turns": ["Write a loop.", "Now in Go."]}`), "mine.jsonl")
	fmt.Println(set.Name, set.Items[0].ID, len(set.Items[0].Turns), err)
	// Output: mine.jsonl 7 2 <nil>
}
