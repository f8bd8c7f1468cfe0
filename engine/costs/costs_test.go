package costs

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/compute/cpu"
	"surmise/model"
	"surmise/verify/verifytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clocked is a target whose forwards take what a function says.
type clocked struct {
	*verifytest.Target
	now  time.Time
	runs []int // numbers of rows in order, the filling of the context first
}

func newClocked(t require.TestingT, context int, cost func(run, rows int) time.Duration) *clocked {
	target, err := verifytest.New(verifytest.Options{Context: context})
	require.NoError(t, err)
	c := &clocked{Target: target, now: time.Unix(0, 0)}
	target.Before = func(b *model.Batch) error {
		rows := len(b.Rows[0].Tokens)
		c.now = c.now.Add(cost(len(c.runs), rows))
		c.runs = append(c.runs, rows)
		return nil
	}
	return c
}

func (c *clocked) clock() time.Time { return c.now }

func linear(_, rows int) time.Duration { return time.Duration(10+rows) * time.Millisecond }

// Whatever the machine does in between, the medians are those of the forwards,
// and the target is left as it was.
func TestMeasureGivesMediansAndLeavesNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Odd, so that it meets forwards that are timed as often as those before them;
		// rare, so that chance does not make it the median of one size.
		hiccup := 2*rapid.IntRange(6, 12).Draw(t, "half of the forwards from one that takes long to the next") + 1
		c := newClocked(t, 512, func(run, rows int) time.Duration {
			if run%hiccup == 0 {
				return time.Second
			}
			return linear(run, rows)
		})
		behind := rapid.IntRange(0, 448).Draw(t, "context")
		table, err := Measure(context.Background(), c, Options{
			Context: behind, Clock: c.clock, Budget: time.Hour, Seed: rapid.Uint64().Draw(t, "seed"),
		})
		require.NoError(t, err)
		require.Equal(t, behind, table.Context)
		require.Len(t, table.Forward, len(Rows()))
		for rows, d := range table.Forward {
			require.Equal(t, linear(0, rows), d)
		}
		require.Zero(t, table.Limits, "this device cannot tell")
		require.Empty(t, table.Roofline)
		require.Zero(t, c.Cache().Stats().Sequences)
		require.NoError(t, c.Close())
	})
}

// All numbers of rows take turns: in every pass each comes once.
func TestMeasureInterleaves(t *testing.T) {
	c := newClocked(t, 512, linear)
	defer c.Close()
	const repeats = 5
	_, err := Measure(context.Background(), c, Options{Clock: c.clock, Repeats: repeats})
	require.NoError(t, err)
	runs := c.runs[1:] // without the one to warm up
	require.Len(t, runs, 2*(repeats+1)*len(Rows()))
	var orders [][]int
	for len(runs) > 0 {
		var pass []int
		for range Rows() {
			require.Equal(t, runs[0], runs[1], "one like it comes before each that is timed")
			pass = append(pass, runs[1])
			runs = runs[2:]
		}
		require.ElementsMatch(t, Rows(), pass)
		orders = append(orders, pass)
	}
	require.Equal(t, Rows(), orders[0])
	require.NotEqual(t, orders[1], orders[2])
}

// Small forwards are timed behind some like them, large ones behind one.
func TestMeasureSettlesSmallForwards(t *testing.T) {
	c := newClocked(t, 512, func(_, rows int) time.Duration { return time.Duration(rows) * 300 * time.Microsecond })
	defer c.Close()
	_, err := Measure(context.Background(), c, Options{Clock: c.clock, Rows: []int{1, 4, 64}, Repeats: 1})
	require.NoError(t, err)
	require.Equal(t, []int{1, 1, 1, 1, 1, 1, 1, 1, 4, 4, 4, 64, 64}, c.runs[1:14])
}

