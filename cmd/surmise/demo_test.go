package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/demo"
)

func exporter() (*app, *bytes.Buffer) {
	var stderr bytes.Buffer
	return &app{
		stdin: new(bytes.Buffer), stdout: new(bytes.Buffer), stderr: &stderr,
		getenv: func(string) string { return "" }, family: demoFamily(),
	}, &stderr
}

func TestDemoExportWritesCheckpointsThatOpenAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "family")
	a, stderr := exporter()
	require.Equal(t, statusOK, a.execute(context.Background(), []string{"demo", "export", dir}), stderr.String())
	for _, name := range []string{demo.Target, demo.Draft, demo.MTP, demo.DFlash} {
		inside, err := checkpoint.OpenFS(demo.FS(), name)
		require.NoError(t, err)
		outside, err := checkpoint.Open(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, inside.Hash(), outside.Hash())
		require.NotEmpty(t, outside.Tensors())
		for _, w := range outside.Tensors() {
			require.Equal(t, checkpoint.F16, w.Type, w.Name)
			same, err := inside.Tensor(w.Name)
			require.NoError(t, err)
			require.True(t, bytes.Equal(same.Data, w.Data), w.Name)
		}
		require.NoError(t, inside.Close())
		require.NoError(t, outside.Close())
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing else is left behind")
}

func TestDemoExportIntoAFullDirectoryChangesNothing(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), []byte("x"), 0o600))
	a, stderr := exporter()
	require.Equal(t, statusFailure, a.execute(context.Background(), []string{"demo", "export", dir}))
	require.Contains(t, stderr.String(), "is not empty: want a new or an empty directory")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
