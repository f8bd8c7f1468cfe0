package demo_test

import (
	"fmt"
	"io/fs"

	"surmise/demo"
)

func ExampleFS() {
	for _, dir := range []string{demo.Target, demo.Draft, demo.MTP, demo.DFlash} {
		_, err := fs.Stat(demo.FS(), dir+"/model.safetensors")
		fmt.Println(dir, err)
	}
	// Output:
	// target <nil>
	// draft <nil>
	// mtp <nil>
	// dflash <nil>
}
