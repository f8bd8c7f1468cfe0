package prompts

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Item is one question, of one turn or several.
type Item struct {
	ID       string   `json:"id"`
	Category string   `json:"category"`
	Turns    []string `json:"turns"`
}

// Set is a list of items with a name for reports.
type Set struct {
	Name  string
	Items []Item
}

//go:embed builtin.jsonl
var builtin []byte

// Builtin is the mix written for this project: edits, code, chat, extraction,
// translation and free prose.
func Builtin() (Set, error) {
	items, err := parse(builtin, "builtin")
	return Set{"built-in mix", items}, err
}

// Bounds of what is read from a file.
const (
	maxFile  = 256 << 20
	maxTurns = 64
)

// Open reads a file: JSON lines with `turns` (Spec-Bench, DeepSpec) or
// `prompt`, and optionally `question_id` or `id`, and `category`; or plain text.
func Open(path string) (Set, error) {
	f, err := os.Open(path)
	if err != nil {
		return Set{}, fmt.Errorf("prompts: %w", err)
	}
	defer f.Close()
	name := path[strings.LastIndexAny(path, `/\`)+1:]
	set, err := Read(f, name)
	if err != nil {
		return Set{}, fmt.Errorf("prompts %s: %w", path, err)
	}
	return set, nil
}

// Read is Open for data from elsewhere.
func Read(r io.Reader, name string) (Set, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	switch {
	case err != nil:
		return Set{}, err
	case len(data) > maxFile:
		return Set{}, fmt.Errorf("more than %d bytes", maxFile)
	case !utf8.Valid(data):
		return Set{}, errors.New("not UTF-8 text")
	}
	var items []Item
	if text := bytes.TrimSpace(data); len(text) > 0 && text[0] == '{' {
		items, err = parse(data, "")
	} else {
		items = plain(string(data))
	}
	if err == nil && len(items) == 0 {
		err = errors.New("no prompts in it")
	}
	return Set{name, items}, err
}

// line is a line of a file, in the field names that are in use.
type line struct {
	QuestionID json.RawMessage `json:"question_id"`
	ID         json.RawMessage `json:"id"`
	Category   string          `json:"category"`
	Turns      []string        `json:"turns"`
	Prompt     string          `json:"prompt"`
}

func parse(data []byte, category string) ([]Item, error) {
	var items []Item
	seen := map[string]int{}
	in := bufio.NewScanner(bytes.NewReader(data))
	in.Buffer(nil, maxFile)
	for number := 1; in.Scan(); number++ {
		if len(bytes.TrimSpace(in.Bytes())) == 0 {
			continue
		}
		item, err := parseLine(in.Bytes(), number, category)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if before := seen[item.ID]; before > 0 {
			return nil, fmt.Errorf("line %d: id %q is that of line %d too", number, item.ID, before)
		}
		seen[item.ID] = number
		items = append(items, item)
	}
	return items, in.Err()
}

func parseLine(data []byte, number int, category string) (Item, error) {
	var l line
	if err := json.Unmarshal(data, &l); err != nil {
		return Item{}, fmt.Errorf("not a JSON object of a prompt: %w", err)
	}
	item := Item{Category: l.Category, Turns: l.Turns}
	if item.Category == "" {
		item.Category = category
	}
	if item.Category == "" {
		item.Category = "all"
	}
	switch {
	case len(l.Turns) > 0 && l.Prompt != "":
		return item, errors.New("both turns and prompt: want one of them")
	case l.Prompt != "":
		item.Turns = []string{l.Prompt}
	case len(l.Turns) == 0 || len(l.Turns) > maxTurns:
		return item, fmt.Errorf("%d turns: want 1 to %d, or a prompt", len(l.Turns), maxTurns)
	}
	for i, t := range item.Turns {
		if strings.TrimSpace(t) == "" {
			return item, fmt.Errorf("turn %d is empty", i+1)
		}
	}
	var err error
	item.ID, err = id(l, number)
	return item, err
}

// id is the line's own, a text or a number, else the number of the line.
func id(l line, number int) (string, error) {
	for _, raw := range []json.RawMessage{l.QuestionID, l.ID} {
		if len(raw) == 0 || string(raw) == "null" {
			continue
		}
		var text string
		var n json.Number
		switch {
		case json.Unmarshal(raw, &text) == nil && text != "":
			return text, nil
		case json.Unmarshal(raw, &n) == nil && n != "":
			return n.String(), nil
		}
		return "", fmt.Errorf("id %s: want a text or a number", raw)
	}
	return strconv.Itoa(number), nil
}

// plain cuts text into prompts: at lines of three dashes if there are any, else
// every line that is not empty is one.
func plain(text string) []Item {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	parts := strings.Split("\n"+text+"\n", "\n---\n")
	if len(parts) == 1 {
		parts = strings.Split(text, "\n")
	}
	var items []Item
	for i, p := range parts {
		if strings.TrimSpace(p) != "" {
			items = append(items, Item{ID: strconv.Itoa(i + 1), Category: "text", Turns: []string{strings.Trim(p, "\n")}})
		}
	}
	return items
}

// Choice says which items are taken.
type Choice struct {
	// Categories are those wanted; all if empty.
	Categories []string
	// Limit is how many items are taken, in turn from every category; 0 is all.
	Limit int
	// ShuffleSeed, if not 0, shuffles before the limit is applied.
	ShuffleSeed uint64
}

// Choose takes items. The order is that of the set, or the shuffled one. A
// category that the set does not have is an error that lists those it has.
func (s Set) Choose(c Choice) (Set, error) {
	have := s.Categories()
	for _, name := range c.Categories {
		if !slices.Contains(have, name) {
			return Set{}, fmt.Errorf("category %q: %s has %s", name, s.Name, strings.Join(have, ", "))
		}
	}
	if c.Limit < 0 {
		return Set{}, fmt.Errorf("limit %d: want 1 or more, or 0 for all", c.Limit)
	}
	var items []Item
	for _, i := range s.Items {
		if len(c.Categories) == 0 || slices.Contains(c.Categories, i.Category) {
			items = append(items, i)
		}
	}
	if c.ShuffleSeed != 0 {
		r := rand.New(rand.NewPCG(c.ShuffleSeed, 0))
		r.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	}
	if c.Limit > 0 && c.Limit < len(items) {
		items = spread(items, c.Limit)
	}
	return Set{s.Name, items}, nil
}

// spread takes n items, in turn the next of every category.
func spread(items []Item, n int) []Item {
	rank := map[string]int{}
	type ranked struct{ at, rank int }
	order := make([]ranked, len(items))
	for i, item := range items {
		order[i] = ranked{i, rank[item.Category]}
		rank[item.Category]++
	}
	slices.SortStableFunc(order, func(a, b ranked) int { return a.rank - b.rank })
	order = order[:n]
	slices.SortFunc(order, func(a, b ranked) int { return a.at - b.at })
	var out []Item
	for _, o := range order {
		out = append(out, items[o.at])
	}
	return out
}

// Categories are the set's categories in the order they first come.
func (s Set) Categories() []string {
	var out []string
	for _, i := range s.Items {
		if !slices.Contains(out, i.Category) {
			out = append(out, i.Category)
		}
	}
	return out
}
