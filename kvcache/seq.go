package kvcache

import (
	"fmt"

	"surmise/compute"
)

// Seq is one sequence: its tokens and, in every group, the pages they are
// cached in.
//
// However far it has grown, a cut of up to Slack positions is possible, and a
// cut to the length that Mark has noted.
type Seq struct {
	c      *Cache
	tokens []int32
	tables []table // one per store
	keys   []Key   // of the leading full pages, as far as computed
	mark   int     // a length to keep restorable; −1 is none
	closed bool
}

// table is a sequence's pages in one store. Pages that its window has left
// behind are −1.
type table struct {
	pages []int32
	past  int // pages below this index have been given up, but for marked ones
}

// Len is the number of positions cached.
func (s *Seq) Len() int { return len(s.tokens) }

// Tokens are the tokens cached, by position. The slice is valid until the
// sequence is next changed, and must not be written.
func (s *Seq) Tokens() []int32 { return s.tokens }

// Cache is the cache the sequence lives in.
func (s *Seq) Cache() *Cache { return s.c }

// Append makes room for tokens behind the last position; the forward that
// computes them writes the keys and values. A partly filled page that somebody
// else holds too is copied first. Either all tokens are appended, or none and
// the error wraps ErrFull, ErrContext or ErrClosed.
func (s *Seq) Append(tokens []int32) error {
	if s.closed {
		return ErrClosed
	}
	n := len(s.tokens)
	if room := s.c.cfg.Context - n; len(tokens) > room {
		return fmt.Errorf("%w: %d tokens behind %d cached ones, but the context is %d", ErrContext, len(tokens), n, s.c.cfg.Context)
	}
	if len(tokens) == 0 {
		return nil
	}
	s.leaveBehind()
	var need int64
	fresh := pagesOf(n+len(tokens)) - pagesOf(n)
	for g := range s.tables {
		need += int64(fresh) * s.c.stores[g].bytes
		if s.sharesLast(g) {
			need += s.c.stores[g].bytes
		}
	}
	if !s.c.reserve(need) {
		return fmt.Errorf("%w: %d tokens need %d bytes, and %d of %d are in use", ErrFull, len(tokens), need, s.c.used, s.c.cfg.Budget)
	}
	for g := range s.tables {
		if s.sharesLast(g) {
			s.copyLast(g)
		}
		t := &s.tables[g]
		for range fresh {
			t.pages = append(t.pages, s.c.take(g))
		}
	}
	s.tokens = append(s.tokens, tokens...)
	return nil
}

// sharesLast tells whether the next token would be written into a page that
// somebody else holds too.
func (s *Seq) sharesLast(g int) bool {
	if len(s.tokens)%compute.PageSize == 0 {
		return false
	}
	pages := s.tables[g].pages
	return s.c.stores[g].refs[pages[len(pages)-1]] > 1
}

func (s *Seq) copyLast(g int) {
	pages := s.tables[g].pages
	last := len(pages) - 1
	page := s.c.take(g)
	if kv := s.c.stores[g].kv; kv != nil {
		kv.CopyPage(int(page), int(pages[last]))
	}
	s.c.drop(g, pages[last])
	pages[last] = page
}

// leaveBehind gives up the pages that no row from the present length on, nor
// from Slack before it, can see.
func (s *Seq) leaveBehind() {
	for g := range s.tables {
		window := s.c.stores[g].window
		if window == 0 {
			continue
		}
		t := &s.tables[g]
		for keep := firstPage(len(s.tokens), window+Slack); t.past < keep; t.past++ {
			if s.mark >= 0 && t.past >= firstPage(s.mark, window+Slack) && t.past < pagesOf(s.mark) {
				continue
			}
			s.giveUp(g, t.past)
		}
	}
}

func (s *Seq) giveUp(g, page int) {
	pages := s.tables[g].pages
	s.c.drop(g, pages[page])
	pages[page] = -1
}

// firstPage is the page of the earliest position within reach of position n.
func firstPage(n, reach int) int { return max(0, n-reach) / compute.PageSize }

// Mark keeps what is needed to cut back to the present length, and Slack
// positions further, however far the sequence grows, until Unmark. A second
// Mark replaces the first. (A model marks the sequences of a forward.)
func (s *Seq) Mark() {
	s.Unmark()
	s.mark = len(s.tokens)
}

