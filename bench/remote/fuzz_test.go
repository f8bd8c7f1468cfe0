package remote

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzReadStream(f *testing.F) {
	f.Add("data: {\"choices\":[{\"index\":0,\"text\":\"a\",\"token_ids\":[1],\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	f.Add(": comment\ndata: {\"error\":{}}\n")
	f.Add("data: {\"choices\":[{\"text\":\"a\"}]}\r\n\r\ndata: {\"cho")
	f.Fuzz(func(t *testing.T, text string) {
		pieces := 0
		got, err := readStream(strings.NewReader(text), func() { pieces++ })
		if err == nil {
			require.NotEmpty(t, got.Finish, "an answer has an end")
			require.Positive(t, pieces)
		}
		_, _ = readWhole(strings.NewReader(text))
	})
}
