package sampler

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDefaultsOfTheProfilesAreThoseOfTheTable(t *testing.T) {
	for profile, want := range map[Profile]string{
		ProfileLibrary:  `{"temperature":1,"top_k":0,"top_p":1,"min_p":0,"penalty_last_n":-1,"dry_sequence_breakers":[],"max_new_tokens":-1}`,
		ProfileGenerate: `{"temperature":0,"top_k":0,"top_p":1,"min_p":0,"penalty_last_n":-1,"dry_penalty_last_n":-1,"dry_sequence_breakers":[],"max_new_tokens":128}`,
		ProfileServe:    `{"temperature":0.8,"top_k":40,"top_p":0.9,"min_p":0.1,"penalty_last_n":64,"dry_penalty_last_n":64,"dry_sequence_breakers":["\n",":","\"","*"],"max_new_tokens":-1}`,
		ProfileRun:      `{"temperature":0.8,"top_k":40,"top_p":0.9,"min_p":0.1}`,
	} {
		p, err := profile.Params()
		require.NoError(t, err)
		require.NoError(t, p.Validate())
		raw, err := json.Marshal(p)
		require.NoError(t, err)
		var got, expect map[string]any
		require.NoError(t, json.Unmarshal(raw, &got))
		require.NoError(t, json.Unmarshal([]byte(want), &expect))
		for name, v := range map[string]any{
			"typical_p": 1., "top_n_sigma": -1., "p_less": false, "epsilon_cutoff": 0., "eta_cutoff": 0., "tfs_z": 1.,
			"xtc_probability": 0., "xtc_threshold": .1, "repetition_penalty": 1., "frequency_penalty": 0., "presence_penalty": 0.,
			"no_repeat_ngram_size": 0., "dry_multiplier": 0., "dry_base": 1.75, "dry_allowed_length": 2., "dynatemp_range": 0.,
			"dynatemp_exponent": 1., "mirostat": 0., "mirostat_tau": 5., "mirostat_eta": .1, "adaptive_target": -1.,
			"adaptive_decay": .9, "min_keep": 0., "sampler_order": "llama", "seed": -1., "n": 1., "beams": 1.,
			"length_penalty": .65, "beam_groups": 1., "diversity_penalty": 0., "min_new_tokens": 0., "ignore_eos": false,
			"logprobs": false, "top_logprobs": 0., "logprobs_mode": "raw",
		} {
			require.Equal(t, v, got[name], "%s: %s", profile, name)
		}
		for name, v := range expect {
			require.Equal(t, v, got[name], "%s: %s", profile, name)
		}
	}
	_, err := Profile("chat").Params()
	require.ErrorContains(t, err, `"chat"`)
}

func TestNumbersOutOfRangeAreErrorsThatNameFieldValueAndRange(t *testing.T) {
	outside := map[string][]float64{
		"top_k": {-2}, "top_p": {0, -.1, 1.001}, "min_p": {-.01, 1.01}, "typical_p": {0, 2},
		"epsilon_cutoff": {-.1, 1}, "eta_cutoff": {-.1, 1}, "tfs_z": {0, 1.5}, "xtc_probability": {-1, 1.1},
		"xtc_threshold": {-.1, .51}, "repetition_penalty": {0, -1, 2.1}, "frequency_penalty": {-2.1, 2.1},
		"presence_penalty": {-2.1, 2.1}, "penalty_last_n": {-2}, "no_repeat_ngram_size": {-1}, "dry_multiplier": {-.1},
		"dry_base": {.99}, "dry_allowed_length": {-1}, "dry_penalty_last_n": {-2}, "dynatemp_range": {-.1},
		"dynatemp_exponent": {-1}, "mirostat": {-1, 3}, "mirostat_tau": {-1}, "mirostat_eta": {-.1},
		"adaptive_target": {1.1}, "adaptive_decay": {-.1, .991}, "min_keep": {-1}, "n": {0, 129}, "best_of": {-1, 129},
		"beams": {0, 65}, "length_penalty": {-.1, 1.1}, "beam_groups": {0, 65}, "diversity_penalty": {-1},
		"max_new_tokens": {-2}, "min_new_tokens": {-1}, "top_logprobs": {-1, 21}, "temperature": {}, "top_n_sigma": {},
	}
	for _, f := range Fields() {
		if f.Kind != KindFloat && f.Kind != KindInt {
			continue
		}
		values, ok := outside[f.Name]
		require.True(t, ok, "%s has no out-of-range values in this table", f.Name)
		delete(outside, f.Name)
		if f.Kind == KindFloat {
			values = append(values, math.NaN(), math.Inf(1), math.Inf(-1))
		}
		for _, v := range values {
			p := with()
			names := func(err error) {
				t.Helper()
				require.Error(t, err, "%s = %v", f.Name, v)
				for _, part := range []string{f.Name, number(v), f.Valid} {
					require.ErrorContains(t, err, part)
				}
			}
			text := number(v)
			names(f.Set(&p, text))
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				_, err := p.SetJSON(fmt.Appendf(nil, `{%q: %s}`, f.Name, text))
				names(err)
			}
			switch x := f.target(&p).(type) {
			case *float64:
				*x = v
			case *int:
				*x = int(v)
			}
			names(p.Validate())
			_, err := NewChain(p, Env{Vocab: 10}, nil, 0)
			names(err)
		}
	}
	require.Empty(t, outside, "fields that do not exist")
}

