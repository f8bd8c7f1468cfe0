// Package randommodel writes GGUF files with the shapes of published models and
// random weights, so that speed can be measured without downloading anything.
//
// Types of tensors are mixed as llama.cpp's quantizer mixes them. The tokenizer
// is byte-level with a vocabulary padded to the model's size, good enough for
// any engine to load.
//
// Invariant: equal arguments give equal files, and weights are scaled so that
// activations and logits stay finite and of ordinary size, whatever the type.
package randommodel
