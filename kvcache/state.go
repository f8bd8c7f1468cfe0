package kvcache

import (
	"fmt"

	"surmise/compute"
)

// Releaser is state that wants to know when its page is gone.
type Releaser interface{ Release() }

// SetState attaches what a drafter knows about full page i of the sequence
// (positions 64·i … 64·i+63) under the drafter's own key, which must be
// comparable. It is found again by every sequence that shares the page, forked
// or matched, and is dropped with the page: Release is called on it if it has
// that method, as it is on the state that it replaces.
func (s *Seq) SetState(key any, i int, state any) error {
	if full := s.Len() / compute.PageSize; i < 0 || i >= full {
		return fmt.Errorf("page state: page %d of a sequence of %d full pages", i, full)
	}
	id := s.tables[s.c.names()].pages[i]
	m := s.c.states[id]
	if m == nil {
		m = map[any]any{}
		s.c.states[id] = m
	}
	if old, ok := m[key]; ok {
		release(old)
	}
	m[key] = state
	return nil
}

// State is what was attached to full page i under key.
func (s *Seq) State(key any, i int) (state any, ok bool) {
	if i < 0 || i >= s.Len()/compute.PageSize {
		return nil, false
	}
	state, ok = s.c.states[s.tables[s.c.names()].pages[i]][key]
	return state, ok
}

func (c *Cache) dropStates(id int32) {
	for _, state := range c.states[id] {
		release(state)
	}
	delete(c.states, id)
}

// moveStates keeps, for a page that replaces another of the same content, the
// state that only the replaced one has. When others still hold the replaced
// page its state stays with it: state has one owner.
func (c *Cache) moveStates(to, from int32) {
	if c.stores[c.names()].refs[from] > 1 {
		return
	}
	for key, state := range c.states[from] {
		if _, ok := c.states[to][key]; ok {
			continue
		}
		if c.states[to] == nil {
			c.states[to] = map[any]any{}
		}
		c.states[to][key] = state
		delete(c.states[from], key)
	}
}

func release(state any) {
	if r, ok := state.(Releaser); ok {
		r.Release()
	}
}
