package hidden_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"surmise/compute"
	"surmise/drafter"
	"surmise/drafter/hidden"
	"surmise/kvcache"
	"surmise/verify/verifytest"
)

// follow takes in n tokens of the target, as prompt chunk or as accepted text,
// with one state of width 1 a position: its number.
func follow(t *hidden.Track, n int, prompt, last bool) (due, ended bool) {
	o := &drafter.Outcome{Position: t.At, Committed: make([]int32, n), Pending: -1, Accepted: n - 1, Hidden: make([]compute.View, 1)}
	if prompt {
		o.Accepted = 0
	}
	if !prompt || last {
		o.Pending = 1
	}
	for i := range n {
		t.States = append(t.States, float32(t.At+i))
	}
	t.At = o.After()
	t.Append(o.Committed)
	return t.Due(o)
}

func settle(t *hidden.Track) error {
	t.Made, t.States = t.At, t.States[:0]
	return nil
}

func newCache(t *testing.T) *kvcache.Cache {
	target, err := verifytest.New(verifytest.Options{Context: 4096})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, target.Close()) })
	return target.Cache()
}

// started is a track from the beginning of a sequence, with states of width 1.
func started(cache *kvcache.Cache, fresh bool) hidden.Track {
	track := new(hidden.Rooms).Start(0, 0, 1, fresh)
	track.Cache = cache.Open()
	return track
}

// Whatever a sequence goes through, the states kept are exactly those of the
// positions owed, there are never many of them, and what is offered to later
// sequences has been made.
func TestTheStatesKeptAreThoseOwed(t *testing.T) {
	cache := newCache(t)
	rapid.Check(t, func(t *rapid.T) {
		track := started(cache, true)
		gone := false
		for range rapid.IntRange(1, 40).Draw(t, "rounds") {
			prompt := !gone && rapid.Bool().Draw(t, "prompt")
			n := rapid.IntRange(1, 9).Draw(t, "tokens")
			if prompt {
				n = rapid.IntRange(2, 64).Draw(t, "chunk")
			}
			due, ended := follow(&track, n, prompt, rapid.Bool().Draw(t, "last"))
			require.True(t, due || !ended, "the end of a prompt is due")
			gone = gone || ended || !prompt
			if due || rapid.IntRange(0, 9).Draw(t, "asked") == 0 {
				require.NoError(t, settle(&track))
			}
			if gone && rapid.IntRange(0, 5).Draw(t, "rests") == 0 {
				track.At++
				track.Append([]int32{0})
				track.Rest(track.At)
				require.Zero(t, track.Owed())
				require.Equal(t, track.At, track.From)
			}
			require.Len(t, track.States, track.Owed())
			for i, s := range track.States {
				require.Equal(t, float32(track.Made+i), s)
			}
			require.Less(t, track.Owed(), 64)
			require.LessOrEqual(t, track.From, track.Made)
			require.Equal(t, track.At, track.Cache.Len())
		}
		track.Close(func() error { return settle(&track) })
	})
	require.Zero(t, cache.Stats().Sequences)
}

func TestWhatWasGivenUpIsNotOffered(t *testing.T) {
	cache := newCache(t)
	track := started(cache, false)
	due, ended := follow(&track, 3*compute.PageSize, true, true)
	require.True(t, due && ended)
	require.NoError(t, settle(&track))
	track.Publish(track.At)
	for range 3 * compute.PageSize {
		due, _ := follow(&track, 1, false, false)
		require.False(t, due, "a pause costs nothing")
	}
	require.Greater(t, track.From, 3*compute.PageSize)
	track.Close(func() error { t.Fatal("what was given up cannot be made"); return nil })
	found := cache.Match(make([]int32, 6*compute.PageSize))
	require.Equal(t, 3*compute.PageSize, found.Len())
	found.Close()
}

func TestWhatCannotBeMadeIsNotOffered(t *testing.T) {
	cache := newCache(t)
	track := started(cache, false)
	follow(&track, 2*compute.PageSize, true, false)
	track.Close(func() error { return errors.New("no device") })
	found := cache.Match(make([]int32, 2*compute.PageSize))
	require.Zero(t, found.Len())
	found.Close()
}

func TestAForkGoesItsOwnWay(t *testing.T) {
	cache := newCache(t)
	track := started(cache, true)
	follow(&track, compute.PageSize, false, false)
	require.Positive(t, track.Owed())
	fork, err := track.Fork(func() error { return settle(&track) })
	require.NoError(t, err)
	require.Zero(t, track.Owed(), "both would make it in the same place")
	follow(&fork, 2, false, false)
	require.Empty(t, track.States)
	require.Equal(t, []float32{compute.PageSize, compute.PageSize + 1}, fork.States)
	track.Close(func() error { return settle(&track) })
	fork.Close(func() error { return settle(&fork) })
	require.Zero(t, cache.Stats().Sequences)
}

// A drafter that was not asked for 100 tokens owes the latest only.
func Example() {
	target, err := verifytest.New(verifytest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer target.Close()
	var rooms hidden.Rooms
	track := rooms.Start(0, 0, 1, true)
	track.Cache = target.Cache().Open() // in a drafter, of its own cache
	for range 100 {
		follow(&track, 1, false, false)
	}
	fmt.Println(track.Position(), track.From, track.Owed())
	track.Close(func() error { return settle(&track) })
	// Output: 100 64 36
}
