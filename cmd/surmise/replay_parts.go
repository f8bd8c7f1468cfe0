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
		return 0, 0, fmt.Errorf("--shard %q: want i/n with i from 0 to n−1, as in 0/4", text)
	}
	return i, n, nil
}

// mergeReplays puts the journals of shards together. A way of decoding that was
// replayed over other requests than the rest cannot be compared with them, so
// what is there must be all of the work.
func (a *app) mergeReplays(f *replayFlags) error {
	p := parts{shards: map[int]bool{}}
	for _, path := range f.merge {
		if err := journal.Read(path, p.header, p.line); err != nil {
			return fmt.Errorf("merge: %w", err)
		}
	}
	if err := p.whole(); err != nil {
		return fmt.Errorf("merge: %w", err)
	}
	p.about.Shard = ""
	return a.write(report.New(*p.about, &p.gather), &f.output)
}

// parts are the journals of one sweep.
type parts struct {
	about  *bench.About
	gather bench.Gather
	shards map[int]bool // those read
	of     int          // how many there are; 0 if that was not kept
}

func (p *parts) header(line []byte) error {
	var have bench.About
	if err := json.Unmarshal(line, &have); err != nil {
		return err
	}
	if p.about == nil {
		p.about = &have
	}
	if err := p.about.Same(have); err != nil {
		return err
	}
	p.about.Items = max(p.about.Items, have.Items)
	for _, c := range have.Ways {
		p.gather.Of(c) // in this order
	}
	if have.Shard == "" {
		return nil
	}
	i, n, err := parseShard(have.Shard)
	switch {
	case err != nil:
		return err
	case p.of != 0 && p.of != n:
		return fmt.Errorf("part %s: the parts before it are of %d", have.Shard, p.of)
	}
	p.shards[i], p.of = true, n
	return nil
}

func (p *parts) line(data []byte) error {
	var line bench.Line
	if err := json.Unmarshal(data, &line); err != nil {
		return err
	}
	return p.gather.Add(line)
}

// whole tells what is missing; nil if nothing is.
func (p *parts) whole() error {
	if len(p.gather.Series) == 0 {
		return errors.New("no results in these files")
	}
	if !p.about.Predicted {
		return nil // bench counts questions, not requests
	}
	for _, s := range p.gather.Series {
		if n := len(s.Trials); n < p.about.Items {
			return fmt.Errorf("%s: %s has %d of %d requests", p.missing(), s.Config, n, p.about.Items)
		}
	}
	return nil
}

// missing names the parts that were not read.
func (p *parts) missing() string {
	var names []string
	for i := range p.of {
		if !p.shards[i] {
			names = append(names, fmt.Sprintf("%d/%d", i, p.of))
		}
	}
	switch len(names) {
	case 0:
		return "a part is not finished (the command that began it goes on with it)"
	case 1:
		return "part " + names[0] + " is missing"
	}
	return "parts " + strings.Join(names, ", ") + " are missing"
}
