package randommodel

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"surmise/checkpoint"
	"surmise/compute/canon"
)

// constant is a vector of equal values in f32.
func constant(name string, n int, v float32) checkpoint.Output {
	data := make([]byte, 0, 4*n)
	for range n {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return checkpoint.Output{Name: name, Type: checkpoint.F32, Shape: []int{n}, Data: data}
}

// random is a matrix whose weights have a variance of about 1/cols, so that it
// keeps the size of what it is multiplied with.
func random(name string, t checkpoint.Type, rows, cols int, seed uint64) checkpoint.Output {
	return checkpoint.Output{Name: name, Type: t, Shape: []int{rows, cols}, Write: func(w io.Writer) error {
		fill, ok := fillers[t]
		if !ok {
			return fmt.Errorf("no random weights of type %s", t)
		}
		var key [32]byte
		binary.LittleEndian.PutUint64(key[:], seed)
		source := rand.NewChaCha8(key)
		row := make([]byte, cols/t.BlockSize()*t.BlockBytes())
		deviation := 1 / math.Sqrt(float64(cols))
		for range rows {
			if _, err := source.Read(row); err != nil {
				return err
			}
			for at := 0; at < len(row); at += t.BlockBytes() {
				fill(row[at:at+t.BlockBytes()], deviation)
			}
			if _, err := w.Write(row); err != nil {
				return err
			}
		}
		return nil
	}}
}

// uniform is the standard deviation of an integer of so many equally likely values.
func uniform(values float64) float64 { return math.Sqrt((values*values - 1) / 12) }

// fillers turn a block of random bytes into one of weights with a standard
// deviation, by putting scales where the format has them.
var fillers = map[checkpoint.Type]func(block []byte, deviation float64){
	checkpoint.F16: func(b []byte, deviation float64) {
		v := float64(int16(binary.LittleEndian.Uint16(b))) / uniform(1<<16)
		putHalf(b, v*deviation)
	},
	checkpoint.Q8_0: func(b []byte, deviation float64) {
		putHalf(b, deviation/uniform(255))
		for i, q := range b[2:] {
			if int8(q) == -128 { // which quantizers do not write
				b[2+i] = 0
			}
		}
	},
	checkpoint.Q4_0: func(b []byte, deviation float64) { putHalf(b, deviation/uniform(16)) },
	checkpoint.Q5_0: func(b []byte, deviation float64) { putHalf(b, deviation/uniform(32)) },
	checkpoint.Q4_K: fillQ4K,
	checkpoint.Q6_K: fillQ6K,
}

// fillQ4K gives the 8 blocks of a super-block scales from 32 to 63, and minima
// that centre their weights.
func fillQ4K(b []byte, deviation float64) {
	const mean = 48
	d := deviation / (mean * uniform(16))
	putHalf(b, d)
	putHalf(b[2:], 7.5*d) // the mean of 0…15
	var scales [8]byte
	for i := range scales {
		scales[i] = 32 + b[4+i]%32
	}
	// Scales and minima are alike. The first four have 6 bits to themselves, of
	// the last four the upper two bits lie above those of the first.
	packed := b[4:16]
	for i, s := range scales[:4] {
		high := scales[4+i]
		packed[i] = s | high>>4<<6
		packed[4+i] = s | high>>4<<6
		packed[8+i] = high&15 | high&15<<4
	}
}

// fillQ6K gives the 16 sub-blocks scales from 64 to 127.
func fillQ6K(b []byte, deviation float64) {
	const mean = 96
	for i, s := range b[192:208] {
		b[192+i] = 64 + s%64
	}
	putHalf(b[208:], deviation/(mean*uniform(64)))
}

func putHalf(b []byte, v float64) { binary.LittleEndian.PutUint16(b, canon.ToF16(float32(v))) }
