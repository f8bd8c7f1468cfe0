package tokenizer_test

import (
	"fmt"
	"log"
	"os"

	"surmise/tokenizer"
)

func Example() {
	json, err := os.ReadFile("testdata/tiny-bytelevel.json")
	if err != nil {
		log.Fatal(err)
	}
	config := []byte(`{"eos_token": "<|im_end|>", "chat_template": "{% for m in messages %}[{{ m.role }}] {{ m.content }}<|im_end|>\n{% endfor %}"}`)
	tok, err := tokenizer.FromFiles(json, nil, config)
	if err != nil {
		log.Fatal(err)
	}

	text, err := tok.ApplyChat([]tokenizer.Message{{Role: "user", Content: "the cat"}}, tokenizer.ChatOptions{})
	if err != nil {
		log.Fatal(err)
	}
	ids, err := tok.Encode(text, tokenizer.EncodeOptions{ParseSpecial: true})
	if err != nil {
		log.Fatal(err)
	}
	d := tok.NewDecoder(false)
	for _, id := range ids {
		fmt.Printf("%q ", d.Push(id))
	}
	fmt.Printf("%q\n", d.Flush())
	fmt.Println(tok.EOS())
	// Output:
	// "[" "us" "er" "]" " the" " cat" "<|im_end|>" "\n" ""
	// [641]
}
