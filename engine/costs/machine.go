package costs

import "runtime"

// machine names the processor, or at least its architecture.
func machine() string {
	if name := processor(); name != "" {
		return name
	}
	return runtime.GOOS + "/" + runtime.GOARCH
}
