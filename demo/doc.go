// Package demo embeds a small family of models, so that everything can be
// tried on a machine without a network: a target that completes Go source,
// and one drafter of every kind that needs a checkpoint.
//
// The models were trained by the recipes in training/ on the Go standard
// library's source (licence: BSD-3-Clause, as Go's), on two CPU cores in a
// few hours. training/README.md tells how good they are. They are Hugging Face
// directories like anyone's:
//
//	target/  Qwen3 layout, 5.2 M parameters, context 1,024, with tokenizer
//	draft/   Qwen3 layout, 0.6 M parameters, distilled from the target, with tokenizer
//	mtp/     one multi-token-prediction head, trained on chains of 4
//	dflash/  a block drafter of 3 layers, block 8, trained together with the target at first
//
// The one invariant: the four directories belong together. The drafters were
// trained on exactly this target and share its tokenizer, and together they
// stay under 16 MB.
package demo
