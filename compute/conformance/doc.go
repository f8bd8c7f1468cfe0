// Package conformance proves that a compute.Device gives the bits of package
// canon: random programs of every operation, over random shapes, odd sizes,
// every checkpoint type and extreme values, with several thread counts, are run
// on both and every output value is compared.
//
// Its invariant: equality is of bits, except that any NaN equals any other.
package conformance
