package recording_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"surmise/bench/prompts"
	"surmise/bench/recording"
	"surmise/bench/remote"
	"surmise/tokenizer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// letters is a tokenizer of the letters a to z, space and an end token.
func letters(t require.TestingT) *tokenizer.Tokenizer {
	vocab := map[string]int{"Ġ": 26}
	for c := 'a'; c <= 'z'; c++ {
		vocab[string(c)] = int(c - 'a')
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	data, err := json.Marshal(map[string]any{
		"version": "1.0",
		"added_tokens": []any{map[string]any{
			"id": 27, "content": "<|im_end|>", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
		}},
		"pre_tokenizer": level, "decoder": level,
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": [][]string{}},
	})
	require.NoError(t, err)
	tok, err := tokenizer.FromFiles(data, nil, nil)
	require.NoError(t, err)
	return tok
}

func header(layers ...int) recording.Header {
	return recording.Header{
		Source: recording.Local, Layers: layers, Params: json.RawMessage(`{"temperature":0}`),
		Spec: recording.Spec{Vocab: 28, Hidden: 2, Layers: 3, Context: 256, EOS: []int{27}},
	}
}

func item(n int) recording.Item {
	return recording.Item{ID: fmt.Sprint(n), Prompt: []int32{1, 2}, Tokens: []int32{3, 27}, Finish: "stop", Limit: 5}
}

// states are the hidden states of an item by layer.
func states(n int) [][]float32 {
	return [][]float32{{float32(n), 1, 2, 3, 4, 5}, {float32(-n), -1, -2, -3, -4, -5}}
}

func TestGivenFilesCutAnywhereWhenOpenedAgainThenFinishedItemsAreWholeAndTheRestCanFollow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		path := filepath.Join(t.TempDir(), "rec.jsonl")
		w, err := recording.Create(path, header(0, 3))
		require.NoError(rt, err)
		n := rapid.IntRange(1, 5).Draw(rt, "items")
		sizes := []int64{}
		for i := range n {
			require.NoError(rt, w.Append(item(i), states(i)))
			info, err := os.Stat(path)
			require.NoError(rt, err)
			sizes = append(sizes, info.Size())
		}
		require.NoError(rt, w.Close())
		// A crash leaves the lines behind: an item's states are on disk before its line.
		cut := rapid.Int64Range(sizes[0], sizes[n-1]).Draw(rt, "cut")
		require.NoError(rt, os.Truncate(path, cut))
		whole := 0
		for whole < n && sizes[whole] <= cut {
			whole++
		}
		w, err = recording.Create(path, header(0, 3))
		require.NoError(rt, err)
		for i := range n {
			require.Equal(rt, i < whole, w.Find(recording.Key(fmt.Sprint(i), 0)) != nil)
		}
		for i := whole; i < n; i++ {
			require.NoError(rt, w.Append(item(i), states(i)))
		}
		require.NoError(rt, w.Close())

		r, err := recording.Open(path)
		require.NoError(rt, err)
		require.Len(rt, r.Items, n)
		for i, it := range r.Items {
			got, err := r.Hidden(it)
			require.NoError(rt, err)
			require.Equal(rt, states(i), got)
		}
		require.NoError(rt, r.Close())
	})
}

func TestGivenAnotherRecordingsFileWhenCreatedThenTheErrorSaysWhatDiffers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rec.jsonl")
	w, err := recording.Create(path, header())
	require.NoError(t, err)
	require.NoError(t, w.Close())
	h := header()
	h.Data = "other questions"
	_, err = recording.Create(path, h)
	require.ErrorContains(t, err, "its data is , this one's other questions")
	h = header()
	h.Params = json.RawMessage(`{"temperature":0.8,"top_k":4}`)
	_, err = recording.Create(path, h)
	require.ErrorContains(t, err, "the file is another recording: its temperature is 0, this one's 0.8; its top_k is not there, this one's 4")
	require.NotContains(t, err.Error(), "{")
}

// withStates writes a recording of items with hidden states.
func withStates(t *testing.T, items ...int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rec.jsonl")
	w, err := recording.Create(path, header(0, 3))
	require.NoError(t, err)
	for _, n := range items {
		require.NoError(t, w.Append(item(n), states(n)))
	}
	require.NoError(t, w.Close())
	return path
}

