package compute

import (
	"fmt"
	"slices"
)

// Checker checks programs before they run, so that a device can trust every
// index: shapes agree, views lie inside their buffers, tokens, positions, slots
// and pages are in range, and no output overlaps an input it must not overlap.
// Its error names the operation by index. The zero value is ready; it keeps
// scratch memory, so that checking allocates nothing after warm-up.
type Checker struct {
	sorted    []int32
	lastSlots []int32 // the slots last found to be distinct
	lastSpans []Span  // the spans last found to be right in a store of lastPages pages
	lastPages int
}

// Check returns the first fault of the program.
func (c *Checker) Check(p *Program) error {
	c.lastSlots, c.lastSpans = nil, nil
	for i := range p.Ops {
		if err := c.op(&p.Ops[i]); err != nil {
			return fmt.Errorf("operation %d (%s): %w", i, p.Ops[i].Kind, err)
		}
	}
	return nil
}

var opNames = [...]string{
	"embed", "norm", "linear", "rotary", "store kv", "attend", "gate", "add", "scale", "copy", "gather", "argmax",
}

func (k OpKind) String() string {
	if int(k) < len(opNames) {
		return opNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

func (c *Checker) op(o *Op) error {
	if o.Rows == 0 {
		return nil
	}
	switch o.Kind {
	case OpEmbed:
		return checkEmbed(o)
	case OpNorm:
		return checkNorm(o)
	case OpLinear:
		return checkLinear(o)
	case OpRotary:
		return checkRotary(o)
	case OpStoreKV:
		return c.storeKV(o)
	case OpAttend:
		return c.attend(o)
	case OpGate, OpAdd:
		return checkElementwise(o, true)
	case OpScale:
		return checkElementwise(o, false)
	case OpCopy:
		if err := checkElementwise(o, false); err != nil {
			return err
		}
		return disjoint(o.Dst, o.Rows, o.A, o.Rows)
	case OpGather:
		return checkGather(o)
	case OpArgmax:
		return checkView("input", o.A, o.Rows)
	}
	return fmt.Errorf("no such operation")
}

// checkView tells whether rows of v lie inside its buffer.
func checkView(name string, v View, rows int) error {
	if v.Buf == nil {
		return fmt.Errorf("%s has no buffer", name)
	}
	n := v.Buf.Len()
	if v.Cols <= 0 || v.Cols > n || v.Off < 0 || v.Off > n-v.Cols {
		return fmt.Errorf("%s: columns %d at offset %d are not inside a buffer of %d", name, v.Cols, v.Off, n)
	}
	if rows < 0 || rows > n {
		return fmt.Errorf("%s: %d rows in a buffer of %d values", name, rows, n)
	}
	if rows > 1 && (v.Stride < v.Cols || v.Stride > (n-v.Cols-v.Off)/(rows-1)) {
		return fmt.Errorf("%s: %d rows of %d columns with stride %d at offset %d are not inside a buffer of %d",
			name, rows, v.Cols, v.Stride, v.Off, n)
	}
	return nil
}

func checkViews(o *Op, two bool) error {
	if err := checkView("output", o.Dst, o.Rows); err != nil {
		return err
	}
	if err := checkView("input", o.A, o.Rows); err != nil || !two {
		return err
	}
	return checkView("second input", o.B, o.Rows)
}

// Overlap tells whether two checked views share an element. Views of one
// stride that lie in different columns do not; other entangled views count as
// overlapping.
func Overlap(a View, rowsA int, b View, rowsB int) bool {
	if a.Buf != b.Buf {
		return false
	}
	endA, endB := a.Off+(rowsA-1)*a.Stride+a.Cols, b.Off+(rowsB-1)*b.Stride+b.Cols
	if endA <= b.Off || endB <= a.Off {
		return false
	}
	if a.Stride != b.Stride || a.Stride == 0 {
		return true
	}
	ca, cb := a.Off%a.Stride, b.Off%b.Stride
	if ca+a.Cols > a.Stride || cb+b.Cols > b.Stride {
		return true
	}
	return ca < cb+b.Cols && cb < ca+a.Cols
}

func disjoint(dst View, rows int, src View, srcRows int) error {
	if Overlap(dst, rows, src, srcRows) {
		return fmt.Errorf("output at offset %d overlaps input at offset %d", dst.Off, src.Off)
	}
	return nil
}

// sameOrDisjoint allows an operation in place, row on row.
func sameOrDisjoint(dst, src View, rows int) error {
	if dst.Buf == src.Buf && dst.Off == src.Off && (dst.Stride == src.Stride || rows == 1) {
		return nil
	}
	return disjoint(dst, rows, src, rows)
}

// checkIndex tells whether every index is in [0, limit).
func checkIndex(what string, index []int32, rows, limit int) error {
	if len(index) != rows {
		return fmt.Errorf("%d %ss for %d rows", len(index), what, rows)
	}
	for r, v := range index {
		if v < 0 || int(v) >= limit {
			return fmt.Errorf("%s %d of row %d is not in [0, %d)", what, v, r, limit)
		}
	}
	return nil
}

func checkEmbed(o *Op) error {
	if err := checkView("output", o.Dst, o.Rows); err != nil {
		return err
	}
	if o.Table == nil {
		return fmt.Errorf("no table")
	}
	if o.Dst.Cols != o.Table.Cols() {
		return fmt.Errorf("output has %d columns, the table %d", o.Dst.Cols, o.Table.Cols())
	}
	return checkIndex("token", o.Index, o.Rows, o.Table.Rows())
}

func checkNorm(o *Op) error {
	if err := checkViews(o, false); err != nil {
		return err
	}
	if o.Vec == nil || o.Vec.Len() == 0 || o.A.Cols%o.Vec.Len() != 0 {
		return fmt.Errorf("%d columns are not runs of the weight's length", o.A.Cols)
	}
	if o.Dst.Cols != o.A.Cols {
		return fmt.Errorf("output has %d columns, input %d", o.Dst.Cols, o.A.Cols)
	}
	return sameOrDisjoint(o.Dst, o.A, o.Rows)
}

func checkLinear(o *Op) error {
	if err := checkViews(o, false); err != nil {
		return err
	}
	if o.W == nil {
		return fmt.Errorf("no weights")
	}
	if o.A.Cols != o.W.In() || o.Dst.Cols != o.W.Out() {
		return fmt.Errorf("[%d, %d] → [%d, %d] with weights %d → %d",
			o.Rows, o.A.Cols, o.Rows, o.Dst.Cols, o.W.In(), o.W.Out())
	}
	return disjoint(o.Dst, o.Rows, o.A, o.Rows)
}

func checkRotary(o *Op) error {
	if err := checkView("input", o.A, o.Rows); err != nil {
		return err
	}
	rotated := o.Layer
	if o.Heads <= 0 || o.A.Cols%o.Heads != 0 {
		return fmt.Errorf("%d columns are not %d heads", o.A.Cols, o.Heads)
	}
	if rotated <= 0 || rotated%2 != 0 || rotated > o.A.Cols/o.Heads {
		return fmt.Errorf("%d rotated elements of heads of %d: want an even number up to that", rotated, o.A.Cols/o.Heads)
	}
	if o.Vec == nil || o.Vec.Len()%rotated != 0 {
		return fmt.Errorf("the table is not rows of %d", rotated)
	}
	return checkIndex("position", o.Index, o.Rows, o.Vec.Len()/rotated)
}

func checkKV(o *Op) (KVSpec, error) {
	if o.KV == nil {
		return KVSpec{}, fmt.Errorf("no key/value store")
	}
	spec := o.KV.Spec()
	if o.Layer < 0 || o.Layer >= spec.Layers {
		return spec, fmt.Errorf("layer %d is not in [0, %d)", o.Layer, spec.Layers)
	}
	return spec, nil
}

func (c *Checker) storeKV(o *Op) error {
	if err := checkView("keys", o.A, o.Rows); err != nil {
		return err
	}
	if err := checkView("values", o.B, o.Rows); err != nil {
		return err
	}
	spec, err := checkKV(o)
	if err != nil {
		return err
	}
	if n := spec.Heads * spec.HeadDim; o.A.Cols != n || o.B.Cols != n {
		return fmt.Errorf("keys have %d columns and values %d, the store %d", o.A.Cols, o.B.Cols, n)
	}
	if err := checkIndex("slot", o.Index, o.Rows, spec.Pages*PageSize); err != nil {
		return err
	}
	return c.distinct(o.Index)
}

// distinct tells whether no two slots are equal. Layers share one slice of
// slots, so that the last verdict is remembered.
func (c *Checker) distinct(slots []int32) error {
	if len(slots) == len(c.lastSlots) && len(slots) > 0 && &slots[0] == &c.lastSlots[0] {
		return nil
	}
	c.sorted = append(c.sorted[:0], slots...)
	slices.Sort(c.sorted)
	for i := 1; i < len(c.sorted); i++ {
		if c.sorted[i] == c.sorted[i-1] {
			return fmt.Errorf("slot %d is written by two rows", c.sorted[i])
		}
	}
	c.lastSlots = slots
	return nil
}

func (c *Checker) attend(o *Op) error {
	if err := checkViews(o, false); err != nil {
		return err
	}
	spec, err := checkKV(o)
	if err != nil {
		return err
	}
	if o.Dst.Cols != o.A.Cols {
		return fmt.Errorf("output has %d columns, queries %d", o.Dst.Cols, o.A.Cols)
	}
	if o.Heads <= 0 || o.Heads%spec.Heads != 0 || o.A.Cols != o.Heads*spec.HeadDim {
		return fmt.Errorf("%d columns in %d heads do not fit a store of %d heads of %d", o.A.Cols, o.Heads, spec.Heads, spec.HeadDim)
	}
	if len(o.Spans) != o.Rows {
		return fmt.Errorf("%d spans for %d rows", len(o.Spans), o.Rows)
	}
	if len(c.lastSpans) != o.Rows || &c.lastSpans[0] != &o.Spans[0] || c.lastPages != spec.Pages {
		if err := checkSpans(o.Spans, spec.Pages); err != nil {
			return err
		}
		c.lastSpans, c.lastPages = o.Spans, spec.Pages
	}
	return disjoint(o.Dst, o.Rows, o.A, o.Rows)
}

// checkSpans checks every page a span sees; rows that share a page table check
// only what the rows before them did not.
func checkSpans(spans []Span, pages int) error {
	var table []int32
	from, to := 0, 0 // pages of table known to be in range
	for r := range spans {
		s := &spans[r]
		if s.Lo < 0 || s.Lo >= s.Hi {
			return fmt.Errorf("row %d sees positions [%d, %d): want 0 ≤ lo < hi", r, s.Lo, s.Hi)
		}
		a, b := int(s.Lo)/PageSize, (int(s.Hi)-1)/PageSize+1
		if b > len(s.Pages) {
			return fmt.Errorf("row %d sees up to position %d, its table has %d pages of %d", r, s.Hi, len(s.Pages), PageSize)
		}
		if len(table) == 0 || len(s.Pages) != len(table) || &s.Pages[0] != &table[0] {
			table, from, to = s.Pages, a, a
		}
		for i := a; i < b; i++ {
			if i >= from && i < to {
				continue
			}
			if p := s.Pages[i]; p < 0 || int(p) >= pages {
				return fmt.Errorf("row %d: page %d of its table is %d, not in [0, %d)", r, i, p, pages)
			}
		}
		if a <= to && b >= from {
			from, to = min(from, a), max(to, b)
		} else {
			from, to = a, b
		}
	}
	return nil
}

func checkElementwise(o *Op, two bool) error {
	if err := checkViews(o, two); err != nil {
		return err
	}
	if o.Dst.Cols != o.A.Cols || two && o.Dst.Cols != o.B.Cols {
		return fmt.Errorf("output has %d columns, input %d, second input %d", o.Dst.Cols, o.A.Cols, o.B.Cols)
	}
	if o.Kind == OpGate && o.Act > Sigmoid {
		return fmt.Errorf("no such activation: %d", o.Act)
	}
	if err := sameOrDisjoint(o.Dst, o.A, o.Rows); err != nil || !two {
		return err
	}
	return sameOrDisjoint(o.Dst, o.B, o.Rows)
}

func checkGather(o *Op) error {
	if err := checkView("output", o.Dst, o.Rows); err != nil {
		return err
	}
	top := int32(0)
	for i, v := range o.Index {
		if v < 0 {
			return fmt.Errorf("row index %d at %d is negative", v, i)
		}
		top = max(top, v)
	}
	if err := checkView("input", o.A, int(top)+1); err != nil {
		return err
	}
	if o.Dst.Cols != o.A.Cols {
		return fmt.Errorf("output has %d columns, input %d", o.Dst.Cols, o.A.Cols)
	}
	return disjoint(o.Dst, o.Rows, o.A, int(top)+1)
}

// CheckParts checks what every device demands of the parts of a Linear and
// gives its shape: there is one, all share their columns, each type's columns
// fill blocks of 32 unless floats stay floats, and a bias has a value a row.
func CheckParts(parts []LinearPart) (in, out int, err error) {
	if len(parts) == 0 {
		return 0, 0, fmt.Errorf("linear: no parts")
	}
	for i, p := range parts {
		w := p.Weight
		if w == nil {
			return 0, 0, fmt.Errorf("linear: part %d has no weight", i)
		}
		if w.Rows() <= 0 || w.Cols() <= 0 {
			return 0, 0, fmt.Errorf("linear %s: shape %v is empty", w.Name, w.Shape)
		}
		if i == 0 {
			in = w.Cols()
		} else if w.Cols() != in {
			return 0, 0, fmt.Errorf("linear %s: %d columns beside a part of %d", w.Name, w.Cols(), in)
		}
		if err := checkPart(p); err != nil {
			return 0, 0, fmt.Errorf("linear %s: %w", w.Name, err)
		}
		out += w.Rows()
	}
	return in, out, nil
}
