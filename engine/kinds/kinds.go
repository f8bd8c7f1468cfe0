// Package kinds is the one place that knows every kind of drafter by name.
//
// A kind added here can be chosen by every command, has its counters from the
// start, and is listed in the messages about unknown kinds.
package kinds

import (
	"surmise/dflash"
	"surmise/drafter"
	"surmise/fullmodel"
	"surmise/mtp"
	"surmise/promptlookup"
)

// All registers the kinds of this program.
func All() (*drafter.Kinds, error) {
	return drafter.NewKinds(
		promptlookup.Kind(),
		fullmodel.Kind(),
		mtp.Kind(),
		dflash.Kind(),
	)
}
