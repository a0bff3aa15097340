//go:build e2e

package e2e

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/agents"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/offline"
)

// A guarded is a world with an agent into which Grapnel is installed.
type guarded struct {
	*agents.World
	kit string // value of --root: policy and state
	bin string // directory of the programs
}

// guard makes a world for a with a policy, and installs Grapnel like a user: first the policy,
// because the installed events depend on it.
func guard(t *testing.T, a *agents.Agent, policy string) guarded {
	t.Helper()
	g := unguarded(t, a, policy)
	g.grapnel(t, "install", a.ID, "--yes")
	return g
}

// unguarded is like guard without the installation.
func unguarded(t *testing.T, a *agents.Agent, policy string) guarded {
	t.Helper()
	w := agents.NewWorld(t, a)
	g := guarded{w, filepath.Join(w.Root, "kit"), filepath.Dir(offline.Program(t, "grapnel"))}
	g.WriteFile(t, filepath.Join(g.kit, "grapnel.yaml"), policy)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("grapnel log --json:\n%s", g.grapnel(t, "log", "--json"))
		}
	})
	return g
}

// grapnel runs a grapnel command with the root of this world and returns its standard output. The
// command must succeed.
func (g guarded) grapnel(t *testing.T, args ...string) string {
	t.Helper()
	args = append(args, "--root", g.kit)
	out := g.Exec(t, filepath.Join(g.bin, "grapnel"), args...)
	if out.Exit != 0 {
		t.Fatalf("grapnel %s: exit %d\n%s%s", strings.Join(args, " "), out.Exit, out.Stdout, out.Stderr)
	}
	return out.Stdout
}

// uninstall removes Grapnel as a script without a terminal does.
func (g guarded) uninstall(t *testing.T, args ...string) {
	t.Helper()
	args = append([]string{"uninstall"}, args...)
	_, digest, _ := strings.Cut(g.grapnel(t, append(args, "--dry-run")...), "\ndigest ")
	g.grapnel(t, append(args, "--digest", strings.TrimSpace(digest))...)
}

// A record is a line of "grapnel log --json", with the fields that the scenarios use.
type record struct {
	ID          string   `json:"id"`
	Agent       string   `json:"agent"`
	Session     string   `json:"session"`
	Event       string   `json:"event"`
	Tool        string   `json:"tool"`
	Decision    string   `json:"decision"`
	Halt        string   `json:"halt"`
	Unsupported []string `json:"unsupported"`
	Hooks       []struct {
		Name     string `json:"name"`
		Decision string `json:"decision"`
		Error    string `json:"error"`
	} `json:"hooks"`
}

// A records is a log, oldest record first.
type records []record

// of returns the records of one event.
func (l records) of(event string) records {
	return slices.DeleteFunc(slices.Clone(l), func(r record) bool { return r.Event != event })
}

// decisions returns the decisions in order.
func (l records) decisions() []string {
	out := make([]string, len(l))
	for i, r := range l {
		out[i] = r.Decision
	}
	return out
}

// records returns the log of this world, oldest first.
func (g guarded) records(t *testing.T) records {
	t.Helper()
	var out records
	for line := range strings.Lines(g.grapnel(t, "log", "--json")) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("line of the log: %v\n%s", err, line)
		}
		out = append(out, r)
	}
	return out
}
