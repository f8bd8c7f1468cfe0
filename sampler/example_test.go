package sampler_test

import (
	"fmt"

	"surmise/sampler"
)

func Example() {
	p := sampler.Default()
	p.TopK = 3
	fmt.Println("seed", p.FixSeed(func() uint64 { return 42 }))
	chain, err := sampler.NewChain(p, sampler.Env{Vocab: 5}, []int32{0, 1}, 0)
	if err != nil {
		panic(err)
	}
	logits := []float32{0.5, 2, 1, -1, 1.5}
	for range 3 {
		d, err := chain.Sample(logits)
		if err != nil {
			panic(err)
		}
		fmt.Println("position", chain.Position(), "token", d.Token)
		chain.Accept(d.Token)
	}
	fmt.Println(chain.Describe())
	// Output:
	// seed 42
	// position 2 token 1
	// position 3 token 4
	// position 4 token 2
	// [top_k: 3 temperature: 1 draw: Gumbel-max noise: seed 42, sample 0]
}

func ExampleParams_SetJSON() {
	p, err := sampler.ProfileServe.Params()
	if err != nil {
		panic(err)
	}
	unknown, err := p.SetJSON([]byte(`{"temp": 0.2, "max_tokens": 50, "stream": true}`))
	fmt.Println(p.Temperature, p.MaxNewTokens, unknown, err)
	_, err = p.SetJSON([]byte(`{"top_p": 1.5}`))
	fmt.Println(err)
	// Output:
	// 0.2 50 [stream] <nil>
	// top_p: 1.5 is not valid: want (0, 1]
}
