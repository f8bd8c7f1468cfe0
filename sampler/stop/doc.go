// Package stop decides where an answer ends and what of it may be shown so far:
// end tokens, stop strings, stop expressions and the limit on new tokens, for
// commands and server alike.
//
// Its invariant: the text shown never depends on how the tokens cut it. The
// texts of all results, joined, are the answer's text up to the stop that
// completes first; what could still become a stop is held back, exactly as long
// as it could; and what is shown is always whole UTF-8.
//
// Of stops that complete at the same character the one that starts earliest
// wins, then the first in order: strings before expressions, each in the order
// given. The stop itself is not shown.
package stop
