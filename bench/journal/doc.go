// Package journal keeps the results of long work in a file of JSON lines: a
// header that says what the work is, then a line for everything that is done.
//
// The one invariant: what Append has returned without an error for is on disk
// and found again by Open, whatever happens to the process afterwards. A line
// that was cut short by a crash is dropped, since its work was never reported
// as done; a damaged line elsewhere is an error.
package journal
