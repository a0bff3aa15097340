//go:build system && unix

package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/npm"
)

// scripted returns an agent that is a shell script.
func scripted() *Agent {
	return &Agent{
		Agent:   &verify.Agent{ID: "scripted", Binary: "no-such-scripted", Deadline: time.Minute},
		Package: "@example/scripted", Version: "1.2.3",
		npmFlags: []string{"--omit=optional"},
		program:  "node_modules/@example/scripted-*/agent",
	}
}

// fakeNPM writes a replacement for npm that installs a scripted agent of the given version and a
// Node.js that runs scripts. It logs its arguments.
func fakeNPM(t *testing.T, version string) (path, log string) {
	t.Helper()
	dir := t.TempDir()
	path, log = filepath.Join(dir, "npm"), filepath.Join(dir, "log")
	programs.Write(t, path, fmt.Sprintf("#!/bin/sh\n"+`echo "$@" >>%s
put() { mkdir -p "$(dirname "$1")"; printf '#!/bin/sh\n%%s\n' "$2" >"$1"; chmod +x "$1"; }
case "$*" in
*@example*) put "$3/node_modules/@example/scripted-x64/agent" 'echo %s "(Scripted)"' ;;
*) put "$3/node_modules/node-some/bin/node" 'exec sh "$@"' ;;
esac
`, log, version))
	return path, log
}

func TestInstallOnce(t *testing.T) {
	t.Parallel()
	a, cache := scripted(), filepath.Join(t.TempDir(), "new", "cache")
	a.node = "99.1.2"
	program, log := fakeNPM(t, "1.2.3")
	var wg sync.WaitGroup
	for range 4 { // as several test processes would
		wg.Go(func() {
			if err := a.install(t.Context(), cache, program); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	calls, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("install --prefix %s.partial --ignore-scripts --no-audit --no-fund node-%s@99.1.2\n"+
		"install --prefix %s.partial --ignore-scripts --no-audit --no-fund --omit=optional @example/scripted@1.2.3\n",
		npm.NodePrefix(cache, "99.1.2"), npm.Platform(), a.prefix(cache))
	if string(calls) != want {
		t.Errorf("npm was called with\n%swant once with\n%s", calls, want)
	}
	p, err := a.Program(cache)
	if err != nil || len(p.Command) != 2 || !strings.HasSuffix(p.Command[0], "/node") || !strings.HasSuffix(p.Command[1], "/agent") || p.Version != "1.2.3" {
		t.Errorf("program %+v, %v", p, err)
	}
}

func TestInstallFails(t *testing.T) {
	t.Parallel()
	failing := filepath.Join(t.TempDir(), "npm")
	programs.Write(t, failing, "#!/bin/sh\necho no registry today >&2; exit 1\n")
	empty := filepath.Join(t.TempDir(), "npm")
	programs.Write(t, empty, "#!/bin/sh\nexit 0\n")
	other, _ := fakeNPM(t, "1.2.4")

	for name, tc := range map[string]struct {
		npm  string
		want []string
	}{
		"no npm":            {npm: "no-such-npm", want: []string{"no-such-npm", "install Node.js"}},
		"npm fails":         {npm: failing, want: []string{"exit status 1", "no registry today", "@example/scripted@1.2.3"}},
		"nothing installed": {npm: empty, want: []string{"npm succeeded", "scripted", "found 0"}},
		"another version":   {npm: other, want: []string{`printed "1.2.4"`, "want version 1.2.3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, cache := scripted(), t.TempDir()
			err := a.install(t.Context(), cache, tc.npm)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			if _, err := os.Stat(a.prefix(cache)); err == nil {
				t.Error("a failed install looks complete")
			}
			// The next attempt starts from the beginning.
			good, _ := fakeNPM(t, "1.2.3")
			if err := a.install(t.Context(), cache, good); err != nil {
				t.Errorf("after the failure: %v", err)
			}
		})
	}
}

func TestInstalledButBroken(t *testing.T) {
	t.Parallel()
	a, cache := scripted(), t.TempDir()
	programs.Write(t, filepath.Join(a.prefix(cache), "node_modules/@example/scripted-x64/agent"), "#!/bin/sh\necho 9.9.9\n")
	err := a.install(t.Context(), cache, "no-such-npm")
	if err == nil || !strings.Contains(err.Error(), "9.9.9") || !strings.Contains(err.Error(), "remove "+a.prefix(cache)) {
		t.Errorf("error %v, want one that names the version found and the way out", err)
	}
}

// The path of an agent that is not on npm comes from a variable or from PATH. NotRun gives the
// reason if the agent is not found or not selected.
func TestNotRun(t *testing.T) {
	a := scripted()
	a.Package, a.binVar = "", "GRAPNEL_TEST_SCRIPTED"
	if why := a.NotRun(); !strings.Contains(why, "not installed") || !strings.Contains(why, a.binVar) {
		t.Errorf("not run because %q, want that it is not installed and the way out", why)
	}
	t.Setenv(a.binVar, "/some/where")
	if why := a.NotRun(); why != "" {
		t.Errorf("not run because %q", why)
	}
	if p, err := a.Program(""); err != nil || !slices.Equal(p.Command, []string{"/some/where"}) {
		t.Errorf("program %+v, %v", p, err)
	}
	for choice, want := range map[string]bool{"codex": false, "codex,scripted": true, "": true} {
		t.Setenv(ChoiceVar, choice)
		if why := a.NotRun(); (why == "") != want || why != "" && !strings.Contains(why, choice) {
			t.Errorf("%s=%s: not run because %q", ChoiceVar, choice, why)
		}
	}
}
