// Command mkgguf writes a GGUF file with the shape of a published model and
// random weights, so that speed can be measured without downloading anything.
//
// Types of tensors are mixed as llama.cpp's quantizer mixes them. Weights are
// scaled so that activations and logits stay finite and of ordinary size. The
// tokenizer is byte-level with a vocabulary padded to the model's size, good
// enough for any engine to load. Equal arguments give equal files.
//
//	go run ./bench/peers/mkgguf --shape qwen3-0.6b --type q8_0 -o qwen3-0.6b-q8_0.gguf
package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"surmise/checkpoint"
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
	name := fl.String("shape", "smollm2-135m", "model whose shape is taken: "+strings.Join(slices.Sorted(maps.Keys(shapes)), ", "))
	mix := fl.String("type", "q8_0", "quantization: "+strings.Join(slices.Sorted(maps.Keys(mixes)), ", "))
	out := fl.String("o", "", "file to write")
	seed := fl.Uint64("seed", 1, "seed of the weights")
	if err := fl.Parse(args); err != nil {
		return err
	}
	switch {
	case fl.NArg() > 0:
		return fmt.Errorf("argument %q is not a flag", fl.Arg(0))
	case *out == "":
		return fmt.Errorf("no file to write: say -o FILE")
	}
	s, ok := shapes[*name]
	if !ok {
		return fmt.Errorf("shape %q: want one of %s", *name, strings.Join(slices.Sorted(maps.Keys(shapes)), ", "))
	}
	m, ok := mixes[*mix]
	if !ok {
		return fmt.Errorf("type %q: want one of %s", *mix, strings.Join(slices.Sorted(maps.Keys(mixes)), ", "))
	}
	return writeFile(*out, s, m, *seed)
}

// writeFile writes the whole model, or leaves no file behind.
func writeFile(path string, s shape, m mix, seed uint64) (err error) {
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
	return checkpoint.WriteGGUF(f, metadata(s, m), tensors(s, m, seed))
}
