//go:build system

// Package weight holds tests that keep grapnel-hook small and the import order of the packages
// correct. Go runs the initializers of every linked package before main, and an agent starts
// grapnel-hook at each event, so an accidentally linked package costs time thousands of times a
// day.
//
//	go test ./proofs/weight            # compare with grapnel-hook.txt
//	go test ./proofs/weight -update    # accept the packages that are linked now
//
// With the build tag system, tests also check the start of grapnel, which answers events that
// grapnel-hook hands over: its modules, and the memory that all initializers allocate and touch.
//
// proofs/bench measures the time of a start. Binary size has no budget.
package weight

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/hooktest"
)

var update = flag.Bool("update", false, "rewrite grapnel-hook.txt")

const (
	module = "github.com/grapnel-dev/grapnel"
	hook   = module + "/cmd/grapnel-hook"
	list   = "grapnel-hook.txt"
)

// neverLinked lists packages that grapnel-hook must not link, with their cost or the problem that
// they cause there.
var neverLinked = map[string]string{
	"net/http":                             "as much start-up time again as an idle Go program has",
	"crypto/tls":                           "brings certificates and elliptic curves; addresses are dialled by the drain",
	"database/sql":                         "state is kept in plain files; a database belongs into the daemon",
	"text/template":                        "makes the linker keep every exported method",
	"html/template":                        "makes the linker keep every exported method",
	"encoding/gob":                         "the slowest initialiser of the standard library",
	"testing":                              "registers flags, and has no place in a program",
	"expvar":                               "starts an HTTP handler as it is initialised",
	"net/rpc":                              "brings net/http and encoding/gob",
	"go/parser":                            "brings half a compiler",
	"github.com/spf13/cobra":               "the command line of people; grapnel-hook has four flags",
	"github.com/spf13/pflag":               "as cobra",
	"github.com/tailscale/hujson":          "edits agents' files, which only install does",
	"github.com/expr-lang/expr":            "0.25 ms of start-up; tests hold internal/policy/expr to it",
	module + "/internal/testhelp/rapid":    "is for tests",
	"github.com/google/go-cmp/cmp":         "is for tests",
	module + "/cmd/internal/setup/install": "writes into agents' configuration, which no event may do",
	module + "/cmd/internal/setup/verify":  "runs agents against an HTTP server",
	module + "/hooktest":                   "is for tests",
	module + "/internal/policytest":        "is for tests",
	module + "/host":                       "is for agents written in Go",
	"google.golang.org/protobuf/proto":     "registers every message as it is initialised",
}

// layers lists directories from the lowest layer to the highest. The longest directory that
// contains a package decides. A package imports from its own layer and from lower layers; within
// a layer the compiler rejects cycles. The rooms of package policy are policyfile, state, policy
// itself and load, from the lowest to the highest.
var layers = [][]string{
	{"", "internal/presets", "internal/rawjson", "internal/seam"}, // only the root package and the packages that it needs
	{"dialect", "internal", "policy/policyfile", "shell"},
	{"internal/policy/state"},
	{"process", "outbound", "policy", "systems", "builtin", "internal/dryrun", "internal/policy/fixture", "internal/spool", "backend"},
	{"policy/load", "systems/internal/loadtest"},
	{
		"packs", "bridge", "host", "hooktest", "local", "systems",
		"internal/ask", "internal/consent", "internal/late", "internal/policytest", "internal/remote", "internal/replay", "internal/sample", "internal/webhook",
	},
	{"cmd/internal"},
	{"cmd", "cmd/proofs", "examples", "systems/flyto/example", "systems/gemini/example", "systems/ironclaw/example", "systems/miniclaw/example", "systems/openclaw/example"},
}

// pure lists imports that a package must not have directly.
var pure = map[string][]string{
	module + "/dialect": {"os", "os/exec", "os/user", "net", "net/http", "syscall"},
}

// forTests is a package that only tests may import.
const forTests = module + "/hooktest"

