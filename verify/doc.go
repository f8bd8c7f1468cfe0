// Package verify holds the round: one forward of the target over many rows, in
// which each row's proposal is checked against what the target itself draws.
//
// [Verifier.Round] is the only decode loop there is. A decode step is a round
// with an empty proposal, a prompt chunk is a round that draws nothing, and a
// block of proposals is a round like any other.
//
// The invariant: the tokens a row emits are those that drawing one by one from
// the target would emit, and after every round the cache of a row that has
// drawn holds everything known and emitted except the last token. Proposals
// decide only how many rounds it takes.
package verify
