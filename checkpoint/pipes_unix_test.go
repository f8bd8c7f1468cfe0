//go:build unix

package checkpoint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Opening a named pipe waits for a writer, for ever if there is none.
func TestGivenANamedPipeWhereAFileShouldBeThenOpenSaysSoAndDoesNotWait(t *testing.T) {
	dir := t.TempDir()
	for name, f := range tinyHF(t, "llama", nil) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(name)), f.Data, 0o600))
	}
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "tokenizer.json"), 0o600))
	c, err := Open(dir)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.File("tokenizer.json")
	require.ErrorContains(t, err, "tokenizer.json: is not a regular file")

	gguf := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, unix.Mkfifo(gguf, 0o600))
	_, err = Open(gguf)
	require.ErrorContains(t, err, "model.gguf: is not a regular file")

	config := filepath.Join(dir, "config.json")
	require.NoError(t, os.Remove(config))
	require.NoError(t, unix.Mkfifo(config, 0o600))
	_, err = Open(dir)
	require.ErrorContains(t, err, "config.json: is not a regular file")
}
