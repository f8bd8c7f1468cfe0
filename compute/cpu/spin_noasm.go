//go:build purego || !(amd64 || arm64)

package cpu

import "runtime"

// pause gives way to other goroutines, where no instruction for waiting loops
// is at hand.
func pause() { runtime.Gosched() }
