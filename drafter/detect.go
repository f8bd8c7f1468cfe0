package drafter

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"surmise/checkpoint"
)

// The names of the kinds that are chosen without the user naming them: those a
// checkpoint can be detected as, and the one that needs no checkpoint.
const (
	Lookup    = "prompt-lookup"
	DFlash    = "dflash"
	MTP       = "mtp"
	FullModel = "full-model"
)

// Evidence is what detection looks at: facts of a checkpoint's config or
// metadata, and the names of its tensors.
type Evidence struct {
	ModelType     string
	Architectures []string
	Keys          []string // top-level keys of config.json, or metadata keys of a GGUF
	Tensors       []string
}

// Detection is the kind a checkpoint serves as and the fact that decided it.
type Detection struct{ Kind, Because string }

// signs is the table of detection: the first row that finds something decides.
var signs = []struct {
	kind string
	find func(Evidence) string
}{
	{DFlash, func(e Evidence) string {
		for _, a := range e.Architectures {
			if a == "DFlashDraftModel" || a == "dflash" {
				return "architecture " + a
			}
		}
		return ""
	}},
	{DFlash, func(e Evidence) string {
		for _, k := range e.Keys {
			if k == "dflash_config" || strings.HasPrefix(k, "dflash.") {
				return "config field " + k
			}
		}
		return ""
	}},
	{MTP, func(e Evidence) string {
		if isMTPType(e.ModelType) {
			return "model type " + e.ModelType
		}
		for _, a := range e.Architectures {
			if isMTPType(a) {
				return "architecture " + a
			}
		}
		return ""
	}},
	{MTP, func(e Evidence) string {
		if len(e.Tensors) == 0 || slices.ContainsFunc(e.Tensors, func(n string) bool { return !IsMTPTensor(n) }) {
			return ""
		}
		return "a checkpoint of nothing but multi-token-prediction tensors"
	}},
	{FullModel, func(Evidence) string { return "a whole model" }},
}

func isMTPType(s string) bool {
	s = strings.ToLower(s)
	return s == "mtp" || strings.HasSuffix(s, "_mtp") || strings.HasSuffix(s, "-mtp") ||
		strings.Contains(s, "mtpmodel") || strings.Contains(s, "mtpforcausallm")
}

// IsMTPTensor tells whether a tensor belongs to a multi-token-prediction head
// by its name alone, in the layouts of Qwen and MiMo. (DeepSeek's heads are
// told from layers only by the number of layers in the config.)
func IsMTPTensor(name string) bool {
	name = strings.TrimPrefix(name, "model.")
	return strings.HasPrefix(name, "mtp.") || strings.HasPrefix(name, "mtp_layers.") || strings.Contains(name, ".nextn.")
}

// PromisedHeads is how many multi-token-prediction heads config.json says there
// are, and the field that says so; the field is "" if none does. Checkpoints are
// copied without the heads' tensors, so a promise is no proof.
func PromisedHeads(cfg *checkpoint.Config) (heads int, field string, err error) {
	f := cfg.Fields().Text()
	for _, key := range []string{"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"} {
		if n := f.Int(key, 0, maxHeads, -1); n > heads || n == 0 && field == "" {
			heads, field = n, key
		}
	}
	return heads, field, f.Err()
}

// maxHeads bounds what a configuration may promise.
const maxHeads = 1000

// Judge applies the table of detection to evidence.
func Judge(e Evidence) Detection {
	for _, s := range signs {
		if why := s.find(e); why != "" {
			return Detection{s.kind, why}
		}
	}
	return Detection{FullModel, "a whole model"}
}

// Detect tells which kind of drafter a checkpoint is.
func Detect(ck *checkpoint.Checkpoint) (Detection, error) {
	e := Evidence{}
	if cfg := ck.Config(); cfg != nil {
		e.ModelType, e.Architectures = cfg.ModelType, append(e.Architectures, cfg.Architectures...)
		if cfg.Raw != nil {
			var fields map[string]json.RawMessage
			if err := json.Unmarshal(cfg.Raw, &fields); err != nil {
				return Detection{}, fmt.Errorf("detect the draft kind of %s: config.json: %w", ck.Path(), err)
			}
			for k := range fields {
				e.Keys = append(e.Keys, k)
			}
			slices.Sort(e.Keys)
		}
	}
	if ck.Format() == checkpoint.FormatGGUF {
		md := ck.Metadata()
		e.Keys = append(e.Keys, md.Keys()...)
		if arch, ok := md.String("general.architecture"); ok {
			e.ModelType = arch
			e.Architectures = append(e.Architectures, arch)
		}
	}
	for _, t := range ck.Tensors() {
		e.Tensors = append(e.Tensors, t.Name)
	}
	return Judge(e), nil
}
