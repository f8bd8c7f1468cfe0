// Package compute says what the engine asks of the hardware: a Device that runs
// a recorded Program of coarse operations over device buffers, with one
// read-back at the end.
//
// Its invariant: every Device gives the same bits for the same program. The
// meaning of each operation is fixed by the plain loops of package canon, one
// accumulator per output in ascending order, and a Device may choose layout,
// lanes and threads but never the order of a reduction.
package compute
