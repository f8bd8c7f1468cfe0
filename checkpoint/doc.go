// Package checkpoint turns checkpoints on disk into named tensors and one
// normalized [Config].
//
// It reads GGUF files (versions 2 and 3) and Hugging Face directories
// (config.json, generation_config.json and safetensors, one file or sharded,
// in F32, F16, BF16 or the 4- and 8-bit affine quantization of MLX). Tensors
// always carry their Hugging Face name and shape; a GGUF file's names are
// translated.
//
// Weights are memory-mapped where the system can do that: [Tensor].Data is the
// mapping itself, read only, and valid until [Checkpoint.Close]. A file that
// somebody truncates while it is mapped ends the process with a bus error, as
// with every memory map; replace model files by renaming.
//
// The one invariant: a file is hostile until checked. Every length, offset,
// count, shape and type is compared with what the file really holds before it
// is used, so [Open] returns either a checkpoint whose every tensor can be read
// to its last row, or an error that names the file, the tensor or key, what was
// found and what was expected. Nothing here panics on a bad file, and nothing
// allocates from a number that was not checked.
//
// What a stored block of weights means is fixed by [Tensor.Float32Row]; every
// faster path in other packages is tested against it.
package checkpoint
