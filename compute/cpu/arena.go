package cpu

import (
	"errors"
	"fmt"
	"unsafe"
)

const (
	hugePage   = 2 << 20
	arenaBytes = 64 << 20
)

// arenas hand out zeroed memory outside the heap, in large anonymous mappings
// with huge pages (5–15 % of bandwidth). Only pages that are touched take memory.
type arenas struct {
	maps []mapping
	free []byte // the rest of the newest arena
}

// mapping is one anonymous mapping; mem is the part that is used.
type mapping struct{ whole, mem []byte }

// newMapping maps n bytes, aligned to a huge page.
func newMapping(n int) (mapping, error) {
	if n < 0 || n > 1<<46 {
		return mapping{}, fmt.Errorf("%d bytes of memory: want 0 to 2^46", n)
	}
	whole, err := mapMemory(n + hugePage)
	if err != nil {
		return mapping{}, fmt.Errorf("map %d bytes: %w", n, err)
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
	skip := int(-at & (hugePage - 1))
	m := mapping{whole: whole, mem: whole[skip : skip+n : skip+n]}
	adviseHuge(m.mem)
	return m, nil
}

func (m mapping) close() error { return unmapMemory(m.whole) }

// alloc gives n bytes aligned to a cache line.
func (a *arenas) alloc(n int) ([]byte, error) {
	n = roundLine(n)
	if n > len(a.free) {
		m, err := newMapping(max(arenaBytes, (n+hugePage-1)&^(hugePage-1)))
		if err != nil {
			return nil, err
		}
		a.maps = append(a.maps, m)
		if n > arenaBytes/2 && n <= len(m.mem) && len(a.free) > len(m.mem)-n {
			return m.mem[:n:n], nil // the older arena has more left
		}
		a.free = m.mem
	}
	mem := a.free[:n:n]
	a.free = a.free[n:]
	return mem, nil
}

func (a *arenas) close() error {
	var errs []error
	for _, m := range a.maps {
		errs = append(errs, m.close())
	}
	*a = arenas{}
	return errors.Join(errs...)
}

// alignedFloats gives n values on the heap, aligned to a cache line.
func alignedFloats(n int) []float32 {
	mem := make([]float32, n+lineBytes/4)
	at := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	skip := int(-at&(lineBytes-1)) / 4
	return mem[skip : skip+n : skip+n]
}
