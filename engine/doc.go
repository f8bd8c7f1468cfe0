// Package engine turns requests into streams of token events: it opens
// sequences, shares prefixes, feeds prompts in chunks, runs rounds over all
// sequences at once, and stops each where it should.
//
// An [Engine] owns no goroutine: [Engine.Tick] does one round over everything
// that is under way, and whoever calls it decides when. [Engine.Run] calls it
// until a set of requests is done; [Open] puts an engine together from a
// checkpoint on disk.
//
// The invariant: the events of a request depend on its prompt, its parameters
// and its seed, not on the other requests of a batch, on the drafter, on how
// prompts were cut, or on what the cache remembered.
package engine
