package kinds_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/engine/kinds"
)

func TestEveryKindHasACompleteContract(t *testing.T) {
	all, err := kinds.All()
	require.NoError(t, err)
	for _, c := range all.Contracts() {
		require.NoError(t, c.Validate())
	}
}

func Example() {
	all, err := kinds.All()
	if err != nil {
		panic(err)
	}
	kind, err := all.Find("prompt-lookup")
	fmt.Println(kind.Contract.Proposes, err)
	// Output: copy <nil>
}
