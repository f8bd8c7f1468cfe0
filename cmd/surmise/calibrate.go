package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"surmise/compute"
	"surmise/drafter"
	"surmise/engine"
	"surmise/engine/costs"
)

// calibrateFlags are the flags of calibrate.
type calibrateFlags struct {
	model   modelFlags
	clock   clockFlags
	context int
	json    bool
}

// calibrateBudget is the time for the forwards that are measured, beside loading
// the model and filling the context.
const calibrateBudget = 20 * time.Second

// calibrateContext is the context of the tables that are kept: one of a few
// hundred positions is a fair start for most requests, one of none or of
// thousands for few.
const calibrateContext = 256

func (a *app) calibrateCommand() *cobra.Command {
	f := new(calibrateFlags)
	cmd := &cobra.Command{
		Use:   "calibrate [--model PATH]",
		Short: "Measure what forwards take by their number of rows, and what the machine allows",
		Long: "Measure what a forward with logits for all rows takes, for 1 to 64 rows, and the machine's limits in the\n" +
			"same run: bandwidth of memory and rates of multiply-adds. The roofline is the time these limits allow at\n" +
			"least. The table at the default --ctx is kept under the user's cache directory, where the automatic draft width\n" +
			"starts from it; others are printed only.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.calibrate(cmd, f) },
	}
	f.model.addLoading(cmd)
	f.clock.add(cmd)
	cmd.Flags().IntVar(&f.context, "ctx", calibrateContext, "cached positions before each forward")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object instead of text")
	return cmd
}

func (a *app) calibrate(cmd *cobra.Command, f *calibrateFlags) error {
	if f.context < 0 {
		return usage(fmt.Errorf("--ctx %d: want 0 or more cached positions", f.context))
	}
	f.model.setup.Draft.Kind = drafter.None
	if err := a.finishModel(cmd, &f.model); err != nil {
		return err
	}
	if err := f.clock.finish(a, &f.model); err != nil {
		return err
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	in, err := a.open(&f.model)
	if err != nil {
		return err
	}
	err = a.measure(ctx, in, f)
	if err != nil && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if closeErr := in.Close(); err == nil {
		err = closeErr
	}
	return err
}

// measure measures, keeps the table, and prints it.
func (a *app) measure(ctx context.Context, in *engine.Instance, f *calibrateFlags) error {
	t, err := costs.Measure(ctx, in.Model, costs.Options{
		Context: f.context, Limits: true, Budget: calibrateBudget, Clock: a.now, Seed: 1,
	})
	if err != nil {
		return err
	}
	kept, why := a.keep(in, t)
	if f.json {
		return a.printCalibration(in, t, kept)
	}
	fmt.Fprintf(a.stdout, "%s\n%s, %d cached positions\n", in.Checkpoint.Path(), in.Device.Name(), t.Context)
	if t.Limits != (compute.Limits{}) {
		fmt.Fprintf(a.stdout, "limits: %.1f GB/s read, %.0f G int8 and %.0f G float32 multiply-adds/s\n",
			t.Limits.Bandwidth/1e9, t.Limits.Int8MACs/1e9, t.Limits.Float32MACs/1e9)
	}
	fmt.Fprintf(a.stdout, "%s\n\n", why)
	return a.printCurve(t)
}

// keep keeps a table for the automatic width, or says why it does not.
func (a *app) keep(in *engine.Instance, t costs.Table) (kept bool, why string) {
	switch {
	case t.Context != calibrateContext:
		return false, fmt.Sprintf("not kept: the automatic draft width starts from a table at %d cached positions", calibrateContext)
	case a.costs.Dir == "":
		return false, "not kept: there is no cache directory"
	}
	if err := a.costs.Save(costs.KeyOf(in.Model, in.Checkpoint.Hash()), t); err != nil {
		a.warn(oneLine(err))
		return false, "not kept: " + oneLine(err)
	}
	return true, "kept: the automatic draft width starts from this table"
}

// curveWidth is the length of the longest bar.
const curveWidth = 48

// printCurve prints the table with a bar for every time; a stroke in the bar is
// where the roofline ends.
func (a *app) printCurve(t costs.Table) error {
	rows := slices.Sorted(maps.Keys(t.Forward))
	first, longest := milliseconds(t.Forward[rows[0]]), time.Duration(1)
	for _, d := range t.Forward {
		longest = max(longest, d)
	}
	at := func(d time.Duration) int { return int(math.Round(curveWidth * float64(d) / float64(longest))) }
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "rows\tms\tto 1 row\tms a row\troofline ms\tto roofline\t")
	for _, k := range rows {
		ms := milliseconds(t.Forward[k])
		fmt.Fprintf(w, "%d\t%.2f\t%s\t%.2f\t", k, ms, ratio(ms, first), ms/float64(k))
		if roof, ok := t.Roofline[k]; ok {
			fmt.Fprintf(w, "%.2f\t%s\t", milliseconds(roof), ratio(ms, milliseconds(roof)))
		} else {
			fmt.Fprint(w, "\t\t")
		}
		bar := []rune(strings.Repeat("█", at(t.Forward[k])))
		if i := at(t.Roofline[k]) - 1; i >= 0 && i < len(bar) {
			bar[i] = '│'
		}
		fmt.Fprintf(w, "  %s\n", string(bar))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if _, err := a.stdout.Write(text.Bytes()); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

// ratio is a/b, or a dash where there is none.
func ratio(a, b float64) string {
	if b <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", a/b)
}

// calibration is what --json prints.
type calibration struct {
	Model     string  `json:"model"`
	Threads   int     `json:"threads"`
	Context   int     `json:"context"`
	Kept      bool    `json:"kept"`
	Bandwidth float64 `json:"bandwidth_gbs"`
	Int8      float64 `json:"int8_gmacs"`
	Float32   float64 `json:"f32_gmacs"`
	Forward   byRows  `json:"forward_ms"`
	Roofline  byRows  `json:"roofline_ms"`
}

func (a *app) printCalibration(in *engine.Instance, t costs.Table, kept bool) error {
	round := func(v float64) float64 { return math.Round(v/1e6) / 1e3 }
	err := json.NewEncoder(a.stdout).Encode(calibration{
		Model: in.Checkpoint.Path(), Threads: in.Device.Threads(), Context: t.Context, Kept: kept,
		Bandwidth: round(t.Limits.Bandwidth), Int8: round(t.Limits.Int8MACs), Float32: round(t.Limits.Float32MACs),
		Forward: t.Forward, Roofline: t.Roofline,
	})
	if err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

// byRows are times by number of rows: in milliseconds as JSON, in the order of
// the rows.
type byRows map[int]time.Duration

// MarshalJSON implements json.Marshaler.
func (m byRows) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%q:%.3f", fmt.Sprint(k), milliseconds(m[k]))
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}
