package compute_test

import (
	"fmt"
	"log"

	"surmise/compute"
	"surmise/compute/canon"
)

// A program is recorded, then run; results are read from its buffers.
func Example() {
	dev := canon.New() // or cpu.New: the bits are the same
	defer dev.Close()
	x, err := dev.Alloc(2 * 4)
	if err != nil {
		log.Fatal(err)
	}
	copy(x.Host(), []float32{1, 2, 3, 4, 8, 7, 6, 5})
	rows := compute.ViewOf(x, 4)
	best := make([]int32, 2)

	var p compute.Program
	p.Scale(rows, rows, 2, 0.5)
	p.Argmax(best, rows)
	if err := dev.Run(&p); err != nil {
		log.Fatal(err)
	}
	fmt.Println(rows.Row(1), best)
	// Output: [4 3.5 3 2.5] [3 0]
}
