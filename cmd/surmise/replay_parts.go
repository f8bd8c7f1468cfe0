package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"surmise/bench"
	"surmise/bench/journal"
	"surmise/bench/report"
)

// parseShard reads i/n.
func parseShard(text string) (i, n int, err error) {
	left, right, ok := strings.Cut(text, "/")
	if ok {
		var e1, e2 error
		i, e1 = strconv.Atoi(left)
		n, e2 = strconv.Atoi(right)
		ok = e1 == nil && e2 == nil && n >= 1 && i >= 0 && i < n
	}
	if !ok {
		return 0, 0, usage(fmt.Errorf("--shard %q: want i/n with i from 0 to n−1, as in 0/4", text))
	}
	return i, n, nil
}

// mergeReplays puts the journals of shards together.
func (a *app) mergeReplays(f *replayFlags) error {
	var about *bench.About
	var gather bench.Gather
	for _, path := range f.merge {
		err := journal.Read(path, func(line []byte) error {
			var have bench.About
			if err := json.Unmarshal(line, &have); err != nil {
				return err
			}
			if about == nil {
				about = &have
			}
			return about.Same(have)
		}, func(data []byte) error {
			var line bench.Line
			if err := json.Unmarshal(data, &line); err != nil {
				return err
			}
			return gather.Add(line)
		})
		if err != nil {
			return fmt.Errorf("merge: %w", err)
		}
	}
	if len(gather.Series) == 0 {
		return errors.New("merge: no results in these files")
	}
	return a.write(report.New(*about, &gather), &f.output)
}
