// Package costs measures what a forward of a target takes by its number of rows,
// and what the machine's memory and arithmetic would allow, in the same run.
//
// The table feeds the automatic width (drafter.NewCosts): whether a proposal pays
// depends on what verifying it adds to a round. It is a package beside the engine
// because it needs a target and nothing of requests, and because the automatic
// width must not know how its table came to be.
//
// Invariant: measuring leaves no trace. Sequences are closed, what a forward
// computes is thrown away, and a table that cannot be read, is damaged or belongs
// to something else counts as none: costs decide how fast a text comes, never
// which, so nothing here is an error for the user.
package costs
