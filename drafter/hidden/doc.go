// Package hidden is what drafters share that continue from the target's hidden
// states: a Track follows one sequence of the target, with a cache of the
// drafter's own beside it.
//
// What a drafter computes from a position's hidden state is computed when it is
// needed: before it proposes, or while the prompt is read. A drafter that is not
// asked for long owes positions; the oldest are given up then, so that it costs
// next to nothing and comes back cheaply.
package hidden
