package remote_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"surmise/bench/remote"
)

func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"choices":[{"text":"Paris","token_ids":[12],"finish_reason":"stop"}]}`, "\n\n")
	}))
	defer server.Close()
	c := &remote.Client{
		BaseURL: server.URL + "/v1", Model: "big", HTTP: server.Client(), Idle: time.Minute, Attempts: 3,
		Random: remote.Random, Sleep: remote.Sleep, Now: time.Now,
	}
	answer, err := c.Complete(context.Background(), remote.Request{Prompt: []int32{1, 2, 3}})
	fmt.Println(answer.Text, answer.Tokens, answer.Finish, err)
	// Output: Paris [12] stop <nil>
}
