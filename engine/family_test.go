package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"surmise/demo"
	"surmise/drafter"
	"surmise/drafter/draftertest"
	"surmise/engine"
	"surmise/engine/kinds"
	"surmise/tokenizer"
)

// family is the demo target with a drafter of every kind, and the oracle, which
// knows the stream and is wrong at random, so that every number of tokens is
// accepted. No test depends on what the models say.
type family struct {
	t     testing.TB
	in    *engine.Instance
	kinds []*familyKind
	known map[string]engine.Answer // plain answers
}

// familyKind is a kind under test; its name is that of the contract.
type familyKind struct {
	name    string
	drafter drafter.Drafter
	oracle  *draftertest.Oracle // nil for the others
	dice    *rand.Rand
}

const familyContext = 320

// openKinds opens the family on one thread with a context of 320.
func openKinds(t testing.TB) *family {
	t.Helper()
	f := &family{t: t, known: map[string]engine.Answer{}, in: openFamily(t, drafter.None, "", func(s *engine.Setup) { s.Threads, s.Context, s.Sequences = 1, familyContext, 8 })}
	for _, k := range familyKinds {
		f.kinds = append(f.kinds, &familyKind{name: k.kind, drafter: f.open(k.kind, k.model, demo.FS(), nil)})
	}
	oracle := &draftertest.Oracle{}
	require.NoError(t, oracle.Bind(f.in.Model))
	o := &familyKind{name: "oracle", drafter: oracle, oracle: oracle, dice: rand.New(rand.NewPCG(1, 9))}
	oracle.Right = func(int) int { return o.dice.IntN(drafter.MaxWidth) >> o.dice.IntN(6) }
	f.kinds = append(f.kinds, o)
	return f
}

// open opens a further drafter for the family's target.
func (f *family) open(kind, model string, files fs.FS, options map[string]string) drafter.Drafter {
	f.t.Helper()
	all, err := kinds.All()
	require.NoError(f.t, err)
	d, err := engine.OpenDraft(all, engine.DraftSetup{Kind: kind, Model: model, FS: files, Options: options}, f.in.Basis(), nil)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { require.NoError(f.t, d.Close()) })
	return d
}

// engine is a fresh engine on the family's target.
func (f *family) engine(o engine.Options) *engine.Engine {
	return engine.New(f.in.Model, f.in.Tokenizer, o)
}

// plain is what a request comes to without a drafter.
func (f *family) plain(t testing.TB, r engine.Request) engine.Answer {
	t.Helper()
	r.Drafter, r.Fresh, r.Emit = nil, true, nil
	p := r.Params
	p.Seed = nil
	key := fmt.Sprint(r.Prompt, *r.Params.Seed, p)
	a, ok := f.known[key]
	if !ok {
		a = generate(t, f.engine(engine.Options{}), r)[0][0]
		f.known[key] = a
	}
	return a
}

// ready tells the oracle the stream of a request, beyond where it stops.
func (f *family) ready(t testing.TB, k *familyKind, r engine.Request) drafter.Drafter {
	t.Helper()
	if k.oracle == nil {
		return k.drafter
	}
	k.oracle.Streams = append(k.oracle.Streams[:0:0], f.stream(t, r))
	return k.drafter
}

// stream is the prompt and what follows when nothing stops it but an end token,
// after which anything may be proposed.
func (f *family) stream(t testing.TB, r engine.Request) []int32 {
	t.Helper()
	r.Params.Stop, r.Params.StopTokenIDs, r.Params.N = nil, nil, 1
	r.Params.MaxNewTokens = min(r.Params.MaxNewTokens+24, familyContext-len(r.Prompt))
	a := f.plain(t, r)
	s := append(slices.Clone(r.Prompt), a.IDs()...)
	if a.Finish.Token >= 0 {
		s = append(s, a.Finish.Token)
	}
	for i := range 2 * drafter.MaxWidth {
		s = append(s, int32(7+i))
	}
	return s
}

