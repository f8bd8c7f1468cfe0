// Package sampler turns a row of logits into the next token.
//
// [Params] holds every parameter of a request, [Fields] is the one table of
// their names, ranges and defaults, and a [Chain] applies them, position by
// position, to one sequence. The chain never sees whether a row is a plain
// step, the first token after the prompt, or position 5 of a verified block.
//
// Its invariant: the token drawn is a pure function of the logits, the
// parameters, the seed, the sample index and the tokens before it. The noise is
// counter-based (see [vocab.Noise]), the masses are integers, ties go to the
// lower id, and log and exp are this package's own, so neither the order of
// evaluation nor the machine can change a draw.
//
// The stages, in order; one at its neutral value is skipped:
//
//  1. mask: constraint, min_new_tokens, ignore_eos, banned tokens
//  2. bias: logit_bias, language_bias, suppress_tokens, a registered processor
//  3. repetition, DRY, frequency/presence, no-repeat n-gram
//  4. top-n-sigma, p-less, typical-p, epsilon/eta cutoff, tail-free
//  5. top-k, top-p, min-p on one distribution
//  6. XTC
//  7. temperature (dynamic if asked), then the draw (Gumbel-max, or adaptive-p)
//
// With [OrderHF] the temperature comes before step 4 and step 5 renormalizes
// between its filters. Mirostat replaces steps 4 to 7 after the temperature.
package sampler
