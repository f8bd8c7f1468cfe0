package cpu

import (
	"fmt"

	"surmise/compute"
)

// phaseKind says which list of a plan a phase is in.
type phaseKind uint8

const (
	phaseRows phaseKind = iota
	phaseLinear
	phaseHeads
	phaseAttend
	phaseArgmax
)

// phase is a run of pieces between two barriers.
type phase struct {
	kind       phaseKind
	index      int   // in the plan's list of that kind
	start, end int64 // its pieces, numbered through the whole plan
}

// plan is a program cut into phases. Its memory is used again for the next.
type plan struct {
	phases   []phase
	rows     []rowWork
	rowRuns  []rowPhase
	linears  []linearPhase
	heads    []headPhase
	headOps  []headOp
	pending  headPhase // of a StoreKV operation, while it is the last one
	attends  []attendPhase
	argmaxes []argmaxPhase

	open     int      // first of rows that is in no phase yet
	accesses []access // of the open rows
	scratch  []access

	attendPlans []*attendPlan
	plansUsed   int
}

func (p *plan) reset() {
	clear(p.rows) // let go of the last program's buffers
	clear(p.heads)
	clear(p.headOps)
	p.heads, p.headOps, p.pending = p.heads[:0], p.headOps[:0], headPhase{}
	p.phases, p.rows, p.rowRuns = p.phases[:0], p.rows[:0], p.rowRuns[:0]
	p.linears, p.attends, p.argmaxes = p.linears[:0], p.attends[:0], p.argmaxes[:0]
	p.open, p.plansUsed = 0, 0
	p.accesses = p.accesses[:0]
}

// total is the number of pieces.
func (p *plan) total() int64 {
	if len(p.phases) == 0 {
		return 0
	}
	return p.phases[len(p.phases)-1].end
}

func (p *plan) add(kind phaseKind, index int, pieces int64) {
	start := p.total()
	p.phases = append(p.phases, phase{kind, index, start, start + pieces})
}

// addRow appends work on rows, beginning a new phase where it must not run
// together with what is open.
func (p *plan) addRow(w rowWork, threads int) {
	if w.from >= w.to {
		return
	}
	p.scratch = w.accesses(p.scratch[:0])
	if p.open < len(p.rows) && p.anyConflict() {
		p.closeRows(threads)
	}
	p.rows = append(p.rows, w)
	p.accesses = append(p.accesses, p.scratch...)
}

func (p *plan) anyConflict() bool {
	for i := range p.scratch {
		for j := range p.accesses {
			if p.scratch[i].conflicts(&p.accesses[j]) {
				return true
			}
		}
	}
	return false
}

// closeRows makes a phase of the open rows.
func (p *plan) closeRows(threads int) {
	if p.open == len(p.rows) {
		return
	}
	run := rowPhase{first: p.open, end: len(p.rows), from: p.rows[p.open].from, to: p.rows[p.open].to}
	for i := p.open; i < len(p.rows); i++ {
		run.from, run.to = min(run.from, p.rows[i].from), max(run.to, p.rows[i].to)
	}
	run.pieces = rowPieces(run.to-run.from, threads)
	p.rowRuns = append(p.rowRuns, run)
	p.add(phaseRows, len(p.rowRuns)-1, run.pieces)
	p.open, p.accesses = len(p.rows), p.accesses[:0]
}

// rowPieces takes neighbouring rows together where there are enough, as their
// quantized activations share cache lines.
func rowPieces(rows, threads int) int64 {
	return int64(min(max((rows+1)/2, min(rows, threads)), 4*threads))
}

// attendPlan finds or makes the plan for an attention operation.
func (p *plan) attendPlan(o *compute.Op, spec compute.KVSpec, threads int) *attendPlan {
	for _, a := range p.attendPlans[:p.plansUsed] {
		if a.matches(o, spec) {
			return a
		}
	}
	if p.plansUsed == len(p.attendPlans) {
		p.attendPlans = append(p.attendPlans, new(attendPlan))
	}
	a := p.attendPlans[p.plansUsed]
	p.plansUsed++
	a.build(o, spec, threads)
	return a
}

