package drafter_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"surmise/drafter"
	"surmise/drafter/draftertest"
	"surmise/model"
	"surmise/promptlookup"
	"surmise/verify/verifytest"
)

func hashTarget(t verifytest.TB) model.Target {
	m, err := verifytest.New(verifytest.Options{})
	require.NoError(t, err)
	return m
}

func TestDraftersThatGuessAtRandomPassTheSuite(t *testing.T) {
	draftertest.Suite{
		Target:  hashTarget,
		New:     func(verifytest.TB) drafter.Drafter { return &draftertest.Random{Rand: rand.New(rand.NewPCG(1, 1))} },
		Prompts: [][]int32{{1}, {2, 3, 4}},
		Tokens:  25,
	}.Run(t)
}

func oracle(t *testing.T, stream []int32, known int) (*draftertest.Oracle, drafter.Seq) {
	d := &draftertest.Oracle{Streams: [][]int32{stream}}
	require.NoError(t, d.Bind(hashTarget(t)))
	s, err := d.Open(drafter.Opening{Tokens: stream[:known]})
	require.NoError(t, err)
	return d, s
}

func TestProposeAsksEachDrafterOnceAndDeclinesRowsWithoutBudget(t *testing.T) {
	stream := []int32{1, 2, 3, 4, 5}
	_, a := oracle(t, stream, 1)
	b, bs := oracle(t, stream, 1)
	b.FailPropose = 1
	rows := []*drafter.Row{
		{Seq: a, Known: []int32{1}, Budget: 2},
		{Seq: bs, Known: []int32{1}, Budget: 2},
		{Seq: a, Known: []int32{1, 2}, Budget: 9},
		{Seq: a, Known: []int32{1}, Budget: 0},
		{Seq: bs, Known: []int32{1}, Budget: -3},
	}
	drafter.Propose(context.Background(), rows)
	require.Equal(t, []int32{2, 3}, rows[0].Proposal)
	require.Equal(t, []int32{3, 4, 5}, rows[2].Proposal)
	require.ErrorContains(t, rows[1].Err, "asked too much")
	require.Equal(t, drafter.Failed, rows[1].Decline)
	require.Equal(t, drafter.NothingLeft, rows[3].Decline)
	require.Equal(t, drafter.NothingLeft, rows[4].Decline)
	require.NoError(t, rows[4].Err, "the failing drafter was not asked for it")
}

// greedy proposes more than it may.
type greedy struct{ draftertest.Random }

func (g *greedy) Open(drafter.Opening) (drafter.Seq, error) { return greedySeq{g}, nil }
func (g *greedy) Propose(_ context.Context, rows []*drafter.Row) error {
	for _, r := range rows {
		r.Proposal = append(r.Proposal, make([]int32, r.Budget+1)...)
	}
	return nil
}

type greedySeq struct{ g *greedy }

func (s greedySeq) Drafter() drafter.Drafter   { return s.g }
func (s greedySeq) Position() int              { return 0 }
func (s greedySeq) Fork() (drafter.Seq, error) { return s, nil }
func (s greedySeq) Close() error               { return nil }

func TestAProposalOverBudgetFailsTheDrafterAndIsDropped(t *testing.T) {
	s, err := new(greedy).Open(drafter.Opening{})
	require.NoError(t, err)
	r := &drafter.Row{Seq: s, Known: []int32{1}, Budget: 3}
	drafter.Propose(context.Background(), []*drafter.Row{r})
	require.ErrorContains(t, r.Err, "proposed 4 tokens to a budget of 3")
	require.Empty(t, r.Proposal)
}

func TestObserveFindsADrafterThatIsNotWhereTheTargetIs(t *testing.T) {
	s, err := new(greedy).Open(drafter.Opening{})
	require.NoError(t, err)
	_, a := oracle(t, []int32{1, 2, 3}, 1)
	outcomes := []*drafter.Outcome{
		{Seq: greedyStays{s.(greedySeq)}, Committed: []int32{1}, Pending: 2},
		{Seq: a, Committed: []int32{1}, Pending: 2},
	}
	drafter.Observe(outcomes)
	require.ErrorContains(t, outcomes[0].Err, "is at position 0 after a round, the target at 1")
	require.NoError(t, outcomes[1].Err)
}

