package cpu

import "surmise/compute"

// headPhase stores keys and values and spreads queries over the tiles of
// attention. It is cut by heads and dimensions and not by rows: the rows of a
// block lie side by side in the cache's groups of positions and in the tiles, so
// that workers with neighbouring rows would fight over every cache line.
type headPhase struct {
	store *compute.Op // or nil
	kv    *kv

	attend *compute.Op // or nil
	plan   *attendPlan

	pieces int64
}

// headColumns is how many dimensions of a head are worked off at once: a cache
// line of f16.
const headColumns = 32

// blocks cuts heads of dim into runs of width dimensions.
func headBlocks(spec compute.KVSpec) (n, width int) {
	width = spec.HeadDim
	if width%headColumns == 0 {
		width = headColumns
	}
	return spec.Heads * (spec.HeadDim / width), width
}

// addStore makes a phase of a StoreKV operation.
func (p *plan) addStore(o *compute.Op, k *kv, threads int) {
	p.closeRows(threads)
	p.addHeads(headPhase{store: o, kv: k}, threads)
}

// addQueries spreads the queries of o, in the phase that has just stored keys
// and values if there is one.
func (p *plan) addQueries(o *compute.Op, k *kv, a *attendPlan, threads int) {
	p.closeRows(threads)
	if n := len(p.phases); n > 0 && p.phases[n-1].kind == phaseHeads {
		if h := &p.heads[p.phases[n-1].index]; h.kv == k && h.attend == nil {
			h.attend, h.plan = o, a
			return
		}
	}
	p.addHeads(headPhase{kv: k, attend: o, plan: a}, threads)
}

func (p *plan) addHeads(h headPhase, threads int) {
	n, _ := headBlocks(h.kv.spec)
	h.pieces = int64(min(n, 4*threads))
	p.heads = append(p.heads, h)
	p.add(phaseHeads, len(p.heads)-1, h.pieces)
}

// work does piece i: a run of blocks of dimensions.
func (h *headPhase) work(d *Device, w *workspace, i int64) {
	n, width := headBlocks(h.kv.spec)
	perHead := h.kv.spec.HeadDim / width
	for b := int64(n) * i / h.pieces; b < int64(n)*(i+1)/h.pieces; b++ {
		head, from := int(b)/perHead, int(b)%perHead*width
		if h.store != nil {
			h.kv.store(d.kernels, h.store, head, from, width, w.half)
		}
		if h.attend != nil {
			h.plan.spreadQueries(d.queries, h.attend, head, from, from+width)
		}
	}
}

// store writes dimensions from … from+n−1 of one head's keys and values of all
// rows to their slots; tmp is scratch of at least n.
func (k *kv) store(kern *kernels, o *compute.Op, head, from, n int, tmp []uint16) {
	dim := k.spec.HeadDim
	for r, slot := range o.Index {
		page, pos := int(slot)/pageSize, int(slot)%pageSize
		column := head*dim + from
		key, value := o.A.Row(r)[column:column+n], o.B.Row(r)[column:column+n]
		kAt := k.keysAt(page, o.Layer, head) + (pos/groupRows*dim+from)*groupRows + pos%groupRows
		vAt := k.valuesAt(page, o.Layer, head) + pos*dim + from
		if k.half == nil {
			scatter(k.float[kAt:], key)
			copy(k.float[vAt:vAt+n], value)
			continue
		}
		kern.toHalf(tmp[:n], key)
		scatter(k.half[kAt:], tmp[:n])
		kern.toHalf(k.half[vAt:vAt+n], value)
	}
}

// scatter writes src to every 16th element of dst.
func scatter[T any](dst, src []T) {
	for d, v := range src {
		dst[d*groupRows] = v
	}
}

// spreadQueries scales dimensions from ≤ i < to of the query heads that share a
// key/value head, and puts them where its tiles want them: [dim][pairs].
func (a *attendPlan) spreadQueries(queries []float32, o *compute.Op, head, from, to int) {
	var src [maxPairs][]float32
	for i := range a.bundles {
		b := &a.bundles[i]
		pairs := b.rows * a.share
		for t := range b.tiles.tiles {
			first, n := b.tiles.tile(t)
			for p := range n {
				row, column := b.row+(first+p)/a.share, (head*a.share+(first+p)%a.share)*a.dim
				src[p] = o.A.Row(row)[column+from : column+to]
			}
			dst := queries[b.query+(head*pairs+first)*a.dim+from*n:][:(to-from)*n]
			for p, s := range src[:n] {
				for i, at := 0, p; i < len(s) && at < len(dst); i, at = i+1, at+n {
					dst[at] = float32(s[i] * o.Scale)
				}
			}
		}
	}
}
