//go:build system && unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy/load"
)

func file(name, text string) txtar.File { return txtar.File{Name: name, Data: []byte(text)} }

const listens = `version: 1
hooks:
  - name: why
    on: agent.failed
    run: grep -o '"cause":"[^"]*"' > ../failed
  - name: end
    on: session.end
    run: grep -o '"cause":"[^"]*"' > ../ended
`

func (w *world) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// TestEndpointFails checks that a failing endpoint ends the turn with an error, that hooks get
// the failure, and that the session ends properly.
func TestEndpointFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		script string
		args   []string
		want   string
	}{
		"status":       {`{"status": 500, "say": "the disk is full"}`, nil, "answers 500 Internal Server Error: \"the disk is full"},
		"breaks off":   {`{"say": "Once upon", "break": true}`, nil, "the model's answer was cut off"},
		"and judged":   {`{"say": "Once upon", "break": true}`, []string{"--incremental"}, "the model's answer was cut off"},
		"hangs":        {`{"hang": true}`, []string{"--timeout", "100ms"}, "no answer within 100ms (--timeout)"},
		"stalls":       {`{"say": "Once upon", "hang": true}`, []string{"--timeout", "300ms"}, "no answer within 300ms (--timeout)"},
		"nobody there": {``, []string{"--base-url", "http://127.0.0.1:1"}, "cannot ask the model"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, test.script, []txtar.File{file("root/grapnel.yaml", listens)})
			stdout, stderr, exit := w.run(t, append(test.args, "Tell a story")...)
			if exit != exitFailed || !strings.Contains(stderr, test.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d and %q", exit, stdout, stderr, exitFailed, test.want)
			}
			if got := w.read(t, "failed"); !strings.HasPrefix(got, `"cause":"`) {
				t.Errorf("agent.failed says %s", got)
			}
			if got := w.read(t, "ended"); got != `"cause":"error"` {
				t.Errorf("session.end says %s", got)
			}
		})
	}
}

// TestToolsKeepIn checks that tools do not get the model's key, and that fetch does not reach
// networks that the policy does not open.
func TestToolsKeepIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `{"calls": [{"id": "a", "name": "shell", "args": {"command": "echo key=$OPENAI_API_KEY"}}, {"id": "b", "name": "fetch", "args": {"url": "$URL/page", "bearer": "t0ps3cret"}}]}
		{"say": "No."}`, []txtar.File{file("root/grapnel.yaml", "version: 1\nhooks:\n  - {name: all, on: permission.before, allow: true}\n")})
	_, stderr, exit := w.run(t, "What is the key?")
	got := w.requests()
	if exit != 0 || !strings.Contains(got, "tool a: key=\n") || !strings.Contains(got, "127.0.0.1 is") || strings.Contains(got, "the token was right") {
		t.Errorf("exit code %d, stderr %q, and the model was told:\n%s", exit, stderr, got)
	}
}

// TestCancelled checks that a signal ends the agent's child processes, that hooks get the event,
// and that the agent reports it.
func TestCancelled(t *testing.T) {
	t.Parallel()
	for name, signals := range map[string][]os.Signal{"interrupt": {os.Interrupt}, "terminate": {syscall.SIGTERM}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, `{"calls": [{"id": "a", "name": "shell", "args": {"command": "sleep 1000 & echo $! > pid; echo > up; wait"}}]}`,
				[]txtar.File{file("root/grapnel.yaml", listens+"  - {name: all, on: permission.before, allow: true}\n")})
			cmd := w.command(t, "Wait")
			stderr := &strings.Builder{}
			cmd.Stderr = stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			await.Until(t, "the tool runs", func() bool {
				_, err := os.Stat(filepath.Join(w.dir, "work", "up"))
				return err == nil
			})
			for _, s := range signals {
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != exitCancelled || !strings.Contains(stderr.String(), "agent: cancelled") {
				t.Errorf("exit code %d, want %d; it says %q", got, exitCancelled, stderr)
			}
			if got := w.read(t, "ended"); got != `"cause":"cancelled"` {
				t.Errorf("session.end says %s", got)
			}
			if got := w.read(t, "failed"); got != `"cause":"context canceled"` {
				t.Errorf("agent.failed says %s", got)
			}
			// The shell's child ends with the shell. It may remain for a moment as a zombie.
			await.Until(t, "the process that the tool started ends", func() bool { return !alive(t, w.read(t, "work/pid")) })
		})
	}
}

func alive(t *testing.T, pid string) bool {
	t.Helper()
	var n int
	if err := json.Unmarshal([]byte(pid), &n); err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err == nil {
		return !strings.Contains(string(stat), ") Z ")
	}
	return syscall.Kill(n, 0) == nil
}

