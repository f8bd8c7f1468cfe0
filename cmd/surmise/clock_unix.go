//go:build unix

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the processor time this process has used.
func cpuTime() (time.Duration, bool) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
