// Package kinds is the one place that knows every kind of drafter by name.
//
// A kind added here can be chosen by every command, has its counters from the
// start, and is listed in the messages about unknown kinds.
package kinds

import (
	"surmise/dflash"
	"surmise/drafter"
	"surmise/drafter/cascade"
	"surmise/fullmodel"
	"surmise/mtp"
	"surmise/promptlookup"
)

// All registers the kinds of this program.
func All() (*drafter.Kinds, error) {
	lookup, models := promptlookup.Kind(), []drafter.Kind{fullmodel.Kind(), mtp.Kind(), dflash.Kind()}
	all := append([]drafter.Kind{lookup}, models...)
	return drafter.NewKinds(append(all, cascade.Kind(lookup, models...))...)
}
