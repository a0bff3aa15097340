//go:build system

package policy_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
)

// A real program summarizes the session of a coding agent, from the file that the agent names.
//
// Proves: IC-71, IC-73, IC-76, IC-77
func TestSessionSummary(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the programs are shell lines")
	}
	command := func(c policyfile.Command) grapnel.Hook {
		return &process.Command{Name: c.Name, Line: c.Line, Args: c.Args, Dir: c.Dir, Dialect: policy.DialectOf(&c), Executor: process.System}
	}
	for name, tt := range map[string]struct {
		builtin    string
		transcript string // its content; empty = no file
		root       string // directory of the summary, below the directory of the policy
		want       string // empty = no summary is written
		err        string
	}{
		"into the project":     {"{name: session-summary, run: 'tail -n 3'}", conversation, "project", "[left out: it spoke to a model]", ""},
		"into a directory":     {"{name: session-summary, run: 'grep -c bullet', into: notes/ai}", conversation, "notes/ai", "2", ""},
		"without a shell":      {"{name: session-summary, run: [sed, -n, 's/.*In a.txt.*/- a note/p']}", conversation, "project", "- a note", ""},
		"silent":               {"{name: session-summary, run: 'true'}", conversation, "", "", ""},
		"nothing was said":     {"{name: session-summary, run: 'echo no'}", "", "", "", ""},
		"little was said":      {"{name: session-summary, run: 'echo no'}", `{"sessionId":"s"}`, "", "", ""},
		"no transcript":        {"{name: session-summary, run: 'echo no'}", "hello", "", "", "not a transcript of a supported agent"},
		"the program fails":    {"{name: session-summary, run: 'echo half; echo no key >&2; exit 3'}", conversation, "", "", "exit code 3: no key"},
		"there is no program":  {"{name: session-summary, run: [./nobody]}", conversation, "", "", "cannot start"},
		"the project is gone":  {"{name: session-summary, run: 'rmdir project; echo x'}", conversation, "", "", "cannot write the summary"},
		"an answer of no text": {"{name: session-summary, run: 'printf \"\\0\\001 \\n\"'}", conversation, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "p.yaml")
			p, errs := policy.Parse(file, []byte("version: 1\nhooks: [{name: sum-up, builtin: "+tt.builtin+"}]\n"))
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			specs, err := policy.Build(p, fixture.Source(file), command)
			if err != nil {
				t.Fatal(err)
			}
			spec := specs[0]
			if spec.Phase != grapnel.PhaseObserve || spec.Timeout != 30*time.Second || len(spec.On) != 1 || spec.On[0] != grapnel.SessionEnd {
				t.Errorf("it runs at %v, as %v, for %v", spec.On, spec.Phase, spec.Timeout)
			}
			root := filepath.Join(dir, "project")
			if err := os.Mkdir(root, 0o700); err != nil {
				t.Fatal(err)
			}
			ev := &grapnel.Event{
				Kind: grapnel.SessionEnd, Time: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
				Session: grapnel.Session{CWD: dir, Root: root, Transcript: filepath.Join(dir, "transcript")},
			}
			if tt.transcript != "" {
				fixture.File(t, ev.Session.Transcript, tt.transcript)
			}
			_, err = spec.Hook.Handle(t.Context(), ev)
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if tt.want == "" {
				if found, _ := filepath.Glob(filepath.Join(dir, "*", "daily")); found != nil {
					t.Errorf("%v was written", found)
				}
				return
			}
			got := fixture.Content(t, filepath.Join(dir, tt.root, "daily", "2026-03-04-session-summary.md"))
			if want := "\n## Session Summary (05:06 UTC)\n\n" + tt.want + "\n"; got != want {
				t.Errorf("wrote %q, want %q", got, want)
			}
		})
	}
}
