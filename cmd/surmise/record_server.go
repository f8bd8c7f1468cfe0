package main

import (
	"context"
	"errors"

	"surmise/bench/prompts"
)

func (a *app) recordServer(ctx context.Context, f *recordFlags, set prompts.Set) error {
	return errors.New("not yet")
}
