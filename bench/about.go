package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"surmise/checkpoint"
	"surmise/model"
)

// Machine is where an experiment ran.
type Machine struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	CPU    string `json:"cpu,omitempty"`
	Cores  int    `json:"cores"`
	Device string `json:"device,omitempty"` // with instruction set and threads
	Go     string `json:"go"`
}

// ThisMachine describes the machine; device is the name of the compute device.
func ThisMachine(device string) Machine {
	return Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPU: processor(), Cores: runtime.NumCPU(), Device: device, Go: runtime.Version()}
}

// processor is the processor's name, where the system tells it in a file.
func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for in.Scan() {
		if key, value, ok := strings.Cut(in.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Version is the version of this program: its module version, or the commit it
// was built from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (version == "" || version == "(devel)") {
			version = s.Value
		}
	}
	if version == "" {
		version = "unknown"
	}
	return version
}

// Checkpoint identifies a target or a draft model.
type Checkpoint struct {
	Path         string `json:"path"`
	Hash         string `json:"hash"`
	Architecture string `json:"architecture,omitempty"`
	// Bytes are those of the weights one forward reads.
	Bytes int64 `json:"bytes,omitempty"`
}

// CheckpointOf identifies a checkpoint; spec is that of the model made of it,
// nil if there is none.
func CheckpointOf(ck *checkpoint.Checkpoint, spec *model.Spec) Checkpoint {
	c := Checkpoint{Path: ck.Path(), Hash: ck.Hash()}
	if cfg := ck.Config(); cfg != nil {
		c.Architecture = cfg.Architecture
	}
	if spec != nil {
		c.Bytes = spec.Bytes
	}
	return c
}

// About says what an experiment was: the header of its journal and report.
type About struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Command string    `json:"command"`
	Program string    `json:"program"`
	Started time.Time `json:"started"`
	Flags   []string  `json:"flags,omitempty"`

	Machine Machine      `json:"machine"`
	Target  Checkpoint   `json:"target"`
	Drafts  []Checkpoint `json:"drafts,omitempty"`
	Data    string       `json:"data"`
	Items   int          `json:"items"`
	Chat    bool         `json:"chat_template"`
	KV      string       `json:"kv,omitempty"`
	Context int          `json:"context"`
	// Params are the sampling parameters, but for the temperature, which is
	// the configs'.
	Params json.RawMessage `json:"params"`
	// Costs are what forwards were measured to take.
	Costs *Costs `json:"costs,omitempty"`
	// Predicted tells that times are predictions from Costs, not measured.
	Predicted bool `json:"predicted,omitempty"`

	// Ways are all that a replay compares, of which Shard, i/n, is the part done
	// here; empty for all of it.
	Ways  []Config `json:"ways,omitempty"`
	Shard string   `json:"shard,omitempty"`
}

// TrialsFormat is the format of journals of trials.
const TrialsFormat = "surmise-trials"

// Check refuses a header that is not of a journal of trials.
func (a About) Check() error {
	switch {
	case a.Format != TrialsFormat:
		return fmt.Errorf("format %q: want %q", a.Format, TrialsFormat)
	case a.Version != 1:
		return fmt.Errorf("version %d of %s: this program reads 1", a.Version, TrialsFormat)
	}
	return nil
}

// Same tells what keeps trials of another experiment from being put together
// with this one's; nil if nothing does.
func (a About) Same(o About) error {
	if err := o.Check(); err != nil {
		return err
	}
	fields := []Field{
		{"command", a.Command, o.Command},
		{"target", a.Target.Hash, o.Target.Hash},
		{"bytes of the target's weights", a.Target.Bytes, o.Target.Bytes},
		{"data", a.Data, o.Data},
		{"chat template", a.Chat, o.Chat},
		{"kv format", a.KV, o.KV},
		{"context", a.Context, o.Context},
		{"predicted", a.Predicted, o.Predicted},
	}
	if d := Differ(append(fields, ParamFields(a.Params, o.Params)...)); d != "" {
		return fmt.Errorf("another experiment: %s", d)
	}
	return nil
}
