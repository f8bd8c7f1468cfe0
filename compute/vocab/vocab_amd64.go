//go:build amd64 && !purego

package vocab

func implementations() []*kernels { return []*kernels{&generic} }

var active = &generic
