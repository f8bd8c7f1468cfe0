package model

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/kvcache"
)

// Quantize says what becomes of float weight matrices while they are loaded.
// Embedding rows and norms are never touched, and stored quantizations are
// kept as they are.
type Quantize uint8

// The choices of --quantize.
const (
	QuantizeDefault Quantize = iota // none for GGUF, q8_0 for safetensors
	QuantizeNone
	QuantizeQ8_0
	QuantizeQ4_0
)

var quantizeNames = [...]string{"default", "none", "q8_0", "q4_0"}

// String is the name that ParseQuantize reads.
func (q Quantize) String() string {
	if int(q) < len(quantizeNames) {
		return quantizeNames[q]
	}
	return fmt.Sprintf("quantize(%d)", uint8(q))
}

// ParseQuantize reads "none", "q8_0" or "q4_0"; "" and "default" are the default.
func ParseQuantize(s string) (Quantize, error) {
	if s == "" {
		return QuantizeDefault, nil
	}
	if i := slices.Index(quantizeNames[:], s); i >= 0 {
		return Quantize(i), nil
	}
	return 0, fmt.Errorf("quantize %q: want none, q8_0 or q4_0", s)
}

// Options say how a checkpoint is opened. The zero value is the default.
type Options struct {
	Quantize Quantize
	Context  int            // positions a sequence may have; 0 is what the checkpoint was trained for
	KV       compute.KVType // format of the key/value cache
	KVBudget int64          // bytes; 0 is room for Sequences full sequences, but at most 4 GiB
	// Sequences is how many sequences the default budget has room for, however
	// long they become; 0 is two.
	Sequences int
	// Progress is told, while weights are loaded, how many stored bytes are done.
	Progress func(done, total int64)
}

// maxChunk is how many rows one program computes at most; longer batches are
// cut, which changes no bit.
const maxChunk = 256

// defaultKVBudget bounds what a cache may take when nobody has said.
const defaultKVBudget = 4 << 30

// maxSequences bounds Options.Sequences.
const maxSequences = 1 << 16

// architecture is what the files llama.go, qwen2.go, … implement: block records
// decoder block l, which reads and updates the residual stream p.x.
type architecture interface {
	block(p *pass, l int)
}

// architectures is by checkpoint.Config.Architecture.
var architectures = map[string]func(*loader) architecture{
	"llama":  loadLlama,
	"qwen2":  loadQwen2,
	"qwen3":  loadQwen3,
	"gemma3": loadGemma3,
}

// Architectures are the names of the architectures that Open runs, in order: what
// checkpoint.Config.Architecture must be.
func Architectures() []string { return slices.Sorted(maps.Keys(architectures)) }

// Model is a checkpoint on a device. It implements Target.
type Model struct {
	spec  Spec
	dev   compute.Device
	cache *kvcache.Cache

	embedding  compute.Table
	embedScale float32
	arch       architecture
	finalNorm  compute.Buffer
	head       compute.Linear

	queryScale float32
	places     []place // by layer
	windows    []int   // by group
	rotaries   []rotary

	pass    pass
	results results
	before  []int // sequence lengths to go back to
}

// place is where a layer's keys and values live, and how it turns them.
type place struct{ group, index, rotary int }

