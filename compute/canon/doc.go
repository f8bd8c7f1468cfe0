// Package canon is the meaning of every operation of package compute, as plain
// loops over plain slices: one accumulator, ascending index, a fixed operation
// for each step. Fast devices are right when they give the bits these loops give.
//
// Its invariant: a result depends on the row's own operands and nothing else;
// not on how many rows there are, nor on where a row lies in a batch. Where a
// reduction is split (attention, norms) the split is by absolute position.
//
// Products that must round before they are added are written float32(a*b),
// because Go may otherwise fuse them on some architectures.
//
// New gives a compute.Device that interprets programs by these loops over
// logical values (no packing, no threads): the oracle of package conformance.
package canon
