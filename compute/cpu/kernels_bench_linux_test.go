package cpu

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// threadSeconds is the processor time of the calling goroutine's thread, to
// which it stays bound.
func threadSeconds(b *testing.B) float64 {
	runtime.LockOSThread()
	var t unix.Timespec
	require.NoError(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
	return float64(t.Nano()) / 1e9
}