// A machine too slow for the budget still gets the two smallest sizes.
func TestMeasureKeepsToItsBudget(t *testing.T) {
	c := newClocked(t, 512, func(_, rows int) time.Duration { return time.Duration(rows) * time.Second })
	defer c.Close()
	table, err := Measure(context.Background(), c, Options{Clock: c.clock, Budget: time.Millisecond})
	require.NoError(t, err)
	require.Equal(t, map[int]time.Duration{1: time.Second, 2: 2 * time.Second}, table.Forward)

	start := c.now
	_, err = Measure(context.Background(), c, Options{Clock: c.clock, Budget: 100 * time.Second})
	require.NoError(t, err)
	require.LessOrEqual(t, c.now.Sub(start), (100+64+1)*time.Second)
}

func TestMeasureRefusesWhatItCannotDo(t *testing.T) {
	c := newClocked(t, 512, linear)
	defer c.Close()
	for text, o := range map[string]Options{
		"no clock":    {},
		"rows [0]":    {Rows: []int{0}, Clock: c.clock},
		"rows [1 65]": {Rows: []int{65, 1}, Clock: c.clock},
		"rows []":     {Rows: []int{}, Clock: c.clock},
		"context 449": {Context: 449, Clock: c.clock},
		"context -1":  {Context: -1, Clock: c.clock},
	} {
		_, err := Measure(context.Background(), c, o)
		require.ErrorContains(t, err, text)
	}
	failed := errors.New("no more")
	c.Before = func(b *model.Batch) error { return failed }
	_, err := Measure(context.Background(), c, Options{Clock: c.clock})
	require.ErrorIs(t, err, failed)
	require.Zero(t, c.Cache().Stats().Sequences)
}

func TestMeasureEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c := newClocked(t, 512, func(run, rows int) time.Duration {
		if run == 20 {
			cancel()
		}
		return linear(run, rows)
	})
	defer c.Close()
	_, err := Measure(ctx, c, Options{Clock: c.clock})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, c.runs, 21)
}

func TestFillingALongContextEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c := newClocked(t, 4096, func(run, rows int) time.Duration {
		cancel()
		return linear(run, rows)
	})
	defer c.Close()
	_, err := Measure(ctx, c, Options{Clock: c.clock, Context: 3000})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, c.runs, 1)
}

// The work of a forward, counted by hand.
func TestWorkOfCountsWeightsAndAttention(t *testing.T) {
	s := model.Spec{
		Heads: 4, KVHeads: 2, HeadDim: 8, Windows: []int{0, 10}, KV: compute.KVF16,
		Bytes: 1000, MACs: 700, FloatMACs: 100,
	}
	require.Equal(t, Work{
		Bytes:       1000 + (102+10)*2*2*8*2,
		Int8MACs:    2 * 600,
		Float32MACs: 2*100 + (101+102+10+10)*2*4*8,
	}, WorkOf(s, 100, 2))
}

// On a real device there are limits, and a roofline that rises with the rows.
func TestMeasureOnADeviceWithLimits(t *testing.T) {
	ck, err := checkpoint.Open(filepath.Join("..", "..", "model", "testdata", "llama"))
	require.NoError(t, err)
	defer ck.Close()
	dev, err := cpu.New(cpu.Options{Threads: 2})
	require.NoError(t, err)
	defer dev.Close()
	m, err := model.Open(dev, ck, model.Options{})
	require.NoError(t, err)
	defer m.Close()
	table, err := Measure(context.Background(), m, Options{
		Rows: []int{1, 4, 16}, Context: 64, Limits: true, Repeats: 2, Clock: time.Now,
	})
	require.NoError(t, err)
	require.Positive(t, table.Limits.Bandwidth)
	require.Len(t, table.Roofline, 3)
	require.Greater(t, table.Roofline[16], table.Roofline[4])
	require.Greater(t, table.Roofline[4], table.Roofline[1])
	for rows, d := range table.Forward {
		require.Greater(t, d, table.Roofline[rows]/4, "nothing is much faster than the roofline")
	}
}

