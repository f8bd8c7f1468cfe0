package verify_test

import (
	"context"
	"fmt"

	"surmise/verify"
	"surmise/verify/verifytest"
)

// Two rounds of one sequence: the first takes the prompt and draws a token, the
// second checks a proposal behind it.
func Example() {
	target, err := verifytest.New(verifytest.Options{})
	if err != nil {
		panic(err)
	}
	var output []int32
	row := &verify.Row{
		Seq:   target.Cache().Open(),
		Known: []int32{3, 1, 4, 1, 5},
		Chain: &verifytest.Chain{},
		Emit: func(t verify.Token) bool {
			output = append(output, t.Token)
			return true
		},
	}
	if err := verify.Round(context.Background(), target, []*verify.Row{row}); err != nil {
		panic(err)
	}
	row.Known, row.Proposal = []int32{row.Pending}, []int32{0, 0, 0}
	if err := verify.Round(context.Background(), target, []*verify.Row{row}); err != nil {
		panic(err)
	}
	fmt.Println("emitted", len(output), "cached", row.Seq.Len(), "accepted", row.Accepted)
	// Output: emitted 2 cached 6 accepted 0
}