func TestGivenDamagedStatesWhenReadThenTheErrorNamesTheItem(t *testing.T) {
	path := withStates(t, 4)
	data, err := os.ReadFile(recording.HiddenPath(path))
	require.NoError(t, err)
	data[5] ^= 1
	require.NoError(t, os.WriteFile(recording.HiddenPath(path), data, 0o600))
	r, err := recording.Open(path)
	require.NoError(t, err)
	_, err = r.Hidden(r.Items[0])
	require.ErrorContains(t, err, "item 4: hidden states have checksum")
	require.NoError(t, r.Close())
}

// Tokens are read whatever became of the states.
func TestGivenStatesThatAreCutOffOrGoneWhenOpenedThenTheirFileIsNamed(t *testing.T) {
	path := withStates(t, 0, 1, 2)
	hidden := recording.HiddenPath(path)
	for _, c := range []struct {
		damage func() error
		want   string
	}{
		{func() error { return nil }, ""},
		{func() error { return os.Truncate(hidden, 3*48-1) }, hidden + " has 143 bytes, but item 2 takes 48 from 96 on"},
		{func() error { return os.Remove(hidden) }, hidden + ": no such file"},
	} {
		require.NoError(t, c.damage())
		r, err := recording.Open(path)
		require.NoError(t, err)
		require.Len(t, r.Items, 3)
		_, err = r.Hidden(r.Items[0])
		if c.want == "" {
			require.NoError(t, err)
			require.NoError(t, r.Readable())
		} else {
			require.ErrorContains(t, r.Readable(), c.want)
			require.ErrorIs(t, err, r.Readable())
		}
		require.NoError(t, r.Close())
	}
}

func TestGivenStatesThatAreGoneWhenRecordedOnThenNothingIsWritten(t *testing.T) {
	path := withStates(t, 1)
	require.NoError(t, os.Remove(recording.HiddenPath(path)))
	_, err := recording.Create(path, header(0, 3))
	require.ErrorContains(t, err, recording.HiddenPath(path)+": no such file")
	require.NoFileExists(t, recording.HiddenPath(path))
}

func TestGivenHostileLinesWhenOpenedThenErrorsNameThem(t *testing.T) {
	for line, want := range map[string]string{
		`{"id":"x","prompt":[1],"tokens":[28],"limit":3}`:                         "token 28: want 0 to 27",
		`{"id":"x","prompt":[1],"tokens":[-1],"limit":3}`:                         "token -1",
		`{"id":"x","prompt":[],"tokens":[1],"limit":3}`:                           "0 prompt tokens",
		`{"id":"x","prompt":[1],"tokens":[1],"limit":0}`:                          "limit 0",
		`{"id":"x","prompt":[1],"tokens":[1],"limit":100000000}`:                  "limit 100000000",
		`{"prompt":[1],"tokens":[1],"limit":1}`:                                   "without an id",
		`{"id":"x","prompt":"abc"}`:                                               "line 2",
		`{"id":"x","prompt":[1],"tokens":[1],"limit":1,"hidden":{"positions":9}}`: "hidden states of 9 positions: want 1",
	} {
		path := filepath.Join(t.TempDir(), "rec.jsonl")
		h := header()
		h.Format, h.Version = recording.Format, recording.Version
		head, err := json.Marshal(h)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, append(append(head, '\n'), line+"\n"...), 0o600))
		_, err = recording.Open(path)
		require.ErrorContains(t, err, want, line)
	}
}

// moody is a server that fails in every way before it answers: for every third
// request it is well.
type moody struct {
	mu    sync.Mutex
	calls int
	total int // answers given
	stop  func()
}

func (m *moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Prompt []int32 `json:"prompt"`
	}
	_ = json.NewDecoder(r.Body).Decode(&body)
	m.mu.Lock()
	m.calls++
	call := m.calls
	m.mu.Unlock()
	stream := func(parts ...string) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, p := range parts {
			_, _ = io.WriteString(w, p)
			w.(http.Flusher).Flush()
		}
	}
	const half = `data: {"choices":[{"text":"ab","finish_reason":null}]}` + "\n\n"
	switch call % 6 {
	case 0:
		w.WriteHeader(http.StatusTooManyRequests)
	case 1:
		w.WriteHeader(http.StatusInternalServerError)
	case 2:
		stream(half, `data: {"choi`)
	case 3:
		stream(half)
		<-r.Context().Done() // stalls
	default:
		m.mu.Lock()
		m.total++
		if m.total == 6 && m.stop != nil {
			m.stop()
		}
		m.mu.Unlock()
		stream(half, `data: {"choices":[{"text":" c","finish_reason":"stop"}]}`+"\n\n", "data: [DONE]\n\n")
	}
}