// drafted is what a request comes to with a kind and a width, which must be what
// it comes to without, and no drafter may have failed on the way.
func (f *family) drafted(t testing.TB, k *familyKind, r engine.Request, width int) engine.Answer {
	t.Helper()
	want := f.plain(t, r)
	r.Drafter, r.Fresh = f.ready(t, k, r), true
	got := generate(t, f.engine(engine.Options{Width: drafter.Fixed(width), Chunk: 50}), r)[0][0]
	same(t, want, got)
	well(t, got)
	return got
}

// well checks that the drafter stayed with the answer to its end: one that is not
// where the target is would have been dropped.
func well(t testing.TB, a engine.Answer) {
	t.Helper()
	for _, d := range a.Finish.Timings.Declines {
		require.NotEqual(t, drafter.Failed, d.Reason)
	}
}

// prose is a prompt of about so many tokens, in which things repeat.
func (f *family) prose(tokens int) []int32 {
	const text = "// Scan reads one line after the other.\nfunc (s *Scanner) Scan() bool {\n\tif s.done {\n\t\treturn false\n\t}\n\ts.line, s.err = s.reader.ReadString('\\n')\n\treturn s.err == nil\n}\n\n"
	ids, err := f.in.Tokenizer.Encode(strings.Repeat(text, 1+tokens/20), tokenizer.EncodeOptions{})
	require.NoError(f.t, err)
	return ids[:tokens]
}

// meddler changes what a drafter does.
type meddler struct {
	drafter.Drafter
	before  func() error // of every Propose
	after   func(r *drafter.Row)
	observe func() error // of every Observe
}

type meddledSeq struct {
	drafter.Seq
	d *meddler
}

func (s *meddledSeq) Drafter() drafter.Drafter { return s.d }

func (s *meddledSeq) Fork() (drafter.Seq, error) {
	c, err := s.Seq.Fork()
	return &meddledSeq{c, s.d}, err
}

func (d *meddler) Open(o drafter.Opening) (drafter.Seq, error) {
	s, err := d.Drafter.Open(o)
	if err != nil {
		return nil, err
	}
	return &meddledSeq{s, d}, nil
}

func (d *meddler) Propose(ctx context.Context, rows []*drafter.Row) error {
	if d.before != nil {
		if err := d.before(); err != nil {
			return err
		}
	}
	for _, r := range rows {
		r.Seq = r.Seq.(*meddledSeq).Seq
	}
	err := d.Drafter.Propose(ctx, rows)
	for _, r := range rows {
		r.Seq = &meddledSeq{r.Seq, d}
		if d.after != nil {
			d.after(r)
		}
	}
	return err
}

func (d *meddler) Observe(outcomes []*drafter.Outcome) error {
	if d.observe != nil {
		if err := d.observe(); err != nil {
			return err
		}
	}
	told := make([]*drafter.Outcome, len(outcomes))
	for i, o := range outcomes {
		c := *o
		c.Seq = o.Seq.(*meddledSeq).Seq
		told[i] = &c
	}
	err := d.Drafter.Observe(told)
	for i, o := range outcomes {
		o.Err = told[i].Err
	}
	return err
}

var errMeddled = errors.New("the test makes the drafter fail")

// shortened is the family's files with another context in a model's config.
func shortened(t testing.TB, dir string, context string) fs.FS {
	t.Helper()
	files := fstest.MapFS{}
	require.NoError(t, fs.WalkDir(demo.FS(), dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(demo.FS(), path)
		if strings.HasSuffix(path, "/config.json") {
			data = []byte(strings.Replace(string(data), `"max_position_embeddings": 1024`, `"max_position_embeddings": `+context, 1))
			require.Contains(t, string(data), `: `+context)
		}
		files[path] = &fstest.MapFile{Data: data}
		return err
	}))
	return files
}
