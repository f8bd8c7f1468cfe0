// Package kvcache owns the pages of the key/value cache: which sequence holds
// which page, what may be shared, and what may be thrown away.
//
// A page holds 64 positions of every layer of a group. Sequences share whole
// pages, copy one before they write into it while somebody else holds it, cut
// themselves back in constant time, and publish full pages under the hash of
// everything up to their end, so that a later prompt with the same beginning
// starts from them.
//
// The invariant: a page is written only through a sequence that is its one
// holder; so what any sequence sees at a position depends on that sequence's
// own tokens up to there and on nothing else.
//
// A Cache and its sequences are used by one goroutine at a time, the one that
// drives the device.
package kvcache
