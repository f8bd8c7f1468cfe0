//go:build !unix

package checkpoint

import (
	"fmt"
	"os"
)

// mapFile reads a whole file: this system has no mapping we use.
func mapFile(path string) (*mapping, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a regular file", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return &mapping{data: data}, nil
}

func unmap([]byte) error { return nil }

func adviseUnneeded([]byte) {}
