package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surmise/sampler"
)

// samplingFlags are the parameters of the sampler's table as flags.
type samplingFlags struct{ params sampler.Params }

// addSampling gives a command a flag for every field that commands offer, but
// for those named, with the defaults of a profile.
func (a *app) addSampling(cmd *cobra.Command, f *samplingFlags, profile sampler.Profile, without ...string) error {
	var err error
	if f.params, err = profile.Params(); err != nil {
		return err
	}
	for _, field := range sampler.Fields() {
		if field.Where&sampler.InCommand == 0 || slices.Contains(without, field.Name) {
			continue
		}
		short := ""
		if field.Name == "max_new_tokens" {
			short = "n"
		}
		v := &fieldFlag{field: field, params: &f.params, initial: defaultText(field, &f.params)}
		help := field.Help + " (" + field.Valid + ")"
		flag := cmd.Flags().VarPF(v, field.Flag, short, help)
		if field.Kind == sampler.KindBool || field.Kind == sampler.KindLogprobs {
			flag.NoOptDefVal = "true"
		}
		a.alias(flag, field.Flags()[1:]...)
	}
	return nil
}

// fieldFlag is a field as a flag. It implements pflag.Value.
type fieldFlag struct {
	field   sampler.Field
	params  *sampler.Params
	values  []string
	initial string
}

func (v *fieldFlag) Set(text string) error {
	if !v.field.Repeatable() {
		v.values = v.values[:0]
	}
	v.values = append(v.values, text)
	return v.field.Set(v.params, v.values...)
}

func (v *fieldFlag) String() string {
	if len(v.values) == 0 {
		return v.initial
	}
	return strings.Join(v.values, " ")
}

func (v *fieldFlag) Type() string {
	switch v.field.Kind {
	case sampler.KindFloat, sampler.KindInt, sampler.KindSeed:
		return "number"
	case sampler.KindBool, sampler.KindLogprobs:
		return ""
	case sampler.KindTokens:
		return "ids"
	case sampler.KindJSON:
		return "json"
	}
	return "text"
}

// defaultText is a field's default as help shows it.
func defaultText(f sampler.Field, p *sampler.Params) string {
	text := string(f.Value(p))
	switch text {
	case "null", "[]", "{}", `""`, "false":
		return ""
	}
	return strings.Trim(text, `"`)
}

// useProfile takes the defaults of the profile that a flag names, where no flag
// says otherwise.
func (f *samplingFlags) useProfile(cmd *cobra.Command) error {
	name, err := cmd.Flags().GetString("profile")
	if err != nil {
		return err
	}
	p, err := sampler.Profile(name).Params()
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if v, ok := flag.Value.(*fieldFlag); ok && err == nil {
			err = v.field.Set(&p, v.values...)
		}
	})
	f.params = p
	return err
}

// finishSampling checks the parameters and settles the seed.
func (a *app) finishSampling(f *samplingFlags) error {
	if err := f.params.Validate(); err != nil {
		return usage(err)
	}
	if err := f.params.CheckBuilt(); err != nil {
		return usage(err)
	}
	f.params.FixSeed(a.random)
	return nil
}
