package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

const (
	maxConfig = 16 << 20
	maxIndex  = 256 << 20
	maxShards = 10_000

	indexName  = "model.safetensors.index.json"
	singleName = "model.safetensors"
)

// openHF opens a Hugging Face directory.
func openHF(path string, src source) (c *Checkpoint, err error) {
	raw, err := readFile(src, "config.json", maxConfig)
	if err != nil {
		return nil, fmt.Errorf("%s: config.json: %w", path, err)
	}
	generation, err := readFile(src, "generation_config.json", maxConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: generation_config.json: %w", path, err)
	}
	c = &Checkpoint{path: path, format: FormatHF, files: src}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
			c = nil
		}
	}()
	id := newIdentity()
	id.bytes(raw)
	id.bytes(generation)
	arrays, err := c.loadShards(id)
	if err != nil {
		return c, err
	}
	quant, err := parseQuantization(raw)
	if err != nil {
		return c, fmt.Errorf("%s: config.json: %w", path, err)
	}
	stored, refused, err := assemble(arrays, quant)
	if err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	if c.tensors, err = rename(stored, textName); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	c.refused = make(map[string]string, len(refused))
	for name, reason := range refused {
		c.refused[textName(name)] = reason
	}
	if c.config, err = hfConfig(raw, generation, slices.Collect(maps.Keys(c.tensors))); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	if err := c.config.checkShapes(c.tensors, c.refused); err != nil {
		return c, fmt.Errorf("%s: config.json contradicts the weights: %w", path, err)
	}
	c.hash = id.sum()
	return c, nil
}

// loadShards maps the weight files and returns all their arrays by stored name.
func (c *Checkpoint) loadShards(id identity) (map[string]*storedArray, error) {
	shards, index, err := findShards(c.files, c.path)
	if err != nil {
		return nil, err
	}
	arrays := make(map[string]*storedArray)
	home := make(map[string]string) // tensor → the shard it was found in
	for _, shard := range shards {
		m, err := c.files.load(shard)
		if err != nil {
			if index != nil {
				err = fmt.Errorf("%s names %q: %w", indexName, shard, err)
			}
			return nil, fmt.Errorf("%s: %w", c.path, err)
		}
		c.maps = append(c.maps, m)
		found, headerSize, err := parseSafetensors(m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.files.name(shard), err)
		}
		id.file(shard, m.data, headerSize)
		for name, a := range found {
			if other, twice := home[name]; twice {
				return nil, fmt.Errorf("%s: tensor %q is in %s and in %s", c.path, name, other, shard)
			}
			home[name], arrays[name] = shard, a
		}
	}
	for _, name := range slices.Sorted(maps.Keys(index)) {
		if got, ok := home[name]; !ok || got != index[name] {
			return nil, fmt.Errorf("%s: %s says that tensor %q is in %s, but it is not", c.path, indexName, name, index[name])
		}
	}
	return arrays, nil
}

// findShards returns the weight files of a directory, sorted, and the index
// (tensor → file) when the checkpoint is sharded.
func findShards(src source, path string) (shards []string, index map[string]string, err error) {
	files, _, err := src.list()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if slices.Contains(files, singleName) {
		return []string{singleName}, nil, nil
	}
	if slices.Contains(files, indexName) {
		raw, err := readFile(src, indexName, maxIndex)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		shards, index, err := parseIndex(raw)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", src.name(indexName), err)
		}
		return shards, index, nil
	}
	for _, f := range files {
		if strings.HasSuffix(f, ".safetensors") {
			shards = append(shards, f)
		}
	}
	switch len(shards) {
	case 0:
		return nil, nil, fmt.Errorf("%s: has no *.safetensors", path)
	case 1:
		return shards, nil, nil
	}
	return nil, nil, fmt.Errorf("%s: has %d *.safetensors files but neither %s nor %s", path, len(shards), singleName, indexName)
}

// parseIndex reads weight_map of a model.safetensors.index.json.
func parseIndex(raw []byte) (shards []string, index map[string]string, err error) {
	var weightMap json.RawMessage
	err = eachMember(raw, func(name string, value json.RawMessage) error {
		if name == "weight_map" {
			weightMap = value
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if weightMap == nil {
		return nil, nil, errors.New("has no weight_map")
	}
	index = make(map[string]string)
	distinct := make(map[string]bool)
	err = eachMember(weightMap, func(name string, value json.RawMessage) error {
		var file string
		if err := json.Unmarshal(value, &file); err != nil {
			return fmt.Errorf("tensor %q: expected a file name: %w", name, err)
		}
		if !plainName(file) {
			return fmt.Errorf("tensor %q: %q is not a file of this directory", name, file)
		}
		if distinct[file] = true; len(distinct) > maxShards {
			return fmt.Errorf("names more than %d files", maxShards)
		}
		index[name] = file
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("weight_map: %w", err)
	}
	if len(distinct) == 0 {
		return nil, nil, errors.New("weight_map is empty")
	}
	return slices.Sorted(maps.Keys(distinct)), index, nil
}
