//go:build !unix

package cpu

import "fmt"

// mapMemory takes memory from the heap, which commits it when it is touched.
func mapMemory(n int) (mem []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return make([]byte, n), nil
}

func unmapMemory([]byte) error { return nil }

func adviseHuge([]byte) {}
