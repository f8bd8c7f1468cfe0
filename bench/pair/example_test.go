package pair_test

import (
	"fmt"

	"surmise/bench"
	"surmise/bench/pair"
)

func ExampleAdvise() {
	a := pair.Advise(map[bench.Config]float64{
		{Kind: "prompt-lookup", Width: "auto"}:                1.3,
		{Kind: "full-model", Draft: "small.gguf", Width: "4"}: 1.6,
	})
	fmt.Println(a.Flags)
	// Output: --draft-kind full-model --draft-model small.gguf --draft-block-size 4
}
