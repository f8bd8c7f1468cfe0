package cpu

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"surmise/checkpoint"
	"surmise/compute"
)

const (
	// probeBytes of memory exceed the caches of a processor that few share.
	probeBytes = 256 << 20
	// probePiece is what one worker reads or computes at a time.
	probePiece = 1 << 20
	// probePieces of arithmetic are done by all workers together, for each.
	probePieces = 24
)

// probeKernels are loops that keep one part of a processor busy.
type probeKernels struct {
	read func(p []byte)
	// bytes and float do some loops of multiply-adds: byteMACs and floatMACs
	// in each.
	bytes, float          func(loops int)
	byteMACs, floatMACs   int
	byteLoops, floatLoops int // of a piece
}

// probe measures the limits of a device. It implements compute.Probe.
type probe struct {
	dev     *Device
	kernels probeKernels
	mem     mapping
}

// NewProbe takes 256 MiB of memory to read from. It implements compute.Prober.
func (d *Device) NewProbe() (compute.Probe, error) {
	if d.closed {
		return nil, errors.New("cpu: the device is closed")
	}
	p := &probe{dev: d}
	k, ok := archProbe(d.kernels.name)
	if !ok {
		var err error
		if k, err = genericProbe(d.kernels); err != nil {
			return nil, fmt.Errorf("cpu: probe: %w", err)
		}
	}
	p.kernels = k
	var err error
	if p.mem, err = newMapping(probeBytes); err != nil {
		return nil, fmt.Errorf("cpu: probe: %w", err)
	}
	// Pages that were never written are all one page of zeros, which is cached.
	for i := 0; i < len(p.mem.mem); i += 4096 {
		p.mem.mem[i] = 1
	}
	return p, nil
}

// Measure measures one limit after the other.
func (p *probe) Measure(now func() time.Time) (compute.Limits, error) {
	if p.dev.closed || p.mem.whole == nil {
		return compute.Limits{}, errors.New("cpu: probe: it or its device is closed")
	}
	k, threads := &p.kernels, p.dev.pool.threads
	arithmetic := int64(probePieces * threads)
	rate := func(pieces int64, amount float64, work func(piece int64)) float64 {
		p.dev.pool.run(probeJob{int64(threads), work}, int64(threads)) // workers wake up
		start := now()
		p.dev.pool.run(probeJob{pieces, work}, pieces)
		return amount * float64(pieces) / max(now().Sub(start).Seconds(), 1e-9)
	}
	return compute.Limits{
		Bandwidth: rate(probeBytes/probePiece, probePiece, func(i int64) {
			k.read(p.mem.mem[i*probePiece : (i+1)*probePiece])
		}),
		Int8MACs:    rate(arithmetic, float64(k.byteLoops*k.byteMACs), func(int64) { k.bytes(k.byteLoops) }),
		Float32MACs: rate(arithmetic, float64(k.floatLoops*k.floatMACs), func(int64) { k.float(k.floatLoops) }),
	}, nil
}

// Close gives the memory back. It may be called twice.
func (p *probe) Close() error {
	m := p.mem
	p.mem = mapping{}
	if m.whole == nil {
		return nil
	}
	return m.close()
}

// probeJob is one phase of equal pieces. It implements job.
type probeJob struct {
	pieces int64
	piece  func(i int64)
}

func (j probeJob) bounds(int) (start, end int64) { return 0, j.pieces }
func (j probeJob) work(_, _ int, piece int64)    { j.piece(piece) }

// genericProbe stands in where there are no loops in assembly: memory is read
// by plain Go, and arithmetic is what the table's own linear kernels do with
// weights that stay in the first-level cache.
func genericProbe(k *kernels) (probeKernels, error) {
	bytes, byteMACs, err := cachedLinear(k, checkpoint.Q8_0, k.tile)
	if err != nil {
		return probeKernels{}, err
	}
	float, floatMACs, err := cachedLinear(k, checkpoint.F32, k.floatTile)
	if err != nil {
		return probeKernels{}, err
	}
	return probeKernels{
		read: readGeneric, bytes: bytes, byteMACs: byteMACs, byteLoops: 8, float: float, floatMACs: floatMACs, floatLoops: 8,
	}, nil
}

// cachedLinear multiplies a tile of rows with a matrix of 16 × 256 or 16 × 128.
// Every call works on memory of its own, for workers do not share it.
func cachedLinear(k *kernels, typ checkpoint.Type, rows int) (work func(loops int), macs int, err error) {
	const out, in = groupRows, 128
	m, size, err := newPackedMatrix(typ, out, in)
	if err != nil {
		return nil, 0, err
	}
	m.bind(make([]byte, size.weights), make([]byte, size.scales), make([]float32, size.bias))
	var a activations
	a.resize(k, rows, in, packings[typ].quantized(), !packings[typ].quantized())
	return func(loops int) {
		dst, tail := make([]float32, rows*out), make([]float32, maxTile*groupRows)
		for range loops {
			k.linearRange(dst, out, m, 0, m.groups, &a, tail)
		}
	}, rows * out * in, nil
}

// readGeneric reads p, whose length is a multiple of 64.
func readGeneric(p []byte) {
	words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(p))), len(p)/8)
	var a, b, c, d uint64
	for i := 0; i+8 <= len(words); i += 8 {
		w := words[i : i+8 : i+8]
		a |= w[0] | w[4]
		b |= w[1] | w[5]
		c |= w[2] | w[6]
		d |= w[3] | w[7]
	}
	keep(a | b | c | d)
}

// keep makes the compiler believe that v is needed.
//
//go:noinline
func keep(uint64) {}