// Open loads a checkpoint's weights onto dev. The checkpoint must stay open as
// long as the model, since embedding rows are read from its mapping; neither it
// nor the device is closed by the model.
func Open(dev compute.Device, ck *checkpoint.Checkpoint, opts Options) (*Model, error) {
	cfg := ck.Config()
	load, ok := architectures[cfg.Architecture]
	if !ok || cfg.Draft {
		return nil, fmt.Errorf("%s: not a target model: architecture %q (%s), want one of %s", ck.Path(), cfg.Architecture,
			strings.Join(cfg.Architectures, ", "), strings.Join(Architectures(), ", "))
	}
	if err := opts.resolve(ck); err != nil {
		return nil, fmt.Errorf("open %s: %w", ck.Path(), err)
	}
	ld := &loader{dev: dev, ck: ck, cfg: cfg, quantize: opts.Quantize.target(), progress: opts.Progress}
	for _, t := range ck.Tensors() {
		ld.total += int64(len(t.Data))
	}
	m := &Model{dev: dev, embedScale: float32(cfg.EmbedScale), queryScale: float32(cfg.QueryScale)}
	const embedding = "model.embed_tokens"
	m.embedding = ld.table(embedding + ".weight")
	m.arch = load(ld)
	m.finalNorm = ld.norm("model.norm.weight", cfg.HiddenSize)
	if cfg.TieEmbeddings {
		m.head = ld.linear(ld.projection(embedding))
	} else {
		m.head = ld.linear(ld.projection("lm_head"))
	}
	if ld.err != nil {
		return nil, fmt.Errorf("open %s: %w", ck.Path(), ld.err)
	}
	m.describe(cfg, opts, ld)
	if err := m.prepare(cfg, opts); err != nil {
		return nil, fmt.Errorf("open %s: %w", ck.Path(), errors.Join(err, m.Close()))
	}
	return m, nil
}

// resolve checks the options and fills in what depends on the checkpoint.
func (o *Options) resolve(ck *checkpoint.Checkpoint) error {
	if int(o.Quantize) >= len(quantizeNames) {
		return fmt.Errorf("%v: want default, none, q8_0 or q4_0", o.Quantize)
	}
	o.Quantize = o.Quantize.of(ck)
	trained := ck.Config().Context
	if o.Context < 0 || o.Context > trained {
		return fmt.Errorf("context of %d positions: want 1 to %d, which the checkpoint was trained for, or 0 for all of them", o.Context, trained)
	}
	if o.Context == 0 {
		o.Context = trained
	}
	if o.KVBudget < 0 {
		return fmt.Errorf("key/value budget of %d bytes: want a positive number, or 0 for the default", o.KVBudget)
	}
	if o.Sequences < 0 || o.Sequences > maxSequences {
		return fmt.Errorf("room for %d sequences: want 1 to %d, or 0 for the default", o.Sequences, maxSequences)
	}
	o.Sequences = cmp.Or(o.Sequences, 2)
	return nil
}

// of settles what the default is for a checkpoint.
func (q Quantize) of(ck *checkpoint.Checkpoint) Quantize {
	switch {
	case q != QuantizeDefault:
		return q
	case ck.Format() == checkpoint.FormatHF:
		return QuantizeQ8_0
	}
	return QuantizeNone
}

// target is the type float matrices are converted to; F32 leaves them alone.
func (q Quantize) target() checkpoint.Type {
	switch q {
	case QuantizeQ8_0:
		return checkpoint.Q8_0
	case QuantizeQ4_0:
		return checkpoint.Q4_0
	}
	return checkpoint.F32
}

func (m *Model) describe(cfg *checkpoint.Config, opts Options, ld *loader) {
	m.spec = Spec{
		Architecture: cfg.Architecture, ModelType: cfg.ModelType,
		Vocab: m.head.Out(), Hidden: cfg.HiddenSize, Layers: cfg.Layers,
		Heads: cfg.Heads, KVHeads: cfg.KVHeads, HeadDim: cfg.HeadDim, FFN: cfg.FFN,
		Context: opts.Context, Trained: cfg.Context, RMSEps: cfg.RMSEps,
		Windows: make([]int, cfg.Layers), BOS: cfg.BOS, EOS: slices.Clone(cfg.EOS),
		KV: opts.KV, Bytes: ld.bytes, MACs: ld.macs, FloatMACs: ld.floatMACs,
	}
	for l := range cfg.LayerTypes {
		// A window as wide as the context hides nothing.
		if cfg.LayerTypes[l] == checkpoint.SlidingAttention && cfg.SlidingWindow < opts.Context {
			m.spec.Windows[l] = cfg.SlidingWindow
		}
	}
}

