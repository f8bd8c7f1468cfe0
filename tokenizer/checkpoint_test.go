package tokenizer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/checkpoint"
)

func TestGivenNoTokenizerFilesFromCheckpointListsWhatItLookedFor(t *testing.T) {
	c := openTiny(t, nil)
	_, err := FromCheckpoint(c)
	require.ErrorContains(t, err, "no tokenizer.json and no tokenizer.model")
}

func TestGivenADirectoryFromCheckpointPrefersTokenizerJSONAndTheTemplateFile(t *testing.T) {
	model, err := os.ReadFile("testdata/tiny-sentencepiece.model")
	require.NoError(t, err)
	files := map[string][]byte{
		"tokenizer.model":       model,
		"tokenizer_config.json": []byte(`{"chat_template": "old"}`),
		"chat_template.jinja":   []byte("new"),
	}
	tok, err := FromCheckpoint(openTiny(t, files))
	require.NoError(t, err)
	require.Equal(t, "new", tok.ChatTemplate())
	require.Equal(t, "tokenizer.model", tok.Info().Source)
	files["tokenizer.json"] = tinyVariant(t, "bytelevel", nil)
	tok, err = FromCheckpoint(openTiny(t, files))
	require.NoError(t, err)
	require.Equal(t, "tokenizer.json", tok.Info().Source)
}

// openTiny opens the smallest Hugging Face directory that is one, with files
// added.
func openTiny(t *testing.T, files map[string][]byte) *checkpoint.Checkpoint {
	dir := t.TempDir()
	write := func(name string, data []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	write("config.json", []byte(`{"model_type": "tokenizer_test", "architectures": ["None"]}`))
	header := `{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`
	write("model.safetensors", append(append([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0}, header...), 0, 0, 0, 0))
	for name, data := range files {
		write(name, data)
	}
	c, err := checkpoint.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
