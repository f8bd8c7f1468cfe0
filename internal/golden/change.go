package golden

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
	"surmise/compute"
	"surmise/compute/canon"
	"surmise/model"
)

// Startable is what Start needs of a drafter.
type Startable interface {
	Bind(model.Target) error
	Close() error
}

// Start opens a drafter on a changed copy of the fixture in dir, as Changed makes
// it, and binds it to the stand-in for the target of so many layers that the fixture
// was made for. It returns the error of either, and closes everything.
func Start[D Startable](t testing.TB, dir string, layers int, fields map[string]any, tensors map[string][]int, open func(compute.Device, *checkpoint.Checkpoint) (D, error)) error {
	t.Helper()
	want := Read(t, filepath.Join(dir, "golden.safetensors"))
	ck, err := checkpoint.Open(Changed(t, dir, fields, tensors))
	require.NoError(t, err)
	defer func() { require.NoError(t, ck.Close()) }()
	dev := canon.New()
	d, err := open(dev, ck)
	if err != nil {
		return err
	}
	defer func() { require.NoError(t, d.Close()) }()
	return d.Bind(NewTarget(t, dev, layers, want["embedding"], want["head"]))
}

// Changed copies the checkpoint in dir and returns the copy. Fields of
// config.json, "dflash_config.mask_token_id" for example, get new values, and
// tensors of the given shapes are all zero; nil takes a field or tensor away.
func Changed(t testing.TB, dir string, fields map[string]any, tensors map[string][]int) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	var config map[string]any
	require.NoError(t, json.Unmarshal(raw, &config))
	for name, value := range fields {
		at := config
		if object, inner, nested := strings.Cut(name, "."); nested {
			at, name = config[object].(map[string]any), inner
		}
		if at[name] = value; value == nil {
			delete(at, name)
		}
	}
	ck, err := checkpoint.Open(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, ck.Close()) }()
	var out []checkpoint.Output
	for _, x := range ck.Tensors() {
		if _, changed := tensors[x.Name]; !changed {
			out = append(out, checkpoint.Output{Name: x.Name, Type: x.Type, Shape: x.Shape, Data: x.Data})
		}
	}
	for name, shape := range tensors {
		if shape != nil {
			n := 4
			for _, d := range shape {
				n *= d
			}
			out = append(out, checkpoint.Output{Name: name, Type: checkpoint.F32, Shape: shape, Data: make([]byte, n)})
		}
	}
	to := t.TempDir()
	raw, err = json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(to, "config.json"), raw, 0o600))
	f, err := os.Create(filepath.Join(to, "model.safetensors"))
	require.NoError(t, err)
	require.NoError(t, checkpoint.WriteSafetensors(f, nil, out))
	require.NoError(t, f.Close())
	return to
}
