package report_test

import (
	"fmt"

	"surmise/bench"
	"surmise/bench/report"
)

func ExampleNew() {
	var g bench.Gather
	plain, drafted := bench.Config{Kind: bench.None}, bench.Config{Kind: "prompt-lookup", Width: "auto"}
	_ = g.Add(bench.Line{Item: "1", Results: []bench.Result{
		{Config: plain, Trial: bench.Trial{Item: "1", Tokens: 101, DecodeSeconds: 4}},
		{Config: drafted, Trial: bench.Trial{Item: "1", Tokens: 101, DecodeSeconds: 2}},
	}})
	r := report.New(bench.About{}, &g)
	fmt.Printf("%s is %.1f times as fast\n", r.Best().Config, r.Best().Summary.Speedup.Mean)
	// Output: prompt-lookup k=auto is 2.0 times as fast
}
