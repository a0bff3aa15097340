//go:build system && unix

package hookcmd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program in the agent's environment is run by the hook program, not by the daemon, and the
// daemon leaves no trace: there is one Record and one run.
func TestWarmLeavesPrograms(t *testing.T) {
	t.Parallel()
	root := rootWith(t, `version: 1
hooks:
  - {name: here, on: tool.before, match: {command: make}, run: 'echo $PWD >>ran; echo no >&2; exit 2'}
  - {name: after, on: tool.after, run: 'true', async: true}
`)
	l := listen(t, root)
	dir := t.TempDir()
	payload := fmt.Appendf(nil, `{"hook_event_name":"PreToolUse","session_id":"s","cwd":%q,"tool_name":"Bash","tool_input":{"command":"make all"}}`, dir)
	got := program([]string{"claude-code", "--root", root}, payload)
	if !strings.Contains(got.Stdout, `"deny"`) {
		t.Errorf("%+v, want the program's no", got)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "ran")); err != nil || strings.Count(string(data), "\n") != 1 {
		t.Errorf("it ran %q (%v), want once where the agent is", data, err)
	}
	if n := len(recorded(t, root)); n != 1 || len(l.lines) != 0 || len(l.declined) != 1 {
		t.Errorf("%d Records in the log, %d of the daemon, declined %v", n, len(l.lines), l.declined)
	}
	if got := program([]string{"claude-code", "--root", root}, bash("s", "ls")); got.Stdout != "" || len(l.lines) != 1 {
		t.Errorf("what the hook does not match: %+v, %d Records of the daemon", got, len(l.lines))
	}
}

// A worker is started once for all sessions, and ends with the daemon.
func TestWarmSharesWorkers(t *testing.T) {
	t.Parallel()
	worker := `read hello; echo "{\"type\":\"hello\",\"grapnel\":1}"; echo started >>%s/starts
while read -r line; do
	case $line in *'"event"'*) ;; *) continue ;; esac # not the cancellation of a late answer
	id=$(printf %%s "$line" | sed 's/.*"id":"\([0-9]*\)","event".*/\1/')
	echo "{\"type\":\"answer\",\"id\":\"$id\",\"outcome\":{\"decision\":\"block\",\"reason\":\"worked\"}}"
done`
	root := t.TempDir()
	script := filepath.Join(root, "worker.sh")
	if err := os.WriteFile(script, fmt.Appendf(nil, worker, root), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "grapnel.yaml"), fmt.Appendf(nil, "version: 1\nhooks: [{name: w, on: tool.before, worker: 'sh %s'}]\n", script), 0o600); err != nil {
		t.Fatal(err)
	}
	l := listen(t, root)
	for i := range 5 {
		if got := program([]string{"claude-code", "--root", root}, bash(fmt.Sprint("s", i), "ls")); !strings.Contains(got.Stdout, "worked") {
			t.Errorf("%+v, want the worker's block", got)
		}
	}
	// On a busy machine the daemon can answer too late. Then the hook program answers, with a worker of
	// its own, and writes the Record.
	alone := len(recorded(t, root))
	if data, err := os.ReadFile(filepath.Join(root, "starts")); err != nil || strings.Count(string(data), "started\n") > 1+alone {
		t.Errorf("it was started %q (%v), want once for the daemon and %d times without it; declined %v", data, err, alone, l.declined)
	}
}
