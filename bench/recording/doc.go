// Package recording keeps what a target said: prompts, the streams of tokens
// that answered them, and the hidden states that drafters would have read.
//
// Since a stream never depends on the drafter, a target has to run once: any
// drafter can be measured against its recording afterwards, see package replay.
//
// A recording is a journal (see package journal) of a Header and Items, and,
// where hidden states were recorded, a file beside it with the ending
// ".hidden": float32 values in little-endian order, for every item the layers
// one after the other, each [positions, hidden]. They are kept as they are, since
// a drafter must read the very bits it would have read live; a token takes
// 4 · hidden · layers bytes.
//
// The one invariant: an item that Append has taken is never lost, and is found
// whole or not at all.
package recording
