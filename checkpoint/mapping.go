package checkpoint

import (
	"os"
	"sync"
	"unsafe"
)

// A mapping is the contents of one file, mapped into memory or read.
type mapping struct {
	data   []byte
	mapped bool // data came from mmap

	mu     sync.RWMutex // held for reading while pages are dropped
	closed bool
}

// drop advises that data[from:to], a part of the mapping, will not be needed
// soon. The range is widened down to page borders on both ends, so that calls
// for adjoining ranges leave no page between them. After close it must not
// touch the addresses, which may belong to somebody else by then.
func (m *mapping) drop(data []byte, from, to int) {
	if m == nil || !m.mapped {
		return
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return
	}
	base := offsetIn(m.data, data)
	page := os.Getpagesize()
	from, to = (base+from)/page*page, (base+to)/page*page
	if from < to {
		adviseUnneeded(m.data[from:to])
	}
}

// offsetIn returns where part starts inside whole.
func offsetIn(whole, part []byte) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(whole))))
}

// close unmaps; it may be called more than once.
func (m *mapping) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || !m.mapped {
		m.closed = true
		return nil
	}
	m.closed = true
	return unmap(m.data)
}
