//go:build !purego

package cpu

import (
	"runtime"

	"golang.org/x/sys/cpu"
)

// archImplementations lists the arm64 tables, best first. Every Apple processor
// that Go runs on has the dot product, which darwin does not report.
func archImplementations() []implementation {
	return []implementation{
		{"neon", cpu.ARM64.HasASIMDDP || runtime.GOOS == "darwin", neonKernels},
	}
}