func aKey() Key {
	return Key{Machine: "m", Device: "cpu avx2 2 threads", Checkpoint: "c", Weights: 7, KV: "f16"}
}

func TestStoreGivesBackWhatWasSaved(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "deep", "costs")}
	want := Table{Context: 256, Forward: map[int]time.Duration{1: 20 * time.Millisecond, 64: time.Second}}
	_, ok := s.Load(aKey())
	require.False(t, ok, "nothing there yet")
	require.NoError(t, s.Save(aKey(), Table{Context: 1, Forward: map[int]time.Duration{1: 1e6, 2: 1e6}}))
	require.NoError(t, s.Save(aKey(), want))
	got, ok := s.Load(aKey())
	require.True(t, ok)
	require.Equal(t, want, got)
	files, err := os.ReadDir(s.Dir)
	require.NoError(t, err)
	require.Len(t, files, 1, "no temporary file is left")

	for _, other := range []func(*Key){
		func(k *Key) { k.Machine = "x" }, func(k *Key) { k.Device = "x" }, func(k *Key) { k.Checkpoint = "x" },
		func(k *Key) { k.Weights++ }, func(k *Key) { k.KV = "f32" },
	} {
		k := aKey()
		other(&k)
		_, ok := s.Load(k)
		require.False(t, ok)
	}
}

func TestStoreWithoutADirectoryKeepsNothing(t *testing.T) {
	require.NoError(t, Store{}.Save(aKey(), Table{}))
	_, ok := Store{}.Load(aKey())
	require.False(t, ok)
}

// A file cut short or changed anywhere gives a table that could have been saved,
// or none.
func TestDamagedFilesAreNoTables(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	require.NoError(t, s.Save(aKey(), Table{Context: 256, Forward: map[int]time.Duration{1: 5e6, 8: 7e6}}))
	path, err := s.path(aKey())
	require.NoError(t, err)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for n := range len(data) - 2 {
		require.NoError(t, os.WriteFile(path, data[:n], 0o600))
		_, ok := s.Load(aKey())
		require.False(t, ok, "cut to %d bytes", n)
	}
	require.NoError(t, os.WriteFile(path, make([]byte, maxFile+1), 0o600))
	_, ok := s.Load(aKey())
	require.False(t, ok)
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o700))
	_, ok = s.Load(aKey())
	require.False(t, ok)
}

// A file can be whole and say what no machine does: it is no table, and is not
// stored either.
func TestTimesThatNoMachineTakesAreNoTable(t *testing.T) {
	at := func(context int, ns ...time.Duration) Table { // of 1, 2, 4, … rows
		table := Table{Context: context, Forward: map[int]time.Duration{}}
		for i, d := range ns {
			table.Forward[1<<i] = d
		}
		return table
	}
	without1 := at(256, 10e6, 11e6, 12e6)
	delete(without1.Forward, 1)
	for name, table := range map[string]Table{
		"no rows": at(256), "only one row": at(256, 10e6), "not one row": without1,
		"more rows than can be": at(256, 10e6, 11e6, 12e6, 13e6, 14e6, 15e6, 16e6, 17e6),
		"one row takes all":     at(256, 10*time.Second, 1, 1, 1), "one row takes most": at(256, 10*time.Second, 10e6, 10e6),
		"no time at all": at(256, 1, 1, 1, 1), "no time": at(256, 0, 0), "backwards": at(256, -10e6, -9e6),
		"falling": at(256, 10e6, 9e6, 8e6, 7e6, 6e6), "a hole": at(256, 10e6, 11e6, 5e6, 13e6),
		"far too long for its rows": at(256, 10e6, time.Minute), "days": at(256, 48*time.Hour, 49*time.Hour),
		"no context": at(0, 10e6, 11e6), "less than none": at(-1, 10e6, 11e6), "an endless context": at(1e12, 10e6, 11e6),
	} {
		t.Run(name, func(t *testing.T) {
			s := Store{Dir: t.TempDir()}
			require.ErrorContains(t, s.Save(aKey(), table), "save costs: ")
			path, err := s.path(aKey())
			require.NoError(t, err)
			f := file{Version: version, Key: aKey(), Context: table.Context, ForwardNS: map[int]int64{}}
			for rows, d := range table.Forward {
				f.ForwardNS[rows] = int64(d)
			}
			data, err := json.Marshal(f)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, data, 0o600))
			_, ok := s.Load(aKey())
			require.False(t, ok)
		})
	}
	for name, table := range map[string]Table{
		"free rows": at(32, 10e6, 10e6, 10e6), "noise": at(256, 10e6, 8e6, 12e6, 11e6), "each row costs as much": at(1, 2e6, 4e6, 8e6, 16e6),
	} {
		require.NoError(t, table.check(), name)
	}
}

