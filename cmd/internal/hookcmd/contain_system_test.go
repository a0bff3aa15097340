//go:build system && linux

package hookcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/process"
)

// A cell is a project in which lines run in a sandbox.
type cell struct{ program, dir, project, outside string }

func newCell(t *testing.T) *cell {
	t.Helper()
	bin, remove, err := programs.Dir(programs.Plain)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remove)
	c := &cell{program: filepath.Join(bin, "grapnel-hook"), dir: t.TempDir()}
	c.project, c.outside = filepath.Join(c.dir, "project"), filepath.Join(c.dir, "outside")
	for _, dir := range []string{c.project, c.outside, filepath.Join(c.dir, "tmp")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{filepath.Join(c.project, "file"), filepath.Join(c.outside, "secret")} {
		if err := os.WriteFile(name, []byte("content of "+filepath.Base(name)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// command returns a command that contains a line, and its output.
func (c *cell) command(ctx context.Context, args ...string) (cmd *exec.Cmd, output *bytes.Buffer) {
	output = &bytes.Buffer{}
	cmd = exec.CommandContext(ctx, c.program, append([]string{"contain", "--name", "cell"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.project, output, output
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Join(c.dir, "tmp"), "OUTSIDE="+c.outside)
	return cmd, output
}

const note = `grapnel: this command ran in a sandbox of the hook "cell"`

func TestContain(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	if err := (&process.Sandbox{}).Possible(); err != nil {
		cmd, output := c.command(t.Context(), "--", "echo ran")
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != exitFailure || !strings.Contains(output.String(), "the command did not run") || strings.Contains(output.String(), "ran\n") {
			t.Errorf("without Landlock: %v, %s", err, output)
		}
		t.Skip(err)
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	port := listener.Addr().(*net.TCPAddr).Port
	connect := fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d && echo connected", port)
	reads, writes := []string{"--read", "{root}"}, []string{"--write", "{root}"}
	tests := map[string]struct {
		flags []string
		line  string
		exit  int
		want  string // part of the output
		noted bool   // the output has the note
	}{
		"the project is readable":     {reads, "cat file", 0, "content of file", false},
		"a file outside is not":       {reads, `cat "$OUTSIDE/secret"`, 1, "Permission denied", true},
		"the project is not writable": {reads, "echo x >new", 1, "Permission denied", true},
		"unless it is listed":         {writes, "echo x >made && cat made", 0, "x\n", false},
		"a file outside never is":     {writes, `echo x >"$OUTSIDE/new"`, 1, "Permission denied", true},
		"TMPDIR is writable":          {nil, `echo temp >"$TMPDIR/f" && cat "$TMPDIR/f"`, 0, "temp\n", false},
		"tmp is not":                  {nil, `echo x >/tmp/grapnel-contain-test`, 1, "Permission denied", true},
		"no network":                  {nil, connect, 1, "Permission denied", true},
		"a port":                      {[]string{"--net", fmt.Sprint(port)}, connect, 0, "connected", false},
		"another port":                {[]string{"--net", "1"}, connect, 1, "Permission denied", true},
		"any network":                 {[]string{"--net", "any"}, connect, 0, "connected", false},
		"exit code":                   {nil, "exit 7", 7, "", true},
		"signal":                      {nil, "kill -TERM $$", 128 + 15, "", false},
		"pipes":                       {reads, "cat file | tr a-z A-Z | sed s/CONTENT/TEXT/", 0, "TEXT OF FILE", false},
		"process substitution":        {nil, "cat <(echo inner)", 0, "inner", false},
		"here-document":               {nil, "cat <<E\ntext\nE", 0, "text", false},
		"background children":         {nil, "(echo from background) & wait", 0, "from background", false},
		"process groups":              {nil, "set -m; (exit 3) & wait $!", 3, "", true},
		"sessions":                    {nil, "setsid -w echo own session", 0, "own session", false},
		"working directory":           {nil, "pwd", 0, c.project, false},
		"a sandbox in a sandbox":      {reads, c.program + " contain --write / --net any -- 'cat file; echo x >new'", 1, "content of file", true},
		"no temporary directory":      {nil, "TMPDIR=/nowhere " + c.program + " contain -- 'echo ran; exit 3'", 3, "write nothing", true},
		"a signal to its parent":      {nil, "kill -0 $PPID", 1, "not permitted", true},
		"a link out of the project":   {[]string{"--write", "{root}/away"}, "echo ran", 1, "a link leads outside", false},
		"a directory above home":      {[]string{"--root", "/", "--read", "{root}"}, "echo ran", 1, "contains the home directory", false},
	}
	if err := os.Symlink(c.outside, filepath.Join(c.project, "away")); err != nil {
		t.Fatal(err)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, output := c.command(t.Context(), append(test.flags, "--", test.line)...)
			err := cmd.Run()
			if cmd.ProcessState.ExitCode() != test.exit || !strings.Contains(output.String(), test.want) || strings.Contains(output.String(), note) != test.noted {
				t.Errorf("%s: %v, want exit %d, %q, note %v:\n%s", test.line, err, test.exit, test.want, test.noted, output)
			}
		})
	}
	t.Cleanup(func() { // after the subtests
		for dir, want := range map[string]int{"outside": 1, "tmp": 0} {
			if left, _ := os.ReadDir(filepath.Join(c.dir, dir)); len(left) != want {
				t.Errorf("%s has %v, want %d files", dir, left, want)
			}
		}
		if _, err := os.Lstat(filepath.Join(c.project, "new")); err == nil {
			t.Error("a sandbox in a sandbox wrote a file")
		}
	})
}

// The line gets the standard input, and signals that only the wrapper gets.
func TestContainSignals(t *testing.T) {
	t.Parallel()
	if err := (&process.Sandbox{}).Possible(); err != nil {
		t.Skip(err)
	}
	c := newCell(t)
	for signal, exit := range map[syscall.Signal]int{syscall.SIGTERM: 5, syscall.SIGINT: 5, syscall.SIGKILL: -1} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			ready := filepath.Join(t.TempDir(), "ready")
			cmd, output := c.command(t.Context(), "--write", filepath.Dir(ready), "--", `trap 'echo trapped; exit 5' TERM INT; read -r line; echo "$line $$"; echo $$ >"`+ready+`"; while :; do sleep 0.05; done`)
			cmd.Stdin, cmd.WaitDelay = strings.NewReader("from stdin\n"), time.Minute
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var pid int
			await.Until(t, "the line runs", func() bool {
				text, _ := os.ReadFile(ready)
				n, err := fmt.Sscan(string(text), &pid)
				return n == 1 && err == nil
			})
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != exit || !strings.Contains(output.String(), "from stdin") || strings.Contains(output.String(), "trapped") != (exit == 5) {
				t.Errorf("exit %d, want %d: %s", got, exit, output)
			}
			await.Until(t, "the line has ended", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
		})
	}
}

// A line that a hook contains runs in the sandbox when the agent runs the changed command.
func TestContainHook(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	root := t.TempDir()
	const policy = "version: 1\nhooks:\n  - name: hidden\n    on: tool.before\n    match: {shell: unknown}\n    contain: {write: '{root}/out', reason: Don't.}\n"
	if err := os.WriteFile(filepath.Join(root, "grapnel.yaml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	line := `E=echo; $(printf "$E") "it's" >out/made && cat out/made && echo x >new`
	event, err := json.Marshal(map[string]any{
		"cwd": c.project, "hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": map[string]any{"command": line, "timeout": 1000},
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), c.program, "claude-code", "--root", root)
	cmd.Dir, cmd.Stdin = c.project, bytes.NewReader(event)
	stdout, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var reply struct {
		Specific struct {
			Decision string `json:"permissionDecision"`
			Reason   string `json:"permissionDecisionReason"`
			Input    struct {
				Command string
				Timeout int
			} `json:"updatedInput"`
		} `json:"hookSpecificOutput"`
	}
	if err := json.Unmarshal(stdout, &reply); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	if err := (&process.Sandbox{}).Possible(); err != nil {
		if reply.Specific.Decision != "ask" || !strings.Contains(reply.Specific.Reason, "must run in a sandbox, which is not possible here") {
			t.Errorf("without Landlock: %s", stdout)
		}
		t.Skip(err)
	}
	if reply.Specific.Decision != "" || reply.Specific.Input.Timeout != 1000 {
		t.Errorf("%s, want only a change of the command", stdout)
	}
	cmd = exec.CommandContext(t.Context(), "bash", "-c", reply.Specific.Input.Command)
	cmd.Dir = c.project
	output, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 || !strings.HasPrefix(string(output), "it's\n") || !strings.Contains(string(output), "new: Permission denied") || !strings.Contains(string(output), `a sandbox of the hook "hidden" (Don't.)`) {
		t.Errorf("%s: %v\n%s", reply.Specific.Input.Command, err, output)
	}
}
