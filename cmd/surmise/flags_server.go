package main

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

// serverFlags say which server answers.
type serverFlags struct {
	url, keyEnv, model string
	concurrency        int
	idle               time.Duration
	attempts           int
}

func (f *serverFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.url, "base-url", "", "record an OpenAI-compatible server at this address, ending in /v1; --model is the checkpoint, or a folder of its tokenizer files")
	fl.StringVar(&f.keyEnv, "api-key-env", "", "environment variable that holds the server's key")
	fl.StringVar(&f.model, "model-name", "", "the model's name at the server")
	fl.IntVar(&f.concurrency, "concurrency", 4, "requests to the server at a time")
	fl.DurationVar(&f.idle, "idle-timeout", time.Minute, "time without a byte from the server after which a request is tried again")
	fl.IntVar(&f.attempts, "attempts", 8, "how often a request is tried")
}

func (f *serverFlags) check(cmd *cobra.Command) error {
	switch {
	case f.url == "":
		for _, name := range []string{"api-key-env", "model-name", "concurrency", "idle-timeout", "attempts"} {
			if cmd.Flags().Changed(name) {
				return usage(errors.New("--" + name + " is about a server: say --base-url too"))
			}
		}
	case !isHTTP(f.url):
		return usage(fmt.Errorf("--base-url %q: want an address that begins with http:// or https://, as in http://host:8000/v1", f.url))
	case f.model == "":
		return usage(errors.New("no model: say --model-name NAME, the model's name at the server"))
	case !cmd.Flags().Changed("model"):
		return usage(errors.New("no tokenizer: with --base-url say --model PATH too, the checkpoint that the server serves or a folder of its tokenizer files"))
	case f.concurrency < 1 || f.concurrency > 1024:
		return usage(errors.New("--concurrency: want 1 to 1024"))
	case f.attempts < 1 || f.attempts > 100:
		return usage(errors.New("--attempts: want 1 to 100"))
	case f.idle <= 0:
		return usage(errors.New("--idle-timeout: want a time above 0"))
	}
	return nil
}

// isHTTP tells whether an address is one that HTTP clients understand.
func isHTTP(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}
