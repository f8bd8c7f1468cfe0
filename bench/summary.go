package bench

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Definitions are the definitions of what a report shows, in its order.
var Definitions = []struct{ Name, Meaning string }{
	{"drafts", "rounds that had a proposal; a proposal of zero tokens is no draft"},
	{"acceptance rate", "accepted / proposed tokens"},
	{"mean acceptance length", "1 + accepted / drafts: tokens a drafted round emits, the bonus token included"},
	{"acceptance at position i", "drafts in which at least i tokens were accepted / drafts (unconditional); / drafts that proposed i tokens and had the first i − 1 accepted (conditional)"},
	{"accepted histogram", "drafts by number of accepted tokens"},
	{"tokens/s", "tokens after the first / seconds after the first token"},
	{"speedup", "tokens/s divided by that of plain decoding on the same requests; the interval is a 95 % bootstrap over requests"},
	{"latency", "seconds from request to last token, the prompt included"},
	{"time split", "shares of decode time: drafting, the target's forwards, sampling, and the rest"},
	{"bytes equal", "requests whose text and tokens are the same as plain decoding's"},
}

// Interval is an estimate with the ends of its 95 % interval.
type Interval struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Shares is how decode time is spent; they add up to 1.
type Shares struct {
	Draft  float64 `json:"draft"`
	Verify float64 `json:"verify"`
	Sample float64 `json:"sample"`
	Other  float64 `json:"other"`
}

// Summary is what trials of one config come to.
type Summary struct {
	Requests int    `json:"requests"`
	Tokens   int    `json:"tokens"`
	Counts   Counts `json:"counts"`

	AcceptanceRate       float64   `json:"acceptance_rate"`
	MeanAcceptanceLength float64   `json:"mean_acceptance_length"`
	Unconditional        []float64 `json:"acceptance_per_position"`
	Conditional          []float64 `json:"conditional_acceptance_per_position"`
	Histogram            []int64   `json:"acceptance_histogram"`

	TokensPerSecond float64 `json:"tokens_per_second"`
	LatencyP50      float64 `json:"latency_p50_s"`
	LatencyP95      float64 `json:"latency_p95_s"`
	Shares          Shares  `json:"time_shares"`
	// Speedup is over plain decoding; nil for plain decoding itself, or where it
	// was not measured.
	Speedup *Interval `json:"speedup,omitempty"`
	// Same of Compared requests had the bytes of plain decoding.
	Same     int `json:"bytes_equal"`
	Compared int `json:"bytes_compared"`
	// Declines counts rounds without a proposal by reason.
	Declines map[string]int64 `json:"declines,omitempty"`
}

// Summarize computes the statistics of trials; plain are those of plain
// decoding, matched by request, nil for none. The seed draws the bootstrap.
func Summarize(trials, plain []Trial, seed uint64) Summary {
	s := Summary{Requests: len(trials)}
	var latencies []float64
	var decode float64
	after := 0
	for _, t := range trials {
		s.Tokens += t.Tokens
		s.Counts.Add(t.Counts)
		latencies = append(latencies, t.Latency())
		decode += t.DecodeSeconds
		after += max(t.Tokens-1, 0)
		for r, n := range t.Declines {
			if s.Declines == nil {
				s.Declines = map[string]int64{}
			}
			s.Declines[r] += n
		}
		if t.Same != nil {
			s.Compared++
			if *t.Same {
				s.Same++
			}
		}
	}
	s.AcceptanceRate = s.Counts.AcceptanceRate()
	s.MeanAcceptanceLength = s.Counts.MeanAcceptanceLength()
	s.Unconditional, s.Conditional, s.Histogram = s.Counts.Unconditional(), s.Counts.Conditional(), s.Counts.Histogram()
	s.LatencyP50, s.LatencyP95 = Quantile(latencies, 0.5), Quantile(latencies, 0.95)
	if decode > 0 {
		s.TokensPerSecond = float64(after) / decode
	}
	s.Shares = shares(trials)
	s.Speedup = speedup(trials, plain, seed)
	return s
}

// shares splits decode time.
func shares(trials []Trial) Shares {
	var c Counts
	var total float64
	for _, t := range trials {
		c.Add(t.Counts)
		total += t.DecodeSeconds
	}
	sum := c.DraftSeconds + c.VerifySeconds + c.SampleSeconds
	total = max(total, sum)
	if total <= 0 {
		return Shares{}
	}
	return Shares{c.DraftSeconds / total, c.VerifySeconds / total, c.SampleSeconds / total, (total - sum) / total}
}

// Quantile is the q-quantile of values, linear between neighbours; 0 of none.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Clone(values)
	slices.Sort(v)
	x := q * float64(len(v)-1)
	i := int(math.Floor(x))
	if i+1 == len(v) {
		return v[i]
	}
	return v[i] + (v[i+1]-v[i])*(x-float64(i))
}

// resamples is how often the bootstrap draws requests anew.
const resamples = 2000

// pairing is a request in both ways of decoding.
type pairing struct{ tokens, plain, drafted float64 }

func (p *pairing) add(o pairing) {
	p.tokens += o.tokens
	p.plain += o.plain
	p.drafted += o.drafted
}

// speedup is the ratio of summed decode times over the requests that both have,
// whose tokens are the same, with the percentile bootstrap over requests
// (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13).
func speedup(trials, plain []Trial, seed uint64) *Interval {
	of := map[string]Trial{}
	for _, t := range plain {
		of[t.Key()] = t
	}
	var pairs []pairing
	var all pairing
	for _, t := range trials {
		p, ok := of[t.Key()]
		if !ok || t.DecodeSeconds <= 0 || p.DecodeSeconds <= 0 || t.Tokens < 2 {
			continue
		}
		x := pairing{float64(t.Tokens - 1), p.DecodeSeconds, t.DecodeSeconds}
		pairs = append(pairs, x)
		all.add(x)
	}
	if len(pairs) == 0 {
		return nil
	}
	random := rand.New(rand.NewPCG(seed, 0x5bd1e995))
	var ratios []float64
	for range resamples {
		var sum pairing
		for range pairs {
			sum.add(pairs[random.IntN(len(pairs))])
		}
		ratios = append(ratios, sum.plain/sum.drafted)
	}
	return &Interval{all.plain / all.drafted, Quantile(ratios, 0.025), Quantile(ratios, 0.975)}
}

// Categories are the categories of trials, in the order they first come.
func Categories(trials []Trial) []string {
	var out []string
	for _, t := range trials {
		if !slices.Contains(out, t.Category) {
			out = append(out, t.Category)
		}
	}
	return out
}

// InCategory are the trials of a category.
func InCategory(trials []Trial, category string) []Trial {
	var out []Trial
	for _, t := range trials {
		if t.Category == category {
			out = append(out, t)
		}
	}
	return out
}
