//go:build !purego

package cpu

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The flags are read from the system, not from the package the dispatch reads
// them with, so that a mistake there cannot hide itself.
func TestAMachineThatCanRunAnImplementationDoes(t *testing.T) {
	aux, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		t.Skipf("no processor flags to compare with: %v", err)
	}
	const hwcap, dotProduct = 16, 1 << 20 // AT_HWCAP, HWCAP_ASIMDDP
	var flags uint64
	for ; len(aux) >= 16; aux = aux[16:] {
		if binary.LittleEndian.Uint64(aux) == hwcap {
			flags = binary.LittleEndian.Uint64(aux[8:])
		}
	}
	var found bool
	for _, k := range tables() {
		found = found || k.name == "neon"
	}
	require.Equal(t, flags&dotProduct != 0, found, "neon: the system's flags are %#x", flags)
}
