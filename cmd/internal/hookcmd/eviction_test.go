package hookcmd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// trusted creates a project with a trusted policy that blocks the command deploy, and returns the
// value of --root. Both are below dir.
func trusted(t *testing.T, dir, project string) (root string) {
	t.Helper()
	root = filepath.Join(dir, "root")
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, project, local.ProjectPolicy)
	text := "version: 1\nhooks:\n  - {name: no-deploy, on: tool.before, match: {command: [deploy]}, block: not from " + project + "}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	x, errs := load.Examine(file, filepath.Dir(file), load.Packs{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if err := place.Trusts().Keep(x); err != nil {
		t.Fatal(err)
	}
	return root
}

// call returns the reply to a call of a command, like grapnel-hook.
func call(root, session, cwd, command string) (stdout, stderr string) {
	payload := fmt.Sprintf(`{"session_id":%q,"cwd":%q,"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":%q}}`, session, cwd, command)
	var out, err bytes.Buffer
	Main([]string{"claude-code", "--root", root}, strings.NewReader(payload), &out, &err)
	return out.String(), err.String()
}

// An earlier defect: 1,001 sessions with invented IDs removed the root of a running session, so
// that the policy of its project was not active any more, there and elsewhere.
//
// chaos: size
func TestInventedSessionsRemoveNoGuard(t *testing.T) {
	t.Parallel()
	dir := tree(t, "p/.git", "other")
	root := trusted(t, dir, "p")
	project, other := filepath.Join(dir, "p"), filepath.Join(dir, "other")
	blocks := func(cwd string) {
		t.Helper()
		if out, stderr := call(root, "mine", cwd, "deploy"); !strings.Contains(out, "not from p") {
			t.Errorf("in %s the answer is %q, %q, want a block", cwd, out, stderr)
		}
	}
	blocks(project)
	blocks(other)
	for i := range 1001 {
		if out, stderr := call(root, fmt.Sprint("invented-", i), other, "ls"); out != "" || stderr != "" {
			t.Fatalf("session %d: %q, %q", i, out, stderr)
		}
	}
	blocks(other)
	blocks(project)
}
