//go:build system

package hostile

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/process"
)

// guardPolicy returns a policy with one guard that fails closed.
func guardPolicy(run, more string) string {
	return "version: 1\nhooks:\n  - name: guard\n    on: tool.before\n    timeout: 2s\n    on_error: closed\n    run: " + quoted(run) + "\n" + more
}

// patientGuard is guardPolicy for a program that ends by itself, also on a busy machine.
func patientGuard(run, more string) string {
	return strings.Replace(guardPolicy(run, more), "timeout: 2s", "timeout: 30s", 1)
}

// held is the part of guardPolicy that adds a sandbox.
const held = "    sandbox: {read: []}\n"

// A program that tries to change the answer later, or does not end, does not change the answer,
// with and without a sandbox.
func TestProgramsAndTheirStreams(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		run  string
		want string
		size int // of the event
	}{
		"stops itself":                    {`kill -STOP $$; exit 2`, "timeout", 0},
		"stops its group":                 {`sleep 300 & kill -STOP 0; exit 2`, "timeout", 0},
		"closes its output and stays":     {`exec >&- 2>&-; sleep 300`, "timeout", 0},
		"never reads 20 MB":               {`echo no >&2; exit 2`, "no", 20 << 20},
		"reads 20 MB slowly":              {`dd bs=1000 count=100 >/dev/null 2>&1; sleep 1; echo no >&2; exit 2`, "no", 20 << 20},
		"never reads 20 MB, nor ends":     {`sleep 300`, "timeout", 20 << 20},
		"its child answers when it ended": {`(sleep 1; echo '{"decision":"allow"}') & echo no >&2; exit 2`, "no", 0},
		"its child goes on talking":       {`(while :; do echo x || exit; done) & echo no >&2; exit 2`, "no", 0},
		"floods both streams":             {`(head -c 50000000 /dev/zero >&2) & head -c 50000000 /dev/zero; wait; exit 2`, "deny", 0},
	} {
		for where, box := range map[string]string{"": "", " in a sandbox": held} {
			t.Run(name+where, func(t *testing.T) {
				t.Parallel()
				needs(t, box)
				w := newWorld(t, guardPolicy(tt.run, box))
				r := blocked(t, w.hook(t, stdin(`"ls `+strings.Repeat("x", tt.size)+`"`), claude.args...))
				if !strings.Contains(r.stdout, tt.want) || len(r.stdout) > 100_000 {
					t.Errorf("want %q in it: %v", tt.want, r)
				}
			})
		}
	}
}

// needs skips a test that needs a sandbox on a machine without one. Tests in cmd/grapnel check
// the messages of hooks in this case.
func needs(t *testing.T, box string) {
	t.Helper()
	if err := (&process.Sandbox{}).Possible(); box != "" && err != nil {
		t.Skip(err)
	}
}

// A program that forks and ends, and whose child does the same, has a new process ID at each
// look. It ends with its process group, and in a sandbox it cannot leave that group.
func TestProgramsThatRunAway(t *testing.T) {
	t.Parallel()
	comet := `f() { echo x >>beat; (f) & exit; }; `
	for name, tt := range map[string]struct{ run, box string }{
		"comets":                    {comet + `f & f & f & f & sleep 300`, ""},
		"comets in a sandbox":       {comet + `f & f & f & f & sleep 300`, "    sandbox: {read: [], write: '{cwd}'}\n"},
		"new sessions in a sandbox": {`(setsid sh -c 'while :; do echo x >>beat; sleep 0.01; done' || while :; do echo x >>beat; sleep 0.01; done) & sleep 300`, "    sandbox: {read: [], write: '{cwd}'}\n"},
		"a bomb that is held back":  {`f() { echo x >>beat; [ "$1" -gt 7 ] && exec sleep 300; f $(($1+1)) & f $(($1+1)) & wait; }; f 0`, ""},
		"such a bomb in a sandbox":  {`f() { echo x >>beat; [ "$1" -gt 7 ] && exec sleep 300; f $(($1+1)) & f $(($1+1)) & wait; }; f 0`, "    sandbox: {read: [], write: '{cwd}'}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needs(t, tt.box)
			w := newWorld(t, guardPolicy(tt.run, tt.box))
			work := filepath.Join(w.dir, "work")
			if err := os.Mkdir(work, 0o700); err != nil {
				t.Fatal(err)
			}
			await.Until(t, "the program begins before its deadline", func() bool { // a busy machine may be late
				blocked(t, w.hook(t, strings.NewReader(`{"hook_event_name":"PreToolUse","cwd":"`+work+`","tool_name":"Bash","tool_input":{"command":"ls"}}`), claude.args...))
				_, err := os.Stat(filepath.Join(work, "beat"))
				return err == nil
			})
			beat := func() int64 {
				info, err := os.Stat(filepath.Join(work, "beat"))
				if err != nil {
					t.Fatalf("it did not even begin: %v", err)
				}
				return info.Size()
			}
			before := beat()
			time.Sleep(500 * time.Millisecond)
			if after := beat(); after != before {
				t.Errorf("it goes on: %d, then %d", before, after)
			}
		})
	}
}

