// Package prompts has the questions of experiments: a mix written for this
// project, and readers of Spec-Bench and DeepSpec files and of plain text.
//
// The one invariant: an item's ID is unique within its set and does not depend
// on which items are chosen, so that results of different runs can be put
// together by it.
package prompts
