// Package testmodels finds the real checkpoints that training/fetch_models.sh
// unpacks, for tests. The one invariant: a test that needs a checkpoint which
// is not there is skipped with a message that says how to get it.
package testmodels

import (
	"os"
	"path/filepath"
	"testing"
)

// Dir returns the folder that holds the checkpoints: $SURMISE_MODELS, or
// surmise/models under $XDG_CACHE_HOME, or under ~/.cache.
func Dir() string {
	if dir := os.Getenv("SURMISE_MODELS"); dir != "" {
		return dir
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		cache = filepath.Join(home, ".cache")
	}
	return filepath.Join(cache, "surmise", "models")
}

// Path returns the folder of a checkpoint, such as "smollm2-135m-instruct" or
// "gemma3-270m", and skips the test when it is absent.
func Path(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(Dir(), name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no checkpoint %s: run training/fetch_models.sh %s", path, name)
	}
	return path
}
