package vocab

// Noise addresses the random words of one position of one stream. The word of a
// token is a pure function of these fields and the token id: nothing is
// consumed, so words may be read in any order, again, or never.
//
// Layout: key = (seed low, seed high); counter = (group, Position, Sample,
// Purpose) with group = id/64·16 + id mod 16; the word is number id/16 mod 4 of
// the four that Philox 4x32-10 gives. So 16 (or 8) consecutive counters fill the
// lanes of a vector with consecutive ids.
type Noise struct {
	Seed uint64
	// Position is the absolute position in the sequence, prompt included.
	Position uint32
	// Sample is the index among the n samples of a request.
	Sample uint32
	// Purpose separates the uses of one position.
	Purpose uint32
}

// Word returns the noise word of token id.
func (n Noise) Word(id int32) uint32 {
	u := uint32(id)
	w := Philox([4]uint32{u>>6<<4 | u&15, n.Position, n.Sample, n.Purpose}, n.key())
	return w[u>>4&3]
}

func (n Noise) key() [2]uint32 { return [2]uint32{uint32(n.Seed), uint32(n.Seed >> 32)} }

// block stores the words of ids first…first+63 in w; first is a multiple of 64.
func (n Noise) block(w *[Block]uint32, first int32) {
	key := n.key()
	for l := range uint32(16) {
		x := Philox([4]uint32{uint32(first)>>2 + l, n.Position, n.Sample, n.Purpose}, key)
		w[l], w[16+l], w[32+l], w[48+l] = x[0], x[1], x[2], x[3]
	}
}

const (
	philoxM0 = 0xD2511F53
	philoxM1 = 0xCD9E8D57
	philoxW0 = 0x9E3779B9
	philoxW1 = 0xBB67AE85
)

// Philox is the bijection Philox 4x32-10 of Salmon, Moraes, Dror and Shaw,
// "Parallel random numbers: as easy as 1, 2, 3" (2011).
func Philox(c [4]uint32, k [2]uint32) [4]uint32 {
	for range 10 {
		p0 := uint64(philoxM0) * uint64(c[0])
		p1 := uint64(philoxM1) * uint64(c[2])
		c = [4]uint32{uint32(p1>>32) ^ c[1] ^ k[0], uint32(p1), uint32(p0>>32) ^ c[3] ^ k[1], uint32(p0)}
		k[0] += philoxW0
		k[1] += philoxW1
	}
	return c
}
