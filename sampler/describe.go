package sampler

import "fmt"

// Describe lists the stages that are active, in their order, one a line: what
// `explain sampling` prints.
func (c *Chain) Describe() []string {
	out := c.core.params.Describe()
	if c.core.env.Constraint != nil {
		out = append([]string{"mask: constraint"}, out...)
	}
	if !c.core.greedy && c.core.params.Beams == 1 {
		out = append(out, fmt.Sprintf("noise: seed %d, sample %d", c.core.seed, c.sample))
	}
	return out
}

// Describe lists the stages that p switches on, in their order, one a line.
func (p Params) Describe() []string {
	var out []string
	add := func(on bool, format string, args ...any) {
		if on {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(p.MinNewTokens > 0, "mask: no end token before %d new tokens", p.MinNewTokens)
	add(p.IgnoreEOS, "mask: no end token")
	add(len(p.LogitBias) > 0, "logit_bias: %d tokens", len(p.LogitBias))
	for _, g := range p.LanguageBias {
		add(true, "language_bias: %+g for %q (%d tokens)", g.Bias, g.Name, len(g.Tokens))
	}
	add(len(p.SuppressTokens) > 0, "suppress_tokens: %d tokens", len(p.SuppressTokens))
	add(p.RepetitionPenalty != 1 && p.PenaltyLastN != 0, "repetition_penalty: %g over %s", p.RepetitionPenalty, windowText(p.PenaltyLastN))
	add(p.DRYMultiplier > 0 && p.DRYPenaltyLastN != 0, "dry: %g·%g^(length−%d) over %s, %d breakers",
		p.DRYMultiplier, p.DRYBase, p.DRYAllowedLength, windowText(p.DRYPenaltyLastN), len(p.DRYSequenceBreakers))
	add(p.FrequencyPenalty != 0, "frequency_penalty: %g per occurrence in the output", p.FrequencyPenalty)
	add(p.PresencePenalty != 0, "presence_penalty: %g for tokens in the output", p.PresencePenalty)
	add(p.NoRepeatNgramSize > 0, "no_repeat_ngram_size: %d", p.NoRepeatNgramSize)
	if p.Beams > 1 {
		search := fmt.Sprintf("beam search: %d beams, score Σ log p / length^%g", p.Beams, p.LengthPenalty)
		if p.BeamGroups > 1 {
			search += fmt.Sprintf(", %d groups, diversity_penalty %g", p.BeamGroups, p.DiversityPenalty)
		}
		return append(out, search)
	}
	if p.Greedy() {
		return append(out, "draw: greedy, the largest logit")
	}
	temperature := fmt.Sprintf("temperature: %g", p.Temperature)
	if p.DynatempRange > 0 {
		temperature += fmt.Sprintf(" ± %g by entropy^%g", p.DynatempRange, p.DynatempExponent)
	}
	if p.Mirostat > 0 {
		out = append(out, temperature)
		add(p.MinKeep > 1, "min_keep: %d", p.MinKeep)
		return append(out, fmt.Sprintf("draw: mirostat %d, tau %g bits, eta %g", p.Mirostat, p.MirostatTau, p.MirostatEta))
	}
	add(p.Order == OrderHF, "%s", temperature)
	add(p.TopNSigma > 0, "top_n_sigma: %g", p.TopNSigma)
	add(p.PLess, "p_less")
	add(p.TypicalP < 1, "typical_p: %g", p.TypicalP)
	add(p.EpsilonCutoff > 0, "epsilon_cutoff: %g", p.EpsilonCutoff)
	add(p.EtaCutoff > 0, "eta_cutoff: %g", p.EtaCutoff)
	add(p.TFSZ < 1, "tfs_z: %g", p.TFSZ)
	add(p.TopK > 0, "top_k: %d", p.TopK)
	add(p.TopP < 1, "top_p: %g", p.TopP)
	add(p.MinP > 0, "min_p: %g", p.MinP)
	add(p.MinKeep > 1 && len(out) > 0, "min_keep: %d", p.MinKeep)
	add(p.XTCProbability > 0, "xtc: threshold %g with probability %g", p.XTCThreshold, p.XTCProbability)
	add(p.Order != OrderHF, "%s", temperature)
	if p.AdaptiveTarget >= 0 {
		return append(out, fmt.Sprintf("draw: adaptive-p, target %g, decay %g", p.AdaptiveTarget, p.AdaptiveDecay))
	}
	return append(out, "draw: Gumbel-max")
}

func windowText(n int) string {
	if n < 0 {
		return "all tokens"
	}
	return fmt.Sprintf("the last %d tokens", n)
}
