package explain

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policytest"
	"github.com/grapnel-dev/grapnel/local"
)

// explained explains a shell line under a policy.
func explained(t *testing.T, policy, line, why string) *Explanation {
	t.Helper()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "grapnel.yaml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := (&policytest.Event{Command: &line}).Received(dialect.ClaudeCode(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	x, err := New(t.Context(), place, NewSubject(got), &Options{All: true, Why: why})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

const drawnPolicy = `version: 1
use: [destructive]
hooks:
  - name: hide
    on: tool.before
    replace: [{pattern: 'sk-[a-z]{4,}', with: sk-***}]
  - name: no-rm
    on: tool.before
    match: {command: rm -rf}
    block: A reason that is longer than a line of the screen has room for, so that it has to go on in the next one.
  - name: program
    on: tool.before
    run: "true"
`

// No line is longer than a screen of 80 columns, for any text, and colors carry no information
// that the words do not have.
func TestExplanationFitsTheScreen(t *testing.T) {
	t.Parallel()
	line := "rm -rf /" + strings.Repeat("very/long/path/", 20) + " sk-abcdef && " + strings.Repeat("echo x ", 50)
	x := explained(t, drawnPolicy, line, "no-rm")
	for name, tree := range map[string]*typeset.Tree{"trace": x.tree(), "others": x.rest(), "why": x.Why[0].tree(x)} {
		styled := false
		for _, row := range tree.Rows(80) {
			if row.Columns() > 80 {
				t.Errorf("%s: a line of %d columns: %s", name, row.Columns(), row.Plain())
			}
			if got := ansi.Strip(row.Painted()); got != row.Plain() {
				t.Errorf("%s: with colors it reads %q, without %q", name, got, row.Plain())
			}
			styled = styled || row.Painted() != row.Plain()
		}
		if !styled {
			t.Errorf("%s: nothing of it has a color", name)
		}
	}
}

// A block is shown with its rule. A hook that misses by one condition is shown as a near match. A
// program is named and not run.
func TestNew(t *testing.T) {
	t.Parallel()
	x := explained(t, drawnPolicy, "rm -rf build", "no-rm")
	if x.Verdict.Decision != grapnel.Block || len(x.Why) != 1 || x.Why[0].State != stateActed {
		t.Errorf("the decision is %v, and of no-rm it says %+v", x.Verdict.Decision, x.Why)
	}
	x = explained(t, drawnPolicy, "rm build", "no-rm")
	if x.Verdict.Decision != grapnel.None || x.Why[0].State != stateOther || !slices.Contains(x.NotRun, "program") {
		t.Errorf("the decision is %v, of no-rm it says %q, not run are %q", x.Verdict.Decision, x.Why[0].Text, x.NotRun)
	}
	if !slices.ContainsFunc(x.Others, func(o unmatched) bool { return o.Hook == "no-rm" && o.Near }) {
		t.Errorf("no-rm is not near: %+v", x.Others)
	}
}

// The explanation masks secrets like Records, in every part.
func TestExplanationHidesSecrets(t *testing.T) {
	t.Parallel()
	key := "ghp_" + strings.Repeat("a1B2", 9)
	policy := drawnPolicy + `  - name: note
    on: tool.before
    match: {command: git clone https://github.com/a/b}
    ask: Clone?
`
	x := explained(t, policy, "git clone https://"+key+"@github.com/a/b", "note")
	x.Reply, x.Verdict.Changes = explainedReply{}, nil // the actual reply for the agent
	var out bytes.Buffer
	c := &cli.Console{Out: &out}
	if err := c.PrintJSON(x); err != nil {
		t.Fatal(err)
	}
	x.Print(c)
	x.PrintWhy(c)
	if text := out.String(); strings.Contains(text, key) || !strings.Contains(text, "ghp_***") {
		t.Errorf("the key is shown, or nothing of it:\n%s", text)
	}
}

func TestFar(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		pattern, command string
		want             int
	}{
		"fits":            {"git push", "git push origin", 0},
		"a flag":          {"git push --force", "git push origin", 1},
		"two flags":       {"git push --force --tags", "git push origin", 2},
		"another command": {"git reset --hard", "git push --hard", unrelated},
		"another program": {"rm -rf", "git push", unrelated},
		"its last word":   {"docker volume rm", "docker volume ls", 1},
		"nothing":         {"", "git push", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := missingWords(tt.pattern, []string{tt.command}); got < tt.want || tt.want < unrelated && got != tt.want {
				t.Errorf("far(%q, %q) = %d, want %d", tt.pattern, tt.command, got, tt.want)
			}
		})
	}
}
