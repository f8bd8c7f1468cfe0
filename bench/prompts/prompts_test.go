package prompts_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"surmise/bench/prompts"
)

func TestTheBuiltInMixHasTwelveOrMoreOfEveryCategoryInUnder200kB(t *testing.T) {
	set, err := prompts.Builtin()
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"edit", "code", "chat", "extraction", "translation", "prose"}, set.Categories())
	count := map[string]int{}
	for _, i := range set.Items {
		count[i.Category]++
	}
	for c, n := range count {
		require.GreaterOrEqual(t, n, 12, c)
	}
	info, err := os.Stat("builtin.jsonl")
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(200_000))
}

func read(t *testing.T, text string) prompts.Set {
	t.Helper()
	set, err := prompts.Read(strings.NewReader(text), "file")
	require.NoError(t, err)
	return set
}

func TestGivenSpecBenchAndDeepSpecLinesWhenReadThenTurnsAndIDsAreTheirs(t *testing.T) {
	set := read(t, `{"question_id": 81, "category": "writing", "turns": ["one", "two"], "reference": []}`+"\n\n"+
		`{"turns": ["alone"]}`+"\n"+`{"id": "x-1", "prompt": "single"}`+"\n")
	require.Equal(t, []prompts.Item{
		{"81", "writing", []string{"one", "two"}}, {"3", "all", []string{"alone"}}, {"x-1", "all", []string{"single"}},
	}, set.Items)
}

func TestGivenPlainTextWhenReadThenLinesOrPartsBetweenDashesArePrompts(t *testing.T) {
	require.Equal(t, []prompts.Item{{"1", "text", []string{"first"}}, {"3", "text", []string{"second"}}}, read(t, "first\n\nsecond\n").Items)
	require.Equal(t, []prompts.Item{{"1", "text", []string{"a\nb"}}, {"2", "text", []string{"c"}}}, read(t, "a\nb\n---\nc\n").Items)
}

func TestGivenABadFileWhenReadThenTheErrorNamesTheLineAndWhatWouldBeValid(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "no prompts",
		"{\"turns\":[\"a\"]}\n{\"turns\":[]}": "line 2: 0 turns: want 1 to 64",
		`{"turns":["a"],"prompt":"b"}`:        "want one of them",
		`{"id":1,"prompt":"b"}` + "\n" + `{"id":"1","prompt":"c"}`: `line 2: id "1" is that of line 1`,
		`{"id":[1],"prompt":"b"}`:                                  "want a text or a number",
		`{"turns":["a"," "]}`:                                      "turn 2 is empty",
		"\xff":                                                     "not UTF-8",
		`{"turns":3}`:                                              "line 1",
	} {
		_, err := prompts.Read(strings.NewReader(text), "file")
		require.ErrorContains(t, err, want, text)
	}
}

func TestGivenALimitWhenChosenThenCategoriesTakeTurnsAndIDsStay(t *testing.T) {
	set, err := prompts.Builtin()
	require.NoError(t, err)
	some, err := set.Choose(prompts.Choice{Limit: 8})
	require.NoError(t, err)
	require.Len(t, some.Items, 8)
	require.Len(t, some.Categories(), 6)
	for _, i := range some.Items {
		require.Contains(t, set.Items, i)
	}
	again, err := set.Choose(prompts.Choice{Limit: 8, ShuffleSeed: 5})
	require.NoError(t, err)
	require.NotEqual(t, some.Items, again.Items)
	only, err := set.Choose(prompts.Choice{Categories: []string{"code"}})
	require.NoError(t, err)
	require.Equal(t, []string{"code"}, only.Categories())
	_, err = set.Choose(prompts.Choice{Categories: []string{"poems"}})
	require.ErrorContains(t, err, `category "poems": built-in mix has edit, code`)
}

func FuzzRead(f *testing.F) {
	f.Add(`{"question_id": 1, "turns": ["a"]}`)
	f.Add("a\n---\nb")
	f.Fuzz(func(t *testing.T, text string) {
		set, err := prompts.Read(strings.NewReader(text), "f")
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, i := range set.Items {
			require.False(t, seen[i.ID])
			seen[i.ID] = true
			require.NotEmpty(t, i.Turns)
		}
	})
}
