//go:build purego || !amd64

package cpu

// archPacks has no loops here.
func archPacks(string) (packs [len(packings)]packGroup) { return packs }
