// Package mtp drafts with a multi-token-prediction head: one decoder layer that
// reads a hidden state of the target together with the token that follows it, and
// predicts the token after that. Its own output takes the place of the target's
// state for the next proposal, so that the head is chained up to the width.
//
// The head's cache is indexed by the consumed token: entry p reads token p and
// the target's hidden state at p−1. It is warmed over the whole prompt, and after
// every round the entries of accepted tokens are made anew from true states.
//
// The invariant: after a round all entries before the target's position are made
// from the target's own states, none from the head's.
package mtp
