//go:build !linux

package cpu

import (
	"testing"
	"time"
)

var benchStart = time.Now()

// threadSeconds is the time on the wall where a thread's own cannot be had.
func threadSeconds(*testing.B) float64 { return time.Since(benchStart).Seconds() }
