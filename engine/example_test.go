package engine_test

import (
	"context"
	"fmt"

	"surmise/engine"
	"surmise/promptlookup"
	"surmise/sampler"
	"surmise/verify/verifytest"
)

// A request's answer is the same with a drafter and without.
func Example() {
	target, err := verifytest.New(verifytest.Options{Order: 1, Memory: 0.01})
	if err != nil {
		panic(err)
	}
	lookup, err := promptlookup.New(promptlookup.Options{})
	if err != nil {
		panic(err)
	}
	seed := uint64(1)
	p := sampler.Default()
	p.Temperature, p.Seed, p.MaxNewTokens = 0, &seed, 40

	e := engine.New(target, nil, engine.Options{})
	plain, drafted := engine.NewCollector(1), engine.NewCollector(1)
	err = e.Run(context.Background(),
		engine.Request{Prompt: []int32{3, 1, 4, 1, 5}, Params: p, Emit: plain.Add},
		engine.Request{Prompt: []int32{3, 1, 4, 1, 5}, Params: p, Emit: drafted.Add, Drafter: lookup})
	if err != nil {
		panic(err)
	}
	a, b := plain.Answers()[0], drafted.Answers()[0]
	fmt.Println("same tokens:", fmt.Sprint(a.IDs()) == fmt.Sprint(b.IDs()))
	fmt.Println("fewer rounds:", b.Finish.Timings.Draft.Rounds < a.Finish.Timings.Draft.Rounds)
	// Output:
	// same tokens: true
	// fewer rounds: true
}
