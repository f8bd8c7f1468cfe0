package sampler

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// Choice is how n answers are chosen from best_of samples.
type Choice string

// The choices: by mean log probability, by majority of the final answers (ties
// by mean log probability), or all samples in order.
const (
	ChooseRank Choice = "rank"
	ChooseVote Choice = "vote"
	ChooseAll  Choice = "all"
)

// Answer is one finished sample. Logprobs are its tokens' log probabilities.
type Answer struct {
	Text     string
	Logprobs []float64
}

// MeanLogprob returns the mean log probability of a's tokens, 0 for none.
func (a Answer) MeanLogprob() float64 {
	if len(a.Logprobs) == 0 {
		return 0
	}
	sum := 0.0
	for _, l := range a.Logprobs {
		sum += l
	}
	return sum / float64(len(a.Logprobs))
}

// Best returns the indices of the n chosen answers, best first; equal ones in
// order of index. An answer without tokens has the least rank. An unknown choice is an error that lists the choices.
func (c Choice) Best(answers []Answer, n int) ([]int, error) {
	index := make([]int, len(answers))
	votes := map[string]int{}
	for i, a := range answers {
		index[i] = i
		votes[FinalAnswer(a.Text)]++
	}
	mean := func(a Answer) float64 {
		if len(a.Logprobs) == 0 {
			return math.Inf(-1) // nothing is no good answer
		}
		return a.MeanLogprob()
	}
	byMean := func(i, j int) int { return cmp.Compare(mean(answers[j]), mean(answers[i])) }
	switch c {
	case ChooseAll:
	case ChooseRank:
		slices.SortStableFunc(index, byMean)
	case ChooseVote:
		slices.SortStableFunc(index, func(i, j int) int {
			return cmp.Or(cmp.Compare(votes[FinalAnswer(answers[j].Text)], votes[FinalAnswer(answers[i].Text)]), byMean(i, j))
		})
	default:
		return nil, fmt.Errorf("choice %q is unknown: want %s, %s or %s", string(c), ChooseRank, ChooseVote, ChooseAll)
	}
	return index[:min(n, len(index))], nil
}

var (
	boxed  = regexp.MustCompile(`\\boxed\{([^{}]*)\}`)
	answer = regexp.MustCompile(`(?i)answer(?:\s+is)?\s*[:=]?\s*([^\n]+)`)
	num    = regexp.MustCompile(`-?\d[\d,]*(?:\.\d+)?`)
)

// FinalAnswer extracts what an answer comes down to, for voting: the last
// \boxed{…}, else what follows the last "answer" on its line, else the last
// number, else the last line; without case, spaces at the ends, thousands
// separators and a full stop.
func FinalAnswer(text string) string {
	found := ""
	if m := boxed.FindAllStringSubmatch(text, -1); m != nil {
		found = m[len(m)-1][1]
	} else if m := answer.FindAllStringSubmatch(text, -1); m != nil {
		found = m[len(m)-1][1]
	} else if m := num.FindAllString(text, -1); m != nil {
		found = m[len(m)-1]
	} else {
		text = strings.TrimSpace(text)
		found = text[strings.LastIndexByte(text, '\n')+1:]
	}
	found = strings.ToLower(strings.Trim(strings.TrimSpace(found), ".*$ "))
	if num.FindString(found) == found {
		found = strings.ReplaceAll(found, ",", "")
	}
	return found
}
