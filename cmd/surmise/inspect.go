package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"surmise/checkpoint"
	"surmise/dflash"
	"surmise/drafter"
	"surmise/model"
	"surmise/mtp"
	"surmise/tokenizer"
)

// inspectFlags are the flags of inspect.
type inspectFlags struct {
	model    modelFlags
	mtp      mtpFlags
	json     bool
	tensors  bool
	template bool
}

func (a *app) inspectCommand() *cobra.Command {
	f := new(inspectFlags)
	cmd := &cobra.Command{
		Use:   "inspect [--model PATH | PATH]",
		Short: "Show a checkpoint: architecture, shapes, quantization, memory, tokenizer, template",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := &f.model.setup.Model
			if len(args) == 1 {
				if *path != "" {
					return usage(errors.New("two checkpoints given: leave out --model or the argument"))
				}
				*path = args[0]
			}
			if err := f.mtp.check(cmd); err != nil {
				return err
			}
			if f.mtp.on {
				return a.inspectMTP(cmd.Context(), f)
			}
			return a.inspect(f)
		},
	}
	f.model.addModelPath(cmd)
	f.mtp.add(cmd)
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object instead of text")
	cmd.Flags().BoolVar(&f.tensors, "tensors", false, "list the tensors")
	cmd.Flags().BoolVar(&f.template, "template", false, "print the chat template and nothing else")
	return cmd
}

// inspection is what there is to know about a checkpoint, in the order shown.
type inspection struct {
	Path         string                  `json:"path"`
	Format       string                  `json:"format"`
	Hash         string                  `json:"hash"`
	Architecture string                  `json:"architecture"`
	ModelType    string                  `json:"model_type"`
	ServesAs     string                  `json:"serves_as"`
	Because      string                  `json:"because"`
	NotRun       string                  `json:"not_run,omitempty"`
	MTPLayout    string                  `json:"mtp_layout,omitempty"`
	MTPHidden    string                  `json:"mtp_hidden,omitempty"`
	MTPHeads     int                     `json:"mtp_heads,omitempty"`
	Drafter      *drafterFacts           `json:"drafter,omitempty"`
	DraftErr     string                  `json:"drafter_error,omitempty"`
	Layers       int                     `json:"layers"`
	Hidden       int                     `json:"hidden_size"`
	Heads        int                     `json:"heads"`
	KVHeads      int                     `json:"kv_heads"`
	HeadDim      int                     `json:"head_dim"`
	FFN          int                     `json:"ffn"`
	Vocab        int                     `json:"vocabulary"`
	Context      int                     `json:"context"`
	Window       int                     `json:"sliding_window,omitempty"`
	Sliding      int                     `json:"sliding_layers,omitempty"`
	RopeTheta    float64                 `json:"rope_theta"`
	RopeScaling  *checkpoint.RopeScaling `json:"rope_scaling,omitempty"`
	Tied         bool                    `json:"tied_embeddings"`
	Parameters   int64                   `json:"parameters"`
	Bytes        int64                   `json:"bytes"`
	Quantization map[string]int64        `json:"quantization_bytes"`
	KVBytes      int64                   `json:"kv_bytes_per_token_f16"`
	Tokenizer    *tokenizer.Info         `json:"tokenizer,omitempty"`
	TokenizerErr string                  `json:"tokenizer_error,omitempty"`
	Tensors      []tensorInfo            `json:"tensors,omitempty"`
}

// drafterFacts are what a checkpoint that is nothing but a drafter has of its own;
// what it has not it borrows from its target. The fields of a block are DFlash's.
type drafterFacts struct {
	OwnEmbedding   bool   `json:"own_embedding"`
	OwnHead        bool   `json:"own_head"`
	BlockSize      int    `json:"block_size,omitempty"`
	TargetLayers   int    `json:"num_target_layers,omitempty"`
	TargetLayerIDs []int  `json:"target_layer_ids,omitempty"`
	MaskToken      *int32 `json:"mask_token_id,omitempty"`
}

// tensorInfo is a tensor's name, type and shape.
type tensorInfo struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
}

