package checkpoint_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"surmise/checkpoint"
)

// Write a small GGUF file, open it and read a row.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "small.gguf")
	f, err := os.Create(path)
	if err != nil {
		log.Fatal(err)
	}
	weights := make([]float32, 2*32)
	for i := range weights {
		weights[i] = float32(i)
	}
	data := make([]byte, 2*checkpoint.Q8_0.BlockBytes())
	checkpoint.QuantizeQ8_0(data, weights)
	err = checkpoint.WriteGGUF(f, map[string]any{"general.architecture": "example"}, []checkpoint.Output{
		{Name: "token_embd.weight", Type: checkpoint.Q8_0, Shape: []int{2, 32}, Data: data},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := f.Close(); err != nil {
		log.Fatal(err)
	}

	c, err := checkpoint.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	embeddings, err := c.Tensor("model.embed_tokens.weight")
	if err != nil {
		log.Fatal(err)
	}
	row := make([]float32, embeddings.Cols())
	embeddings.Float32Row(1, row)
	fmt.Println(c.Config().Architecture, embeddings.Type, embeddings.Shape, row[31])
	_, err = c.Tensor("model.norm.weight")
	fmt.Println(err != nil)
	// Output:
	// example q8_0 [2 32] 63.003906
	// true
}
