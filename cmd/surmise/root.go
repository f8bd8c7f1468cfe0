package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surmise/drafter"
	"surmise/engine/costs"
	"surmise/engine/kinds"
)

// The exit statuses.
const (
	statusOK      = 0
	statusFailure = 1
	statusUsage   = 2
)

// app is the world a command runs in.
type app struct {
	stdin                          io.Reader
	stdout, stderr                 io.Writer
	stdinTTY, stdoutTTY, stderrTTY bool
	getenv                         func(string) string
	now                            func() time.Time
	random                         func() uint64

	costs   costs.Store // what forwards were measured to take
	family  *family     // models inside the program; nil for none
	kinds   *drafter.Kinds
	aliases map[string]string // of flags
}

// usageError is a mistake in the command line.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// usage marks an error as one of usage; nil stays nil.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// execute runs a command line and returns the exit status.
func (a *app) execute(ctx context.Context, args []string) int {
	var err error
	if a.kinds, err = kinds.All(); err != nil {
		fmt.Fprintln(a.stderr, "surmise:", err)
		return statusFailure
	}
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return statusOK
	}
	fmt.Fprintln(a.stderr, "surmise:", oneLine(err))
	var bad usageError
	if errors.As(err, &bad) || strings.HasPrefix(err.Error(), "unknown command") {
		fmt.Fprintf(a.stderr, "usage: %s (see %s --help)\n", cmd.UseLine(), cmd.CommandPath())
		return statusUsage
	}
	return statusFailure
}

// oneLine is an error's text in one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

func (a *app) root() *cobra.Command {
	a.aliases = map[string]string{}
	root := &cobra.Command{
		Use:           "surmise",
		Short:         "Generate text from checkpoints, speculating ahead",
		Long:          "surmise generates text from Hugging Face and GGUF checkpoints. Drafters surmise the next tokens,\nthe model confirms them in blocks; the text is the same as without them.",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(flagError(err)) })
	root.AddCommand(a.generateCommand(), a.runCommand(), a.inspectCommand(), a.tokenizeCommand(), a.calibrateCommand(), a.explainCommand(), a.benchCommand(), a.recordCommand(), a.replayCommand(), a.pairCommand(), a.demoCommand())
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		name = strings.ReplaceAll(name, "_", "-")
		if to, ok := a.aliases[name]; ok {
			name = to
		}
		return pflag.NormalizedName(name)
	})
	return root
}

// valid says what a flag's values look like by its type. Fields of the sampler
// say it themselves.
var valid = map[string]string{
	"bool":         "true or false",
	"int":          "a whole number",
	"uint64":       "a whole number from 0 to 2⁶⁴−1",
	"duration":     "a time with its unit, as in 500ms, 8s or 2m",
	"intSlice":     "whole numbers parted by commas, as in 1,2",
	"float64Slice": "numbers parted by commas, as in 0,0.8",
	"stringSlice":  "texts parted by commas, one with quotation marks or commas quoted as in CSV",
}

// flagError is an error of parsing flags, which for a value that cannot be read
// names the flag, the value, and what is valid.
func flagError(err error) error {
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) {
		if want, ok := valid[bad.GetFlag().Value.Type()]; ok {
			return fmt.Errorf("--%s %q: want %s", bad.GetFlag().Name, bad.GetValue(), want)
		}
	}
	return err
}

// alias lets a flag be given by other names, which its help lists.
func (a *app) alias(flag *pflag.Flag, names ...string) {
	for _, n := range names {
		a.aliases[n] = flag.Name
		flag.Usage += ", also --" + n
	}
}

// noArgs refuses arguments that are not flags.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("argument %q is not a flag: ", args[0])
	switch {
	case cmd.Flags().Lookup("prompt") == nil:
		text += cmd.CommandPath() + " takes flags only"
		for i, c := range cmd.Commands() {
			text += []string{", or the command ", " or "}[min(i, 1)] + c.Name()
		}
	case cmd.Flags().Lookup("logprobs") == nil:
		text += "a prompt is given with --prompt"
	default:
		text += "a prompt is given with --prompt, and the number of a flag that can do without one with =, as in --logprobs=5"
	}
	return usage(errors.New(text))
}

// interruptible is a context that Ctrl-C cancels.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}
