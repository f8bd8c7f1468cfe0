// Package cascade drafts with two drafters: a copy of what followed a long
// suffix match where there is one, a model's proposal otherwise.
//
// Where to switch is measured. Every round's copy is compared with the stream,
// whether it was proposed or not, so the mean number of its tokens that survive
// is known by length of match; a copy is taken where that is at least what the
// model's proposals bring.
//
// The invariant: both parts see every outcome, so that each is in step with the
// target whichever of them proposed.
package cascade
