package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
)

func TestTheFileWrittenOpens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, run([]string{"--shape", "tiny", "--type", "q4_k_m", "-o", path}, io.Discard))
	ck, err := checkpoint.Open(path)
	require.NoError(t, err)
	require.Equal(t, 2, ck.Config().Layers)
	require.NoError(t, ck.Close())
}

func TestWrongArgumentsAreRefusedAndLeaveNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	for text, args := range map[string][]string{
		`shape "gpt-5"`:    {"--shape", "gpt-5", "-o", path},
		`type "q3_k"`:      {"--type", "q3_k", "-o", path},
		"no file":          {"--type", "q8_0"},
		`argument "extra"`: {"-o", path, "extra"},
	} {
		require.ErrorContains(t, run(args, io.Discard), text)
		require.NoFileExists(t, path)
	}
}

func TestHelpIsNoFailure(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run([]string{"-h"}, &out))
	require.Contains(t, out.String(), "-shape")
}