// greedyStays belongs to a drafter that ignores outcomes.
type greedyStays struct{ greedySeq }

func (s greedyStays) Drafter() drafter.Drafter { return ignorant{s.g} }

type ignorant struct{ *greedy }

func (ignorant) Observe([]*drafter.Outcome) error { return nil }

func TestContractsThatLackSomethingAreRefused(t *testing.T) {
	require.NoError(t, promptlookup.Contract().Validate())
	for want, spoil := range map[string]func(*drafter.Contract){
		"lower-case name":   func(c *drafter.Contract) { c.Kind = "Prompt Lookup" },
		"summary missing":   func(c *drafter.Contract) { c.Summary = "" },
		"exactness missing": func(c *drafter.Contract) { c.Greedy = "" },
		"features missing":  func(c *drafter.Contract) { c.Features = nil },
		"proposing missing": func(c *drafter.Contract) { c.Proposes = "" },
		"max width 65":      func(c *drafter.Contract) { c.MaxWidth = 65 },
		"nothing_left":      func(c *drafter.Contract) { c.Engagement = nil },
		"rule {Name:x":      func(c *drafter.Contract) { c.Qualification = []drafter.Rule{{Name: "x"}} },
	} {
		c := promptlookup.Contract()
		spoil(&c)
		require.ErrorContains(t, c.Validate(), want)
	}
}

func TestKindsAreFoundByNameAndTheErrorListsThem(t *testing.T) {
	kinds, err := drafter.NewKinds(promptlookup.Kind())
	require.NoError(t, err)
	k, err := kinds.Find(promptlookup.Name)
	require.NoError(t, err)
	require.Equal(t, promptlookup.Name, k.Contract.Kind)
	_, err = kinds.Find("eagle")
	require.EqualError(t, err, `unknown draft kind "eagle": want one of none, prompt-lookup`)
	_, err = drafter.NewKinds(promptlookup.Kind(), promptlookup.Kind())
	require.ErrorContains(t, err, "is taken")
	_, err = drafter.NewKinds(drafter.Kind{Contract: promptlookup.Contract()})
	require.ErrorContains(t, err, "no constructor")
	require.Len(t, kinds.Contracts(), 1)
}

func TestDetectionFollowsItsTable(t *testing.T) {
	for name, c := range map[string]struct {
		e    drafter.Evidence
		want drafter.Detection
	}{
		"dflash by architecture, though the type is plain qwen3": {
			drafter.Evidence{ModelType: "qwen3", Architectures: []string{"DFlashDraftModel"}},
			drafter.Detection{Kind: drafter.DFlash, Because: "architecture DFlashDraftModel"},
		},
		"dflash by its config object": {
			drafter.Evidence{ModelType: "qwen3", Architectures: []string{"Qwen3ForCausalLM"}, Keys: []string{"block_size", "dflash_config"}},
			drafter.Detection{Kind: drafter.DFlash, Because: "config field dflash_config"},
		},
		"mtp by model type": {
			drafter.Evidence{ModelType: "qwen3_5_mtp"},
			drafter.Detection{Kind: drafter.MTP, Because: "model type qwen3_5_mtp"},
		},
		"mtp by tensors alone": {
			drafter.Evidence{ModelType: "qwen3", Tensors: []string{"mtp.fc.weight", "mtp.layers.0.mlp.up_proj.weight"}},
			drafter.Detection{Kind: drafter.MTP, Because: "a checkpoint of nothing but multi-token-prediction tensors"},
		},
		"a whole model that carries heads is a full model": {
			drafter.Evidence{ModelType: "qwen3_next", Tensors: []string{"model.embed_tokens.weight", "mtp.fc.weight"}},
			drafter.Detection{Kind: drafter.FullModel, Because: "a whole model"},
		},
		"a GGUF by its architecture": {
			drafter.Evidence{ModelType: "dflash", Architectures: []string{"dflash"}, Keys: []string{"general.architecture"}},
			drafter.Detection{Kind: drafter.DFlash, Because: "architecture dflash"},
		},
		"a plain model": {
			drafter.Evidence{ModelType: "llama", Architectures: []string{"LlamaForCausalLM"}, Tensors: []string{"model.norm.weight"}},
			drafter.Detection{Kind: drafter.FullModel, Because: "a whole model"},
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, drafter.Judge(c.e)) })
	}
}

