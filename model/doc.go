// Package model runs target architectures: it turns a checkpoint into weights
// on a compute.Device and a batch of rows into logits and hidden states.
//
// An architecture is one file (llama.go, qwen2.go, qwen3.go, gemma3.go) that
// reads from top to bottom: its tensors, then one decoder block as a list of
// device operations. Everything around the blocks, the same for all of them,
// is in forward.go.
//
// The invariant: the logits of a position are a function of the checkpoint,
// the options and the tokens up to it. Which other rows shared the forward, how
// a prompt was cut into chunks, what a cache page held before, and how many
// threads worked on it leave no trace in any bit.
package model
