// Package cpu is the compute.Device on the processor: packed weights, SIMD
// kernels chosen at run time, and a pool of workers that spin through a whole
// program.
//
// Its invariant: every result has the bits of package canon, with any number of
// threads and any instruction set. Lanes and threads span outputs; where a long
// reduction is split (attention) the split is by absolute position. The
// package's tests run the shared suite compute/conformance over every
// implementation this machine has.
//
// How a program runs: it is checked, then cut into phases. Consecutive
// operations on rows become one phase, done row by row, so that a norm and the
// quantization of the next layer's input need no barrier between them; a linear
// layer is a phase over groups of 16 outputs; attention one over (key/value
// head, chunk of 256 positions, tile of rows and query heads). The pieces of all
// phases are numbered through, and workers take the next piece as soon as all
// phases before its own are done.
//
// Weights and key/value pages lie in anonymous memory outside the garbage
// collector's heap; Close unmaps it, and what was loaded must not be used after.
package cpu
