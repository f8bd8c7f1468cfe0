package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/internal/golden"
)

func TestInspectOfADrafterShowsWhatItIsAndWhatItBorrows(t *testing.T) {
	dir := filepath.Join("..", "..", "dflash", "testdata", "tiny")
	r := surmise(t, "", "inspect", dir)
	require.Equal(t, statusOK, r.status, r.errors)
	require.Contains(t, r.out, "4 slots: the known token and 3 to fill, which hold mask token 95")
	require.Contains(t, r.out, "hidden states of layers [1 4] of a target of 6 layers")
	require.Contains(t, r.out, "96, embedding the target's, head the target's")
	require.NotContains(t, r.out, "cannot be")

	r = surmise(t, "", "inspect", "--json", golden.Changed(t, dir, nil, map[string][]int{"embed_tokens.weight": {96, 64}}))
	require.Equal(t, statusOK, r.status, r.errors)
	var x inspection
	require.NoError(t, json.Unmarshal([]byte(r.out), &x))
	mask := int32(95)
	require.Equal(t, &drafterFacts{OwnEmbedding: true, BlockSize: 4, TargetLayers: 6, TargetLayerIDs: []int{1, 4}, MaskToken: &mask}, x.Drafter)
	require.Empty(t, x.TokenizerErr)

	r = surmise(t, "", "inspect", golden.Changed(t, dir, map[string]any{"block_size": 1}, nil))
	require.Contains(t, r.out, "cannot be used: ")
	require.Contains(t, r.out, "block_size is 1, expected an integer from 2 to 64")
	require.NotContains(t, r.out, "head of its own")
}

func TestInspectOfAHeadShowsWhatItIsAndWhatItBorrows(t *testing.T) {
	dir := filepath.Join("..", "..", "mtp", "testdata", "mimo")
	r := surmise(t, "", "inspect", dir)
	require.Equal(t, statusOK, r.status, r.errors)
	require.Contains(t, r.out, "one head of layout mimo, reading the normed hidden state")
	require.Contains(t, r.out, "1 layer, hidden 64", "config.json counts the target's layers")
	require.Contains(t, r.out, "96, embedding the target's, head the target's")
}

func TestInspectOfATargetSaysThatPromisedHeadsAreGone(t *testing.T) {
	dir := checkpointDir(t, false)
	r := surmise(t, "", "inspect", dir)
	require.NotContains(t, r.out, "prediction heads")

	raw, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(raw, &fields))
	fields["mtp_num_hidden_layers"] = 1
	raw, err = json.Marshal(fields)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), raw, 0o600))
	r = surmise(t, "", "inspect", dir)
	require.Equal(t, statusOK, r.status, r.errors)
	require.Contains(t, r.out, "mtp_num_hidden_layers is 1), but their tensors are gone")
}
