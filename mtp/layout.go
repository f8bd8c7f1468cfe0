package mtp

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"surmise/checkpoint"
	"surmise/drafter"
)

// Hidden is which of the target's last hidden states a head reads.
type Hidden string

// The two states a head can have been trained with. A wrong choice fails
// nowhere; it only lowers acceptance.
const (
	Normed Hidden = "normed" // after the target's final norm
	Raw    Hidden = "raw"    // before it
)

// layout is how a family of checkpoints names and arranges a head. They are
// data; network.go is the one program that runs them all.
type layout struct {
	name string
	// project is the matrix [hidden, 2·hidden] over both inputs.
	project string
	// hiddenFirst: the state is the first half of the projection's input.
	hiddenFirst bool
	// tokenNorm and stateNorm are the norms of the two inputs.
	tokenNorm, stateNorm string
	// layer is the start of the decoder layer's tensor names.
	layer string
	// norm is the norm before the head.
	norm string
	// chainRaw: the state before norm is chained, not the one after.
	chainRaw bool
	// zeroFirst: the entry that reads the state of position 0 gets no token.
	zeroFirst bool
	// hidden is the target's state the head reads.
	hidden Hidden
	// embedding and head are the head's own, used where the checkpoint has them.
	embedding, head string
}

// The layouts by the prefix of their tensors.
func qwen(prefix string) layout {
	return layout{
		name: "qwen3.5", project: prefix + "fc", tokenNorm: prefix + "pre_fc_norm_embedding.weight",
		stateNorm: prefix + "pre_fc_norm_hidden.weight", layer: prefix + "layers.0.", norm: prefix + "norm.weight",
		hidden: Normed, embedding: prefix + "embed_tokens.weight", head: prefix + "lm_head",
	}
}

func deepSeek(prefix string) layout {
	return layout{
		name: "deepseek", project: prefix + "eh_proj", tokenNorm: prefix + "enorm.weight", stateNorm: prefix + "hnorm.weight",
		layer: prefix, norm: prefix + "shared_head.norm.weight", chainRaw: true, zeroFirst: true, hidden: Raw,
		embedding: prefix + "embed_tokens.weight", head: prefix + "shared_head.head",
	}
}

func miMo(prefix string) layout {
	return layout{
		name: "mimo", project: prefix + "input_proj", hiddenFirst: true, tokenNorm: prefix + "token_layernorm.weight",
		stateNorm: prefix + "hidden_layernorm.weight", layer: prefix, norm: prefix + "final_layernorm.weight",
		zeroFirst: true, hidden: Normed, embedding: prefix + "embed_tokens.weight", head: prefix + "lm_head",
	}
}

// signs are the endings of names that only a layout's heads have, with the maker
// for the prefix before them.
var signs = []struct {
	endings []string
	make    func(prefix string) layout
}{
	{[]string{"pre_fc_norm_embedding.weight", "pre_fc_norm_hidden.weight"}, qwen},
	{[]string{"eh_proj.weight", "enorm.weight", "hnorm.weight"}, deepSeek},
	{[]string{"input_proj.weight", "token_layernorm.weight", "hidden_layernorm.weight"}, miMo},
}

// ErrNone is returned for a checkpoint without heads whose configuration does
// not promise any.
var ErrNone = errors.New("no multi-token-prediction head: want tensors like mtp.fc.weight (Qwen3.5), model.layers.N.eh_proj.weight (DeepSeek, GLM) or model.mtp_layers.0.input_proj.weight (MiMo)")

