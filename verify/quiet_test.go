package verify_test

import (
	"surmise/compute"
	"surmise/model"
	"surmise/sampler"
	"surmise/verify/verifytest"
)

// quiet is a target that says token 1 and allocates nothing.
type quiet struct{ *verifytest.Target }

func (q *quiet) Forward(b *model.Batch) error {
	b.Results = q
	for _, r := range b.Rows {
		if err := r.Seq.Append(r.Tokens); err != nil {
			return err
		}
	}
	return nil
}

func (q *quiet) Logits(int, int) []float32        { return nil }
func (q *quiet) Argmax(int, int) (int32, bool)    { return 1, true }
func (q *quiet) Hidden(int, int) (v compute.View) { return v }

// fixed is a greedy chain without history.
type fixed struct{}

func (fixed) ArgmaxOnly() bool                           { return true }
func (fixed) Sample([]float32) (d sampler.Draw, _ error) { return d, nil }
func (fixed) Accept(int32)                               {}