func TestWidthIsANumberFrom1To64OrAuto(t *testing.T) {
	w, err := drafter.ParseWidth("8")
	require.NoError(t, err)
	rows := []*drafter.Row{{Budget: 64}, {Budget: 3}}
	w.Ask(rows)
	require.Equal(t, 8, rows[0].Budget)
	require.Equal(t, 3, rows[1].Budget)
	require.Equal(t, "8", w.String())
	w, err = drafter.ParseWidth("auto")
	require.NoError(t, err)
	require.Equal(t, "auto", w.String())
	_, err = drafter.ParseWidth("0")
	require.ErrorContains(t, err, "use draft kind none")
	for _, bad := range []string{"65", "-1", "x", "", "1.5"} {
		_, err = drafter.ParseWidth(bad)
		require.ErrorContains(t, err, "from 1 to 64, or auto", bad)
	}
}

func TestTallyDefinitionsOfTheField(t *testing.T) {
	var a drafter.Tally
	require.Zero(t, a.MeanAcceptanceLength())
	require.Zero(t, a.AcceptanceRate())
	a.Round(0, 0) // a proposal of zero tokens is no draft
	a.Round(4, 4)
	a.Round(4, 1)
	a.Round(2, 0)
	require.EqualValues(t, 4, a.Rounds)
	require.EqualValues(t, 3, a.Drafts)
	require.InDelta(t, 0.5, a.AcceptanceRate(), 1e-9)
	require.InDelta(t, 1+5.0/3, a.MeanAcceptanceLength(), 1e-9)
	require.Equal(t, []int64{2, 1, 1, 1, 0}, a.PerPosition[:5])
	require.EqualValues(t, 1, a.Widths[0])
	require.EqualValues(t, 2, a.Widths[4])
}

func TestAddingTalliesEqualsCountingInOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var parts [2]drafter.Tally
		var all, sum drafter.Tally
		for range rapid.IntRange(0, 50).Draw(t, "rounds") {
			proposed := rapid.IntRange(0, drafter.MaxWidth).Draw(t, "proposed")
			accepted := rapid.IntRange(0, proposed).Draw(t, "accepted")
			parts[rapid.IntRange(0, 1).Draw(t, "part")].Round(proposed, accepted)
			all.Round(proposed, accepted)
		}
		sum.Add(&parts[0])
		sum.Add(&parts[1])
		require.Equal(t, all, sum)
		var perPosition int64
		for _, n := range all.PerPosition {
			perPosition += n
		}
		require.Equal(t, all.Accepted, perPosition)
	})
}

func TestCountersHaveEverySeriesAtZeroFromTheStart(t *testing.T) {
	c := drafter.NewCounters(promptlookup.Contract())
	found := map[string]int{}
	for _, s := range c.Samples() {
		require.Zero(t, s.Value)
		require.Equal(t, drafter.Label{Name: "kind", Value: promptlookup.Name}, s.Labels[0])
		found[s.Name]++
	}
	require.Equal(t, 1, found["vllm:spec_decode_num_drafts_total"])
	require.Equal(t, 1, found["vllm:spec_decode_num_draft_tokens_total"])
	require.Equal(t, 1, found["vllm:spec_decode_num_accepted_tokens_total"])
	require.Equal(t, drafter.MaxWidth, found["vllm:spec_decode_num_accepted_tokens_per_pos_total"])
	require.Equal(t, len(promptlookup.Contract().Engagement), found["surmise_draft_declines_total"])

	c.Settle(promptlookup.Name, promptlookup.Name, 3, 2, drafter.Cost{}, "")
	c.Decline(promptlookup.Name, promptlookup.NoMatch)
	require.EqualValues(t, 2, c.Tally(promptlookup.Name).Accepted)
	require.EqualValues(t, 1, c.Declines(promptlookup.Name)[promptlookup.NoMatch])
	require.Zero(t, c.Tally("other").Rounds)
}
