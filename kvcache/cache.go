package kvcache

import (
	"container/list"
	"errors"
	"fmt"
	"math"

	"surmise/compute"
)

// Slack is how far a sequence can always be cut back, sliding windows or not:
// the widest block of proposals.
const Slack = 64

var (
	// ErrFull is returned when the byte budget has no room for more pages and
	// nothing unused is left to evict.
	ErrFull = errors.New("key/value cache is full")
	// ErrContext is returned when a sequence would grow past the context.
	ErrContext = errors.New("context is full")
	// ErrWindow is returned when a cut would need positions that a sliding
	// window has already given up.
	ErrWindow = errors.New("positions before the sliding window are gone")
	// ErrClosed is returned by a sequence that has been closed.
	ErrClosed = errors.New("sequence is closed")
)

// Group is a run of layers that share a page table because they see the same
// positions.
type Group struct {
	Layers int // how many layers
	Window int // how many positions a row sees, its own included; 0 is all of them
}

// Config says what a Cache holds.
type Config struct {
	Groups         []Group
	Heads, HeadDim int // key/value heads and their width
	Type           compute.KVType
	Budget         int64 // bytes that pages in use or published may take together
	Context        int   // positions a sequence may have
}

// Cache hands out pages of one key/value store per group under one budget.
//
// The budget counts pages that somebody holds. Memory is committed when a page
// is first written and reused within its group, so that what the process holds
// is at most the sum over groups of the most pages each held at a time.
// (Splitting the budget between groups beforehand was rejected: the right split
// depends on how long the sequences turn out to be.)
type Cache struct {
	cfg    Config
	stores []*store // one per group, then one without memory that names pages
	used   int64
	open   int

	index  map[Key]*node // published pages
	recent *list.List    // of *node; a page is always nearer the front than those that continue it
	states map[int32]map[any]any

	hits, hitTokens, evicted int64
}

// Stats is a snapshot of a cache's bookkeeping.
type Stats struct {
	Budget    int64 // bytes
	Used      int64 // bytes held by sequences or published
	Idle      int64 // of Used: bytes held only because they are published
	Sequences int   // open ones
	Published int   // pages that a prompt can start from
	Hits      int64 // matches that found at least one token
	HitTokens int64 // tokens they found
	Evicted   int64 // published pages given up to make room
}

// New reserves a store for every group. It fails when a field is not positive,
// or the budget does not hold a page of every group.
func New(dev compute.Device, cfg Config) (*Cache, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("key/value cache: %w", err)
	}
	c := &Cache{cfg: cfg, index: map[Key]*node{}, recent: list.New(), states: map[int32]map[any]any{}}
	for i, g := range cfg.Groups {
		spec := compute.KVSpec{Layers: g.Layers, Heads: cfg.Heads, HeadDim: cfg.HeadDim, Type: cfg.Type}
		size := spec.PageBytes()
		spec.Pages = int(min(cfg.Budget/size, maxPages))
		kv, err := dev.NewKV(spec)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("key/value cache: group %d: %w", i, err), c.Close())
		}
		c.stores = append(c.stores, &store{kv: kv, window: g.Window, bytes: size, limit: spec.Pages})
	}
	c.stores = append(c.stores, &store{limit: maxPages})
	return c, nil
}

// maxPages keeps slot numbers, page·PageSize + offset, inside an int32.
const maxPages = math.MaxInt32 / compute.PageSize

// PageBytes is the memory that 64 positions take over all groups.
func (cfg Config) PageBytes() int64 {
	var sum int64
	for _, g := range cfg.Groups {
		spec := compute.KVSpec{Layers: g.Layers, Heads: cfg.Heads, HeadDim: cfg.HeadDim, Type: cfg.Type}
		sum += spec.PageBytes()
	}
	return sum
}

// SequenceBytes is the memory a sequence of n positions takes, appended in
// runs of at most step positions.
func (cfg Config) SequenceBytes(n, step int) int64 {
	var sum int64
	for _, g := range cfg.Groups {
		pages := pagesOf(n)
		if g.Window > 0 {
			pages = min(pages, pagesOf(g.Window+Slack+step)+1)
		}
		spec := compute.KVSpec{Layers: g.Layers, Heads: cfg.Heads, HeadDim: cfg.HeadDim, Type: cfg.Type}
		sum += int64(pages) * spec.PageBytes()
	}
	return sum
}

