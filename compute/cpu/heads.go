package cpu

import "surmise/compute"

// headPhase prepares attention: it norms and turns heads and stores keys and
// values. It is cut by heads and not by rows alone, because neighbouring
// positions lie side by side in the cache's groups: workers with neighbouring
// rows would fight over every cache line. A task is (key/value head, its queries
// or its key and value, run of rows).
type headPhase struct {
	store  *compute.Op
	kv     *kv
	attend *compute.Op // or nil

	firstOp, ops int // the operations on single heads that come before, in Device.plan.headOps
	pieces       int64
}

// headRows is the least number of rows that is worth a task of its own: a group
// of positions.
const headRows = groupRows

// headOp is an operation that works on heads in place, one by one.
type headOp struct {
	op *compute.Op
	// query and key are the unit of op that is the first query or key head; a
	// negative or too large unit is none.
	query, key int
}

// addStore remembers a StoreKV operation until it is known whether attention
// follows.
func (p *plan) addStore(o *compute.Op, k *kv) { p.pending = headPhase{store: o, kv: k} }

// flushStore makes a phase of a StoreKV operation that no attention follows.
func (p *plan) flushStore(threads int) {
	if h := p.pending; h.store != nil {
		p.pending = headPhase{}
		p.closeRows(threads)
		p.addHeads(h, threads)
	}
}

// addHeadsFor makes a phase of what was just stored for the attention o, with
// the operations on q and k just before.
func (p *plan) addHeadsFor(o *compute.Op, k *kv, threads int) {
	h := p.pending
	if h.store == nil || h.kv != k || h.store.Rows != o.Rows {
		p.flushStore(threads)
		return
	}
	p.pending = headPhase{}
	h.attend = o
	p.takeHeadOps(&h)
	p.closeRows(threads)
	p.addHeads(h, threads)
}

// takeHeadOps moves the open operations on single heads of q and k into h, from
// the last one back to the first that is something else.
func (p *plan) takeHeadOps(h *headPhase) {
	n := len(p.rows)
	h.firstOp = len(p.headOps)
	for ; n > p.open; n-- {
		x, ok := h.headOp(&p.rows[n-1])
		if !ok {
			break
		}
		p.headOps = append(p.headOps, x)
		h.ops++
	}
	p.rows = p.rows[:n]
	for i, j := h.firstOp, h.firstOp+h.ops-1; i < j; i, j = i+1, j-1 {
		p.headOps[i], p.headOps[j] = p.headOps[j], p.headOps[i]
	}
}

// headOp tells whether w can be done head by head: in place, on nothing but
// whole heads of h's queries and keys.
func (h *headPhase) headOp(w *rowWork) (headOp, bool) {
	o, dim := w.op, h.kv.spec.HeadDim
	if w.kind != rowOp || w.from != 0 || w.to != h.attend.Rows || o.Dst != o.A {
		return headOp{}, false
	}
	switch o.Kind {
	case compute.OpNorm:
		if o.Vec.Len() != dim {
			return headOp{}, false
		}
	case compute.OpRotary:
		if o.A.Cols != o.Heads*dim {
			return headOp{}, false
		}
	default:
		return headOp{}, false
	}
	if compute.Overlap(o.A, o.Rows, h.store.B, h.store.Rows) {
		return headOp{}, false // it changes values
	}
	x := headOp{op: o, query: -1 - h.attend.Heads, key: -1 - h.kv.spec.Heads}
	units := o.A.Cols / dim
	found := 0
	if first, n := commonHeads(o.A, h.attend.A, dim); n > 0 {
		x.query, found = first, found+n
	}
	if first, n := commonHeads(o.A, h.store.A, dim); n > 0 {
		x.key, found = first, found+n
	}
	return x, found == units && !compute.Overlap(h.attend.A, h.attend.Rows, h.store.A, h.store.Rows)
}

