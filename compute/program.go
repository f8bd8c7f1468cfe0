package compute

// View is a [rows, Cols] window into a buffer: element (r, c) lies at
// Off + r·Stride + c. The number of rows is the operation's.
type View struct {
	Buf         Buffer
	Off, Stride int
	Cols        int
}

// ViewOf covers a whole buffer as rows of cols values.
func ViewOf(b Buffer, cols int) View { return View{Buf: b, Stride: cols, Cols: cols} }

// Columns narrows a view to n columns from column c on.
func (v View) Columns(c, n int) View {
	v.Off += c
	v.Cols = n
	return v
}

// Skip drops the first r rows.
func (v View) Skip(r int) View {
	v.Off += r * v.Stride
	return v
}

// Row is the host's slice of row r.
func (v View) Row(r int) []float32 {
	o := v.Off + r*v.Stride
	return v.Buf.Host()[o : o+v.Cols : o+v.Cols]
}

// Activation is the function of a gated unit.
type Activation uint8

// The activations of the architectures at hand.
const (
	SiLU     Activation = iota // x·sigmoid(x)
	GELUTanh                   // the tanh approximation of GELU
	Sigmoid                    // sigmoid(x): an output gate
)

// Span says what one row of attention sees: the positions Lo ≤ j < Hi of a
// sequence whose position j lies in page Pages[j/PageSize], slot j%PageSize.
// Consecutive rows that hold the same Pages slice are worked on together, so
// that a page is read once for all of them. Pages below Lo may be −1.
type Span struct {
	Pages  []int32
	Lo, Hi int32
}

// OpKind names an operation of a program.
type OpKind uint8

// The operations; the methods of Program say what each does.
const (
	OpEmbed OpKind = iota
	OpNorm
	OpLinear
	OpRotary
	OpStoreKV
	OpAttend
	OpGate
	OpAdd
	OpScale
	OpCopy
	OpGather
	OpArgmax
)

// Op is one recorded operation. Only the fields its method sets have meaning.
type Op struct {
	Kind      OpKind
	Rows      int
	Dst, A, B View
	Vec       Buffer // norm weight; rotary table
	W         Linear
	Table     Table
	KV        KV
	Layer     int
	Heads     int // query heads of attention; heads of rotary
	Scale     float32
	Act       Activation
	Index     []int32 // tokens, positions, slots, rows or argmax results
	Spans     []Span
}

// Program is a list of coarse operations over device buffers. Recording checks
// nothing and allocates nothing once the list has grown to its size; slices
// handed to it must stay unchanged until Run returns.
type Program struct{ Ops []Op }

// Reset empties the program and keeps its memory.
func (p *Program) Reset() {
	clear(p.Ops)
	p.Ops = p.Ops[:0]
}

// Embed writes scale·table[tokens[r]] to row r of dst, each product rounded once.
func (p *Program) Embed(dst View, t Table, tokens []int32, scale float32) {
	p.Ops = append(p.Ops, Op{Kind: OpEmbed, Rows: len(tokens), Dst: dst, Table: t, Index: tokens, Scale: scale})
}

// Norm writes the RMS norm of src to dst (which may be src), weighted by w.
// Each run of w.Len() columns is normalized by itself, so that one call norms
// all heads of a row.
func (p *Program) Norm(dst, src View, rows int, w Buffer, eps float32) {
	p.Ops = append(p.Ops, Op{Kind: OpNorm, Rows: rows, Dst: dst, A: src, Vec: w, Scale: eps})
}

// Linear writes src · Wᵀ (+ bias) to dst: [rows, In] → [rows, Out].
func (p *Program) Linear(dst View, w Linear, src View, rows int) {
	p.Ops = append(p.Ops, Op{Kind: OpLinear, Rows: rows, Dst: dst, A: src, W: w})
}

// Rotary turns the heads of x in place. table holds, for every position, half
// a head of cosines and then half a head of sines (see NewRotaryTable); row r
// takes position pos[r]; element i of a head pairs with element i + half, where
// half is rotated/2; elements from rotated on (x.Cols/heads > rotated) stay.
// rotated is the table's row width.
func (p *Program) Rotary(x View, rows, heads, rotated int, table Buffer, pos []int32) {
	p.Ops = append(p.Ops, Op{Kind: OpRotary, Rows: rows, Dst: x, A: x, Heads: heads, Layer: rotated, Vec: table, Index: pos})
}

// StoreKV writes row r of k and v ([rows, kvHeads·headDim]) to slot slots[r] =
// page·PageSize + offset of the given layer. No two rows share a slot.
func (p *Program) StoreKV(kv KV, layer int, k, v View, rows int, slots []int32) {
	p.Ops = append(p.Ops, Op{Kind: OpStoreKV, Rows: rows, KV: kv, Layer: layer, A: k, B: v, Index: slots})
}

// Attend writes softmax(scale·q·Kᵀ)·V over each row's span to dst; q and dst
// are [rows, heads·headDim]; query heads share key/value heads in equal runs.
func (p *Program) Attend(dst, q View, rows, heads int, kv KV, layer int, spans []Span, scale float32) {
	p.Ops = append(p.Ops, Op{Kind: OpAttend, Rows: rows, Dst: dst, A: q, Heads: heads, KV: kv, Layer: layer, Spans: spans, Scale: scale})
}

// Gate writes act(gate)·up to dst, which may be either of them.
func (p *Program) Gate(dst, gate, up View, rows int, act Activation) {
	p.Ops = append(p.Ops, Op{Kind: OpGate, Rows: rows, Dst: dst, A: gate, B: up, Act: act})
}

// Add writes a + b to dst, which may be either of them.
func (p *Program) Add(dst, a, b View, rows int) {
	p.Ops = append(p.Ops, Op{Kind: OpAdd, Rows: rows, Dst: dst, A: a, B: b})
}

// Scale writes s·a to dst, which may be a.
func (p *Program) Scale(dst, a View, rows int, s float32) {
	p.Ops = append(p.Ops, Op{Kind: OpScale, Rows: rows, Dst: dst, A: a, Scale: s})
}

// Copy writes a to dst; the two must not overlap.
func (p *Program) Copy(dst, a View, rows int) {
	p.Ops = append(p.Ops, Op{Kind: OpCopy, Rows: rows, Dst: dst, A: a})
}

// Gather writes row index[i] of a to row i of dst; the two must not overlap.
func (p *Program) Gather(dst, a View, index []int32) {
	p.Ops = append(p.Ops, Op{Kind: OpGather, Rows: len(index), Dst: dst, A: a, Index: index})
}

// Argmax writes to out[r] the column of the greatest value of row r of a (the
// lowest such column), or −1 when the row holds a NaN. Rows is len(out).
func (p *Program) Argmax(out []int32, a View) {
	p.Ops = append(p.Ops, Op{Kind: OpArgmax, Rows: len(out), A: a, Index: out})
}
