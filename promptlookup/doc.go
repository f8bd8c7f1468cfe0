// Package promptlookup drafts by copying what followed the same words before:
// it finds the longest suffix of a sequence that occurred earlier in prompt or
// output and proposes what came after it. It needs no checkpoint and no
// training, and costs well under a microsecond for each token.
//
// The invariant: the [Index] always describes exactly the tokens appended to
// it, rejected proposals never among them, so that what it proposes is what an
// exhaustive search of the text would find.
package promptlookup
