package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// idleSpin is how long a worker watches for the next run before it parks:
// waking a parked goroutine costs some 100 µs, a spinning one 0.05 µs.
const idleSpin = time.Millisecond

// job is what a pool works off: total pieces in phases that follow each other.
// Piece i may begin when all pieces of earlier phases are done.
type job interface {
	// ends gives, for phase p, the number of its first piece and of the first
	// behind it; p counts up from 0.
	bounds(p int) (start, end int64)
	// work does one piece; worker is the number of who does it.
	work(worker, phase int, piece int64)
}

// pool is a set of persistent workers. The goroutine that calls run is worker 0,
// the others are the pool's. A worker that is late, because it was parked or
// lost its core, holds nobody up: whoever is there takes the pieces.
//
// The alternative, a barrier that counts arrivals, was rejected because one
// descheduled worker stalls every phase of a run.
type pool struct {
	threads int
	spins   int // how long to spin before giving the core away

	// gate is the number of the run that is open to workers, 0 while none is,
	// closing when they shall end.
	gate atomic.Int64
	_    [56]byte
	// next is the first piece nobody has taken, done the number of finished ones.
	next atomic.Int64
	_    [56]byte
	done atomic.Int64
	_    [56]byte
	// active counts the workers inside a run; a run ends when it is 0, so that
	// nobody looks at its job after that.
	active atomic.Int64
	_      [56]byte

	job   job
	total int64
	runs  int64

	parked []parking
	group  sync.WaitGroup
}

// parking is where one worker sleeps.
type parking struct {
	asleep atomic.Bool
	wake   chan struct{}
	_      [48]byte
}

const closing = -1

func newPool(threads int) *pool {
	p := &pool{threads: threads, spins: 4000, parked: make([]parking, threads)}
	if runtime.GOMAXPROCS(0) < threads {
		p.spins = 20 // a spinning worker may keep from its core the one it waits for
	}
	for w := 1; w < threads; w++ {
		p.parked[w].wake = make(chan struct{}, 1)
		p.group.Go(func() { p.serve(w) })
	}
	return p
}

// run works off j with all workers and returns when every piece is done.
func (p *pool) run(j job, total int64) {
	p.job, p.total = j, total
	p.next.Store(0)
	p.done.Store(0)
	p.runs++
	p.gate.Store(p.runs)
	p.wakeAll()
	p.take(0)
	var w waiter
	for p.done.Load() < total {
		w.wait(p.spins)
	}
	p.gate.Store(0)
	for p.active.Load() != 0 {
		w.wait(p.spins)
	}
	p.job = nil
}

func (p *pool) wakeAll() {
	for w := 1; w < p.threads; w++ {
		if k := &p.parked[w]; k.asleep.Load() && k.asleep.CompareAndSwap(true, false) {
			k.wake <- struct{}{}
		}
	}
}

// take works off pieces until all are taken.
func (p *pool) take(worker int) {
	var w waiter
	phase := 0
	start, end := p.job.bounds(0)
	for {
		t := p.next.Load()
		if t >= p.total {
			return
		}
		for t >= end {
			phase++
			start, end = p.job.bounds(phase)
		}
		// A piece is only taken when it can begin, so that a worker which loses
		// its core while it waits leaves the piece to others.
		if p.done.Load() < start {
			w.wait(p.spins)
			continue
		}
		if p.next.CompareAndSwap(t, t+1) {
			p.job.work(worker, phase, t-start)
			p.done.Add(1)
			w = waiter{}
		}
	}
}

// serve is the life of a worker.
func (p *pool) serve(worker int) {
	last := int64(0)
	for {
		g := p.await(worker, last)
		if g == closing {
			return
		}
		last = g
		p.active.Add(1)
		if p.gate.Load() == g {
			p.take(worker)
		}
		p.active.Add(-1)
	}
}

// await gives the number of the next open run after last, or closing.
func (p *pool) await(worker int, last int64) int64 {
	fresh := func() (int64, bool) {
		g := p.gate.Load()
		return g, g != 0 && g != last
	}
	k := &p.parked[worker]
	for {
		var w waiter
		for start := time.Now(); ; {
			for range 64 {
				if g, ok := fresh(); ok {
					return g
				}
				if p.spins < 100 {
					break // fewer cores than workers: do not spin
				}
				w.wait(p.spins)
			}
			if p.spins < 100 || time.Since(start) > idleSpin {
				break
			}
		}
		k.asleep.Store(true)
		if g, ok := fresh(); ok && k.asleep.CompareAndSwap(true, false) {
			return g
		}
		<-k.wake
	}
}

// close ends the workers and waits for them. It must not overlap run.
func (p *pool) close() {
	p.gate.Store(closing)
	p.wakeAll()
	p.group.Wait()
}

// waiter spins politely: first with the processor's pause instruction, later by
// giving way to other goroutines and other processes.
type waiter struct{ n int }

func (w *waiter) wait(spins int) {
	w.n++
	switch {
	case w.n < spins:
		pause()
	case w.n%8 == 0:
		yieldThread()
	default:
		runtime.Gosched()
	}
}