// prepare makes what every forward uses: cache, rotary tables, scratch.
func (m *Model) prepare(cfg *checkpoint.Config, opts Options) error {
	var groups []kvcache.Group
	local := cfg.RopeLocalTheta > 0
	for l, window := range m.spec.Windows {
		g := slices.Index(m.windows, window)
		if g < 0 {
			g = len(groups)
			m.windows = append(m.windows, window)
			groups = append(groups, kvcache.Group{Window: window})
		}
		at := place{group: g, index: groups[g].Layers}
		if local && cfg.LayerTypes[l] == checkpoint.SlidingAttention {
			at.rotary = 1
		}
		groups[g].Layers++
		m.places = append(m.places, at)
	}
	m.rotaries = []rotary{{spec: compute.RotarySpec{
		Dim: cfg.HeadDim, Theta: cfg.RopeTheta, Scaling: cfg.RopeScaling, Factors: cfg.RopeFactors,
	}}}
	if local {
		m.rotaries = append(m.rotaries, rotary{spec: compute.RotarySpec{Dim: cfg.HeadDim, Theta: cfg.RopeLocalTheta}})
	}
	if err := m.reach(1); err != nil {
		return err
	}
	kv := kvcache.Config{
		Groups: groups, Heads: cfg.KVHeads, HeadDim: cfg.HeadDim, Type: opts.KV, Context: opts.Context, Budget: opts.KVBudget,
	}
	if kv.Budget == 0 {
		one := kv.SequenceBytes(opts.Context, maxChunk)
		kv.Budget = max(min(one, defaultKVBudget/int64(opts.Sequences))*int64(opts.Sequences), kv.PageBytes())
	}
	cache, err := kvcache.New(m.dev, kv)
	if err != nil {
		return err
	}
	m.cache = cache
	return m.pass.init(m)
}

// rotary is a table that grows with the positions used, so that a long context
// costs nothing until somebody is there.
type rotary struct {
	spec  compute.RotarySpec
	table compute.Buffer
	rows  int
}

// reach makes the rotary tables cover the given number of positions.
func (m *Model) reach(positions int) error {
	for i := range m.rotaries {
		if err := m.rotaries[i].reach(m.dev, positions, max(m.spec.Context, positions)); err != nil {
			return err
		}
	}
	return nil
}

// reach makes the table cover a number of positions. It grows by doubling, up to
// most.
func (r *rotary) reach(dev compute.Device, positions, most int) error {
	if positions <= r.rows {
		return nil
	}
	rows := max(1024, r.rows)
	for rows < positions {
		rows *= 2
	}
	rows = min(rows, most)
	table, err := compute.NewRotaryTable(dev, r.spec, rows)
	if err != nil {
		return err
	}
	r.table, r.rows = table, rows
	return nil
}

// Spec says what the model is.
func (m *Model) Spec() Spec { return m.spec }

// Device is where the model runs.
func (m *Model) Device() compute.Device { return m.dev }

// Cache is where the model's sequences live.
func (m *Model) Cache() *kvcache.Cache { return m.cache }

// Embedding is the token embedding [vocab, hidden], unscaled.
func (m *Model) Embedding() compute.Table { return m.embedding }

// EmbedScale is what embeddings are multiplied by.
func (m *Model) EmbedScale() float32 { return m.embedScale }

// Head maps a final hidden state [hidden] to logits [vocab].
func (m *Model) Head() compute.Linear { return m.head }

// Close gives back the key/value cache. Sequences must not be used afterwards.
func (m *Model) Close() error {
	if m.cache == nil {
		return nil
	}
	cache := m.cache
	m.cache = nil
	if err := cache.Close(); err != nil {
		return fmt.Errorf("close model: %w", err)
	}
	return nil
}

// grown is the next capacity, in rows, that holds n: powers of two, so that
// buffers are replaced a few times and then never again.
func grown(n int) int {
	c := 16
	for c < n && c <= math.MaxInt/2 {
		c *= 2
	}
	return c
}
