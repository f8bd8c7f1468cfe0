// Package drafter says what a drafter is: something that surmises the next
// tokens of a sequence so that the target can confirm several of them in one
// forward pass.
//
// The package holds the interface and its lifecycle ([Drafter]), the contract
// every kind declares as data ([Contract]), the registry of kinds ([Kinds]) and
// their detection from a checkpoint ([Detect]), the policy for how many tokens
// to propose ([Width]), and the counters every kind reports ([Counters]).
//
// The invariant: nothing a drafter does can change the emitted stream. It can
// only propose token ids; the target emits its own token at every position, and
// a proposal is accepted because it equals that token. What must be right
// in a drafter is bookkeeping: after every round its position equals the
// target's, which is what the suite in package draftertest checks for any kind.
package drafter
