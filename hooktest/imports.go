package hooktest

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// systems are those for which imports are looked at: files of one system are easily
// forgotten on another.
var systems = []string{"linux", "darwin", "windows"}

// OnlyImports fails the test where a package imports something else by itself, tests left
// out. The package is named as for go list: its import path, or "." for that of the
// test. Of allowed, "std" stands for the standard library and a path that ends in /...
// for all below it.
func OnlyImports(t testing.TB, pkg string, allowed ...string) {
	t.Helper()
	standard := map[string]bool{}
	found := importsOf(t, pkg, func(l linked) []string {
		maps.Copy(standard, l.standard)
		return l.imports[l.self]
	})
	for _, p := range slices.Sorted(maps.Keys(found)) {
		systems := found[p]
		if !slices.ContainsFunc(allowed, func(a string) bool { return a == "std" && standard[p] || covers(a, p) }) {
			t.Errorf("%s imports %s (%s), want only %s", pkg, p, strings.Join(systems, ", "), strings.Join(allowed, ", "))
		}
	}
}

// NeverImports fails the test where a package links one of these, by itself or through
// what it imports, and says why that is bad and which way it comes in:
//
//	hooktest.NeverImports(t, "example.com/agent/cmd/hook", map[string]string{"net/http": "0.7 ms at every start"})
func NeverImports(t testing.TB, pkg string, why map[string]string) {
	t.Helper()
	chains := map[string]string{}
	found := importsOf(t, pkg, func(l linked) []string {
		found := l.reached()
		for p, chain := range found {
			if _, bad := why[p]; bad {
				chains[p] = strings.Join(chain, " -> ")
			}
		}
		return slices.Collect(maps.Keys(found))
	})
	for _, p := range slices.Sorted(maps.Keys(why)) {
		if systems, bad := found[p]; bad {
			t.Errorf("%s links %s (%s): %s\n\t%s", pkg, p, strings.Join(systems, ", "), why[p], chains[p])
		}
	}
}

// linked is all that one package links on one system.
type linked struct {
	self     string
	imports  map[string][]string // what each package imports by itself
	standard map[string]bool
}

// importsOf asks on each system for what some function finds, and returns on which ones
// each was found.
func importsOf(t testing.TB, pkg string, find func(linked) []string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, goos := range systems {
		var stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", `{{.ImportPath}} {{.Standard}} {{join .Imports " "}}`, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH=amd64")
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
		}
		l := linked{imports: map[string][]string{}, standard: map[string]bool{}}
		for line := range strings.Lines(string(out)) {
			fields := strings.Fields(line)
			l.self = fields[0] // go list ends with what it was asked for
			l.standard[l.self] = fields[1] == "true"
			l.imports[l.self] = fields[2:]
		}
		for _, p := range find(l) {
			found[p] = append(found[p], goos)
		}
	}
	return found
}

// reached finds all packages that one imports, however indirectly, with a shortest way to
// each.
func (l linked) reached() map[string][]string {
	chains := map[string][]string{l.self: {l.self}}
	for queue := []string{l.self}; len(queue) > 0; queue = queue[1:] {
		for _, p := range l.imports[queue[0]] {
			if chains[p] == nil {
				chains[p] = append(slices.Clone(chains[queue[0]]), p)
				queue = append(queue, p)
			}
		}
	}
	delete(chains, l.self)
	return chains
}

// covers reports whether what is allowed, a path or all below it, is p.
func covers(allowed, p string) bool {
	tree, all := strings.CutSuffix(allowed, "/...")
	return p == tree || all && strings.HasPrefix(p, tree+"/")
}
