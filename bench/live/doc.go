// Package live decodes questions on a target in several ways and measures them
// against each other.
//
// The ways of decoding take turns within one process, some rounds each, so that
// a machine that becomes slower or faster meanwhile is so for all of them, and
// ratios hold where absolute times do not. Each has a clock that stands still
// while another is at work.
//
// The one invariant: what a way of decoding does, counts and emits is the same
// as if it ran alone; interleaving changes nothing but when it happens.
package live