// In a sandbox a hook cannot kill grapnel-hook. Otherwise the agent would continue without an
// answer.
func TestProgramsAgainstTheirParent(t *testing.T) {
	t.Parallel()
	needs(t, held)
	for name, line := range map[string]string{
		"kill":      `kill -9 $PPID; kill -STOP $PPID`,
		"its group": `kill -9 -$(cut -d' ' -f5 /proc/$PPID/stat)`,
		"limits":    `prlimit --pid $PPID --cpu=1 --nofile=0 --fsize=0`,
		"memory":    `echo x >/proc/$PPID/mem; cat /proc/$PPID/environ`,
		"streams":   `echo '{}' >/proc/$PPID/fd/1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, patientGuard("("+line+") >/dev/null 2>&1; sleep 0.1; echo still here >&2; exit 2", held))
			if r := blocked(t, w.hook(t, stdin(ls), claude.args...)); !strings.Contains(r.stdout, "still here") {
				t.Errorf("%v", r)
			}
		})
	}
}

// In a sandbox, a kill of all processes reaches only the processes in the sandbox.
func TestProgramsAgainstEverybody(t *testing.T) {
	t.Parallel()
	needs(t, held)
	w := newWorld(t, patientGuard(`kill -9 -1; echo still here >&2; exit 2`, held))
	if r := blocked(t, w.hook(t, stdin(ls), claude.args...)); !strings.Contains(r.stdout, "still here") {
		t.Errorf("%v", r)
	}
}

// If a hook without a sandbox kills grapnel-hook, there is no answer: no allow, and no exit code
// that an agent could take for an answer.
func TestParentIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, guardPolicy("kill -9 $PPID; sleep 300", ""))
	cmd := w.hook(t, stdin(ls), claude.args...)
	out, err := cmd.Output()
	exit, ok := err.(*exec.ExitError) //nolint:errorlint // Output returns this type
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL || len(out) > 0 {
		t.Errorf("%v %q, want nothing said, and a signal", err, out)
	}
}

// The environment of grapnel-hook has no effect on a sandbox.
func TestEnvironmentOfASandbox(t *testing.T) {
	t.Parallel()
	needs(t, held)
	home := t.TempDir()
	secret := filepath.Join(home, ".ssh", "id")
	if err := os.MkdirAll(filepath.Dir(secret), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(home, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]string{
		"no TMPDIR":          "TMPDIR=/no/such",
		"TMPDIR is a file":   "TMPDIR=" + file,
		"TMPDIR is relative": "TMPDIR=.",
		"PATH holds home":    "PATH=/usr/bin:/bin:" + home + ":" + filepath.Dir(home) + ":/:.",
		"other home":         "HOME=/",
		"runtime":            "GODEBUG=execwait=2,asyncpreemptoff=1",
		"loader":             "LD_PRELOAD=" + file,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, patientGuard("cat "+secret+" >&2; echo x >$TMPDIR/x && echo over >&2; exit 2", held))
			cmd := w.hook(t, stdin(ls), claude.args...)
			cmd.Env = append(cmd.Env, "HOME="+home, v)
			r := blocked(t, cmd)
			if strings.Contains(r.stdout, "secret") || !strings.Contains(r.stdout, "over") || !strings.Contains(r.stdout, "ermission denied") {
				t.Errorf("%v", r)
			}
		})
	}
}

// Many concurrent sandboxes leave no files or processes behind.
func TestSandboxesLeaveNothing(t *testing.T) {
	t.Parallel()
	needs(t, held)
	w := newWorld(t, patientGuard(`mkdir -p "$TMPDIR/a/b" && echo x >"$TMPDIR/a/b/c"; echo no >&2; exit 2`, held))
	temp := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			cmd := w.hook(t, stdin(ls), claude.args...)
			cmd.Env = append(cmd.Env, "TMPDIR="+temp)
			blocked(t, cmd)
		})
	}
	all.Wait()
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
