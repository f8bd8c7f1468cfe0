package cpu

import (
	"fmt"
	"sync"
	"sync/atomic"

	"surmise/compute"
)

// linear is a weight matrix of one or more packed parts, whose outputs lie side
// by side.
type linear struct {
	in, out          int
	parts            []*packedMatrix
	at               []int // first output of each part
	bytes            int64
	quantized, float bool // which forms of its input are needed
}

func (l *linear) In() int         { return l.in }
func (l *linear) Out() int        { return l.out }
func (l *linear) Bytes() int64    { return l.bytes }
func (l *linear) MACs() int64     { return int64(l.in) * int64(l.out) }
func (l *linear) Quantized() bool { return l.quantized }

// LoadLinear repacks the parts with all threads; pages of the checkpoint's
// mapping are dropped as they are read, so that peak memory does not double.
func (d *Device) LoadLinear(parts ...compute.LinearPart) (compute.Linear, error) {
	in, out, err := compute.CheckParts(parts)
	if err != nil {
		return nil, err
	}
	l := &linear{in: in}
	for _, p := range parts {
		m, err := d.loadPart(p)
		if err != nil {
			return nil, fmt.Errorf("linear %s: %w", p.Weight.Name, err)
		}
		l.at = append(l.at, l.out)
		l.parts = append(l.parts, m)
		l.out += m.out
		l.bytes += m.bytes()
		q := packings[m.typ].quantized()
		l.quantized, l.float = l.quantized || q, l.float || !q
	}
	if l.out != out {
		return nil, fmt.Errorf("linear %s: packed %d outputs, want %d", parts[0].Weight.Name, l.out, out)
	}
	return l, nil
}

// packBytes of packed weights are one task of repacking.
const packBytes = 1 << 20

func (d *Device) loadPart(part compute.LinearPart) (*packedMatrix, error) {
	m, size, err := newPackedMatrix(part.StoredType(), part.Weight.Rows(), part.Weight.Cols())
	if err != nil {
		return nil, err
	}
	weights, err := d.mem.alloc(size.weights)
	if err != nil {
		return nil, err
	}
	scales, err := d.mem.alloc(size.scales)
	if err != nil {
		return nil, err
	}
	m.bind(weights, scales, alignedFloats(size.bias))
	packParallel(m, part, archPacks(d.kernels.name)[m.typ], d.pool.threads)
	return m, nil
}

func packParallel(m *packedMatrix, part compute.LinearPart, fast packGroup, threads int) {
	step := max(1, packBytes/(m.weightStride+1))
	var next atomic.Int64
	var g sync.WaitGroup
	for range min(threads, (m.groups+step-1)/step) {
		g.Go(func() {
			p := newPacker(part)
			p.fast = fast
			for {
				to := int(next.Add(int64(step)))
				from := to - step
				if from >= m.groups {
					return
				}
				to = min(to, m.groups)
				p.pack(m, from, to)
				if part.Row == nil {
					part.Weight.DropPages(from*groupRows, min(to*groupRows, m.out))
				}
			}
		})
	}
	g.Wait()
	if part.Row != nil {
		part.Weight.DropPages(0, m.out)
	}
}

// linearPhase is one linear operation of a program.
type linearPhase struct {
	op     *compute.Op
	w      *linear
	acts   activations
	pieces int64
}

// pieceBytes of weights are worth taking a piece for.
const pieceBytes = 64 << 10

// newLinearPhase decides into how many pieces of equal amount the outputs are cut.
func newLinearPhase(op *compute.Op, w *linear, acts activations, threads int) linearPhase {
	amount := w.bytes * int64(op.Rows+7) / 8
	n := min(amount/pieceBytes, int64(8*threads))
	if n < int64(threads) {
		n = min(int64(threads), w.bytes/2048+1)
	}
	if threads == 1 {
		n = 1
	}
	return linearPhase{op: op, w: w, acts: acts, pieces: n}
}

// work does piece i: all groups whose share of the bytes falls into it.
func (p *linearPhase) work(k *kernels, i int64, tail []float32) {
	dst := p.op.Dst.Buf.Host()[p.op.Dst.Off:]
	from, to := p.w.bytes*i/p.pieces, p.w.bytes*(i+1)/p.pieces
	var before int64
	for j, m := range p.w.parts {
		size := m.bytes()
		per := size / int64(m.groups)
		g0, g1 := groupsUpTo(from-before, per, m.groups), groupsUpTo(to-before, per, m.groups)
		if g0 < g1 {
			k.linearRange(dst[p.w.at[j]:], p.op.Dst.Stride, m, g0, g1, &p.acts, tail)
		}
		before += size
	}
}

// groupsUpTo is the number of groups that begin before a byte.
func groupsUpTo(bytes, per int64, groups int) int {
	return int(min(max((bytes+per-1)/per, 0), int64(groups)))
}
