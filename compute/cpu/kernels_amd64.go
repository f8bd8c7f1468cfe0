//go:build !purego

package cpu

// archImplementations lists the amd64 tables, best first.
func archImplementations() []implementation { return nil }
