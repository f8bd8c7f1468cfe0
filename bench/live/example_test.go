package live_test

import (
	"context"
	"fmt"
	"time"

	"surmise/bench"
	"surmise/bench/live"
	"surmise/promptlookup"
	"surmise/sampler"
	"surmise/verify/verifytest"
)

func Example() {
	target, _ := verifytest.New(verifytest.Options{Order: 1}) // a hash function in place of a model
	lookup, _ := promptlookup.New(promptlookup.Options{})
	params := sampler.Default()
	params.MaxNewTokens = 64
	plain, _ := live.NewLane(live.LaneSetup{Config: bench.Config{Kind: bench.None}, Target: target, Params: params, Now: time.Now})
	drafted, _ := live.NewLane(live.LaneSetup{
		Config: bench.Config{Kind: "prompt-lookup", Width: "4"}, Target: target, Drafter: lookup, Params: params, Now: time.Now,
	})
	lanes := []*live.Lane{plain, drafted}
	answers, err := live.Race(context.Background(), lanes, []int32{1, 2, 3, 1, 2, 3}, 0, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	results := live.Trials(lanes, answers, "a question", "examples", 0)
	fmt.Println("tokens:", results[0].Trial.Tokens, results[1].Trial.Tokens)
	fmt.Println("same bytes:", *results[1].Trial.Same)
	fmt.Println("fewer rounds:", results[1].Trial.Counts.Rounds < results[0].Trial.Counts.Rounds)
	// Output:
	// tokens: 64 64
	// same bytes: true
	// fewer rounds: true
}
