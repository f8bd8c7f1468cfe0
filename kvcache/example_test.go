package kvcache_test

import (
	"fmt"

	"surmise/compute"
	"surmise/kvcache"
)

// A block of proposals is appended, half of it is rejected, and a later prompt
// starts from what the first one has published.
func Example() {
	var dev compute.Device = &fakeDevice{} // cpu.New in a program
	cache, err := kvcache.New(dev, kvcache.Config{
		Groups: []kvcache.Group{{Layers: 3}, {Layers: 15, Window: 512}},
		Heads:  1, HeadDim: 256, Type: compute.KVF16, Budget: 64 << 20, Context: 4096,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cache.Close()

	prompt := make([]int32, 100)
	s := cache.Open()
	_ = s.Append(prompt)                   // a forward over the prompt follows
	_ = s.Append([]int32{7, 8, 9, 10, 11}) // a pending token and four proposals
	_ = s.Truncate(103)                    // two were accepted
	fmt.Println(s.Len(), s.Tokens()[100:])
	s.Publish()
	s.Close()

	fmt.Println(cache.Match(prompt).Len(), "of", len(prompt), "tokens are cached")
	// Output:
	// 103 [7 8 9]
	// 64 of 100 tokens are cached
}
