package drafter_test

import (
	"context"
	"fmt"

	"surmise/drafter"
	"surmise/promptlookup"
)

// A drafter is made by its kind, opened on a sequence, and asked for a
// proposal that continues what is known.
func Example() {
	kinds, err := drafter.NewKinds(promptlookup.Kind())
	if err != nil {
		panic(err)
	}
	kind, err := kinds.Find("prompt-lookup")
	if err != nil {
		panic(err)
	}
	d, err := kind.New(drafter.Config{})
	if err != nil {
		panic(err)
	}
	prompt := []int32{10, 11, 12, 13, 99, 10, 11}
	seq, err := d.Open(drafter.Opening{Tokens: prompt})
	if err != nil {
		panic(err)
	}
	row := &drafter.Row{Seq: seq, Known: prompt, Budget: 8}
	drafter.Propose(context.Background(), []*drafter.Row{row})
	fmt.Println(row.Proposal)
	// Output: [12 13]
}
