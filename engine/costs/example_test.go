package costs_test

import (
	"context"
	"fmt"
	"time"

	"surmise/drafter"
	"surmise/engine/costs"
	"surmise/model"
	"surmise/verify/verifytest"
)

// A table is measured on a target, here one whose forwards take a millisecond
// and a tenth of it for every row, and handed to the automatic width.
func Example() {
	target, err := verifytest.New(verifytest.Options{})
	if err != nil {
		panic(err)
	}
	defer target.Close()
	now := time.Unix(0, 0)
	target.Before = func(b *model.Batch) error {
		now = now.Add(time.Millisecond + time.Duration(len(b.Rows[0].Tokens))*100*time.Microsecond)
		return nil
	}
	table, err := costs.Measure(context.Background(), target, costs.Options{
		Rows: []int{1, 8}, Context: 256, Clock: func() time.Time { return now },
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(table.Forward[1], table.Forward[8])
	width := drafter.NewAuto(drafter.NewCosts(table.Forward), 8)
	fmt.Println(width)
	// Output:
	// 1.1ms 1.8ms
	// auto
}
