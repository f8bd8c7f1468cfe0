package kvcache_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/compute"
	"surmise/kvcache"
)

// sample is a cache whose budget holds the given number of pages over all
// groups, one for each window.
func sample(t testing.TB, pages int, windows ...int) (*kvcache.Cache, *fakeDevice) {
	t.Helper()
	cfg := kvcache.Config{Heads: 2, HeadDim: 4, Type: compute.KVF16, Context: 1 << 20}
	for _, w := range windows {
		cfg.Groups = append(cfg.Groups, kvcache.Group{Layers: 1, Window: w})
	}
	cfg.Budget = int64(pages) * cfg.PageBytes()
	dev := &fakeDevice{}
	c, err := kvcache.New(dev, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c, dev
}

func tokens(n int, first int32) []int32 {
	v := make([]int32, n)
	for i := range v {
		v[i] = first + int32(i)
	}
	return v
}

func TestGivenASlidingGroupWhenTheSequenceGrowsThenPagesBehindWindowAndSlackAreFree(t *testing.T) {
	const window = 100
	c, dev := sample(t, 2000, 0, window)
	s := c.Open()
	for i := range 5000 {
		require.NoError(t, s.Append([]int32{int32(i)}))
		live := 0
		for _, p := range s.Pages(1) {
			if p >= 0 {
				live++
			}
		}
		require.LessOrEqual(t, live, (window+kvcache.Slack)/compute.PageSize+2)
	}
	require.Len(t, s.Pages(0), 5000/compute.PageSize+1)
	most := int32(0)
	for _, p := range s.Pages(1) {
		most = max(most, p)
	}
	require.Less(t, most, int32(8), "freed pages are used again")
	require.Zero(t, dev.stores[1].copies)
}

func TestGivenABudgetWhenItIsFullThenAppendFailsAndNothingChanges(t *testing.T) {
	c, _ := sample(t, 3, 0)
	a, b := c.Open(), c.Open()
	require.NoError(t, a.Append(tokens(100, 0)))
	require.NoError(t, b.Append(tokens(64, 0)))
	err := b.Append(tokens(1, 0))
	require.ErrorIs(t, err, kvcache.ErrFull)
	require.Equal(t, 64, b.Len())
	require.NoError(t, a.Append(tokens(28, 0)), "room in a page it has")
	a.Close()
	require.NoError(t, b.Append(tokens(1, 0)))
	b.Close()
}

func TestGivenPublishedPrefixesWhenRoomIsNeededThenTheLeastRecentlyUsedGoFirst(t *testing.T) {
	c, _ := sample(t, 4, 0)
	publish := func(first int32) {
		s := c.Open()
		require.NoError(t, s.Append(tokens(128, first)))
		s.Publish()
		s.Close()
	}
	found := func(first int32) int {
		s := c.Match(tokens(129, first))
		defer s.Close()
		return s.Len()
	}
	publish(1000)
	publish(2000)
	require.Equal(t, 128, found(1000))
	publish(3000)
	require.Equal(t, 128, found(1000), "used last")
	require.Equal(t, 0, found(2000))
	require.Equal(t, 128, found(3000))
	s := c.Open()
	require.NoError(t, s.Append(tokens(64, 9)))
	require.Equal(t, 64, found(1000), "the end of a prefix goes before its beginning")
	require.Equal(t, int64(3), c.Stats().Evicted)
	s.Close()
}

func TestGivenARunningSequenceWhenRoomIsNeededThenPublishedPagesBehindItsWindowGo(t *testing.T) {
	c, _ := sample(t, 12, 0, 10)
	s := c.Open()
	for range 11 {
		require.NoError(t, s.Append(tokens(64, 0)))
		s.Publish()
	}
	require.NoError(t, s.Append(tokens(64, 0)))
	other := c.Open()
	require.NoError(t, other.Append(tokens(64, 0)), "the sliding group's old pages make room")
	require.Equal(t, 768, s.Len())
	other.Close()
	s.Close()
}

func TestGivenAForkWhenEitherWritesThenThePageIsCopiedOnce(t *testing.T) {
	c, dev := sample(t, 10, 0)
	a := c.Open()
	require.NoError(t, a.Append(tokens(70, 0)))
	b, err := a.Fork()
	require.NoError(t, err)
	require.Equal(t, a.Pages(0), b.Pages(0))
	require.NoError(t, b.Append(tokens(1, 0)))
	require.Equal(t, 1, dev.stores[0].copies)
	require.Equal(t, a.Pages(0)[0], b.Pages(0)[0], "the full page stays shared")
	require.NotEqual(t, a.Pages(0)[1], b.Pages(0)[1])
	require.NoError(t, a.Append(tokens(1, 0)))
	require.Equal(t, 1, dev.stores[0].copies, "the last holder writes in place")
}

func TestGivenTheSameContentTwiceWhenBothArePublishedThenOneCopyRemains(t *testing.T) {
	c, _ := sample(t, 10, 0, 100)
	a, b := c.Open(), c.Open()
	require.NoError(t, a.Append(tokens(130, 7)))
	require.NoError(t, b.Append(tokens(130, 7)))
	a.Publish()
	before := c.Stats().Used
	b.Publish()
	require.Equal(t, a.Pages(0)[:2], b.Pages(0)[:2])
	require.Equal(t, a.Pages(1)[:2], b.Pages(1)[:2])
	require.Less(t, c.Stats().Used, before)
}

func TestGivenAWholePromptPublishedWhenItComesAgainThenAllButItsLastTokenIsFound(t *testing.T) {
	c, _ := sample(t, 10, 0)
	a := c.Open()
	require.NoError(t, a.Append(tokens(128, 7)))
	a.Publish()
	b := c.Match(tokens(128, 7))
	require.Equal(t, 127, b.Len())
	require.NoError(t, b.Append(tokens(1, 5)))
	require.Equal(t, a.Pages(0)[0], b.Pages(0)[0])
	require.NotEqual(t, a.Pages(0)[1], b.Pages(0)[1])
	require.Zero(t, c.Match(nil).Len())
	require.Zero(t, c.Match(tokens(64, 8)).Len())
}

// released counts how often a page's state was told that it is gone.
type released struct{ n int }

func (r *released) Release() { r.n++ }

func TestPageStateLivesAndDiesWithItsPage(t *testing.T) {
	type key string
	const drafter = key("drafter")
	c, _ := sample(t, 3, 0)
	a := c.Open()
	require.NoError(t, a.Append(tokens(150, 7)))
	require.Error(t, a.SetState(drafter, 2, 1), "page 2 is not full")
	first, second := &released{}, &released{}
	require.NoError(t, a.SetState(drafter, 0, first))
	require.NoError(t, a.SetState(drafter, 1, second))
	a.Publish()

	b := c.Match(tokens(150, 7))
	got, ok := b.State(drafter, 1)
	require.True(t, ok, "a prefix hit finds the state")
	require.Same(t, second, got)
	_, ok = b.State(key("other"), 1)
	require.False(t, ok)
	b.Close()

	require.NoError(t, a.Truncate(100))
	_, ok = a.State(drafter, 1)
	require.False(t, ok, "the page is not full any more")
	require.Zero(t, second.n, "it is still published")
	require.NoError(t, a.Append(tokens(28, 0)))
	_, ok = a.State(drafter, 1)
	require.False(t, ok, "the page has other content now")

	a.Close()
	d := c.Open()
	require.NoError(t, d.Append(tokens(192, 1)))
	require.Equal(t, 1, first.n, "evicted with its page")
	require.Equal(t, 1, second.n)
	d.Close()
}

func TestGivenTwoCopiesWhenOneIsPublishedThenTheStateOfTheOtherIsKept(t *testing.T) {
	c, _ := sample(t, 8, 0)
	a, b := c.Open(), c.Open()
	require.NoError(t, a.Append(tokens(64, 7)))
	require.NoError(t, b.Append(tokens(64, 7)))
	a.Publish()
	state := &released{}
	require.NoError(t, b.SetState("drafter", 0, state))
	b.Publish()
	got, ok := a.State("drafter", 0)
	require.True(t, ok)
	require.Same(t, state, got)
	require.Zero(t, state.n)
}

func TestBadConfigurationsAndUsesAreErrorsThatSayWhatIsValid(t *testing.T) {
	good := kvcache.Config{Groups: []kvcache.Group{{Layers: 1}}, Heads: 1, HeadDim: 16, Budget: 1 << 20, Context: 100}
	for want, change := range map[string]func(*kvcache.Config){
		"no groups":           func(c *kvcache.Config) { c.Groups = nil },
		"group 0 has 0":       func(c *kvcache.Config) { c.Groups = []kvcache.Group{{}} },
		"window -1":           func(c *kvcache.Config) { c.Groups = []kvcache.Group{{Layers: 1, Window: -1}} },
		"0 heads":             func(c *kvcache.Config) { c.Heads = 0 },
		"heads of 2147483648": func(c *kvcache.Config) { c.HeadDim = 1 << 31 },
		"context of 0":        func(c *kvcache.Config) { c.Context = 0 },
		"budget of 10 bytes":  func(c *kvcache.Config) { c.Budget = 10 },
	} {
		cfg := good
		change(&cfg)
		_, err := kvcache.New(&fakeDevice{}, cfg)
		require.ErrorContains(t, err, want)
	}
	c, err := kvcache.New(&fakeDevice{}, good)
	require.NoError(t, err)
	s := c.Open()
	require.ErrorIs(t, s.Append(tokens(101, 0)), kvcache.ErrContext)
	require.NoError(t, s.Append(tokens(100, 0)))
	require.ErrorContains(t, s.Truncate(101), "want 0 to 100")
	require.ErrorContains(t, s.Truncate(-1), "want 0 to 100")
	s.Close()
	_, err = s.Fork()
	require.ErrorIs(t, err, kvcache.ErrClosed)
	require.ErrorIs(t, s.Truncate(0), kvcache.ErrClosed)
}
