// Package vocab makes the passes over a row of logits that a sampler needs:
// maximum, integer masses, weights, candidate collection, and the race of
// Gumbel noise against what can still win.
//
// Its invariant: every implementation (AVX-512, AVX2, plain Go) returns the
// same bits for the same input, so the instruction set can never change a
// token. The plain Go in generic.go is the definition.
//
// A row is cut into blocks of [Block] tokens. The first pass over a row stores
// the maximum of each block; later passes read only the blocks that can matter.
package vocab
