//go:build system

package weight

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// library runs go list in the module of the library, as for a program that imports it.
func library(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	lines := strings.Fields(string(out))
	slices.Sort(lines)
	return slices.Compact(lines)
}

// A program that imports the library requires few modules. The daemon, the terminal and
// telemetry are in the module of the programs.
func TestLibraryRequirements(t *testing.T) {
	t.Parallel()
	const most = 7 // itself and six others
	modules := library(t, "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".", "./policy", "./process", "./host", "./local", "./outbound")
	if len(modules) > most {
		t.Errorf("the library requires %d modules, want at most %d: %s", len(modules), most, strings.Join(modules, ", "))
	}
	if !slices.Contains(modules, module) {
		t.Errorf("go list does not name %s: %q", module, modules)
	}
}

// The library requires only modules that its packages import. If only tests of the library import a
// module, the tests are in the module proofs.
func TestLibraryRequiresNothingForTests(t *testing.T) {
	t.Parallel()
	used := library(t, "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./...")
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^(?:require |\t)(\S+\.\S+/\S+) v`).FindAllStringSubmatch(string(mod), -1)
	for _, m := range lines {
		if !slices.Contains(used, m[1]) {
			t.Errorf("go.mod requires %s, which no package of the library imports", m[1])
		}
	}
	if len(lines) < 5 {
		t.Errorf("%d requirements found: %q", len(lines), lines)
	}
}

// Every importable package is a compatibility promise, so there are only a few. The packages of
// systems follow the documents of other systems and promise nothing. Package shell, and the folders
// that have only a doc.go, promise nothing either.
func TestImportablePackages(t *testing.T) {
	t.Parallel()
	const most = 15
	var packages []string
	for _, p := range library(t, "-f", `{{if and (ne .Name "main") (ne (join .GoFiles " ") "doc.go")}}{{.ImportPath}}{{end}}`, "./...") {
		if !strings.Contains(p, "/internal/") && !strings.HasPrefix(p, module+"/systems/") && p != module+"/shell" {
			packages = append(packages, p)
		}
	}
	if len(packages) > most || len(packages) < 5 {
		t.Errorf("%d packages can be imported, want at most %d: put what users do not need into internal/\n%s", len(packages), most, strings.Join(packages, "\n"))
	}
}
