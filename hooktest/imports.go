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

// systems lists the operating systems for which imports are checked, because files for another
// system are easily overlooked.
var systems = []string{"linux", "darwin", "windows"}

// OnlyImports fails the test if a package directly imports a package that is not allowed; it
// ignores test files. pkg is an import path or "." for the package of the test, as for go list. In
// allowed, "std" means the standard library, and a path that ends in /... includes everything below
// it.
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

// NeverImports fails the test if a package links one of the packages in why, directly or
// indirectly. The failure gives the reason from why and the import chain:
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

// linked describes all packages that one package links on one system.
type linked struct {
	self     string
	imports  map[string][]string // direct imports of each package
	standard map[string]bool
}

// importsOf calls find for each system, and returns the systems on which each result was found.
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
			l.self = fields[0] // go list prints the requested package last
			l.standard[l.self] = fields[1] == "true"
			l.imports[l.self] = fields[2:]
		}
		for _, p := range find(l) {
			found[p] = append(found[p], goos)
		}
	}
	return found
}

// reached returns all packages that are imported directly or indirectly, each with a shortest
// import chain.
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

// covers reports whether allowed, a path or a /... pattern, matches p.
func covers(allowed, p string) bool {
	tree, all := strings.CutSuffix(allowed, "/...")
	return p == tree || all && strings.HasPrefix(p, tree+"/")
}
