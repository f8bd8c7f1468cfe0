// Package remote asks OpenAI-compatible servers for completions, to record what
// a target says that runs elsewhere.
//
// A server may be slow, busy or broken: answers are streamed, so that a stall is
// noticed; a failure that may pass is tried again after a growing, random wait.
//
// The one invariant: an answer is returned whole, with its end said by the
// server, or not at all. Half an answer is never taken for one.
package remote
