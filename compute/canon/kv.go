package canon

import (
	"fmt"

	"surmise/compute"
)

// kv stores the logical values of each (page, layer): keys of slot 0, head 0;
// slot 0, head 1; … and then values likewise. A page's memory appears when it is
// first written.
type kv struct {
	spec  compute.KVSpec
	pages [][]float32
}

func (d *device) NewKV(spec compute.KVSpec) (compute.KV, error) {
	if err := compute.CheckKVSpec(spec); err != nil {
		return nil, err
	}
	return &kv{spec: spec, pages: make([][]float32, spec.Pages)}, nil
}

func (k *kv) Spec() compute.KVSpec { return k.spec }
func (k *kv) Close() error         { k.pages = nil; return nil }

func (k *kv) page(p int) []float32 {
	if k.pages[p] == nil {
		k.pages[p] = make([]float32, 2*k.spec.Layers*compute.PageSize*k.spec.Heads*k.spec.HeadDim)
	}
	return k.pages[p]
}

// at gives one head's key (which 0) or value (which 1) of a slot.
func (k *kv) at(layer, slot, which, head int) []float32 {
	n := k.spec.HeadDim
	i := ((layer*2+which)*compute.PageSize+slot%compute.PageSize)*k.spec.Heads + head
	return k.page(slot / compute.PageSize)[i*n : (i+1)*n]
}

func (k *kv) round(v float32) float32 {
	if k.spec.Type == compute.KVF16 {
		return F16(ToF16(v))
	}
	return v
}

func (k *kv) CopyPage(dst, src int) { copy(k.page(dst), k.page(src)) }

func (k *kv) FillPage(page int, v float32) {
	p := k.page(page)
	for i := range p {
		p[i] = k.round(v)
	}
}

func runStoreKV(o *compute.Op) error {
	k, ok := o.KV.(*kv)
	if !ok {
		return fmt.Errorf("key/value store %T is not this device's", o.KV)
	}
	n := k.spec.HeadDim
	for r := range o.Rows {
		for which, row := range [2][]float32{o.A.Row(r), o.B.Row(r)} {
			for h := range k.spec.Heads {
				dst := k.at(o.Layer, int(o.Index[r]), which, h)
				for d, v := range row[h*n : (h+1)*n] {
					dst[d] = k.round(v)
				}
			}
		}
	}
	return nil
}

func runAttend(o *compute.Op) error {
	k, ok := o.KV.(*kv)
	if !ok {
		return fmt.Errorf("key/value store %T is not this device's", o.KV)
	}
	n, share := k.spec.HeadDim, o.Heads/k.spec.Heads
	for r := range o.Rows {
		s, q, dst := &o.Spans[r], o.A.Row(r), o.Dst.Row(r)
		for h := range o.Heads {
			vec := func(which int) func(j int) []float32 {
				return func(j int) []float32 {
					slot := int(s.Pages[j/compute.PageSize])*compute.PageSize + j%compute.PageSize
					return k.at(o.Layer, slot, which, h/share)
				}
			}
			Attend(dst[h*n:(h+1)*n], q[h*n:(h+1)*n], o.Scale, int(s.Lo), int(s.Hi), vec(0), vec(1))
		}
	}
	return nil
}
