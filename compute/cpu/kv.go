package cpu

import (
	"fmt"
	"unsafe"

	"surmise/compute"
	"surmise/compute/canon"
)

// kv is a page store. A page is contiguous: for each layer the keys of all
// heads and then their values. The keys of a head are [16-position group][dim][16],
// its values [position][dim], so that lanes are positions for scores and
// dimensions for values.
type kv struct {
	spec compute.KVSpec
	mem  mapping
	// One of half and float is the memory, by the store's type.
	half  []uint16
	float []float32

	headSize  int // elements of one head's keys (or values) in a page
	layerSize int
	pageElems int
}

func newKV(spec compute.KVSpec) (*kv, error) {
	if err := compute.CheckKVSpec(spec); err != nil {
		return nil, err
	}
	if spec.HeadDim > maxHeadDim {
		return nil, fmt.Errorf("kv store: head dimension is %d, want at most %d", spec.HeadDim, maxHeadDim)
	}
	k := &kv{spec: spec, headSize: pageSize * spec.HeadDim}
	k.layerSize = 2 * spec.Heads * k.headSize
	k.pageElems = spec.Layers * k.layerSize
	var err error
	if k.mem, err = newMapping(spec.Pages * k.pageElems * spec.Type.Bytes()); err != nil {
		return nil, fmt.Errorf("kv store of %d pages: %w", spec.Pages, err)
	}
	n, base := spec.Pages*k.pageElems, unsafe.Pointer(unsafe.SliceData(k.mem.mem))
	if spec.Type == compute.KVF32 {
		k.float = unsafe.Slice((*float32)(base), n)
	} else {
		k.half = unsafe.Slice((*uint16)(base), n)
	}
	return k, nil
}

func (k *kv) Spec() compute.KVSpec { return k.spec }

// CopyPage copies a whole page.
func (k *kv) CopyPage(dst, src int) {
	n := k.pageElems
	if k.half != nil {
		copy(k.half[dst*n:(dst+1)*n], k.half[src*n:(src+1)*n])
	} else {
		copy(k.float[dst*n:(dst+1)*n], k.float[src*n:(src+1)*n])
	}
}

// FillPage sets every element of a page.
func (k *kv) FillPage(page int, v float32) {
	from, to := page*k.pageElems, (page+1)*k.pageElems
	if k.half == nil {
		fill(k.float[from:to], v)
		return
	}
	fill(k.half[from:to], canon.ToF16(v))
}

func fill[T any](s []T, v T) {
	for i := range s {
		s[i] = v
	}
}

// Close unmaps the store.
func (k *kv) Close() error {
	m := k.mem
	k.mem, k.half, k.float = mapping{}, nil, nil
	if m.whole == nil {
		return nil
	}
	return m.close()
}

// keysAt and valuesAt give where a head's block of a page and layer begins.
func (k *kv) keysAt(page, layer, head int) int {
	return page*k.pageElems + layer*k.layerSize + head*k.headSize
}

func (k *kv) valuesAt(page, layer, head int) int {
	return k.keysAt(page, layer, head) + k.spec.Heads*k.headSize
}
