//go:build !purego && (amd64 || arm64)

package cpu

// pause tells the processor that this is a waiting loop.
//
//go:noescape
func pause()
