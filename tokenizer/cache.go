package tokenizer

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
)

// wordCache remembers the ids of recent short words. It is direct mapped, so
// its size is fixed, and entries are immutable, so readers need no lock.
type wordCache struct {
	seed  maphash.Seed // where a word sits never changes what its ids are
	slots [1 << 13]atomic.Pointer[cachedWord]
}

type cachedWord struct {
	word string
	ids  []int32
}

const maxCachedWord = 48

func newWordCache() *wordCache { return &wordCache{seed: maphash.MakeSeed()} }

func (c *wordCache) slot(w string) *atomic.Pointer[cachedWord] {
	return &c.slots[maphash.String(c.seed, w)&uint64(len(c.slots)-1)]
}

func (c *wordCache) get(w string) ([]int32, bool) {
	if len(w) > maxCachedWord {
		return nil, false
	}
	if e := c.slot(w).Load(); e != nil && e.word == w {
		return e.ids, true
	}
	return nil, false
}

func (c *wordCache) put(w string, ids []int32) {
	if len(w) <= maxCachedWord {
		c.slot(w).Store(&cachedWord{word: strings.Clone(w), ids: slices.Clone(ids)})
	}
}
