package randommodel_test

import (
	"bytes"
	"fmt"

	"surmise/bench/peers/randommodel"
)

func Example() {
	var file bytes.Buffer
	if err := randommodel.Write(&file, "tiny", "q4_0", 1); err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", file.Bytes()[:4])
	fmt.Println(randommodel.Write(&file, "huge", "q4_0", 1))
	// Output:
	// GGUF
	// shape "huge": want one of llama-3.2-1b, qwen3-0.6b, smollm2-135m, tiny
}
