package tokenizer

import (
	"fmt"
	"math"
)

// noRank marks a pair that does not merge. Ranks are compared, lower first.
const noRank = math.MaxInt32

// mergeTable maps a pair of adjacent token ids to the rank of their merge and
// the id it makes: open addressing over a power-of-two table, because a lookup
// per symbol pair is what encoding spends its time on.
type mergeTable struct {
	slots []mergeSlot
	shift uint
	count int
}

type mergeSlot struct {
	pair uint64 // left<<32 | right; emptyPair when free
	rank int32
	id   int32
}

const emptyPair = math.MaxUint64

func pairKey(left, right int32) uint64 {
	return uint64(uint32(left))<<32 | uint64(uint32(right))
}

// newMergeTable makes a table for at most n merges.
func newMergeTable(n int) *mergeTable {
	bits := uint(4)
	for 1<<bits < n+n/2 {
		bits++
	}
	t := &mergeTable{slots: make([]mergeSlot, 1<<bits), shift: 64 - bits}
	for i := range t.slots {
		t.slots[i].pair = emptyPair
	}
	return t
}

// slot returns the index that holds pair, or the free one where it belongs.
func (t *mergeTable) slot(pair uint64) int {
	mask := len(t.slots) - 1
	i := int((pair * 0x9E3779B97F4A7C15) >> t.shift)
	for t.slots[i].pair != pair && t.slots[i].pair != emptyPair {
		i = (i + 1) & mask
	}
	return i
}

// add records a merge; a pair recorded twice is an error, because files with
// such a pair mean different things to different readers.
func (t *mergeTable) add(left, right, rank, id int32) error {
	if t.count >= len(t.slots)-1 {
		return fmt.Errorf("more merges than the %d announced", t.count)
	}
	s := &t.slots[t.slot(pairKey(left, right))]
	if s.pair != emptyPair {
		return fmt.Errorf("the pair of tokens %d and %d merges twice (ranks %d and %d)", left, right, s.rank, rank)
	}
	*s = mergeSlot{pair: pairKey(left, right), rank: rank, id: id}
	t.count++
	return nil
}

// lookup returns the rank and the result of merging left and right, or noRank.
func (t *mergeTable) lookup(left, right int32) (rank, id int32) {
	s := &t.slots[t.slot(pairKey(left, right))]
	if s.pair == emptyPair {
		return noRank, -1
	}
	return s.rank, s.id
}

// shortWord is the longest word, in symbols, for which scanning all ranks
// again after every merge beats a heap.
const shortWord = 32

// merge applies the merges to syms, lowest rank first and leftmost among
// equals, in place, and returns the shortened slice.
func (t *mergeTable) merge(syms []int32) []int32 {
	if len(syms) < 2 {
		return syms
	}
	if len(syms) <= shortWord {
		return t.mergeShort(syms)
	}
	return t.mergeLong(syms)
}

func (t *mergeTable) mergeShort(syms []int32) []int32 {
	var ranks, made [shortWord]int32
	n := len(syms)
	for i := 0; i+1 < n; i++ {
		ranks[i], made[i] = t.lookup(syms[i], syms[i+1])
	}
	for n > 1 {
		at, best := -1, int32(noRank)
		for i := 0; i+1 < n; i++ {
			if ranks[i] < best {
				at, best = i, ranks[i]
			}
		}
		if at < 0 {
			break
		}
		syms[at] = made[at]
		n--
		copy(syms[at+1:n], syms[at+2:n+1])
		copy(ranks[at+1:n], ranks[at+2:n+1])
		copy(made[at+1:n], made[at+2:n+1])
		if at+1 < n {
			ranks[at], made[at] = t.lookup(syms[at], syms[at+1])
		}
		if at > 0 {
			ranks[at-1], made[at-1] = t.lookup(syms[at-1], syms[at])
		}
	}
	return syms[:n]
}

// candidate is a merge that was possible when it was queued. It is stale, and
// skipped, once either symbol has been merged with something else.
type candidate struct {
	rank, pos, left, right, id int32
}

func (a candidate) before(b candidate) bool {
	return a.rank < b.rank || a.rank == b.rank && a.pos < b.pos
}

// mergeLong keeps the possible merges in a heap and the symbols in a linked
// list: O(n log n), where rescanning would be quadratic.
func (t *mergeTable) mergeLong(syms []int32) []int32 {
	n := len(syms)
	next, prev := make([]int32, n), make([]int32, n)
	heap := make([]candidate, 0, n)
	for i := range syms {
		next[i], prev[i] = int32(i+1), int32(i-1)
		if i+1 < n {
			if rank, id := t.lookup(syms[i], syms[i+1]); rank != noRank {
				heap = append(heap, candidate{rank, int32(i), syms[i], syms[i+1], id})
			}
		}
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		siftDown(heap, i)
	}
	queue := func(pos int32) {
		if pos < 0 || int(next[pos]) >= n {
			return
		}
		left, right := syms[pos], syms[next[pos]]
		if rank, id := t.lookup(left, right); rank != noRank {
			heap = append(heap, candidate{rank, pos, left, right, id})
			siftUp(heap, len(heap)-1)
		}
	}
	for len(heap) > 0 {
		c := heap[0]
		heap[0] = heap[len(heap)-1]
		heap = heap[:len(heap)-1]
		siftDown(heap, 0)
		r := next[c.pos]
		if syms[c.pos] != c.left || int(r) >= n || syms[r] != c.right {
			continue
		}
		syms[c.pos], syms[r] = c.id, -1 // −1: no longer a symbol
		next[c.pos] = next[r]
		if int(next[r]) < n {
			prev[next[r]] = c.pos
		}
		queue(prev[c.pos])
		queue(c.pos)
	}
	out := syms[:0]
	for _, s := range syms {
		if s >= 0 {
			out = append(out, s)
		}
	}
	return out
}

func siftUp(h []candidate, i int) {
	for i > 0 {
		p := (i - 1) / 2
		if !h[i].before(h[p]) {
			return
		}
		h[i], h[p] = h[p], h[i]
		i = p
	}
}

func siftDown(h []candidate, i int) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h[c+1].before(h[c]) {
			c++
		}
		if !h[c].before(h[i]) {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}
