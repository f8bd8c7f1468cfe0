package replay_test

import (
	"context"
	"fmt"
	"time"

	"surmise/bench"
	"surmise/bench/recording"
	"surmise/bench/replay"
	"surmise/promptlookup"
)

func Example() {
	// A recording is usually opened from a file; recording.Open does that.
	r := &recording.Recording{Header: recording.Header{
		Spec: recording.Spec{Vocab: 100, Context: 1000}, Params: []byte(`{"temperature":0}`),
		Costs: &bench.Costs{Curves: []bench.Curve{{Points: []bench.Point{{Rows: 1, Seconds: 0.010}, {Rows: 9, Seconds: 0.012}}}}},
	}}
	item := &recording.Item{
		ID: "echo", Prompt: []int32{1, 2, 3, 4, 5, 6, 7, 8}, Tokens: []int32{1, 2, 3, 4, 5, 6, 7, 8}, Finish: "length", Limit: 8,
	}
	lookup, _ := promptlookup.New(promptlookup.Options{})
	player, err := replay.New(r, replay.Options{
		Config: bench.Config{Kind: "prompt-lookup", Width: "8"}, Drafter: lookup, Draft: &replay.DraftCosts{}, Now: time.Now,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer player.Close()
	trial, err := player.Play(context.Background(), item)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d of %d accepted, %.1f ms instead of %.1f\n",
		trial.Counts.Accepted, trial.Counts.Proposed, 1000*trial.DecodeSeconds, 7*10.0)
	// Output: 4 of 4 accepted, 31.0 ms instead of 70.0
}
