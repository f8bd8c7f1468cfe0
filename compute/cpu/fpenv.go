package cpu

import (
	"errors"
	"math"
)

// checkFloatEnvironment fails where the thread flushes denormals to zero or
// rounds otherwise than to nearest even: library code loaded into the process
// can do that, and every result would silently differ from the canon.
func checkFloatEnvironment() error {
	return checkRounding(math.Float32frombits(0x00800000), 1, 1.0/(1<<24))
}

// checkRounding takes its operands as arguments so that the compiler folds nothing.
//
//go:noinline
func checkRounding(least, one, tie float32) error {
	if least*0.5 == 0 {
		return errors.New("floating-point environment: denormals are flushed to zero")
	}
	if d := math.Float32frombits(1); d*one == 0 || d+0 == 0 {
		return errors.New("floating-point environment: denormals count as zero")
	}
	if one+tie != one || one+3*tie != one+4*tie || -one-tie != -one {
		return errors.New("floating-point environment: rounding is not to nearest even")
	}
	return nil
}
