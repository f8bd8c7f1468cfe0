// Command mkgguf writes a GGUF file with the shape of a published model and
// random weights, so that speed can be measured without downloading anything.
// Package randommodel says what is in it.
//
//	go run ./bench/peers/mkgguf --shape qwen3-0.6b --type q8_0 -o qwen3-0.6b-q8_0.gguf
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"surmise/bench/peers/randommodel"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "mkgguf:", err)
		os.Exit(1)
	}
}

func run(args []string, stderr io.Writer) error {
	fl := flag.NewFlagSet("mkgguf", flag.ContinueOnError)
	fl.SetOutput(stderr)
	shape := fl.String("shape", "smollm2-135m", "model whose shape is taken: "+strings.Join(randommodel.Shapes(), ", "))
	typ := fl.String("type", "q8_0", "quantization: "+strings.Join(randommodel.Types(), ", "))
	out := fl.String("o", "", "file to write")
	seed := fl.Uint64("seed", 1, "seed of the weights")
	if err := fl.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if fl.NArg() > 0 {
		return fmt.Errorf("argument %q is not a flag", fl.Arg(0))
	}
	if *out == "" {
		return errors.New("no file to write: say -o FILE")
	}
	if err := randommodel.Check(*shape, *typ); err != nil {
		return err
	}
	return writeFile(*out, *shape, *typ, *seed)
}

// writeFile writes the whole model, or leaves no file behind.
func writeFile(path, shape, typ string, seed uint64) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
			os.Remove(path)
		}
	}()
	return randommodel.Write(f, shape, typ, seed)
}
