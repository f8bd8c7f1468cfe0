package cpu

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"surmise/compute"
	"surmise/compute/conformance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every implementation this machine has gives the bits of the canon.
func TestConformance(t *testing.T) {
	for _, i := range implementations() {
		if !i.available {
			continue
		}
		t.Run(i.name, func(t *testing.T) {
			conformance.Run(t, func(threads int) compute.Device {
				d, err := New(Options{Threads: threads, ISA: i.name})
				require.NoError(t, err)
				return d
			})
		})
	}
}

func TestNewRefusesWhatItCannotDo(t *testing.T) {
	_, err := New(Options{Threads: -1})
	require.ErrorContains(t, err, "-1 threads")
	_, err = New(Options{ISA: "mmx"})
	require.ErrorContains(t, err, "mmx")
	require.ErrorContains(t, err, "generic", "the error says what would be valid")
}

func TestZeroThreadsMeansAllCores(t *testing.T) {
	d, err := New(Options{})
	require.NoError(t, err)
	require.Equal(t, runtime.GOMAXPROCS(0), d.Threads())
	require.NoError(t, d.Close())
}

func TestClosedDeviceRefusesPrograms(t *testing.T) {
	d, err := New(Options{Threads: 2})
	require.NoError(t, err)
	require.NoError(t, d.Close())
	require.NoError(t, d.Close(), "closing twice is fine")
	require.Error(t, d.Run(&compute.Program{}))
}
