package kvcache_test

import (
	"errors"

	"surmise/checkpoint"
	"surmise/compute"
)

// fakeDevice stands in for hardware: its page stores hold one number per slot,
// which the tests set to the token that a forward would have written there.
type fakeDevice struct{ stores []*fakeKV }

type fakeKV struct {
	spec   compute.KVSpec
	slots  map[int32]int32
	copies int
	closed bool
}

func (d *fakeDevice) NewKV(spec compute.KVSpec) (compute.KV, error) {
	if spec.Pages < 1 {
		return nil, errors.New("no pages")
	}
	kv := &fakeKV{spec: spec, slots: map[int32]int32{}}
	d.stores = append(d.stores, kv)
	return kv, nil
}

func (k *fakeKV) Spec() compute.KVSpec { return k.spec }

func (k *fakeKV) CopyPage(dst, src int) {
	k.copies++
	for i := range int32(compute.PageSize) {
		k.slots[int32(dst)*compute.PageSize+i] = k.slots[int32(src)*compute.PageSize+i]
	}
}

func (k *fakeKV) FillPage(page int, v float32) {
	for i := range int32(compute.PageSize) {
		k.slots[int32(page)*compute.PageSize+i] = int32(v)
	}
}

func (k *fakeKV) Close() error {
	k.closed = true
	return nil
}

func (d *fakeDevice) Name() string                      { return "fake" }
func (d *fakeDevice) Threads() int                      { return 1 }
func (d *fakeDevice) Alloc(int) (compute.Buffer, error) { return nil, errors.ErrUnsupported }
func (d *fakeDevice) LoadLinear(...compute.LinearPart) (compute.Linear, error) {
	return nil, errors.ErrUnsupported
}

func (d *fakeDevice) LoadTable(*checkpoint.Tensor) (compute.Table, error) {
	return nil, errors.ErrUnsupported
}
func (d *fakeDevice) Run(*compute.Program) error { return errors.ErrUnsupported }
func (d *fakeDevice) Close() error               { return nil }
