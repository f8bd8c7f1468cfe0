package cpu

import (
	"surmise/compute"
)

// rowKind is a piece of work on one row: an operation of the program, or what
// the device needs before or after one of its own phases.
type rowKind uint8

const (
	rowOp       rowKind = iota // op itself
	rowQuantize                // input of a linear layer → activations
	rowCombine                 // chunks of attention → output
	rowArgmax                  // pieces of a row's argmax → result
)

// rowWork is done for rows from ≤ r < to, each by itself.
type rowWork struct {
	kind     rowKind
	from, to int
	op       *compute.Op
	index    int         // of the linear or argmax phase it serves
	plan     *attendPlan // of attention
	table    *table
}

// access is what a rowWork reads or writes of a view.
type access struct {
	view  compute.View
	rows  int
	write bool
	any   bool // any row of the view, not only the one worked on
}

// accesses lists them in dst.
func (w *rowWork) accesses(dst []access) []access {
	o := w.op
	if o.Rows == 0 {
		return dst
	}
	switch w.kind {
	case rowQuantize:
		return append(dst, access{view: o.A, rows: o.Rows})
	case rowCombine:
		return append(dst, access{view: o.Dst, rows: o.Rows, write: true})
	case rowArgmax:
		return dst
	}
	switch o.Kind {
	case compute.OpEmbed:
		return append(dst, access{view: o.Dst, rows: o.Rows, write: true})
	case compute.OpGather:
		top := int32(0)
		for _, i := range o.Index {
			top = max(top, i)
		}
		dst = append(dst, access{view: o.A, rows: int(top) + 1, any: true})
	case compute.OpGate, compute.OpAdd:
		dst = append(dst, access{view: o.A, rows: o.Rows}, access{view: o.B, rows: o.Rows})
	default:
		dst = append(dst, access{view: o.A, rows: o.Rows})
	}
	return append(dst, access{view: o.Dst, rows: o.Rows, write: true})
}

// conflicts tells whether a and b must not be in one phase of rows: they touch
// the same memory, at least one writes, and not row on row.
func (a *access) conflicts(b *access) bool {
	if !a.write && !b.write || a.view.Buf != b.view.Buf {
		return false
	}
	if !a.any && !b.any && rowAligned(&a.view, &b.view, a.rows == 1 && b.rows == 1) {
		return false
	}
	return compute.Overlap(a.view, a.rows, b.view, b.rows)
}

// rowAligned tells whether row r of a can only share memory with row r of b.
func rowAligned(a, b *compute.View, single bool) bool {
	if single {
		return true
	}
	if a.Stride != b.Stride || a.Stride == 0 {
		return false
	}
	ca, cb := a.Off%a.Stride, b.Off%b.Stride
	return a.Off-ca == b.Off-cb && ca+a.Cols <= a.Stride && cb+b.Cols <= b.Stride
}

// rowPhase is a run of rowWork and the rows it spans.
type rowPhase struct {
	first, end int // of Device.plan.rows
	from, to   int
	pieces     int64
}

func (p *rowPhase) work(d *Device, i int64) {
	n := int64(p.to - p.from)
	for r := n * i / p.pieces; r < n*(i+1)/p.pieces; r++ {
		row := p.from + int(r)
		for j := p.first; j < p.end; j++ {
			if x := &d.plan.rows[j]; row >= x.from && row < x.to {
				x.do(d, row)
			}
		}
	}
}

func (x *rowWork) do(d *Device, r int) {
	o, k := x.op, d.kernels
	switch x.kind {
	case rowQuantize:
		l := &d.plan.linears[x.index]
		if l.w.quantized {
			l.acts.setRow(k, r, o.A.Row(r))
		}
		if l.w.float {
			l.acts.setFloatRow(r, o.A.Row(r))
		}
	case rowCombine:
		x.plan.combine(d, o.Dst.Row(r), r)
	case rowArgmax:
		d.plan.argmaxes[x.index].join(d.best, r)
	default:
		x.operation(k, r)
	}
}

// operation does row r of an operation of the program.
func (x *rowWork) operation(k *kernels, r int) {
	o := x.op
	switch o.Kind {
	case compute.OpEmbed:
		dst := o.Dst.Row(r)
		x.table.t.Float32Row(int(o.Index[r]), dst)
		if o.Scale != 1 {
			k.scale(dst, dst, o.Scale)
		}
	case compute.OpNorm:
		dst, src, weight := o.Dst.Row(r), o.A.Row(r), o.Vec.Host()
		for n := len(weight); len(src) > 0; dst, src = dst[n:], src[n:] {
			k.norm(dst[:n], src[:n], weight, o.Scale)
		}
	case compute.OpRotary:
		row, half := o.A.Row(r), o.Layer/2
		t := o.Vec.Host()[int(o.Index[r])*o.Layer:][:o.Layer]
		for n := len(row) / o.Heads; len(row) > 0; row = row[n:] {
			k.rotary(row[:n], t[:half], t[half:])
		}
	case compute.OpGate:
		k.gate(o.Dst.Row(r), o.A.Row(r), o.B.Row(r), o.Act)
	case compute.OpAdd:
		k.add(o.Dst.Row(r), o.A.Row(r), o.B.Row(r))
	case compute.OpScale:
		k.scale(o.Dst.Row(r), o.A.Row(r), o.Scale)
	case compute.OpCopy:
		copy(o.Dst.Row(r), o.A.Row(r))
	case compute.OpGather:
		copy(o.Dst.Row(r), o.A.Row(int(o.Index[r])))
	}
}

// argmaxColumns is the length of the pieces a wide row is searched in.
const argmaxColumns = 16 << 10

// argmaxPhase finds the best column of each piece of each row.
type argmaxPhase struct {
	op     *compute.Op
	pieces int // of a row
	from   int // where its results begin in Device.best
}

func (p *argmaxPhase) work(d *Device, i int64) {
	r, c := int(i)/p.pieces, int(i)%p.pieces*argmaxColumns
	row := p.op.A.Row(r)
	best := d.kernels.argmax(row[c:min(c+argmaxColumns, len(row))])
	if best >= 0 {
		best += int32(c)
	}
	d.best[p.from+int(i)] = best
}

// join finds the best of a row's pieces; a NaN in any piece is one of the row.
func (p *argmaxPhase) join(found []int32, r int) {
	row, best := p.op.A.Row(r), int32(-1)
	for _, b := range found[p.from+r*p.pieces:][:p.pieces] {
		if b < 0 {
			best = -1
			break
		}
		if best < 0 || row[b] > row[best] {
			best = b
		}
	}
	p.op.Index[r] = best
}
