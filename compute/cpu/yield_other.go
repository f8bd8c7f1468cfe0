//go:build !linux

package cpu

import "runtime"

// yieldThread gives way to other goroutines.
func yieldThread() { runtime.Gosched() }