// TestLinkedPackages compares the packages in grapnel-hook with the accepted list, so that every
// new package is visible in a review. It ignores internal packages of the standard library,
// because they change with each Go release.
func TestLinkedPackages(t *testing.T) {
	t.Parallel()
	var got []string
	for _, p := range linked(t) {
		if !standard(p) || !strings.Contains("/"+p+"/", "/internal/") && !strings.HasPrefix(p, "vendor/") {
			got = append(got, p)
		}
	}
	text := strings.Join(got, "\n") + "\n"
	if *update {
		if err := os.WriteFile(list, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(list)
	if err != nil {
		t.Fatalf("%v (make it with: go test ./proofs/weight -update)", err)
	}
	if diff := cmp.Diff(strings.Fields(string(want)), got); diff != "" {
		t.Errorf("packages linked into grapnel-hook (-%s +now):\n%s"+
			"Every package costs start-up time at every event. Run \"make bench\"; if the new ones are worth it, run\n"+
			"\tgo test ./proofs/weight -update\nand commit the list. To see who imports one: go mod why, or go list -deps -f '{{.ImportPath}} {{.Imports}}' ./cmd/grapnel-hook", list, diff)
	}
}

// TestNeverLinked checks that grapnel-hook does not link forbidden packages, on any system.
func TestNeverLinked(t *testing.T) {
	t.Parallel()
	hooktest.NeverImports(t, hook, neverLinked)
}

// TestLibraryIsForEveryone checks that the library has no other dependencies.
func TestLibraryIsForEveryone(t *testing.T) {
	t.Parallel()
	hooktest.OnlyImports(t, module, "std", module+"/internal/presets", module+"/internal/rawjson", module+"/internal/seam")
}

// TestImportDirection checks the direct imports of every package, without tests, on every system
// for which Grapnel is built.
func TestImportDirection(t *testing.T) {
	t.Parallel()
	for _, goos := range []string{"linux", "darwin", "windows"} {
		t.Run(goos, func(t *testing.T) {
			t.Parallel()
			packages := imports(t, goos)
			if len(packages[module]) == 0 {
				t.Fatalf("go list names no imports of %s", module)
			}
			for _, err := range violations(packages) {
				t.Error(err)
			}
		})
	}
}

// violations checks the direct imports of the packages of a module.
func violations(packages map[string][]string) []error {
	var errs []error
	for p, imported := range packages {
		from, err := layer(p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, q := range imported {
			switch {
			case q == forTests:
				errs = append(errs, fmt.Errorf("%s imports %s: that is for tests only", p, q))
			case forbidden(p, q):
				errs = append(errs, fmt.Errorf("%s imports %s: it is pure; leave effects to its callers", p, q))
			case q == module || strings.HasPrefix(q, module+"/"):
				if to, err := layer(q); err != nil {
					errs = append(errs, err)
				} else if to > from {
					errs = append(errs, fmt.Errorf("%s imports %s: that is a layer above it", p, q))
				}
			}
		}
	}
	return errs
}

func forbidden(p, imported string) bool {
	for prefix, list := range pure {
		if (p == prefix || strings.HasPrefix(p, prefix+"/")) && slices.Contains(list, imported) {
			return true
		}
	}
	return false
}

// layer returns the index in layers of the longest directory that contains the package.
func layer(p string) (int, error) {
	dir := strings.TrimPrefix(strings.TrimPrefix(p, module), "/")
	for ; ; dir, _ = path.Split(dir) {
		dir = strings.TrimSuffix(dir, "/")
		for i, dirs := range layers {
			if slices.Contains(dirs, dir) && (dir != "" || p == module) {
				return i, nil
			}
		}
		if dir == "" {
			return 0, fmt.Errorf("%s is in no layer: add its directory to layers in proofs/weight", p)
		}
	}
}

// standard reports whether a package is part of the standard library: the first
// element of every other path is a host name.
func standard(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}

// linked lists all packages in the release build of grapnel-hook for Linux, on any test machine.
func linked(t *testing.T) []string {
	t.Helper()
	packages := strings.Fields(golist(t, "linux", "-deps", hook))
	slices.Sort(packages)
	return packages
}

// imports maps every package of the module to its direct imports.
func imports(t *testing.T, goos string) map[string][]string {
	t.Helper()
	packages := map[string][]string{}
	for line := range strings.Lines(golist(t, goos, "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"/...")) {
		fields := strings.Fields(line)
		packages[fields[0]] = fields[1:]
	}
	return packages
}

func golist(t *testing.T, goos string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH=amd64")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, &stderr)
	}
	return string(out)
}

func TestViolations(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from, to string
		bad      bool
	}{
		"root, standard library":      {module, "encoding/json", false},
		"replay, hooktest":            {module + "/internal/replay", module + "/hooktest", true},
		"hooktest, packs":             {module + "/hooktest", module + "/packs", false},
		"root, own package":           {module, module + "/shell", true},
		"dialect, root":               {module + "/dialect", module, false},
		"dialect, files":              {module + "/dialect", "os", true},
		"below dialect, programs":     {module + "/dialect/internal/x", "os/exec", true},
		"dialect, URLs":               {module + "/dialect", "net/url", false},
		"shell, policy":               {module + "/shell", module + "/policy", true},
		"policy, shell":               {module + "/policy", module + "/shell", false},
		"policy, its own layer":       {module + "/policy", module + "/process", false},
		"below spool, replay":         {module + "/internal/spool/x", module + "/internal/replay", true},
		"packs, policy":               {module + "/packs", module + "/policy", false},
		"daemon, command":             {module + "/cmd/internal/daemon/server", module + "/cmd/grapnel", true},
		"command, everything":         {module + "/cmd/grapnel", module + "/cmd/internal/daemon/index", false},
		"a directory without a place": {module + "/utils", "os", true},
		"a neighbour's module":        {module + "/policy", module + "-extras/x", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := errors.Join(violations(map[string][]string{test.from: {test.to}})...)
			if (err != nil) != test.bad {
				t.Errorf("%s imports %s: %v, want a violation: %v", test.from, test.to, err, test.bad)
			}
		})
	}
}
