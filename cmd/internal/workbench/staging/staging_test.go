package staging

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/internal/replay"
	"github.com/grapnel-dev/grapnel/local"
)

const record = `{"id":"r1","time":"2026-01-02T03:04:05Z","agent":"claude-code","session":"s","event":"tool.before","tool":"Bash","decision":"none","hooks":[],"ms":1,` +
	`"input":{"kind":"tool.before","agent":{"name":"claude-code"},"native":{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"git push --force"}}}}` + "\n"

// write writes a file of a test and returns its name.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A draft can replace the user's policy, another policy can be compared, and an unknown name of a
// hook is a usage error.
func TestPlay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place, err := local.Locate(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "grapnel.yaml", "version: 1\nhooks: []\n")
	draft := write(t, dir, "draft.yaml", "version: 1\nhooks:\n  - {name: no-force, on: tool.before, match: {command: git push --force}, block: No.}\n")
	broken := write(t, dir, "broken.yaml", "version: 1\nhooks: [{name: x}]\n")
	lines := write(t, dir, "records.jsonl", record)
	for name, tt := range map[string]struct {
		opts  Options
		class replay.Class
		want  string // in the error
		usage bool
	}{
		"in force":      {},
		"draft":         {opts: Options{Policy: draft}, class: replay.NewlyBlocked},
		"against":       {opts: Options{Policy: draft, Against: draft}},
		"broken":        {opts: Options{Policy: broken}, want: "errors in the policy"},
		"missing":       {opts: Options{Policy: filepath.Join(dir, "none.yaml")}, want: "cannot read the policy"},
		"no such asker": {opts: Options{Ask: []string{"nobody"}}, want: "no hook with this name asks a server", usage: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.opts.Place = place
			var stderr bytes.Buffer
			source := &records.Source{Console: &cli.Console{Err: &stderr}, Place: place, Files: []string{lines}}
			r, err := Play(t.Context(), source, &tt.opts)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || cli.IsUsage(err) != tt.usage {
					t.Errorf("Play = %v, want %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Played != 1 || tt.class == "" && r.Same != 1 || tt.class != "" && r.Counts[tt.class] != 1 {
				t.Errorf("Play = %+v, want %q\n%s", r.Report, tt.class, &stderr)
			}
		})
	}
}

// The active hooks come with their definitions from the file.
func TestInForce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place, err := local.Locate(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, dir, "grapnel.yaml", "version: 1\nhooks:\n  - {name: check, on: tool.before, run: ./check}\n")
	var opts replay.SuggestOptions
	if err := InForce(place, &opts); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(opts.Hooks, func(h replay.Hook) bool { return h.Spec.Name == "check" })
	if i < 0 || opts.Hooks[i].Policy == nil || !opts.Hooks[i].Leaves || opts.Files[file] == nil || opts.Changed[file].IsZero() {
		t.Errorf("InForce finds the hook at %d, and these files: %q, %v", i, opts.Files, opts.Changed)
	}
}