// compile cuts a checked program into phases.
func (d *Device) compile(prog *compute.Program) error {
	p := &d.plan
	p.reset()
	d.argmaxUsed = 0
	for i := range prog.Ops {
		o := &prog.Ops[i]
		if o.Rows == 0 {
			continue
		}
		if err := d.compileOp(o); err != nil {
			return fmt.Errorf("operation %d (%s): %w", i, o.Kind, err)
		}
	}
	p.flushStore(d.pool.threads)
	p.closeRows(d.pool.threads)
	return nil
}

func (d *Device) compileOp(o *compute.Op) error {
	if o.Kind != compute.OpAttend {
		d.plan.flushStore(d.pool.threads)
	}
	w := rowWork{op: o, to: o.Rows}
	switch o.Kind {
	case compute.OpLinear:
		l, ok := o.W.(*linear)
		if !ok {
			return fmt.Errorf("weights %T were not loaded by a cpu device", o.W)
		}
		d.compileLinear(o, l)
		return nil
	case compute.OpAttend:
		k, err := openKV(o.KV)
		if err != nil {
			return err
		}
		d.compileAttend(o, k)
		return nil
	case compute.OpArgmax:
		d.compileArgmax(o)
		return nil
	case compute.OpStoreKV:
		k, err := openKV(o.KV)
		if err != nil {
			return err
		}
		d.growHalf(k.spec.HeadDim)
		d.plan.addStore(o, k)
		return nil
	case compute.OpEmbed:
		t, ok := o.Table.(*table)
		if !ok {
			return fmt.Errorf("table %T was not loaded by a cpu device", o.Table)
		}
		w.table = t
	}
	d.plan.addRow(w, d.pool.threads)
	return nil
}

func openKV(v compute.KV) (*kv, error) {
	k, ok := v.(*kv)
	if !ok {
		return nil, fmt.Errorf("key/value store %T is not a cpu device's", v)
	}
	if k.half == nil && k.float == nil {
		return nil, fmt.Errorf("key/value store is closed")
	}
	return k, nil
}

func (d *Device) compileLinear(o *compute.Op, l *linear) {
	p, threads := &d.plan, d.pool.threads
	d.acts.resize(d.kernels, o.Rows, l.in, l.quantized, l.float)
	p.linears = append(p.linears, newLinearPhase(o, l, d.acts, threads))
	n := len(p.linears) - 1
	p.addRow(rowWork{kind: rowQuantize, op: o, to: o.Rows, index: n}, threads)
	p.closeRows(threads)
	p.add(phaseLinear, n, p.linears[n].pieces)
}

func (d *Device) compileAttend(o *compute.Op, k *kv) {
	p, threads := &d.plan, d.pool.threads
	a := p.attendPlan(o, k.spec, threads)
	d.partials = grow(d.partials, a.partials)
	d.maxima, d.sums = grow(d.maxima, a.sums), grow(d.sums, a.sums)
	p.addHeadsFor(o, k, threads)
	p.closeRows(threads)
	for _, b := range a.batches {
		p.closeRows(threads)
		pieces := min(int64(b.units), int64(8*threads))
		p.attends = append(p.attends, attendPhase{op: o, kv: k, plan: a, batch: b, pieces: pieces})
		p.add(phaseAttend, len(p.attends)-1, pieces)
		p.addRow(rowWork{kind: rowCombine, op: o, from: b.row, to: b.row + b.rows, plan: a}, threads)
	}
}

func (d *Device) compileArgmax(o *compute.Op) {
	p, threads := &d.plan, d.pool.threads
	p.closeRows(threads)
	n := (o.A.Cols + argmaxColumns - 1) / argmaxColumns
	from := d.argmaxUsed
	d.argmaxUsed += n * o.Rows
	d.best = grow(d.best, d.argmaxUsed)
	p.argmaxes = append(p.argmaxes, argmaxPhase{op: o, pieces: n, from: from})
	p.add(phaseArgmax, len(p.argmaxes)-1, int64(n*o.Rows))
	p.addRow(rowWork{kind: rowArgmax, op: o, to: o.Rows, index: len(p.argmaxes) - 1}, threads)
}
