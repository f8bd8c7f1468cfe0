package engine_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"surmise/demo"
	"surmise/drafter"
	"surmise/engine"
	"surmise/engine/kinds"
	"surmise/promptlookup"
	"surmise/verify/verifytest"
)

func TestFreshRequestsTakeNothingFromEarlierOnesAndLeaveNothingBehind(t *testing.T) {
	d, err := promptlookup.New(promptlookup.Options{})
	require.NoError(t, err)
	e := hashEngine(t, verifytest.Options{}, engine.Options{})
	r := engine.Request{Prompt: prompt(3, 200), Params: params(0.7, 5, 40), Drafter: d, Fresh: true}
	first := one(t, e, r)
	require.Zero(t, e.Target().Cache().Stats().Published)
	second := one(t, e, r)
	require.Zero(t, second.Finish.Timings.CachedN)
	same(t, first, second)
	require.Equal(t, first.Finish.Timings.Draft.Accepted, second.Finish.Timings.Draft.Accepted)

	r.Fresh = false
	same(t, first, one(t, e, r))
	require.Equal(t, 192, one(t, e, r).Finish.Timings.CachedN, "what is not fresh shares its prompt")
	r.Fresh = true
	require.Zero(t, one(t, e, r).Finish.Timings.CachedN, "and what is fresh still does not")
}

func TestFurtherDraftersAreOpenedForATarget(t *testing.T) {
	all, err := kinds.All()
	require.NoError(t, err)
	b := engine.Basis{Target: hashTarget(t, verifytest.Options{})}
	d, err := engine.OpenDraft(all, engine.DraftSetup{Kind: "prompt-lookup", Options: map[string]string{"max-width": "3"}}, b, nil)
	require.NoError(t, err)
	require.Equal(t, 3, d.Contract().MaxWidth)
	require.Nil(t, d.Checkpoint)
	require.NoError(t, d.Close())
	for kind, want := range map[string]string{"none": "drafts nothing", "magic": "unknown draft kind", "dflash": "needs a draft model"} {
		_, err := engine.OpenDraft(all, engine.DraftSetup{Kind: kind}, b, nil)
		require.ErrorContains(t, err, want)
	}
}

func TestADraftOptionGoesOnlyToKindsThatKnowIt(t *testing.T) {
	all, err := kinds.All()
	require.NoError(t, err)
	b := engine.Basis{Target: hashTarget(t, verifytest.Options{})}
	open := func(options map[string]string) error {
		d, err := engine.OpenDraft(all, engine.DraftSetup{Kind: "prompt-lookup", Options: options}, b, nil)
		if err == nil {
			require.NoError(t, d.Close())
		}
		return err
	}
	given := map[string]string{"noise": "off", "quantize": "q8_0"}
	require.NoError(t, open(given), "options of other kinds mean nothing to prompt lookup")
	require.Len(t, given, 2, "the setup is left as it was")
	require.ErrorContains(t, open(map[string]string{"min-match": "x"}), "min-match", "its own are read")
	require.ErrorContains(t, open(map[string]string{"loudness": "3"}), `unknown draft option "loudness"`)
}

// What a kind lists is what its constructor reads.
func TestKindsKnowTheOptionsTheyList(t *testing.T) {
	all, err := kinds.All()
	require.NoError(t, err)
	for name, want := range map[string][]string{
		"prompt-lookup": {"max-width", "min-match"}, "full-model": {"noise", "quantize"},
		"mtp": {"hidden", "noise", "quantize"}, "dflash": {"noise", "quantize"}, "cascade": {"noise", "quantize"},
	} {
		k, err := all.Find(name)
		require.NoError(t, err)
		require.ElementsMatch(t, want, k.Options, name)
	}
}

func TestAutoWarnsThatPromisedHeadsAreGone(t *testing.T) {
	for value, want := range map[string]string{
		`1`:   "config.json promises multi-token-prediction heads (num_nextn_predict_layers is 1), but their tensors are gone",
		`"x"`: `num_nextn_predict_layers is "x", expected an integer from 0 to`,
		`0`:   "",
	} {
		files := fstest.MapFS{}
		entries, err := fs.ReadDir(demo.FS(), demo.Target)
		require.NoError(t, err)
		for _, e := range entries {
			data, err := fs.ReadFile(demo.FS(), demo.Target+"/"+e.Name())
			require.NoError(t, err)
			if e.Name() == "config.json" {
				data = []byte(strings.Replace(string(data), "{", `{"num_nextn_predict_layers": `+value+",", 1))
			}
			files[demo.Target+"/"+e.Name()] = &fstest.MapFile{Data: data}
		}
		var warnings []string
		in := openFamily(t, engine.Auto, "", func(s *engine.Setup) {
			s.FS, s.Warn = files, func(m string) { warnings = append(warnings, m) }
		})
		require.Equal(t, drafter.Lookup, in.Drafter.Contract().Kind)
		if want == "" {
			require.Empty(t, warnings)
		} else {
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0], want)
			require.Contains(t, warnings[0], "drafting by prompt-lookup")
		}
	}
}
