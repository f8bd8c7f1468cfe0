package vocab

import "math"

// raceLimit returns a bound that half the noise word of a token with logit v
// must not exceed if the token is to reach r.Best: the word is the fraction
// u·2³² of the noise −log(−log1p(−u)), and v·InvT + noise ≥ Best needs
// u ≤ −log1p(−u) ≤ exp(v·InvT − Best).
func raceLimit(v float32, r Race) float32 {
	d := float32(v*r.InvT) - r.Best
	if !(d >= -raceClamp) {
		d = -raceClamp
	}
	if d > raceClamp {
		d = raceClamp
	}
	return math.Float32frombits(uint32(int32(float32(d*raceScale) + raceBias)))
}