func (a *app) inspect(f *inspectFlags) (err error) {
	ck, err := a.openCheckpoint(&f.model)
	if err != nil {
		return err
	}
	defer func() {
		if e := ck.Close(); err == nil {
			err = e
		}
	}()
	if f.template {
		t, err := tokenizer.FromCheckpoint(ck)
		if err != nil {
			return err
		}
		if !t.HasChatTemplate() {
			return fmt.Errorf("%s has no chat template", ck.Path())
		}
		fmt.Fprintln(a.stdout, t.ChatTemplate())
		return nil
	}
	x, err := look(ck, f.tensors)
	if err != nil {
		return err
	}
	if f.json {
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(x)
	}
	return a.show(x)
}

// look collects the facts.
func look(ck *checkpoint.Checkpoint, tensors bool) (*inspection, error) {
	c := ck.Config()
	found, err := drafter.Detect(ck)
	if err != nil {
		return nil, err
	}
	x := &inspection{
		Path: ck.Path(), Format: ck.Format().String(), Hash: ck.Hash(),
		Architecture: c.Architecture, ModelType: c.ModelType, ServesAs: found.Kind, Because: found.Because,
		Layers: c.Layers, Hidden: c.HiddenSize, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim, FFN: c.FFN,
		Vocab: c.VocabSize, Context: c.Context, Window: c.SlidingWindow,
		RopeTheta: c.RopeTheta, RopeScaling: c.RopeScaling, Tied: c.TieEmbeddings,
		Quantization: map[string]int64{},
		KVBytes:      4 * int64(c.Layers) * int64(c.KVHeads) * int64(c.HeadDim),
	}
	if found.Kind == drafter.FullModel && !slices.Contains(model.Architectures(), c.Architecture) {
		x.NotRun = fmt.Sprintf("models of architecture %s are not run yet, only %s", c.Architecture, strings.Join(model.Architectures(), ", "))
	}
	x.draft(ck)
	for _, l := range c.LayerTypes {
		if l == checkpoint.SlidingAttention {
			x.Sliding++
		}
	}
	for _, t := range ck.Tensors() {
		x.Parameters += int64(t.Rows()) * int64(t.Cols())
		x.Bytes += t.Size()
		x.Quantization[t.Type.String()] += t.Size()
		if tensors {
			x.Tensors = append(x.Tensors, tensorInfo{t.Name, t.Type.String(), t.Shape})
		}
	}
	if t, err := tokenizer.FromCheckpoint(ck); err != nil {
		if x.ServesAs == drafter.FullModel { // another drafter's tokens are its target's
			x.TokenizerErr = err.Error()
		}
	} else {
		info := t.Info()
		x.Tokenizer = &info
	}
	return x, nil
}

// draft adds what concerns drafting: a DFlash drafter's facts, or the heads, be
// they the target's own or a checkpoint of nothing else.
func (x *inspection) draft(ck *checkpoint.Checkpoint) {
	x.Tied = x.Tied && x.ServesAs == drafter.FullModel // a drafter borrows instead
	if x.ServesAs == drafter.DFlash {
		f, err := dflash.Inspect(ck)
		if err != nil {
			x.DraftErr = err.Error()
			return
		}
		x.Drafter = &drafterFacts{f.OwnEmbedding, f.OwnHead, f.BlockSize, f.TargetLayers, f.TargetLayerIDs, &f.MaskToken}
		return
	}
	f, err := mtp.Heads(ck)
	if err != nil {
		if x.ServesAs == drafter.MTP || !errors.Is(err, mtp.ErrNone) {
			x.DraftErr = err.Error()
		}
		return
	}
	x.MTPLayout, x.MTPHidden, x.MTPHeads = f.Layout, string(f.Reads), f.Heads
	if x.ServesAs == drafter.MTP {
		// A head is one layer; config.json may count its target's.
		x.KVBytes, x.Layers = x.KVBytes/int64(max(x.Layers, 1)), 1
		x.Drafter = &drafterFacts{OwnEmbedding: f.OwnEmbedding, OwnHead: f.OwnHead}
	}
}