func TestWordsThatAreNotValuesAreErrors(t *testing.T) {
	for name, bad := range map[string][]string{
		"temperature": {`"warm"`, `true`, `[1]`, `1e999`}, "top_k": {`1.5`, `"x"`, `1e30`}, "p_less": {`1`, `"yes"`},
		"sampler_order": {`"vllm"`, `1`}, "logprobs_mode": {`"log"`}, "seed": {`-2`, `1.5`, `18446744073709551616`, `"x"`},
		"stop": {`1`, `[1]`}, "stop_token_ids": {`"x"`, `[-1]`, `[1.5]`}, "suppress_tokens": {`-1`},
		"logit_bias":    {`1`, `[[1]]`, `[[1,"x"]]`, `{"5":"x"}`, `[[1,true]]`, `{"5":null}`, `[[-1,2]]`},
		"language_bias": {`{"de":1}`, `{"de":{"bias":1}}`, `[1]`}, "dry_sequence_breakers": {`[""]`, `[-1]`, `5`, `""`},
		"logprobs": {`21`, `-1`, `1.5`, `"x"`}, "custom_params": {`[1]`, `1`}, "regex": {`1`}, "ebnf": {`{}`},
	} {
		f, ok := Lookup(name)
		require.True(t, ok, name)
		for _, v := range bad {
			p := with()
			_, err := p.SetJSON([]byte(`{"` + name + `": ` + v + `}`))
			require.Error(t, err, "%s: %s", name, v)
			require.ErrorContains(t, err, f.Name)
		}
	}
	p := with()
	_, err := p.SetJSON([]byte(`[1]`))
	require.Error(t, err)
}

func TestRulesBetweenFields(t *testing.T) {
	for text, change := range map[string]func(*Params){
		"best_of":         func(p *Params) { p.N, p.BestOf = 4, 2 },
		"beam_groups":     func(p *Params) { p.Beams, p.BeamGroups = 6, 4 },
		"min_new_tokens":  func(p *Params) { p.MaxNewTokens, p.MinNewTokens = 5, 6 },
		"at most 100":     func(p *Params) { p.LogitBias = []TokenBias{{Token: 1, Bias: 101}} },
		"language_bias":   func(p *Params) { p.LanguageBias = []GroupBias{{"x", math.NaN(), []int32{1}}} },
		"beside":          func(p *Params) { p.Regex, p.EBNF = "a", "b" },
		"stop_regex":      func(p *Params) { p.StopRegex = []string{"a*"} },
		`stop: ""`:        func(p *Params) { p.Stop = []string{""} },
		"suppress_tokens": func(p *Params) { p.SuppressTokens = []int32{-1} },
		"sampler_order":   func(p *Params) { p.Order = "x" },
		"best_of_by":      func(p *Params) { p.BestOfBy = "luck" },
		"at most beams":   func(p *Params) { p.Beams, p.N = 2, 3 },
		"beside beams":    func(p *Params) { p.Beams, p.BestOf = 2, 3 },
		"top_logprobs":    func(p *Params) { p.TopLogprobs = 1 },
		`stop: "\xff"`:    func(p *Params) { p.Stop = []string{"\xff"} },
		"json_schema":     func(p *Params) { p.JSONSchema = json.RawMessage(`[1]`) },
		"custom_params":   func(p *Params) { p.CustomParams = json.RawMessage(`1`) },
	} {
		require.ErrorContains(t, with(change).Validate(), text)
	}
	require.NoError(t, with(func(p *Params) { p.Temperature = -1 }).Validate())
	require.ErrorContains(t, with(func(p *Params) { p.Temperature = -1 }).ValidateOpenAI(), "temperature")
	require.NoError(t, with(func(p *Params) { p.N = 4 }).Validate(), "best_of follows n")
}

