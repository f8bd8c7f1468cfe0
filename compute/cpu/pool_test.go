package cpu

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// countingJob counts how often each piece is done, and whether one began before
// every piece of the phases before it was done.
type countingJob struct {
	ends  []int64
	done  []atomic.Int32
	count atomic.Int64
	early atomic.Bool
}

func (j *countingJob) bounds(p int) (start, end int64) {
	if p > 0 {
		start = j.ends[p-1]
	}
	return start, j.ends[p]
}

func (j *countingJob) work(_, phase int, piece int64) {
	start, _ := j.bounds(phase)
	if j.count.Load() < start {
		j.early.Store(true)
	}
	j.done[start+piece].Add(1)
	j.count.Add(1)
}

// Given any phases and any number of workers, run after run, every piece is done
// exactly once and none before its phase is open.
func TestPoolDoesEveryPieceOnceInOrder(t *testing.T) {
	pools := map[int]*pool{}
	for _, n := range []int{1, 2, 3, 8} {
		pools[n] = newPool(n)
		defer pools[n].close()
	}
	rapid.Check(t, func(t *rapid.T) {
		p := pools[rapid.SampledFrom([]int{1, 2, 3, 8}).Draw(t, "threads")]
		for range rapid.IntRange(1, 5).Draw(t, "runs") {
			j := &countingJob{}
			total := int64(0)
			for _, n := range rapid.SliceOfN(rapid.Int64Range(1, 20), 1, 30).Draw(t, "pieces") {
				total += n
				j.ends = append(j.ends, total)
			}
			j.done = make([]atomic.Int32, total)
			p.run(j, total)
			for i := range j.done {
				if n := j.done[i].Load(); n != 1 {
					t.Fatalf("piece %d was done %d times", i, n)
				}
			}
			if j.early.Load() {
				t.Fatal("a piece began before its phase")
			}
		}
	})
}

func TestIdleWorkersPark(t *testing.T) {
	p := newPool(3)
	defer p.close()
	j := &countingJob{ends: []int64{4}, done: make([]atomic.Int32, 4)}
	p.run(j, 4)
	require.Eventually(t, func() bool { return p.parked[1].asleep.Load() && p.parked[2].asleep.Load() },
		testPatience, testPatience/1000, "workers that nothing wakes go to sleep")
	j = &countingJob{ends: []int64{4}, done: make([]atomic.Int32, 4)}
	p.run(j, 4)
	require.Equal(t, int64(4), j.count.Load(), "and work again when there is a run")
}
