package tiers

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// AGENTS.md has a rule for each tier, and the Makefile has its target. Continuous integration does
// not run tiers that take long.
func TestTargets(t *testing.T) {
	t.Parallel()
	makefile, agents, ci := read(t, "Makefile"), read(t, "AGENTS.md"), read(t, ".ci/run")
	for tier, inCI := range map[string]bool{"test": true, "test-system": true, "e2e": true, "chaos": false, "slow": false} {
		if !strings.Contains(makefile, "\n"+tier+":") {
			t.Errorf("the Makefile has no target %s", tier)
		}
		if !strings.Contains(agents, "\n| `make "+tier+"` | ") || !strings.Contains(agents, "\n    make "+tier+" ") {
			t.Errorf("AGENTS.md does not explain make %s in its list and in its table of tiers", tier)
		}
		if runs := regexp.MustCompile(`\bmake[^\n]* ` + tier + `\b|\b` + tier + `\)`).MatchString(ci); runs && !inCI {
			t.Errorf(".ci/run runs make %s", tier)
		}
	}
	if contributing := read(t, "CONTRIBUTING.md"); !strings.Contains(contributing, "make chaos") {
		t.Error("CONTRIBUTING.md does not name make chaos")
	}
}

// Each test that "make chaos" names exists, so that a renamed test is not left out silently.
func TestChaosExists(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile(`([a-z/0-9]+):(Test\w+)`).FindAllStringSubmatch(read(t, "Makefile"), -1)
	if len(named) < 20 {
		t.Fatalf("the Makefile names %d tests", len(named))
	}
	for _, n := range named {
		files, err := filepath.Glob(filepath.Join("..", "..", "..", filepath.FromSlash(n[1]), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(data), "\nfunc "+n[2]+"(")
		}
		if !found {
			t.Errorf("%s has no test %s", n[1], n[2])
		}
	}
}