func TestNamesAndAliasesReachTheSameField(t *testing.T) {
	seen := map[string]string{}
	for _, f := range Fields() {
		for _, n := range append(f.Flags(), f.Name) {
			n = dashes(n)
			if other, ok := seen[n]; ok {
				require.Equal(t, f.Name, other, "two fields are called %s", n)
			}
			seen[n] = f.Name
		}
		require.NotEmpty(t, f.Valid, f.Name)
		require.NotEmpty(t, f.Help, f.Name)
	}
	for alias, name := range map[string]string{
		"temp": "temperature", "typ_p": "typical_p", "repeat_penalty": "repetition_penalty", "repeat-last-n": "penalty_last_n",
		"sampling_seed": "seed", "samples": "n", "n_predict": "max_new_tokens", "max_tokens": "max_new_tokens",
		"max_completion_tokens": "max_new_tokens", "dry-sequence-breaker": "dry_sequence_breakers", "grammar": "ebnf",
	} {
		f, ok := Lookup(alias)
		require.True(t, ok, alias)
		require.Equal(t, name, f.Name)
	}
	_, ok := Lookup("temperatures")
	require.False(t, ok)
}

func TestJSONAndFlagsGiveTheSameParameters(t *testing.T) {
	for name, c := range map[string]struct{ json, flag string }{
		"temperature": {"0.5", "0.5"}, "top_k": {"3", "3"}, "p_less": {"true", "true"}, "seed": {"18446744073709551615", "18446744073709551615"},
		"stop": {`"x"`, "x"}, "stop_token_ids": {`[1,2]`, "1,2"}, "sampler_order": {`"hf"`, "hf"}, "logprobs": {"3", "3"},
		"dry_sequence_breakers": {`["a",7]`, ""}, "logit_bias": {`[[5,1.5],["x",-100]]`, ""},
		"language_bias": {`{"de":{"bias":2,"tokens":[1,2]}}`, "de=2:1,2"}, "max_tokens": {"7", "7"},
	} {
		f, ok := Lookup(name)
		require.True(t, ok)
		a, b := with(), with()
		unknown, err := a.SetJSON([]byte(`{"` + name + `":` + c.json + `,"other":1}`))
		require.NoError(t, err, name)
		require.Equal(t, []string{"other"}, unknown)
		switch f.Kind {
		case KindBreakers:
			err = f.Set(&b, "a", "7")
		case KindBias:
			err = f.Set(&b, "5=1.5", "x=-100")
		default:
			err = f.Set(&b, c.flag)
		}
		require.NoError(t, err, name)
		require.Equal(t, a, b, name)
	}
	p := with(func(p *Params) { p.TopK = 7 })
	_, err := p.SetJSON([]byte(`{"top_k":null,"logit_bias":{"5":-100,"yes":2}}`))
	require.NoError(t, err)
	require.Equal(t, 7, p.TopK, "null leaves the default")
	require.Equal(t, []TokenBias{{Text: "yes", Bias: 2}, {Token: 5, Bias: -100}}, p.LogitBias)
	_, err = p.SetJSON([]byte(`{"temp":1,"temperature":0.5}`))
	require.ErrorContains(t, err, "temp")
	f, _ := Lookup("dry_sequence_breakers")
	require.NoError(t, f.Set(&p, "none"))
	require.Empty(t, p.DRYSequenceBreakers)
	f, _ = Lookup("logit_bias")
	require.NoError(t, f.Set(&p, "15043+1", "20-2.5"))
	require.Equal(t, []TokenBias{{Token: 15043, Bias: 1}, {Token: 20, Bias: -2.5}}, p.LogitBias)
	require.Error(t, f.Set(&p, "x+1"))
	f, _ = Lookup("seed")
	require.NoError(t, f.Set(&p, "-1"))
	require.Nil(t, p.Seed)
	require.EqualValues(t, 9, p.FixSeed(func() uint64 { return 9 }))
	require.EqualValues(t, 9, p.FixSeed(func() uint64 { return 10 }))
}

