//go:build purego || !amd64

package cpu

// archProbe has no loops here.
func archProbe(string) (probeKernels, bool) { return probeKernels{}, false }