// find tells the layout of the heads in a checkpoint by its tensors, and how many
// there are; of several heads the first is used.
func find(ck *checkpoint.Checkpoint) (l layout, heads int, err error) {
	names := ck.Names()
	for _, s := range signs {
		if prefixes := before(names, s.endings); len(prefixes) > 0 {
			l, heads = s.make(prefixes[0]), len(prefixes)
			if l.layer != prefixes[0] { // one projection for all layers
				heads = layersOf(names, prefixes[0]+"layers.")
			}
			break
		}
	}
	promised, field, err := drafter.PromisedHeads(ck.Config())
	switch {
	case err != nil:
		return l, heads, fmt.Errorf("%s: %w", ck.Path(), err)
	case l.name == "" && slices.ContainsFunc(names, drafter.IsMTPTensor):
		return l, 0, fmt.Errorf("%s: there is tensor %q, but none that tells the layout of a head: want one like mtp.pre_fc_norm_embedding.weight (Qwen3.5), model.layers.N.eh_proj.weight (DeepSeek, GLM) or model.mtp_layers.0.input_proj.weight (MiMo)",
			ck.Path(), names[slices.IndexFunc(names, drafter.IsMTPTensor)])
	case l.name == "" && promised > 0:
		return l, 0, fmt.Errorf("%s: config.json promises multi-token-prediction heads (%s is %d), but their tensors are gone: want a copy of the checkpoint that kept them", ck.Path(), field, promised)
	case l.name == "":
		return l, 0, fmt.Errorf("%s: %w", ck.Path(), ErrNone)
	case field != "" && promised == 0:
		return l, heads, fmt.Errorf("%s: config.json: %s is 0, but the checkpoint has a head: want 1 or more", ck.Path(), field)
	case promised > heads:
		return l, heads, fmt.Errorf("%s: config.json: %s is %d, but the checkpoint has tensors of %d: want a copy that kept all (only the first is used, chained)", ck.Path(), field, promised, heads)
	}
	for _, name := range []string{l.project + ".weight", l.tokenNorm, l.stateNorm, l.norm} {
		if _, err := ck.Tensor(name); err != nil {
			return l, heads, err
		}
	}
	return l, heads, nil
}

// before returns what stands before the endings, the shortest first.
func before(names, endings []string) []string {
	var out []string
	for _, name := range names {
		for _, e := range endings {
			p, ok := strings.CutSuffix(name, e)
			if ok && (p == "" || strings.HasSuffix(p, ".")) && !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	return out
}

// layersOf counts the numbers that stand behind a prefix.
func layersOf(names []string, prefix string) int {
	found := map[string]bool{}
	for _, name := range names {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			number, _, _ := strings.Cut(rest, ".")
			found[number] = true
		}
	}
	return len(found)
}

// Found are the heads a checkpoint has.
type Found struct {
	// Layout is "qwen3.5", "deepseek" or "mimo".
	Layout string
	// Heads is how many there are; the first is used, chained.
	Heads int
	// Reads is the target's state they read.
	Reads Hidden
	// OwnEmbedding and OwnHead tell that the first head has these for itself;
	// else they are the target's.
	OwnEmbedding, OwnHead bool
}

// Heads looks for heads in a checkpoint. Without any it is an error that says
// what was looked for: ErrNone, unless config.json promises heads.
func Heads(ck *checkpoint.Checkpoint) (Found, error) {
	l, n, err := find(ck)
	if err != nil {
		return Found{}, err
	}
	_, embedding := ck.Lookup(l.embedding)
	_, head := ck.Lookup(l.head + ".weight")
	return Found{l.name, n, l.hidden, embedding, head}, nil
}

// partial is the part of a head that is turned.
func partial(cfg *checkpoint.Config) (float64, error) {
	f := cfg.Fields().Text()
	rope := f.Object("rope_parameters")
	part := f.Float("partial_rotary_factor", 0, 1, rope.Float("partial_rotary_factor", 0, 1, 1))
	return part, f.Err()
}

// normedHeads tells whether a family normalizes the heads of queries and keys
// whatever tensors there are: Qwen's from its third generation on.
func normedHeads(cfg *checkpoint.Config) bool { return ofFamily(cfg, "qwen3") }

// zeroCentred tells whether norms are stored as w for a factor of 1 + w: those
// of Qwen3.5 and Qwen3-Next are.
func zeroCentred(cfg *checkpoint.Config) bool {
	return ofFamily(cfg, "qwen3_5", "qwen3_next", "qwen3next")
}

// ofFamily tells whether the model's type or class begins with one of names.
func ofFamily(cfg *checkpoint.Config, names ...string) bool {
	of := append([]string{cfg.ModelType}, cfg.Architectures...)
	return slices.ContainsFunc(of, func(s string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(strings.ToLower(s), name) })
	})
}
