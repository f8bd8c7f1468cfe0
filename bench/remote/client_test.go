package remote_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"surmise/bench/remote"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server answers every request with the next of its behaviours, and the last one
// from then on.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	bodies   []map[string]any
	headers  []http.Header
	behave   []http.HandlerFunc
	released chan struct{} // lets stalled answers go
}

func serve(t *testing.T, behave ...http.HandlerFunc) *server {
	s := &server{behave: behave, released: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		s.mu.Lock()
		s.bodies, s.headers = append(s.bodies, body), append(s.headers, r.Header)
		b := s.behave[min(len(s.bodies), len(s.behave))-1]
		s.mu.Unlock()
		b(w, r)
	}))
	t.Cleanup(func() {
		close(s.released)
		s.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

// piece is a streamed piece with one token.
func piece(text string, id int, finish string) string {
	f := "null"
	if finish != "" {
		f = fmt.Sprintf("%q", finish)
	}
	return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"text\":%q,\"token_ids\":[%d],\"finish_reason\":%s}]}\n\n", text, id, f)
}

// stream writes pieces as server-sent events.
func stream(pieces ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, p := range pieces {
			_, _ = io.WriteString(w, p)
			w.(http.Flusher).Flush()
		}
	}
}

func status(code int, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "busy")
	}
}

// stall streams a piece and then says nothing more until the client has gone.
func (s *server) stall(w http.ResponseWriter, r *http.Request) {
	stream(piece("ha", 1, ""))(w, r)
	select {
	case <-r.Context().Done():
	case <-s.released:
	}
}

var good = stream(": a comment\n\n", piece("Hel", 7, ""), piece("lo", 8, ""), piece("", 2, "stop"), "data: [DONE]\n\n")

// client waits for nothing and notes how long it would have.
func client(s *server, waits *[]time.Duration) *remote.Client {
	return &remote.Client{
		BaseURL: s.URL + "/v1/", Key: "secret", Model: "m", HTTP: s.Client(), Idle: 150 * time.Millisecond, Attempts: 6,
		Random: func() float64 { return 0.5 }, Now: time.Now,
		Sleep: func(_ context.Context, d time.Duration) error {
			*waits = append(*waits, d)
			return nil
		},
	}
}

var request = remote.Request{Prompt: []int32{5, 6}, Body: map[string]any{"max_tokens": 9}}

func TestGivenAStreamWhenAskedThenTextIdsAndEndAreTheServers(t *testing.T) {
	s := serve(t, good)
	got, err := client(s, new([]time.Duration)).Complete(context.Background(), request)
	require.NoError(t, err)
	require.Equal(t, "Hello", got.Text)
	require.Equal(t, []int32{7, 8, 2}, got.Tokens)
	require.Equal(t, "stop", got.Finish)
	require.Equal(t, []any{5.0, 6.0}, s.bodies[0]["prompt"])
	require.Equal(t, 9.0, s.bodies[0]["max_tokens"])
	require.Equal(t, "m", s.bodies[0]["model"])
	require.Equal(t, "Bearer secret", s.headers[0].Get("Authorization"))
}

func TestGivenAServerThatFailsForAWhileWhenAskedThenTheAnswerComesWhole(t *testing.T) {
	cut := stream(piece("Hel", 7, ""), "data: {\"choices\":[{\"index\":0,\"te")
	noEnd := stream(piece("Hel", 7, ""), "data: [DONE]\n\n")
	inStream := stream(piece("Hel", 7, ""), "data: {\"error\":{\"message\":\"out of memory\"}}\n\n")
	s := serve(t, status(429, "Retry-After", "7"), status(500), cut, noEnd, inStream, good)
	var waits []time.Duration
	got, err := client(s, &waits).Complete(context.Background(), request)
	require.NoError(t, err)
	require.Equal(t, "Hello", got.Text)
	require.Equal(t, []int32{7, 8, 2}, got.Tokens)
	require.Equal(t, []time.Duration{7 * time.Second, 750 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second, 6 * time.Second}, waits)
}

func TestGivenAServerThatFallsSilentWhenAskedThenItIsAskedAgain(t *testing.T) {
	s := serve(t)
	s.behave = []http.HandlerFunc{s.stall, good}
	var waits []time.Duration
	got, err := client(s, &waits).Complete(context.Background(), request)
	require.NoError(t, err)
	require.Equal(t, "Hello", got.Text)
	require.Len(t, waits, 1)
}

func TestGivenARefusalThatWillNotPassWhenAskedThenItIsNotAskedAgain(t *testing.T) {
	s := serve(t, status(400), good)
	var waits []time.Duration
	_, err := client(s, &waits).Complete(context.Background(), request)
	require.ErrorContains(t, err, "status 400 Bad Request: busy")
	require.Empty(t, waits)
}

func TestGivenAServerThatNeverAnswersWhenAskedThenTheAttemptsEnd(t *testing.T) {
	s := serve(t, status(503))
	var waits []time.Duration
	_, err := client(s, &waits).Complete(context.Background(), request)
	require.ErrorContains(t, err, "attempt 6: status 503")
	require.Len(t, waits, 5)
}

func TestGivenACancelledContextWhenAskedThenThatIsTheError(t *testing.T) {
	s := serve(t)
	ctx, cancel := context.WithCancel(context.Background())
	s.behave = []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
		cancel()
		s.stall(w, r)
	}}
	_, err := client(s, new([]time.Duration)).Complete(ctx, request)
	require.ErrorIs(t, err, context.Canceled)
}

func TestGivenAServerThatDoesNotStreamOrTellIdsWhenAskedThenTheTextIsTaken(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"text":"Hi","finish_reason":"length"}]}`)
	}, stream(piece("a", 1, ""), strings.Replace(piece("b", 0, "stop"), `"token_ids":[0],`, "", 1), "data: [DONE]\n\n"))
	c := client(s, new([]time.Duration))
	got, err := c.Complete(context.Background(), request)
	require.NoError(t, err)
	require.Equal(t, "Hi", got.Text)
	require.Equal(t, "length", got.Finish)
	require.Nil(t, got.Tokens)
	got, err = c.Complete(context.Background(), request)
	require.NoError(t, err)
	require.Equal(t, "ab", got.Text)
	require.Nil(t, got.Tokens, "ids of a part of the text are not taken")
}

func TestGivenLlamaServersNameForIdsWhenAskedThenTheyAreTaken(t *testing.T) {
	s := serve(t, stream(strings.Replace(piece("a", 4, "stop"), "token_ids", "tokens", 1)))
	got, err := client(s, new([]time.Duration)).Complete(context.Background(), request)
	require.NoError(t, err)
	require.Equal(t, []int32{4}, got.Tokens)
}
