// Command surmise generates text from checkpoints, speculating ahead.
//
// Text goes to standard output, everything else to standard error. The exit
// status is 0, 2 for a command line that makes no sense, and 1 for anything
// that failed while doing what was asked.
package main

import (
	"context"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/term"

	"surmise/engine/costs"
)

func main() {
	a := &app{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		stdinTTY:  term.IsTerminal(int(os.Stdin.Fd())),
		stdoutTTY: term.IsTerminal(int(os.Stdout.Fd())),
		stderrTTY: term.IsTerminal(int(os.Stderr.Fd())),
		getenv:    os.Getenv,
		now:       time.Now,
		random:    rand.Uint64,
		costs:     costs.UserStore(),
		family:    demoFamily(),
	}
	os.Exit(a.execute(context.Background(), os.Args[1:]))
}
