//go:build e2e

package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/test/e2e/agents"
)

// A guarded is a world whose agent has Grapnel installed.
type guarded struct {
	*agents.World
	kit string // what --root names: policy and state
}

// guard makes a world for a, with this policy, and installs Grapnel as a user
// would: the policy first, because what it listens to is what gets installed.
func guard(t *testing.T, a *agents.Agent, policy string) guarded {
	t.Helper()
	g := unguarded(t, a, policy)
	g.grapnel(t, "install", a.ID, "--yes")
	return g
}

// unguarded is guard before the installation.
func unguarded(t *testing.T, a *agents.Agent, policy string) guarded {
	t.Helper()
	w := agents.NewWorld(t, a)
	g := guarded{w, filepath.Join(w.Root, "kit")}
	g.WriteFile(t, filepath.Join(g.kit, "grapnel.yaml"), policy)
	return g
}

// grapnel runs a command of grapnel on this world's root, which must succeed, and
// returns its standard output.
func (g guarded) grapnel(t *testing.T, args ...string) string {
	t.Helper()
	args = append(args, "--root", g.kit)
	out := g.Exec(t, program(t, "grapnel"), args...)
	if out.Exit != 0 {
		t.Fatalf("grapnel %s: exit %d\n%s%s", strings.Join(args, " "), out.Exit, out.Stdout, out.Stderr)
	}
	return out.Stdout
}

// A record is a line of "grapnel log --json", as far as the scenarios look.
type record struct {
	ID       string `json:"id"`
	Agent    string `json:"agent"`
	Session  string `json:"session"`
	Event    string `json:"event"`
	Tool     string `json:"tool"`
	Decision string `json:"decision"`
	Hooks    []struct {
		Name     string `json:"name"`
		Decision string `json:"decision"`
		Error    string `json:"error"`
	} `json:"hooks"`
}

// records returns the log of this world, oldest first.
func (g guarded) records(t *testing.T) []record {
	t.Helper()
	var out []record
	for line := range strings.Lines(g.grapnel(t, "log", "--json")) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("line of the log: %v\n%s", err, line)
		}
		out = append(out, r)
	}
	return out
}
