package cpu

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"surmise/checkpoint"
	"surmise/compute"
)

// MaxThreads bounds Options.Threads.
const MaxThreads = 1024

// Options configure a Device.
type Options struct {
	// Threads is the number of workers, the caller of Run included; 0 means all
	// cores the process may use.
	Threads int
	// ISA names the instruction set: "generic", "avx2", "avx512" or "neon";
	// "" takes the best this machine has. See ISAFromEnv.
	ISA string
}

// ISAFromEnv gives the instruction set the user asks for by SURMISE_CPU, in any
// case, for tests and bug reports.
func ISAFromEnv() string { return strings.ToLower(strings.TrimSpace(os.Getenv("SURMISE_CPU"))) }

// Device runs programs on the processor. It implements compute.Device: one
// goroutine uses it at a time, and nothing it made may be used after Close.
type Device struct {
	kernels *kernels
	pool    *pool
	mem     arenas
	check   compute.Checker
	plan    plan
	workers []workspace
	closed  bool

	// Scratch of programs, grown while they are compiled.
	acts         activations
	partials     []float32 // partial sums of values
	maxima, sums []float32 // of (pair, chunk)
	best         []int32   // of argmax pieces
	argmaxUsed   int
}

// workspace is one worker's scratch.
type workspace struct {
	attention attention
	tail      []float32 // of linear
	half      []uint16  // a head's keys
	_         [64]byte
}

// New starts a device. It fails where the instruction set is unknown or absent,
// or the floating-point environment is not IEEE's.
func New(o Options) (*Device, error) {
	if o.Threads < 0 || o.Threads > MaxThreads {
		return nil, fmt.Errorf("cpu: %d threads, want 1 to %d, or 0 for all cores", o.Threads, MaxThreads)
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if err := checkFloatEnvironment(); err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	k, err := selectKernels(o.ISA)
	if err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	d := &Device{kernels: k, workers: make([]workspace, o.Threads)}
	for i := range d.workers {
		d.workers[i].attention.s = alignedFloats(maxPairs * chunkSize)
		d.workers[i].attention.q = alignedFloats(maxPairs * queryStride)
		d.workers[i].tail = alignedFloats(maxTile * groupRows)
	}
	d.pool = newPool(o.Threads)
	return d, nil
}

// Name is "cpu", the instruction set and the number of threads.
func (d *Device) Name() string {
	return fmt.Sprintf("cpu %s %d threads", d.kernels.name, d.pool.threads)
}

// Threads is the number of workers.
func (d *Device) Threads() int { return d.pool.threads }

type buffer struct{ mem []float32 }

func (b *buffer) Len() int        { return len(b.mem) }
func (b *buffer) Host() []float32 { return b.mem }

// Alloc gives a zeroed buffer, aligned to a cache line, on the heap.
func (d *Device) Alloc(n int) (compute.Buffer, error) {
	if n < 0 || n > 1<<40 {
		return nil, fmt.Errorf("cpu: allocate %d values: want 0 to 2^40", n)
	}
	return &buffer{alignedFloats(n)}, nil
}

type table struct{ t *checkpoint.Tensor }

func (t *table) Rows() int { return t.t.Rows() }
func (t *table) Cols() int { return t.t.Cols() }

// LoadTable refers to the checkpoint's mapping, which must stay open.
func (d *Device) LoadTable(t *checkpoint.Tensor) (compute.Table, error) {
	if t == nil {
		return nil, errors.New("cpu: load table: no tensor")
	}
	if t.Rows() <= 0 || t.Cols() <= 0 {
		return nil, fmt.Errorf("cpu: load table %s: shape %v is empty", t.Name, t.Shape)
	}
	return &table{t}, nil
}

// NewKV reserves address space for a page store; a page takes memory when it is
// first written.
func (d *Device) NewKV(spec compute.KVSpec) (compute.KV, error) {
	k, err := newKV(spec)
	if err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	return k, nil
}

// Run checks and executes a program. It allocates nothing once its scratch has
// grown to the program's size.
func (d *Device) Run(p *compute.Program) error {
	if d.closed {
		return errors.New("cpu: the device is closed")
	}
	if err := d.check.Check(p); err != nil {
		return fmt.Errorf("cpu: %w", err)
	}
	if err := d.compile(p); err != nil {
		return fmt.Errorf("cpu: %w", err)
	}
	if n := d.plan.total(); n > 0 {
		d.pool.run(d, n)
	}
	return nil
}

// bounds implements job.
func (d *Device) bounds(p int) (start, end int64) {
	x := &d.plan.phases[p]
	return x.start, x.end
}

// work implements job.
func (d *Device) work(worker, p int, piece int64) {
	x, w := &d.plan.phases[p], &d.workers[worker]
	switch x.kind {
	case phaseRows:
		d.plan.rowRuns[x.index].work(d, piece)
	case phaseLinear:
		d.plan.linears[x.index].work(d.kernels, piece, w.tail)
	case phaseHeads:
		d.plan.heads[x.index].work(d, w, piece)
	case phaseAttend:
		d.plan.attends[x.index].work(d, w, piece)
	case phaseArgmax:
		d.plan.argmaxes[x.index].work(d, piece)
	}
}

// growHalf makes room for a head's keys in every workspace.
func (d *Device) growHalf(n int) {
	for i := range d.workers {
		d.workers[i].half = grow(d.workers[i].half, n)
	}
}

// Close stops the workers and unmaps the weights. It may be called twice.
func (d *Device) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	d.pool.close()
	return d.mem.close()
}
