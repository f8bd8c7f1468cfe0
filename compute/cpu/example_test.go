package cpu_test

import (
	"fmt"
	"log"

	"surmise/compute"
	"surmise/compute/cpu"
)

// A device runs on so many threads; the numbers do not depend on how many.
func ExampleNew() {
	dev, err := cpu.New(cpu.Options{Threads: 2, ISA: "generic"})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	x, err := dev.Alloc(4)
	if err != nil {
		log.Fatal(err)
	}
	copy(x.Host(), []float32{1, -2, 3, -4})
	ones, err := dev.Alloc(4)
	if err != nil {
		log.Fatal(err)
	}
	for i := range ones.Host() {
		ones.Host()[i] = 1
	}
	var p compute.Program
	p.Norm(compute.ViewOf(x, 4), compute.ViewOf(x, 4), 1, ones, 0)
	if err := dev.Run(&p); err != nil {
		log.Fatal(err)
	}
	fmt.Println(dev.Name(), x.Host())
	// Output: cpu generic 2 threads [0.36514837 -0.73029673 1.0954452 -1.4605935]
}
