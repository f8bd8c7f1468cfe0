package canon

import (
	"errors"
	"fmt"

	"surmise/checkpoint"
	"surmise/compute"
)

// New gives the reference device: programs interpreted by the loops of this
// package, one thread, nothing packed. It is slow and meant for tests.
func New() compute.Device { return &device{} }

type device struct{ check compute.Checker }

type buffer struct{ mem []float32 }

func (b *buffer) Len() int        { return len(b.mem) }
func (b *buffer) Host() []float32 { return b.mem }

func (d *device) Name() string { return "canon" }
func (d *device) Threads() int { return 1 }
func (d *device) Close() error { return nil }

func (d *device) Alloc(n int) (compute.Buffer, error) {
	if n < 0 || n > 1<<40 {
		return nil, fmt.Errorf("allocate %d values: want 0 to 2^40", n)
	}
	return &buffer{make([]float32, n)}, nil
}

// linear keeps every output row as floats or as blocks.
type linear struct {
	in        int
	rows      []outRow
	bytes     int64
	quantized bool
}

type outRow struct {
	floats []float32
	blocks []Block
	bias   float32
	biased bool
}

func (l *linear) In() int         { return l.in }
func (l *linear) Out() int        { return len(l.rows) }
func (l *linear) Bytes() int64    { return l.bytes }
func (l *linear) MACs() int64     { return int64(l.in) * int64(len(l.rows)) }
func (l *linear) Quantized() bool { return l.quantized }

func (d *device) LoadLinear(parts ...compute.LinearPart) (compute.Linear, error) {
	in, out, err := compute.CheckParts(parts)
	if err != nil {
		return nil, err
	}
	l := &linear{in: in, rows: make([]outRow, 0, out)}
	for _, p := range parts {
		bias := make([]float32, p.Weight.Rows())
		if p.Bias != nil {
			p.Bias.Float32Row(0, bias)
		}
		for i := range p.Weight.Rows() {
			from := i
			if p.Row != nil {
				from = p.Row(i)
			}
			row := loadRow(p, from)
			row.bias, row.biased = bias[from], p.Bias != nil
			l.rows = append(l.rows, row)
			l.quantized = l.quantized || row.blocks != nil
		}
		typ := p.StoredType()
		l.bytes += int64(p.Weight.Rows()) * int64(in/typ.BlockSize()) * int64(typ.BlockBytes())
	}
	return l, nil
}

func loadRow(p compute.LinearPart, i int) outRow {
	w := p.Weight
	if !w.Type.Float() {
		return outRow{blocks: Blocks(w, i)}
	}
	f := make([]float32, w.Cols())
	w.Float32Row(i, f)
	typ := p.StoredType()
	if typ.Float() {
		return outRow{floats: f}
	}
	raw := make([]byte, len(f)/BlockSize*typ.BlockBytes())
	if typ == checkpoint.Q8_0 {
		checkpoint.QuantizeQ8_0(raw, f)
	} else {
		checkpoint.QuantizeQ4_0(raw, f)
	}
	blocks := make([]Block, len(f)/BlockSize)
	unpack(blocks, typ, raw)
	return outRow{blocks: blocks}
}

type table struct{ t *checkpoint.Tensor }

func (t table) Rows() int { return t.t.Rows() }
func (t table) Cols() int { return t.t.Cols() }

func (d *device) LoadTable(t *checkpoint.Tensor) (compute.Table, error) {
	if t == nil || t.Rows() <= 0 || t.Cols() <= 0 {
		return nil, errors.New("load table: empty tensor")
	}
	return table{t}, nil
}

// Run interprets the program operation by operation, row by row.
func (d *device) Run(p *compute.Program) error {
	if err := d.check.Check(p); err != nil {
		return fmt.Errorf("canon: %w", err)
	}
	for i := range p.Ops {
		if err := run(&p.Ops[i]); err != nil {
			return fmt.Errorf("canon: operation %d (%s): %w", i, p.Ops[i].Kind, err)
		}
	}
	return nil
}

func run(o *compute.Op) error {
	switch o.Kind {
	case compute.OpLinear:
		return runLinear(o)
	case compute.OpEmbed:
		return runEmbed(o)
	case compute.OpStoreKV:
		return runStoreKV(o)
	case compute.OpAttend:
		return runAttend(o)
	}
	for r := range o.Rows {
		runRow(o, r)
	}
	return nil
}

// runRow does one row of the operations that look at nothing but rows.
func runRow(o *compute.Op, r int) {
	a := o.A.Row(0)
	if o.Kind != compute.OpGather {
		a = o.A.Row(r)
	}
	if o.Kind == compute.OpArgmax {
		o.Index[r] = Argmax(a)
		return
	}
	dst := o.Dst.Row(r)
	switch o.Kind {
	case compute.OpNorm:
		w := o.Vec.Host()
		for c := 0; c < len(a); c += len(w) {
			Norm(dst[c:c+len(w)], a[c:c+len(w)], w, o.Scale)
		}
	case compute.OpRotary:
		n := len(a) / o.Heads
		half := o.Layer / 2
		t := o.Vec.Host()[int(o.Index[r])*o.Layer:]
		for h := range o.Heads {
			Rotary(a[h*n:(h+1)*n], t[:half], t[half:2*half])
		}
	case compute.OpGate:
		act := [...]func(float32) float32{compute.SiLU: SiLU, compute.GELUTanh: GELUTanh, compute.Sigmoid: Sigmoid}[o.Act]
		for i, b := range o.B.Row(r) {
			dst[i] = float32(act(a[i]) * b)
		}
	case compute.OpAdd:
		for i, b := range o.B.Row(r) {
			dst[i] = a[i] + b
		}
	case compute.OpScale:
		for i, v := range a {
			dst[i] = float32(o.Scale * v)
		}
	case compute.OpCopy:
		copy(dst, a)
	case compute.OpGather:
		copy(dst, o.A.Row(int(o.Index[r])))
	}
}

func runLinear(o *compute.Op) error {
	w, ok := o.W.(*linear)
	if !ok {
		return fmt.Errorf("weights %T were not loaded by this device", o.W)
	}
	for r := range o.Rows {
		x, dst := o.A.Row(r), o.Dst.Row(r)
		var acts Acts
		if w.quantized {
			acts = Quantize(x)
		}
		for i := range w.rows {
			row := &w.rows[i]
			if row.blocks != nil {
				dst[i] = DotBlocks(row.blocks, acts)
			} else {
				dst[i] = Dot(row.floats, x)
			}
			if row.biased {
				dst[i] += row.bias
			}
		}
	}
	return nil
}

func runEmbed(o *compute.Op) error {
	t, ok := o.Table.(table)
	if !ok {
		return fmt.Errorf("table %T was not loaded by this device", o.Table)
	}
	for r := range o.Rows {
		dst := o.Dst.Row(r)
		t.t.Float32Row(int(o.Index[r]), dst)
		for i, v := range dst {
			dst[i] = float32(o.Scale * v)
		}
	}
	return nil
}
