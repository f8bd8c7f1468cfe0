package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"surmise/engine/costs"
)

// ticking makes every look at the clock a millisecond later than the last, so
// that measurements are the same on every machine and the budget is soon spent.
func ticking(dir string) func(*app) {
	now := time.Unix(0, 0)
	return func(a *app) {
		a.now = func() time.Time { now = now.Add(time.Millisecond); return now }
		a.costs = costs.Store{Dir: dir}
	}
}

func TestCalibratePrintsJSONWithAllRowsAndKeepsTheTable(t *testing.T) {
	model, dir := checkpointDir(t, false), t.TempDir()
	r := runApp(context.Background(), "", ticking(dir), "calibrate", "-m", model, "--threads", "2", "--json")
	require.Equal(t, result{out: r.out}, r)
	var got struct {
		Model     string             `json:"model"`
		Threads   int                `json:"threads"`
		Context   int                `json:"context"`
		Kept      bool               `json:"kept"`
		Bandwidth float64            `json:"bandwidth_gbs"`
		Int8      float64            `json:"int8_gmacs"`
		Float32   float64            `json:"f32_gmacs"`
		Forward   map[string]float64 `json:"forward_ms"`
		Roofline  map[string]float64 `json:"roofline_ms"`
	}
	d := json.NewDecoder(strings.NewReader(r.out))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&got))
	require.Equal(t, model, got.Model)
	require.Equal(t, 2, got.Threads)
	require.Equal(t, 256, got.Context)
	require.True(t, got.Kept)
	require.Positive(t, got.Bandwidth)
	require.Positive(t, got.Int8)
	require.Positive(t, got.Float32)
	for _, k := range []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64} {
		require.InDelta(t, 1, got.Forward[strconv.Itoa(k)], 1e-9, "%d rows", k)
		require.Contains(t, got.Roofline, strconv.Itoa(k))
	}
	require.Len(t, got.Forward, 12)

	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1, "the automatic width starts from it")
	before := files[0].Name()
	r = runApp(context.Background(), "", ticking(dir), "generate", "-m", model, "--threads", "2", "-p", "abc", "-n", "4", "--prompt-lookup", "--seed", "1")
	require.Equal(t, statusOK, r.status, r.errors)
	files, err = os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1, "nothing else was measured")
	require.Equal(t, before, files[0].Name())
}

func TestCalibratePrintsATableAndACurve(t *testing.T) {
	r := runApp(context.Background(), "", ticking(""), "calibrate", "-m", checkpointDir(t, false), "--ctx", "0")
	require.Equal(t, statusOK, r.status, r.errors)
	require.Contains(t, r.out, "0 cached positions")
	require.Contains(t, r.out, "GB/s read")
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	require.Len(t, lines, 4+1+1+12)
	for _, l := range lines[len(lines)-12:] {
		require.Contains(t, l, "1.00")
		require.Contains(t, l, "█")
	}
}

// A table of another context is printed and leaves the one that widths start from.
func TestCalibrateKeepsOnlyTheTableOfTheDefaultContext(t *testing.T) {
	model, dir := checkpointDir(t, false), t.TempDir()
	calibrate := func(args ...string) result {
		r := runApp(context.Background(), "", ticking(dir), append([]string{"calibrate", "-m", model}, args...)...)
		require.Equal(t, statusOK, r.status, r.errors)
		return r
	}
	kept := func() string {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		data, err := os.ReadFile(files[0])
		require.NoError(t, err)
		return string(data)
	}
	require.Contains(t, calibrate().out, "\nkept: the automatic draft width starts from this table\n")
	before := kept()
	require.Contains(t, calibrate("--ctx", "1").out, "\nnot kept: the automatic draft width starts from a table at 256 cached positions\n")
	require.Contains(t, calibrate("--ctx", "255", "--json").out, `"kept":false`)
	require.Equal(t, before, kept())
	r := runApp(context.Background(), "", ticking("/dev/null/x"), "calibrate", "-m", model)
	require.Contains(t, r.out, "not kept: save costs: ")
	require.Contains(t, r.errors, "warning: save costs")
}

func TestAStartThatCannotKeepWhatItMeasuredSaysSoOnce(t *testing.T) {
	model := checkpointDir(t, false)
	for _, args := range [][]string{{"generate", "-p", "abc", "-n", "2"}, {"explain"}} {
		r := runApp(t.Context(), "", ticking("/dev/null/x"), append(args, "-m", model)...)
		require.Equal(t, statusOK, r.status, r.errors)
		require.Equal(t, 1, strings.Count(r.errors, "warning: what forwards take was measured but not kept"), r.errors)
		r = runApp(t.Context(), "", ticking(t.TempDir()), append(args, "-m", model)...)
		require.Equal(t, statusOK, r.status, r.errors)
		require.NotContains(t, r.errors, "warning")
	}
}

func TestCalibrateRefusesWhatItCannotMeasure(t *testing.T) {
	model := checkpointDir(t, false)
	r := runApp(context.Background(), "", ticking(""), "calibrate", "-m", model, "--ctx", "-1")
	require.Equal(t, statusUsage, r.status)
	require.Contains(t, r.errors, "--ctx -1")
	r = runApp(context.Background(), "", ticking(""), "calibrate", "-m", model, "--clock", "cpu")
	require.Equal(t, statusUsage, r.status)
	require.Contains(t, r.errors, "say --threads 1")
	r = runApp(context.Background(), "", ticking(""), "calibrate", "-m", model, "--ctx", "1000000")
	require.Equal(t, statusFailure, r.status)
	require.Contains(t, r.errors, "context 1000000: want 0 to")
}

func TestCalibrateSaysThatItWasInterruptedAndKeepsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dir := t.TempDir()
	r := runApp(ctx, "", ticking(dir), "calibrate", "-m", checkpointDir(t, false), "--json")
	require.Equal(t, result{status: statusFailure, errors: "surmise: interrupted\n"}, r)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, files)
}
