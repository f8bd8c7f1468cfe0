package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Client asks one server. It is safe for concurrent use if Random is.
type Client struct {
	// BaseURL ends in /v1, as OpenAI's clients want it.
	BaseURL string
	// Key is sent as a bearer token; empty for none.
	Key string
	// Model is its name at the server.
	Model string
	HTTP  *http.Client
	// Idle is how long the server may be silent.
	Idle time.Duration
	// Attempts is how often a request is tried, at least once.
	Attempts int
	// Random gives numbers in [0, 1) for jitter.
	Random func() float64
	// Sleep waits, or returns the context's error.
	Sleep func(ctx context.Context, d time.Duration) error
	Now   func() time.Time
	// Retrying is told of every failure that is tried again; nil for nobody.
	Retrying func(attempt int, wait time.Duration, err error)
}

// Sleep waits on the system's clock.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Random is the shared source of the system; tests give their own.
func Random() float64 { return rand.Float64() }

// Request asks for a completion.
type Request struct {
	// Prompt are token ids, sent as they are, so that nothing is added to them.
	Prompt []int32
	// Body are further fields of the request: max_tokens, temperature, seed, ….
	Body map[string]any
}

// Completion is an answer.
type Completion struct {
	Text string
	// Tokens are the ids the server says it drew; nil if it does not tell.
	Tokens []int32
	// Finish is OpenAI's finish reason.
	Finish string
	// First is the time to the first piece, Total that of the whole answer.
	First, Total time.Duration
}

// Complete asks until there is an answer, the attempts are used up, or the
// server refuses for a reason that will not pass.
func (c *Client) Complete(ctx context.Context, r Request) (Completion, error) {
	body := map[string]any{}
	for k, v := range r.Body {
		body[k] = v
	}
	body["model"], body["prompt"], body["stream"] = c.Model, r.Prompt, true
	// vLLM and SGLang read the first, llama-server the second; others ignore both.
	body["return_token_ids"], body["return_tokens"] = true, true
	data, err := json.Marshal(body)
	if err != nil {
		return Completion{}, fmt.Errorf("ask %s: %w", c.BaseURL, err)
	}
	for attempt := 1; ; attempt++ {
		answer, err := c.try(ctx, data)
		if err == nil {
			return answer, nil
		}
		if ctx.Err() != nil {
			return Completion{}, ctx.Err()
		}
		var p *permanent
		if errors.As(err, &p) || attempt >= c.Attempts {
			return Completion{}, fmt.Errorf("ask %s, attempt %d: %w", c.BaseURL, attempt, err)
		}
		wait := c.wait(attempt, err)
		if c.Retrying != nil {
			c.Retrying(attempt, wait, err)
		}
		if err := c.Sleep(ctx, wait); err != nil {
			return Completion{}, err
		}
	}
}

// Waits between attempts: doubling, with full jitter over the upper half, and at
// least as long as the server asks for.
const (
	firstWait   = 500 * time.Millisecond
	longestWait = time.Minute
)

func (c *Client) wait(attempt int, err error) time.Duration {
	d := longestWait
	if attempt < 8 {
		d = min(firstWait<<(attempt-1), longestWait)
	}
	d = time.Duration(float64(d) * (0.5 + 0.5*c.Random()))
	var s *statusError
	if errors.As(err, &s) {
		d = max(d, min(s.after, 10*longestWait))
	}
	return d
}

// permanent is a failure that trying again does not cure.
type permanent struct{ err error }

func (p *permanent) Error() string { return p.err.Error() }
func (p *permanent) Unwrap() error { return p.err }

// statusError is an answer that is none.
type statusError struct {
	status  int
	message string
	after   time.Duration // the server asks to wait so long
}

func (s *statusError) Error() string {
	return fmt.Sprintf("status %d %s: %s", s.status, http.StatusText(s.status), s.message)
}

// maxMessage bounds what is read of an error, maxAnswer of an answer.
const (
	maxMessage = 4 << 10
	maxAnswer  = 64 << 20
)

func (c *Client) try(ctx context.Context, body []byte) (Completion, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alive := watch(c.Idle, func() { cancel(fmt.Errorf("the server was silent for %v", c.Idle)) })
	defer alive.stop()
	start := c.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(c.BaseURL, "/")+"/completions", bytes.NewReader(body))
	if err != nil {
		return Completion{}, &permanent{err}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		return Completion{}, cause(ctx, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return Completion{}, refused(res)
	}
	in := &counted{r: io.LimitReader(res.Body, maxAnswer), alive: alive}
	var answer Completion
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		answer, err = readStream(in, func() {
			if answer.First == 0 {
				answer.First = c.Now().Sub(start)
			}
		})
	} else {
		answer, err = readWhole(in)
	}
	if err != nil {
		return Completion{}, cause(ctx, err)
	}
	answer.Total = c.Now().Sub(start)
	if answer.First == 0 {
		answer.First = answer.Total
	}
	return answer, nil
}

// cause is why a request was cut short, if it was by us.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil && !errors.Is(why, context.Canceled) {
		return why
	}
	return err
}

// refused reads an error answer. Too many requests, and what is the server's own
// fault, may pass.
func refused(res *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(res.Body, maxMessage))
	s := &statusError{status: res.StatusCode, message: strings.TrimSpace(string(data))}
	if n, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && n > 0 && n < 1<<20 {
		s.after = time.Duration(n) * time.Second
	}
	switch {
	case res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusRequestTimeout, res.StatusCode >= 500:
		return s
	}
	return &permanent{s}
}

// watcher calls a function when nothing happened for a while.
type watcher struct {
	timer *time.Timer
	idle  time.Duration
}

func watch(idle time.Duration, silent func()) *watcher {
	return &watcher{time.AfterFunc(idle, silent), idle}
}

func (w *watcher) alive() { w.timer.Reset(w.idle) }
func (w *watcher) stop()  { w.timer.Stop() }

// counted tells the watcher of every byte.
type counted struct {
	r     io.Reader
	alive *watcher
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if n > 0 {
		c.alive.alive()
	}
	return n, err
}
