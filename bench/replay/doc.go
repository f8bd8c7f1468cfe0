// Package replay measures drafters against a recording, without the target.
//
// The engine runs as it does live, over a [Target] that computes nothing: it
// answers every position with the token that the target said there, and hands
// out the hidden states that were recorded. So rounds, budgets, chains and
// outcomes are those of a live run by construction, not by imitation. The time
// of the target's forwards comes from a measured table and is added to a clock,
// so that the times of a replay are predictions, and the automatic width decides
// as it would with that table.
//
// The one invariant: for a recording of a local target, the counts of a replay
// with a fixed width equal those of the live run exactly. (The automatic width
// depends on measured times, so its counts are predictions too.)
package replay
