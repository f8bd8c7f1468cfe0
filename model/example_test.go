package model_test

import (
	"fmt"

	"surmise/checkpoint"
	"surmise/compute/cpu"
	"surmise/model"
)

// A prompt is computed, and then a block of three proposals is checked: what
// the model says after each of them is there after one forward.
func Example() {
	ck, err := checkpoint.Open("testdata/llama")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ck.Close()
	dev, err := cpu.New(cpu.Options{Threads: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()
	m, err := model.Open(dev, ck, model.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()

	seq := m.Cache().Open()
	b := &model.Batch{Rows: []model.Row{{Seq: seq, Tokens: []int32{1, 17, 4}, Logits: 1, ArgmaxOnly: true}}}
	if err := m.Forward(b); err != nil {
		fmt.Println(err)
		return
	}
	pending, _ := b.Argmax(0, 0)

	proposal := []int32{pending, 5, 6, 7}
	b.Rows[0] = model.Row{Seq: seq, Tokens: proposal, Logits: len(proposal), ArgmaxOnly: true}
	if err := m.Forward(b); err != nil {
		fmt.Println(err)
		return
	}
	accepted := 0
	for accepted < 3 {
		if token, _ := b.Argmax(0, accepted); token != proposal[accepted+1] {
			break
		}
		accepted++
	}
	if err := seq.Truncate(4 + accepted); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(accepted, "of 3 proposals accepted,", seq.Len(), "positions cached")
	// Output: 0 of 3 proposals accepted, 4 positions cached
}
