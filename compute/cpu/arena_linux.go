package cpu

import "golang.org/x/sys/unix"

func mapMemory(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
}

func unmapMemory(mem []byte) error { return unix.Munmap(mem) }

// adviseHuge asks for huge pages; a kernel without them says no, and that is
// only slower.
func adviseHuge(mem []byte) {
	if len(mem) >= hugePage {
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	}
}
