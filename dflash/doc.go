// Package dflash drafts a whole block in one pass: a small stack of layers looks
// at hidden states of the target and fills the slots behind the last token, all
// at once, without a loop over tokens.
//
// For every position p in the target's cache the drafter keeps keys and values
// of a context c_p = hidden_norm(fc(hidden states of chosen target layers at p)),
// which depends on p alone. A block starts from the embedding of the last token
// and of a mask token in every further slot; its layers attend to the context and
// to the block itself; slot i predicts the token at its own position.
//
// The invariant: the context of a sequence covers exactly the positions that the
// target has cached, and a block leaves nothing behind in it.
package dflash
