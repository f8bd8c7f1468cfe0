//go:build unix && !linux

package cpu

import "golang.org/x/sys/unix"

func mapMemory(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

func unmapMemory(mem []byte) error { return unix.Munmap(mem) }

func adviseHuge([]byte) {}
