// Package report shows what experiments came to: as a table of text, as JSON,
// and as one HTML page that needs nothing else, for a screen of any width and
// for paper.
//
// The one invariant: a report shows nothing that cannot be computed from the
// trials and the About it is made of, and prints the definitions it used.
package report
