//go:build !purego

package cpu

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The flags are read from the system, not from the package the dispatch reads
// them with, so that a mistake there cannot hide itself.
func TestAMachineThatCanRunAnImplementationDoes(t *testing.T) {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Skipf("no processor flags to compare with: %v", err)
	}
	var flags string
	for line := range strings.Lines(string(info)) {
		if strings.HasPrefix(line, "flags") {
			flags = " " + strings.TrimSpace(line) + " "
			break
		}
	}
	has := func(names ...string) bool {
		for _, n := range names {
			if !strings.Contains(flags, " "+n+" ") {
				return false
			}
		}
		return true
	}
	wanted := map[string]bool{
		"avx512":  has("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "fma"),
		"avx2":    has("avx2", "fma", "f16c"),
		"generic": true,
	}
	found := map[string]bool{}
	for _, k := range tables() {
		found[k.name] = true
	}
	for name, want := range wanted {
		require.Equal(t, want, found[name], "%s: flags say %v, registration %v", name, want, found[name])
	}
}