func TestGenerationConfigGivesDefaultsButNeverXTCOrPLess(t *testing.T) {
	p := with()
	require.NoError(t, p.SetGenerationConfig([]byte(`{"temperature":0.6,"top_k":20,"eos_token_id":[1,2],"xtc_probability":1,"p_less":true,"max_new_tokens":5}`)))
	require.Equal(t, .6, p.Temperature)
	require.Equal(t, 20, p.TopK)
	require.Zero(t, p.XTCProbability)
	require.False(t, p.PLess)
	require.Equal(t, -1, p.MaxNewTokens)
	require.ErrorContains(t, p.SetGenerationConfig([]byte(`{"top_p":2}`)), "generation_config.json")
}

func TestNewChainNamesWhatItCannotResolve(t *testing.T) {
	env := Env{
		Vocab:  10,
		Encode: func(s string) ([]int32, error) { return make([]int32, len(s)), nil },
		Piece:  func(id int32) []byte { return []byte("piece") },
	}
	for text, change := range map[string]func(*Params){
		`2 tokens: 0 "piece", 0 "piece"`: func(p *Params) { p.LogitBias = []TokenBias{{Text: "ab", Bias: 1}} },
		"from 0 to 9":                    func(p *Params) { p.LogitBias = []TokenBias{{Token: 10, Bias: 1}} },
		"suppress_tokens":                func(p *Params) { p.SuppressTokens = []int32{11} },
		"stop_token_ids: 12":             func(p *Params) { p.StopTokenIDs = []int32{3, 12} },
		"dry_sequence_breakers: 13": func(p *Params) {
			p.DRYMultiplier, p.DRYSequenceBreakers = 1, []Breaker{{Token: 13}}
		},
		"seed":  func(p *Params) { p.Seed = nil },
		"regex": func(p *Params) { p.Regex = "a" },
	} {
		_, err := NewChain(with(change), env, nil, 0)
		require.ErrorContains(t, err, text)
	}
	_, err := NewChain(with(), env, []int32{10}, 0)
	require.ErrorContains(t, err, "prompt token 0 is 10")
	_, err = NewChain(with(), Env{}, nil, 0)
	require.ErrorContains(t, err, "vocabulary")
	_, err = NewChain(with(), env, nil, -1)
	require.ErrorContains(t, err, "sample")
}

func TestDescribeListsTheActiveStagesOnly(t *testing.T) {
	p, err := ProfileServe.Params()
	require.NoError(t, err)
	require.Equal(t, []string{"top_k: 40", "top_p: 0.9", "min_p: 0.1", "temperature: 0.8", "draw: Gumbel-max"}, p.Describe())
	p.Order, p.RepetitionPenalty = OrderHF, 1.1
	require.Equal(t, "repetition_penalty: 1.1 over the last 64 tokens|temperature: 0.8|top_k: 40|top_p: 0.9|min_p: 0.1|draw: Gumbel-max", strings.Join(p.Describe(), "|"))
	p.Temperature = 0
	require.Equal(t, "draw: greedy, the largest logit", p.Describe()[1])
	p.Temperature, p.Mirostat, p.MinKeep = .8, 2, 3
	require.Equal(t, []string{"temperature: 0.8", "min_keep: 3", "draw: mirostat 2, tau 5 bits, eta 0.1"}, p.Describe()[1:])
	p.Beams, p.BeamGroups = 4, 2
	require.Equal(t, []string{"beam search: 4 beams, score Σ log p / length^0.65, 2 groups, diversity_penalty 0"}, p.Describe()[1:])
}

func FuzzParamsJSON(f *testing.F) {
	f.Add([]byte(`{"temperature":0.5,"logit_bias":{"5":1},"stop":["a"],"seed":-1}`))
	f.Add([]byte(`{"language_bias":{"a":{"bias":1,"tokens":[1]}},"dry_sequence_breakers":["\n",3],"logprobs":2}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p := Default()
		if _, err := p.SetJSON(raw); err != nil || p.Validate() != nil {
			return
		}
		out, err := json.Marshal(p)
		require.NoError(t, err)
		q := Default()
		unknown, err := q.SetJSON(out)
		require.NoError(t, err)
		require.Empty(t, unknown)
		again, err := json.Marshal(q)
		require.NoError(t, err)
		require.JSONEq(t, string(out), string(again))
	})
}
