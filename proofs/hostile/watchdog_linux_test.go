//go:build system && linux

package hostile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// hangs returns a shell line that writes its process ID and does not end, even after signals.
func hangs(pid string) string {
	return "trap '' TERM INT HUP; echo $$ > " + pid + ".new; mv " + pid + ".new " + pid + "; while :; do sleep 0.2; done"
}

// golden returns the payload of a golden conversation.
func golden(t *testing.T, agent, name string) []byte {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("..", "..", "dialect", "testdata", agent, name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		if f.Name == "stdin.json" {
			return f.Data
		}
	}
	t.Fatalf("%s/%s has no stdin.json", agent, name)
	return nil
}

// running starts a command. wait returns its result.
func running(t *testing.T, cmd *exec.Cmd) (wait func() result) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() result {
		_ = cmd.Wait() // the result contains the exit code
		return result{stdout: stdout.String(), stderr: stderr.String(), exit: cmd.ProcessState.ExitCode()}
	}
}

// ended waits until the processes in a file have ended.
func ended(t *testing.T, pids string) {
	t.Helper()
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for word := range strings.FieldsSeq(string(text)) {
		n, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		await.Until(t, "process "+word+" ends", func() bool { return errors.Is(syscall.Kill(n, 0), syscall.ESRCH) || zombie(n) })
	}
}

// An agent that ended a hook during a hanging program got no reply, and most agents continued.
// Now it gets the fail-closed reply of its dialect, once, even if the program's on_error is open.
// The program ends, and there is a Record.
func TestEndedWhileAHookHangs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		agent, file, event string
		load               bool // the hook is in a file of another system
		signal             syscall.Signal
		passes             bool
	}{
		"claude":             {agent: "claude-code", file: "PreToolUse-block"},
		"claude, foreign":    {agent: "claude-code", file: "PreToolUse-block", load: true},
		"claude, a prompt":   {agent: "claude-code", file: "UserPromptSubmit-block", passes: true},
		"claude, a stop":     {agent: "claude-code", file: "Stop-block", passes: true},
		"claude, permission": {agent: "claude-code", file: "PermissionRequest-block"},
		"claude, SIGINT":     {agent: "claude-code", file: "PreToolUse-block", signal: syscall.SIGINT},
		"gemini":             {agent: "gemini-cli", file: "BeforeTool-block"},
		"codex":              {agent: "codex", file: "PreToolUse-block"},
		"cursor":             {agent: "cursor", file: "beforeShellExecution-block"},
		"kiro":               {agent: "kiro-cli", file: "preToolUse-block"},
		"windsurf":           {agent: "windsurf", file: "pre_run_command-block"},
		"crush":              {agent: "crush", file: "PreToolUse-block"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			payload := golden(t, tt.agent, tt.file)
			d, ok := dialect.FindAgent(tt.agent)
			if !ok {
				t.Fatal("unknown agent")
			}
			w := newWorld(t, "")
			pid := filepath.Join(w.dir, "pid")
			cmd := w.hook(t, bytes.NewReader(payload), tt.agent)
			if tt.load {
				w.write(t, "grapnel.yaml", "version: 1\nload: [flyto]\n")
				w.write(t, "flyto-hooks.json", `[{"type": "pre_tool_use", "command": `+quoted(hangs(pid))+`}]`)
				cmd = w.from(t, built, "grapnel-hook", string(payload), tt.agent)
			} else {
				w.write(t, "grapnel.yaml", "version: 1\nhooks:\n  - {name: hang, on: [tool.before, permission.before, prompt.before, agent.after], timeout: 1h, run: "+quoted(hangs(pid))+"}\n")
			}
			wait := running(t, cmd)
			await.Until(t, "the hook begins", func() bool { _, err := os.Stat(pid); return err == nil })
			signal := syscall.SIGTERM
			if tt.signal != 0 {
				signal = tt.signal
			}
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			got := wait()
			ended(t, pid)

			why := "the process received a signal (" + signal.String() + ") before it had judged this event"
			engine, err := grapnel.New(notice.Locked(why), nil)
			if err != nil {
				t.Fatal(err)
			}
			want := dialect.Answer(t.Context(), engine, d, dialect.Input{Payload: payload})
			if got.stdout != string(want.Stdout) || got.exit != want.Exit || !strings.HasPrefix(got.stderr, string(want.Stderr)) {
				t.Errorf("the agent gets %v, want exit %d, %q, %q", got, want.Exit, want.Stdout, want.Stderr)
			}
			if blocks := strings.Contains(got.stdout+got.stderr, "no tool may run"); blocks == tt.passes {
				t.Errorf("blocks = %v: %v", blocks, got)
			}
			var decisions []string
			for _, rec := range w.records(t) {
				decisions = append(decisions, rec.Decision.String())
			}
			if list := strings.Join(decisions, " "); list != map[bool]string{true: "none", false: "block"}[tt.passes] {
				t.Errorf("the Records say %q", list)
			}
		})
	}
}

// Before the event is read, its kind is unknown. The reply is the reply to an unreadable event:
// it blocks, or passes without a policy.
func TestEndedWhileReading(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		policy  string
		blocked bool
	}{
		"a policy":  {guard, true},
		"no policy": {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tt.policy)
			// If SIGINT is ignored at the start, Go catches it only on request: see catches.
			cmd := w.shellRun(t, nil, `trap '' INT; exec "$@"`)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			wait := running(t, cmd)
			// More than a pipe holds: grapnel-hook must be reading it.
			if _, err := io.WriteString(stdin, strings.Repeat(" ", 1<<20)); err != nil {
				t.Fatal(err)
			}
			await.Until(t, "signals are caught", func() bool { return catches(t, cmd.Process.Pid, syscall.SIGINT) })
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			r := wait()
			if got := heeds(t, claude.name, r); got.blocked != tt.blocked || got.allowed || r.exit == 2 || r.exit < 0 {
				t.Errorf("the agent does %+v: %v", got, r)
			}
		})
	}
}

// catches reports whether a process has a handler for a signal.
func catches(t *testing.T, pid int, s syscall.Signal) bool {
	t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "SigCgt:\t")
	mask, err := strconv.ParseUint(rest[:16], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return mask&(1<<(s-1)) != 0
}

// The alias bomb is judged quickly, and its hidden command is found.
func TestAliasBomb(t *testing.T) {
	t.Parallel()
	var line strings.Builder
	for i := 1; i < 1990; i++ {
		line.WriteString("alias a" + strconv.Itoa(i) + "='a" + strconv.Itoa(i-1) + " a" + strconv.Itoa(i-1) + "';")
	}
	for _, last := range []string{"rm -rf ~", "ls"} {
		w := newWorld(t, "version: 1\nuse: [destructive, secrets, exfiltration, supply-chain, prompt-injection]\n")
		r := run(t, w.hook(t, stdin(quoted(line.String()+"a1989;"+last)), claude.args...))
		if got := heeds(t, claude.name, r); got.allowed || !got.blocked && (!got.asked || last != "ls") {
			t.Errorf("behind %q the agent does %+v: %v", last, got, r)
		}
	}
}
