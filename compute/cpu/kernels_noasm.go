//go:build purego || !(amd64 || arm64)

package cpu

// archImplementations is empty: only the generic table is compiled in.
func archImplementations() []implementation { return nil }
