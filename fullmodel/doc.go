// Package fullmodel drafts with an ordinary, smaller checkpoint: token by
// token, from its own key/value cache.
//
// The draft model may have another architecture, context and vocabulary order
// than the target; what must agree is the content of the tokens. Its cache is
// kept by content: before it proposes, it is cut back to what it has in common
// with the sequence and given the rest, so the token it owes after a full
// acceptance, a rejected tail and a pause of any length are one case.
//
// The invariant: after every round a sequence's position equals the target's,
// and the draft cache holds a prefix of the sequence plus what was drafted last.
package fullmodel