func source(t *testing.T, url string, c *http.Client) *recording.ServerSource {
	tok := letters(t)
	return &recording.ServerSource{
		Client: &remote.Client{
			BaseURL: url, Model: "m", HTTP: c, Idle: 100 * time.Millisecond, Attempts: 20,
			Random: func() float64 { return 0 }, Now: time.Now,
			Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		},
		Encoder: prompts.Encoder{Tokenizer: tok}, Tokenizer: tok, Context: 256, MaxNew: 16, EOS: []int32{27},
	}
}

func TestGivenAMoodyServerAndAnInterruptionWhenRecordedThenNothingIsLostOrAskedTwice(t *testing.T) {
	m := &moody{}
	server := httptest.NewServer(m)
	defer server.Close()
	path := filepath.Join(t.TempDir(), "rec.jsonl")
	h := header()
	h.Source = recording.Server
	var questions []prompts.Item
	for i := range 10 {
		questions = append(questions, prompts.Item{ID: fmt.Sprint(i), Category: "c", Turns: []string{"ab", "c"}})
	}
	run := func(ctx context.Context) error {
		w, err := recording.Create(path, h)
		require.NoError(t, err)
		defer func() { require.NoError(t, w.Close()) }()
		s := source(t, server.URL, server.Client())
		for _, q := range questions {
			if err := s.Record(ctx, w, q); err != nil {
				return err
			}
		}
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel // in the middle of an answer
	require.ErrorIs(t, run(ctx), context.Canceled)
	r, err := recording.Open(path)
	require.NoError(t, err)
	before := len(r.Items)
	require.NoError(t, r.Close())
	require.Positive(t, before)

	m.stop = nil
	require.NoError(t, run(context.Background()))
	r, err = recording.Open(path)
	require.NoError(t, err)
	defer r.Close()
	require.Len(t, r.Items, 20)
	for _, i := range r.Items {
		require.Equal(t, "ab c", i.Text)
		require.Equal(t, []int32{0, 1, 26, 2, 27}, i.Tokens, "the text's tokens and the end token")
		require.True(t, i.Retokenized)
	}
	require.Equal(t, []int32{0, 1, 0, 1, 26, 2}, r.Items[1].Prompt[:6], "the second turn follows the first answer")
	require.LessOrEqual(t, m.total, 21, "one answer at most was given twice: the interrupted one")
	require.NoError(t, run(context.Background()))
}

func TestGivenTextThatDoesNotSurviveTheTokenizerWhenRecordedThenItIsSkippedWithTheReason(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"text":"aÜb","finish_reason":"stop"}]}`)
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "rec.jsonl")
	w, err := recording.Create(path, header())
	require.NoError(t, err)
	require.NoError(t, source(t, server.URL, server.Client()).Record(context.Background(), w, prompts.Item{ID: "1", Turns: []string{"a", "b"}}))
	require.NoError(t, w.Close())
	r, err := recording.Open(path)
	require.NoError(t, err)
	require.Empty(t, r.Items)
	require.Len(t, r.Skipped, 1)
	require.Contains(t, r.Skipped[0].Skipped, `"aÜb" became "ab"`)
}

func FuzzOpen(f *testing.F) {
	h := header(0, 3)
	h.Format, h.Version = recording.Format, recording.Version
	head, err := json.Marshal(h)
	require.NoError(f, err)
	line, err := json.Marshal(item(1))
	require.NoError(f, err)
	f.Add(append(append(append(head, '\n'), line...), '\n'))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "r.jsonl")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		require.NoError(t, os.WriteFile(recording.HiddenPath(path), make([]byte, 100), 0o600))
		r, err := recording.Open(path)
		if err != nil {
			return
		}
		for _, i := range r.Items {
			_, _ = r.Hidden(i)
		}
		require.NoError(t, r.Close())
	})
}
