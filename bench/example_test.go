package bench_test

import (
	"fmt"

	"surmise/bench"
	"surmise/drafter"
)

func Example() {
	var t drafter.Tally
	t.Round(4, 4) // all accepted: five tokens with the bonus token
	t.Round(4, 1)
	t.Round(0, 0) // no proposal, no draft
	c := bench.CountsOf(&t)
	fmt.Printf("mean acceptance length %.2f, rate %.3f\n", c.MeanAcceptanceLength(), c.AcceptanceRate())
	fmt.Println("conditional:", c.Conditional())
	// Output:
	// mean acceptance length 3.50, rate 0.625
	// conditional: [1 0.5 1 1]
}