// TestTrust checks that a project's policy applies only after the user has trusted it, and that
// the agent mentions it before that.
func TestTrust(t *testing.T) {
	t.Parallel()
	w := newWorld(t, strings.Repeat(`{"calls": [{"id": "a", "name": "read", "args": {"path": "x"}}]}
		{"say": "Done."}
	`, 2), []txtar.File{
		file("work/x", "y"), file("work/.git/HEAD", ""), file("work/sub/keep", ""),
		file("work/grapnel.yaml", "version: 1\nhooks:\n  - {name: closed, on: tool.before, match: {tool: read}, block: Nothing is read here.}\n"),
	})
	name := filepath.Join(w.dir, "work", "grapnel.yaml")
	if _, stderr, exit := w.run(t, "Read x"); exit != 0 || !strings.Contains(stderr, name) || strings.Contains(w.requests(), "Nothing is read here.") {
		t.Errorf("exit code %d, stderr %q; the model was asked:\n%s", exit, stderr, w.requests())
	}
	x, wrong := load.Examine(name, filepath.Dir(name), packs.All())
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	if err := load.Trusts(filepath.Join(w.dir, "root", "state", "trust")).Keep(x); err != nil {
		t.Fatal(err)
	}
	cmd := w.command(t, "Read x")
	cmd.Dir = filepath.Join(w.dir, "work", "sub")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(w.requests(), "tool a: The call was blocked: Nothing is read here.") {
		t.Errorf("%v, %s; the model was asked:\n%s", err, out, w.requests())
	}
}

// TestWorker checks that a worker keeps running for the session: it counts the calls.
func TestWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `{"calls": [{"id": "a", "name": "read", "args": {"path": "x"}}, {"id": "b", "name": "read", "args": {"path": "x"}}]}
		{"say": "Done."}`, []txtar.File{
		file("root/worker.sh", `echo '{"grapnel":1,"type":"hello"}'
n=0
while read -r line; do
	case $line in *'"type":"event"'*) ;; *) continue ;; esac
	n=$((n + 1)) id=${line#*\"id\":\"}
	echo "{\"type\":\"answer\",\"id\":\"${id%%\"*}\",\"outcome\":{\"decision\":\"block\",\"reason\":\"call $n\"}}"
done
echo gone > ../gone
`),
		file("root/grapnel.yaml", "version: 1\nhooks:\n  - {name: count, on: tool.before, worker: sh worker.sh, on_error: closed}\n"),
	})
	_, stderr, exit := w.run(t, "--parallel", "1", "Read x twice")
	if got := w.requests(); exit != 0 || !strings.Contains(got, "tool a: The call was blocked: call 1\n") || !strings.Contains(got, "tool b: The call was blocked: call 2\n") {
		t.Errorf("exit code %d, stderr %q; the model was asked:\n%s", exit, stderr, got)
	}
	if got := w.read(t, "gone"); got != "gone" { // the worker ended with the session, by itself
		t.Errorf("the worker says %q", got)
	}
}

// TestUsage checks that errors in the command line contain a hint, and that the exit code is 64.
func TestUsage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	for name, test := range map[string]struct {
		args []string
		exit int
		want string
	}{
		"help":         {[]string{"--help"}, 0, "usage: agent"},
		"unknown flag": {[]string{"--yes", "do"}, exitUsage, "-yes"},
		"flag behind":  {[]string{"do", "--root"}, exitUsage, "--root is after the task"},
		"no model":     {[]string{"--model", "", "do"}, exitUsage, "no model is set: use --model NAME"},
		"nothing":      {nil, exitUsage, "no task"},
		"network":      {[]string{"--network", "here", "do"}, exitUsage, "-network: name \"here\": a name without a dot is a local name"},
		"policy":       {[]string{"--policy", "absent.yaml", "do"}, exitFailed, "absent.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, exit := w.run(t, test.args...)
			if exit != test.exit || !strings.Contains(stdout+stderr, test.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d and %q", exit, stdout, stderr, test.exit, test.want)
			}
			if test.exit == exitUsage && !strings.Contains(stderr, `hint: run "agent --help"`) {
				t.Errorf("no hint: %q", stderr)
			}
		})
	}
}

// TestBlocked checks the exit code of a run that hooks end, and that a session that a hook halts
// at its start still ends properly.
func TestBlocked(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ hook, want string }{
		"prompt":   {"{name: no, on: prompt.before, block: Not today.}", "Not done: Not today.\n"},
		"received": {"{name: no, on: message.received, block: Not today.}", ""},
		"message":  {"{name: no, on: message.before, block: Not today.}", "(no answer: a hook withheld it)\n"},
		"halt":     {`{name: no, on: tool.before, run: 'echo "{\"halt\":\"Enough.\"}"'}`, "The call was blocked: Enough.\n"},
		"session":  {`{name: no, on: session.start, run: 'echo "{\"halt\":\"Not today.\"}"'}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := `{"say": "Hello."}`
			if name == "halt" {
				script = `{"calls": [{"id": "a", "name": "read", "args": {"path": "x"}}]}`
			}
			w := newWorld(t, script, []txtar.File{file("root/grapnel.yaml", listens+"  - "+test.hook+"\n")})
			stdout, stderr, exit := w.run(t, "Say hello")
			if exit != exitBlocked || stdout != test.want {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d and %q", exit, stdout, stderr, exitBlocked, test.want)
			}
			if got := w.read(t, "ended"); got != `"cause":"error"` {
				t.Errorf("session.end says %s", got)
			}
			if (name == "session" || name == "received") && !strings.Contains(stderr, "Not today.") {
				t.Errorf("stderr %q does not say why", stderr)
			}
		})
	}
}
