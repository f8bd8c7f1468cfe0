package checkpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

// An identity collects what tells one checkpoint from another.
type identity struct{ h hash.Hash }

func newIdentity() identity { return identity{sha256.New()} }

// bytes adds a field, with its length so that fields cannot run together.
func (id identity) bytes(b []byte) {
	id.h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(b))))
	id.h.Write(b)
}

// file adds a file: its name, its size, its header, and 64 samples of 1 KiB of
// the weights behind it. Fine-tunes of one model share everything but weights.
func (id identity) file(name string, data []byte, headerSize int) {
	const samples, sampleSize = 64, 1 << 10
	id.bytes([]byte(name))
	id.bytes(data[:headerSize])
	weights := data[headerSize:]
	id.bytes(binary.LittleEndian.AppendUint64(nil, uint64(len(weights))))
	if len(weights) <= samples*sampleSize {
		id.bytes(weights)
		return
	}
	step := (len(weights) - sampleSize) / (samples - 1)
	for i := range samples {
		id.bytes(weights[i*step:][:sampleSize])
	}
}

func (id identity) sum() string { return hex.EncodeToString(id.h.Sum(nil)) }