func TestForStartSaysThatItsTableCannotBeKept(t *testing.T) {
	c := newClocked(t, 512, linear)
	defer c.Close()
	var warnings []string
	s := Store{Dir: "/dev/null/x", Warn: func(m string) { warnings = append(warnings, m) }}
	require.NotEmpty(t, ForStart(context.Background(), s, c, "", c.clock))
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "/dev/null")
	require.Contains(t, warnings[0], "measures again")
	s.Dir = t.TempDir()
	ForStart(context.Background(), s, c, "", c.clock)
	require.Len(t, warnings, 1, "nothing to say where it is kept")
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":3,"key":{"machine":"m","device":"cpu avx2 2 threads","checkpoint":"c","weights":7,"kv":"f16"},"context":4,"forward_ns":{"1":5000,"2":6000}}`))
	f.Add([]byte(`{"forward_ns":{"-1":5}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, ok := decode(data, aKey())
		if !ok {
			require.Empty(t, table.Forward)
			return
		}
		require.NotEmpty(t, table.Forward)
		for rows, d := range table.Forward {
			require.True(t, rows >= 1 && rows <= MaxRows && d >= minForward && d <= maxForward)
		}
	})
}

// The second start reads what the first has measured; a damaged file is
// measured again; without a place to store, every start measures.
func TestForStartMeasuresOnce(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	c := newClocked(t, 512, linear)
	defer c.Close()
	first := ForStart(context.Background(), s, c, "hash", c.clock)
	require.Equal(t, linear(0, 8), first[8])
	n := len(c.runs)
	require.Equal(t, first, ForStart(context.Background(), s, c, "hash", c.clock))
	require.Len(t, c.runs, n, "nothing was measured")

	path, err := s.path(KeyOf(c, "hash"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	require.Equal(t, first, ForStart(context.Background(), s, c, "hash", c.clock))
	require.Greater(t, len(c.runs), n)
	_, ok := s.Load(KeyOf(c, "hash"))
	require.True(t, ok, "the file is whole again")

	n = len(c.runs)
	require.Equal(t, first, ForStart(context.Background(), Store{}, c, "hash", c.clock))
	require.Greater(t, len(c.runs), n)
}

// Small contexts and failing targets are no errors.
func TestForStartNeverFails(t *testing.T) {
	for _, room := range []int{1, 2, 31, 33} {
		c := newClocked(t, room, linear)
		require.Equal(t, linear(0, 1), ForStart(context.Background(), Store{}, c, "", c.clock)[1])
		require.NoError(t, c.Close())
	}
	c := newClocked(t, 512, linear)
	defer c.Close()
	c.Before = func(*model.Batch) error { return errors.New("broken") }
	require.Nil(t, ForStart(context.Background(), Store{Dir: "/dev/null/x"}, c, "", c.clock))
}

func TestTheMachineHasAName(t *testing.T) { require.NotEmpty(t, machine()) }