func (cfg Config) check() error {
	const most = 1 << 24 // far above any model; keeps the products below inside int64
	if len(cfg.Groups) == 0 {
		return errors.New("no groups of layers")
	}
	for i, g := range cfg.Groups {
		if g.Layers < 1 || g.Layers > 1<<16 {
			return fmt.Errorf("group %d has %d layers, want 1 to %d", i, g.Layers, 1<<16)
		}
		if g.Window < 0 {
			return fmt.Errorf("group %d has window %d, want 0 (everything) or more", i, g.Window)
		}
	}
	if cfg.Heads < 1 || cfg.HeadDim < 1 || cfg.Heads > most || cfg.HeadDim > most || cfg.Heads*cfg.HeadDim > most {
		return fmt.Errorf("%d heads of %d elements, want at least 1 of 1 and at most %d elements together", cfg.Heads, cfg.HeadDim, most)
	}
	if cfg.Context < 1 || cfg.Context > math.MaxInt32-compute.PageSize {
		return fmt.Errorf("context of %d positions, want 1 to %d", cfg.Context, math.MaxInt32-compute.PageSize)
	}
	if need := cfg.PageBytes(); cfg.Budget < need {
		return fmt.Errorf("budget of %d bytes, want at least %d for one page of %d positions", cfg.Budget, need, compute.PageSize)
	}
	return nil
}

// Config is what the cache was made with.
func (c *Cache) Config() Config { return c.cfg }

// KV is the page store of a group, for recording a program.
func (c *Cache) KV(group int) compute.KV { return c.stores[group].kv }

// Open starts an empty sequence.
func (c *Cache) Open() *Seq {
	c.open++
	return &Seq{c: c, tables: make([]table, len(c.stores)), mark: -1}
}

// Stats takes a snapshot; it walks the published pages.
func (c *Cache) Stats() Stats {
	s := Stats{
		Budget: c.cfg.Budget, Used: c.used, Sequences: c.open, Published: len(c.index),
		Hits: c.hits, HitTokens: c.hitTokens, Evicted: c.evicted,
	}
	for e := c.recent.Front(); e != nil; e = e.Next() {
		for g, p := range e.Value.(*node).pages {
			if p >= 0 && c.stores[g].refs[p] == 1 {
				s.Idle += c.stores[g].bytes
			}
		}
	}
	return s
}

// Close gives the stores' memory back. Sequences must not be used afterwards.
func (c *Cache) Close() error {
	var errs []error
	for _, s := range c.stores {
		if s.kv != nil {
			errs = append(errs, s.kv.Close())
			s.kv = nil
		}
	}
	for id := range c.states {
		c.dropStates(id)
	}
	return errors.Join(errs...)
}

// store is one group's pages: how many hold each of them, and which are free.
type store struct {
	kv     compute.KV // nil for the store that only names pages
	window int
	bytes  int64 // of one page
	limit  int
	refs   []int32 // by page; grows as pages are first taken
	free   []int32
}

// take hands out a page with one holder; the caller has reserved its bytes.
// The page freed last comes first: its memory is committed and warm.
func (c *Cache) take(g int) int32 {
	s := c.stores[g]
	c.used += s.bytes
	if n := len(s.free); n > 0 {
		p := s.free[n-1]
		s.free = s.free[:n-1]
		s.refs[p] = 1
		return p
	}
	s.refs = append(s.refs, 1)
	return int32(len(s.refs) - 1)
}

func (c *Cache) hold(g int, p int32) {
	if p >= 0 {
		c.stores[g].refs[p]++
	}
}

// drop lets go of a page; its last holder frees it.
func (c *Cache) drop(g int, p int32) {
	if p < 0 {
		return
	}
	s := c.stores[g]
	if s.refs[p]--; s.refs[p] > 0 {
		return
	}
	s.free = append(s.free, p)
	c.used -= s.bytes
	if g == c.names() {
		c.dropStates(p)
	}
}

// names is the index of the store whose pages have no memory: page numbers
// that stand for a sequence's page whatever the groups have done with theirs.
func (c *Cache) names() int { return len(c.cfg.Groups) }

// reserve evicts until need more bytes fit the budget.
func (c *Cache) reserve(need int64) bool {
	if need > c.cfg.Budget {
		return false
	}
	for c.used > c.cfg.Budget-need {
		if !c.evict() {
			return false
		}
	}
	return true
}

// pagesOf is the number of pages that n positions take.
func pagesOf(n int) int { return (n + compute.PageSize - 1) / compute.PageSize }
