package check

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
)

// TestHandlers checks that a handler that cannot run is an error with its reason, so that users do not
// find out when every call is blocked. It covers OC-09.
//
// Proves: OC-09
func TestHandlers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"run.sh": 0o700, "plain.sh": 0o600, "h.mjs": 0o600, "h.ts": 0o600, "h.MTS": 0o600} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	notExecutable := "plain.sh is not executable"
	if runtime.GOOS == "windows" {
		notExecutable = ""
	}
	for name, tt := range map[string]struct {
		file    string
		version string // of Node.js; empty = not installed
		want    string // part of the message; empty = no finding
	}{
		"a program":            {"run.sh", "", ""},
		"a missing program":    {"gone.sh", "", "gone.sh does not exist"},
		"a directory":          {".", "", "is not a file"},
		"not executable":       {"plain.sh", "", notExecutable},
		"a module":             {"h.mjs", "20.1.0", ""},
		"a missing module":     {"gone.mjs", "20.1.0", "gone.mjs does not exist"},
		"no node":              {"h.mjs", "", "needs Node.js: nowhere"},
		"an old node":          {"h.mjs", "16.20.2", "needs Node.js 18.0 or later, and this machine has 16.20.2"},
		"TypeScript":           {"h.ts", "22.6.0", ""},
		"newer TypeScript":     {"h.ts", "26.0.1", ""},
		"TypeScript, old node": {"h.ts", "22.5.1", "TypeScript, which needs Node.js 22.6 or later, and this machine has 22.5.1"},
		"TypeScript, older":    {"h.MTS", "20.20.2", "TypeScript"},
		"an odd version":       {"h.mjs", "next", "needs Node.js 18.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := func() (string, error) {
				if tt.version == "" {
					return "", errors.New("nowhere")
				}
				return tt.version, nil
			}
			row := load.Loaded{File: "hooks.json", Handlers: []hookfiles.HandlerFile{{
				Path: filepath.Join(dir, tt.file), Module: !strings.HasSuffix(tt.file, "sh") && tt.file != ".", Hook: "h", Line: 3,
			}}}
			found := handlers(&row, node)
			switch {
			case tt.want == "" && len(found) > 0:
				t.Errorf("finding %v, want none", found[0].Error)
			case tt.want == "":
			case len(found) != 1 || found[0].Severity != "error" || found[0].Line != 3 || found[0].Hint == "" && tt.file != "." || !strings.Contains(found[0].Msg, tt.want):
				t.Errorf("findings %+v, want an error in line 3 with %q", found, tt.want)
			}
		})
	}
}