// show prints the facts as lines of name and value.
func (a *app) show(x *inspection) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	line("checkpoint", "%s (%s)", x.Path, x.Format)
	if x.NotRun == "" {
		line("architecture", "%s (%s), serves as %s: %s", x.Architecture, x.ModelType, servesAs(x.ServesAs), x.Because)
	} else {
		line("architecture", "%s (%s): %s", x.Architecture, x.ModelType, x.NotRun)
	}
	if x.MTPLayout != "" {
		heads := "one head"
		if x.MTPHeads > 1 {
			heads = fmt.Sprintf("%d heads, of which the first is used", x.MTPHeads)
		}
		line("prediction heads", "%s of layout %s, reading the %s hidden state (--mtp measures both); draft kind %s chains it", heads, x.MTPLayout, x.MTPHidden, drafter.MTP)
	}
	if x.DraftErr != "" {
		part := "prediction heads"
		if x.ServesAs == drafter.DFlash {
			part = "drafter"
		}
		line(part, "cannot be used: %s", x.DraftErr)
	}
	if d := x.Drafter; d != nil && d.BlockSize > 0 {
		line("block", "%d slots: the known token and %d to fill, which hold mask token %d", d.BlockSize, d.BlockSize-1, *d.MaskToken)
		line("reads", "%s", d.reads())
	}
	layers := fmt.Sprintf("%d layers", x.Layers)
	if x.Layers == 1 {
		layers = "1 layer"
	}
	line("shape", "%s, hidden %d, %d/%d heads of %d, feed-forward %d", layers, x.Hidden, x.Heads, x.KVHeads, x.HeadDim, x.FFN)
	context := fmt.Sprintf("%d positions", x.Context)
	if x.Window > 0 {
		context += fmt.Sprintf(", %d of %d layers see %d", x.Sliding, x.Layers, x.Window)
	}
	line("context", "%s", context)
	rope := fmt.Sprintf("theta %g", x.RopeTheta)
	if x.RopeScaling != nil {
		rope += fmt.Sprintf(", scaling %s by %g", x.RopeScaling.Type, x.RopeScaling.Factor)
	}
	line("rotary", "%s", rope)
	line("vocabulary", "%d%s", x.Vocab, x.ends())
	line("weights", "%s parameters, %s", count(x.Parameters), size(x.Bytes))
	var types []string
	for _, t := range slices.Sorted(maps.Keys(x.Quantization)) {
		types = append(types, fmt.Sprintf("%s %s", t, size(x.Quantization[t])))
	}
	line("quantization", "%s", strings.Join(types, ", "))
	line("key/value cache", "%s a token in f16, %s for the whole context", size(x.KVBytes), size(x.KVBytes*int64(x.Context)))
	if t := x.Tokenizer; t != nil {
		line("tokenizer", "%s from %s, words: %s, %d tokens (%d merges, %d added, %d special)", t.Kind, t.Source, t.PreTokenizer, t.Vocabulary, t.Merges, t.Added, t.Special)
		line("special tokens", "begin %d, end %v, begin put before texts: %v", t.BOS, t.EOS, t.AddsBOS)
		template := "none"
		if t.ChatTemplate {
			template = "present (--template prints it)"
		}
		line("chat template", "%s", template)
	} else if x.TokenizerErr == "" {
		line("tokenizer", "the target's")
	} else {
		line("tokenizer", "cannot be read: %s", x.TokenizerErr)
	}
	line("hash", "%s", x.Hash)
	for _, t := range x.Tensors {
		line("  "+t.Name, "%s %v", t.Type, t.Shape)
	}
	return w.Flush()
}

// reads says which of the target's hidden states a DFlash drafter reads.
func (d *drafterFacts) reads() string {
	target := "target"
	if d.TargetLayers > 0 {
		target = fmt.Sprintf("target of %d layers", d.TargetLayers)
	}
	if d.TargetLayerIDs == nil {
		return "hidden states of layers spread over a " + target
	}
	return fmt.Sprintf("hidden states of layers %v of a %s", d.TargetLayerIDs, target)
}

// ends says where embedding and head come from, as far as that is known.
func (x *inspection) ends() string {
	whose := map[bool]string{true: "of its own", false: "the target's"}
	switch d := x.Drafter; {
	case d != nil:
		return fmt.Sprintf(", embedding %s, head %s", whose[d.OwnEmbedding], whose[d.OwnHead])
	case x.ServesAs != drafter.FullModel:
		return ""
	case x.Tied:
		return ", head tied to the embedding"
	}
	return ", head of its own"
}

func servesAs(kind string) string {
	if kind == drafter.FullModel {
		return "target or drafter (" + kind + ")"
	}
	return "drafter (" + kind + ")"
}

// size writes bytes with a unit.
func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}

// count writes a number of parameters with a unit.
func count(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f G", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f M", float64(n)/1e6)
	}
	return fmt.Sprintf("%d", n)
}