// commonHeads gives the unit of a that is b's first head, which may lie outside
// of a, and how many heads the views share. Both are rows of heads of dim.
func commonHeads(a, b compute.View, dim int) (first, n int) {
	if a.Buf != b.Buf || a.Stride != b.Stride || a.Stride == 0 || (b.Off-a.Off)%dim != 0 {
		return 0, 0
	}
	ca, cb := a.Off%a.Stride, b.Off%b.Stride
	if a.Off-ca != b.Off-cb || ca+a.Cols > a.Stride || cb+b.Cols > b.Stride {
		return 0, 0
	}
	return (cb - ca) / dim, (min(ca+a.Cols, cb+b.Cols) - max(ca, cb)) / dim
}

func (p *plan) addHeads(h headPhase, threads int) {
	h.pieces = int64(min(h.tasks(), 8*threads))
	p.heads = append(p.heads, h)
	p.add(phaseHeads, len(p.heads)-1, h.pieces)
}

// tasks is (runs of rows) · (key/value heads) · (1, or 2 if queries need work).
func (h *headPhase) tasks() int { return h.runs() * h.kv.spec.Heads * h.kinds() }

func (h *headPhase) runs() int { return max(1, h.store.Rows/headRows) }

func (h *headPhase) kinds() int { return 1 + min(h.ops, 1) }

// work does piece i: a range of tasks.
func (h *headPhase) work(d *Device, w *workspace, i int64) {
	n, runs, kinds, rows := int64(h.tasks()), h.runs(), h.kinds(), h.store.Rows
	for t := n * i / h.pieces; t < n*(i+1)/h.pieces; t++ {
		run, head, kind := int(t)%runs, int(t)/runs/kinds, int(t)/runs%kinds
		for r := rows * run / runs; r < rows*(run+1)/runs; r++ {
			if kind == 0 {
				h.keyAndValue(d, r, head, w.half)
			} else {
				h.queries(d, r, head)
			}
		}
	}
}

// keyAndValue prepares and stores row r's key and value of a head.
func (h *headPhase) keyAndValue(d *Device, r, head int, tmp []uint16) {
	for i := range h.ops {
		x := &d.plan.headOps[h.firstOp+i]
		x.do(d.kernels, r, x.key+head, h.kv.spec.HeadDim)
	}
	dim := h.kv.spec.HeadDim
	key, value := h.store.A.Row(r)[head*dim:(head+1)*dim], h.store.B.Row(r)[head*dim:(head+1)*dim]
	h.kv.store(d.kernels, h.store.Layer, int(h.store.Index[r]), head, key, value, tmp)
}

// queries prepares row r's queries that share a key/value head.
func (h *headPhase) queries(d *Device, r, head int) {
	share := h.attend.Heads / h.kv.spec.Heads
	for g := range share {
		for i := range h.ops {
			x := &d.plan.headOps[h.firstOp+i]
			x.do(d.kernels, r, x.query+head*share+g, h.kv.spec.HeadDim)
		}
	}
}

// do works on unit j of row r, if there is such a unit.
func (x *headOp) do(k *kernels, r, j, dim int) {
	o := x.op
	row := o.A.Row(r)
	if j < 0 || (j+1)*dim > len(row) {
		return
	}
	head := row[j*dim : (j+1)*dim]
	if o.Kind == compute.OpNorm {
		k.norm(head, head, o.Vec.Host(), o.Scale)
		return
	}
	half := o.Layer / 2
	t := o.Vec.Host()[int(o.Index[r])*o.Layer:][:o.Layer]
	k.rotary(head, t[:half], t[half:])
}

// store writes one head's key and value to a slot; tmp is scratch of HeadDim.
func (k *kv) store(kern *kernels, layer, slot, head int, key, value []float32, tmp []uint16) {
	page, pos, dim := slot/pageSize, slot%pageSize, k.spec.HeadDim
	kAt := k.keysAt(page, layer, head) + pos/groupRows*groupRows*dim + pos%groupRows
	vAt := k.valuesAt(page, layer, head) + pos*dim
	if k.half == nil {
		scatter(k.float[kAt:], key)
		copy(k.float[vAt:vAt+dim], value)
		return
	}
	kern.toHalf(tmp[:dim], key)
	scatter(k.half[kAt:], tmp[:dim])
	kern.toHalf(k.half[vAt:vAt+dim], value)
}

// scatter writes src to every 16th element of dst.
func scatter[T any](dst, src []T) {
	for d, v := range src {
		dst[d*groupRows] = v
	}
}
