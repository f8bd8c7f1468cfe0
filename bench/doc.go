// Package bench defines what an experiment with drafters measures: ways of
// decoding, the trials of one request each, their counts and times, and the
// statistics of both.
//
// The rooms inside do the work: prompts has the questions, live runs them on a
// target, recording keeps streams in files, replay measures drafters against a
// recording, pair chooses drafters for targets, report prints.
//
// The one invariant: every number of a report is computed from the trials that
// are stored with it, by the definitions in [Definitions], so that reports of
// parts of an experiment can be merged into that of the whole.
package bench
