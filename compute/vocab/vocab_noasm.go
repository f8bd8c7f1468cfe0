//go:build !amd64 || purego

package vocab

// implementations lists what this build can run, the fastest first.
func implementations() []*kernels { return []*kernels{&generic} }

var active = &generic

const purego = true