// Unmark forgets the mark and what was kept only for it.
func (s *Seq) Unmark() {
	if s.mark < 0 || s.closed {
		return
	}
	for g := range s.tables {
		window := s.c.stores[g].window
		if window == 0 {
			continue
		}
		t := &s.tables[g]
		for i := firstPage(s.mark, window+Slack); i < min(pagesOf(s.mark), t.past); i++ {
			s.giveUp(g, i)
		}
	}
	s.mark = -1
}

// Truncate cuts the sequence back to n positions, in time that does not depend
// on its length. It fails, and changes nothing, when n is negative or beyond
// the length, or when a sliding window has given up what position n would see
// (ErrWindow). Cutting back to a mark never fails, nor does cutting to at most
// Slack positions below the greatest length at which an Append has begun.
func (s *Seq) Truncate(n int) error {
	switch {
	case s.closed:
		return ErrClosed
	case n < 0 || n > len(s.tokens):
		return fmt.Errorf("truncate to %d positions: want 0 to %d", n, len(s.tokens))
	case n == len(s.tokens):
		return nil
	}
	for g := range s.tables {
		if window := s.c.stores[g].window; window > 0 {
			for i := firstPage(n+1, window); i < pagesOf(n); i++ {
				if s.tables[g].pages[i] < 0 {
					return fmt.Errorf("truncate from %d to %d positions: %w", len(s.tokens), n, ErrWindow)
				}
			}
		}
	}
	s.cut(n)
	return nil
}

// cut drops the pages from position n on, the last page first.
func (s *Seq) cut(n int) {
	keep := pagesOf(n)
	for g := range s.tables {
		t := &s.tables[g]
		for i := len(t.pages) - 1; i >= keep; i-- {
			s.c.drop(g, t.pages[i])
		}
		t.pages = t.pages[:keep]
		// What a mark has kept is in use again if the cut went back to it.
		for t.past = min(t.past, keep); t.past > 0 && t.pages[t.past-1] >= 0; t.past-- {
		}
	}
	s.tokens = s.tokens[:n]
	full := n / compute.PageSize
	s.keys = s.keys[:min(len(s.keys), full)]
	if full < keep {
		// The page will be written over by its one holder: what was known about
		// its tokens no longer holds. Other holders keep it, we shall copy.
		names := s.c.names()
		if page := s.tables[names].pages[full]; s.c.stores[names].refs[page] == 1 {
			s.c.dropStates(page)
		}
	}
	if s.mark > n {
		s.mark = -1
	}
}

// Fork is a second sequence with the same tokens. It shares every page; the
// first of the two to write into the last page copies it. The mark is not
// inherited.
func (s *Seq) Fork() (*Seq, error) {
	if s.closed {
		return nil, ErrClosed
	}
	f := s.c.Open()
	f.tokens = append(f.tokens, s.tokens...)
	f.keys = append(f.keys, s.keys...)
	for g := range s.tables {
		f.tables[g] = table{pages: append([]int32(nil), s.tables[g].pages...), past: s.tables[g].past}
		for _, p := range f.tables[g].pages {
			s.c.hold(g, p)
		}
	}
	return f, nil
}

// Close lets go of the sequence's pages. Published ones stay for later prompts
// until room is needed. Closing twice is fine.
func (s *Seq) Close() {
	if s.closed {
		return
	}
	s.mark = -1
	s.cut(0)
	s.closed = true
	s.c.open--
}

// Slots appends to dst where the group's keys and values of positions from,
// from+1, … Len−1 are stored: page·PageSize + offset.
func (s *Seq) Slots(group, from int, dst []int32) []int32 {
	pages := s.tables[group].pages
	for p := from; p < len(s.tokens); p++ {
		dst = append(dst, pages[p/compute.PageSize]*compute.PageSize+int32(p%compute.PageSize))
	}
	return dst
}

// Pages is the group's page table, by position/PageSize; pages that the window
// has left behind are −1. The slice is valid until the sequence is next
// changed, and must not be written.
func (s *Seq) Pages(group int) []int32 { return s.tables[group].pages }
