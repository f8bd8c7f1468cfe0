// Package pair finds the drafter and the width for a target: it looks at how
// often the two agree, predicts acceptance and speedup, and leaves measuring to
// package live.
//
// The prediction replays the target's own streams (package replay) with times
// measured on this machine: forwards by number of rows, and drafting by number
// of proposals, the latter in turn with plain forwards of the target, so that a
// machine that changes its speed does so for both.
//
// The one invariant: nothing predicted here looks at a measured speedup.
package pair
