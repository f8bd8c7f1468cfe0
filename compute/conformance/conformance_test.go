package conformance_test

import (
	"testing"

	"surmise/compute"
	"surmise/compute/canon"
	"surmise/compute/conformance"
)

// The suite's own programs are right: the canon agrees with itself.
func TestCanonConforms(t *testing.T) {
	conformance.Run(t, func(int) compute.Device { return canon.New() })
}
