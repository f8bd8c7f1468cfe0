package conformance_test

import (
	"testing"

	"surmise/compute"
	"surmise/compute/conformance"
	"surmise/compute/cpu"
)

// A device's own test hands Run a function that opens it.
func Example() {
	test := func(t *testing.T) {
		conformance.Run(t, func(threads int) compute.Device {
			d, err := cpu.New(cpu.Options{Threads: threads})
			if err != nil {
				t.Fatal(err)
			}
			return d
		})
	}
	_ = test // go test runs it
	// Output:
}
