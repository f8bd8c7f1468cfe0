// Package tokenizer turns text into token ids and back, and renders chat
// templates.
//
// It reads the three places a checkpoint keeps its vocabulary in: Hugging
// Face's tokenizer.json, SentencePiece's tokenizer.model, and the metadata of a
// GGUF file. Two families are understood, byte-level BPE (GPT-2 and its
// descendants: Llama 3, Qwen, SmolLM, gpt-oss, DeepSeek) and SentencePiece-style
// BPE with byte fallback (Llama 2, Mistral, Gemma). Everything a file may ask
// for that is not understood is an error naming it, never an approximation.
//
// The invariant: [Tokenizer.Encode] gives the ids that the Hugging Face
// tokenizers library gives for the same file, and the concatenation of what a
// [Decoder] streams equals [Tokenizer.Decode] of the same ids, in whole UTF-8
// at every step.
//
// A Tokenizer is immutable after construction and safe for concurrent use; a
// Decoder belongs to one sequence.
package tokenizer
