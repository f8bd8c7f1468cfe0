package promptlookup_test

import (
	"fmt"

	"surmise/promptlookup"
)

// The longest suffix that occurred before is (2, 3); it was followed by 4 twice
// and by 7 once.
func Example() {
	x := promptlookup.NewIndex()
	x.Append(2, 3, 4, 5, 2, 3, 7, 8, 2, 3, 4, 9, 2, 3)
	m := x.Match()
	token, _, _ := x.Next(m, 2)
	fmt.Println(m.Len(), token)
	// Output: 2 4
}
