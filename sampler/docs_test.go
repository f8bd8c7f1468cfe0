package sampler

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the parameter table of docs/sampling.md")

// The table of docs/sampling.md is made from Fields; regenerate it with
// go test ./sampler -run TestTheTable -update.
func TestTheTableOfTheDocumentationIsTheOneInTheCode(t *testing.T) {
	const path, begin, end = "../docs/sampling.md", "<!-- table -->\n", "<!-- end of table -->\n"
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(raw), begin)
	require.True(t, ok)
	old, tail, ok := strings.Cut(rest, end)
	require.True(t, ok)
	table := documentation(t)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(head+begin+table+end+tail), 0o644))
		return
	}
	require.Equal(t, old, table)
}

func documentation(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| name (other names) | flag | generate | run, serve | valid | off | where |\n|---|---|---|---|---|---|---|\n")
	generate, err := ProfileGenerate.Params()
	require.NoError(t, err)
	serve, err := ProfileServe.Params()
	require.NoError(t, err)
	for _, f := range Fields() {
		name := "`" + f.Name + "`"
		if len(f.Aliases) > 0 {
			name += " (`" + strings.Join(f.Aliases, "`, `") + "`)"
		}
		flagName := "–"
		if f.Where&InCommand != 0 {
			flagName = "`--" + f.Flag + "`"
		}
		value := func(p *Params) string {
			switch v := string(f.Value(p)); v {
			case "null", "[]", "{}", `""`:
				return "–"
			default:
				return "`" + v + "`"
			}
		}
		var where []string
		for _, w := range []struct {
			bit  Where
			name string
		}{{InCommand, "command"}, {InServer, "server"}, {InGenerationConfig, "config"}, {InProps, "props"}} {
			if f.Where&w.bit != 0 {
				where = append(where, w.name)
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", name, flagName, value(&generate), value(&serve), f.Valid, f.Off, strings.Join(where, ", "))
	}
	return b.String()
}
