//go:build !unix

package main

import "time"

// processorTime is the time on the wall where a process's own cannot be had.
func processorTime() time.Duration { return time.Since(began) }
