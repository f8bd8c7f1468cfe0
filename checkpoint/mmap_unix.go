//go:build unix

package checkpoint

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// mapFile maps a whole file read only. The mapping of an empty file is empty
// memory.
func mapFile(path string) (*mapping, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if size == 0 {
		return &mapping{}, nil
	}
	if size > math.MaxInt {
		return nil, fmt.Errorf("%s: %d bytes do not fit this system's address space", path, size)
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return &mapping{data: data, mapped: true}, nil
}

func unmap(data []byte) error { return unix.Munmap(data) }

// adviseUnneeded drops pages from this process; for a read-only file mapping
// they can always be read again.
func adviseUnneeded(pages []byte) { _ = unix.Madvise(pages, unix.MADV_DONTNEED) }
