//go:build system && unix

package hostile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

var claude = agents["claude"]

func stdin(command string) io.Reader { return strings.NewReader(claude.write(claude.call(command))) }

// blocked runs a guard that must block a command despite a problem around it.
func blocked(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	r := run(t, cmd)
	if got := heeds(t, claude.name, r); !got.blocked || got.allowed || r.exit != 0 {
		t.Errorf("the agent does %+v: %v", got, r)
	}
	return r
}

// A project's settings can set any variable of a hook. None of these variables opens a guard. Two
// variables of the Go runtime are left out, because the runtime reads them before any code of
// Grapnel: GOMEMLIMIT=nonsense ends every Go program with exit code 2, and GOGC=1 with
// GOMAXPROCS=100000 makes it start threads until the system ends it.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{
		"nothing at all":     {},
		"no home":            {"PATH=/usr/bin:/bin"},
		"no search path":     {"HOME=/nowhere"},
		"home is a file":     {"HOME=/etc/passwd"},
		"debug: collector":   {"GODEBUG=gctrace=1,gcstoptheworld=2,allocfreetrace=1,schedtrace=1,inittrace=1"},
		"debug: cryptology":  {"GODEBUG=fips140=only"},
		"debug: nonsense":    {"GODEBUG=\x1b[2J,,,=,x=1"},
		"debug: behaviour":   {"GODEBUG=panicnil=1,asyncpreemptoff=1,cpu.all=off,madvdontneed=1,execerrdot=0"},
		"collector":          {"GOGC=1", "GOMEMLIMIT=1", "GOMAXPROCS=64", "GOTRACEBACK=crash"},
		"collector is odd":   {"GOGC=-5", "GOMAXPROCS=-1", "GOTRACEBACK=7"},
		"our own":            {"GRAPNEL_DEPTH=99", "GRAPNEL_ROOT=/", "GRAPNEL_POLICY=/dev/null", "GRAPNEL_STATE=/dev", "GRAPNELDEBUG=all=0", "GRAPNEL=off"},
		"places":             {"XDG_CONFIG_HOME=/dev", "XDG_STATE_HOME=/dev", "TMPDIR=/nowhere", "PWD=/nowhere", "CLAUDE_PROJECT_DIR=/nowhere"},
		"loader":             {"LD_PRELOAD=/nowhere.so", "LD_LIBRARY_PATH=/nowhere", "DYLD_INSERT_LIBRARIES=/nowhere"},
		"language":           {"LANG=\xff", "LC_ALL=x/y", "TZ=../../etc/passwd", "ZONEINFO=/dev/zero"},
		"a variable of 100K": {"X=" + strings.Repeat("x", 100_000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, policy := range []string{guards["rule"], guards["strict"]} {
				w := newWorld(t, policy)
				cmd := w.hook(t, stdin(rm), claude.args...)
				cmd.Env = env
				blocked(t, cmd)
				w.kept(t, blocks)
			}
		})
	}
}

// shellRun runs the hook through a shell line, in which "$@" is the hook's command.
func (w world) shellRun(t *testing.T, stdin io.Reader, line string) *exec.Cmd {
	t.Helper()
	hook := w.hook(t, stdin, claude.args...)
	cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", line, "sh"}, hook.Args...)...)
	cmd.Env, cmd.Dir, cmd.Stdin = hook.Env, hook.Dir, stdin
	return cmd
}

// Missing streams cause no crash, and the Record is written. If the answer cannot be written, exit
// code 2 blocks.
func TestStreams(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		line string
		lost bool // the answer cannot be written
		want want
	}{
		"no stdin":             {`exec "$@" <&-`, false, unreadable},
		"stdin is a directory": {`exec "$@" </`, false, unreadable},
		"stdin is write only":  {`exec "$@" 0>/dev/null`, false, unreadable},
		"stderr closed":        {`exec "$@" 2>&-`, false, blocks},
		"stderr full":          {`exec "$@" 2>/dev/full`, false, blocks},
		"stdout closed":        {`exec "$@" >&-`, true, blocks},
		"stdout full":          {`exec "$@" >/dev/full`, true, blocks},
		"both closed":          {`exec "$@" >&- 2>&-`, true, blocks},
		"all closed":           {`exec "$@" <&- >&- 2>&-`, true, unreadable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(tt.line, "/dev/full") {
				if _, err := os.Stat("/dev/full"); err != nil {
					t.Skip("this system has no /dev/full")
				}
			}
			w := newWorld(t, guard)
			cmd := w.shellRun(t, stdin(rm), tt.line)
			if tt.lost {
				if err := cmd.Run(); cmd.ProcessState.ExitCode() != 2 {
					t.Errorf("%v, want exit code 2", err)
				}
			} else {
				r := run(t, cmd)
				if got := heeds(t, claude.name, r); !got.blocked || got.allowed {
					t.Errorf("the agent does %+v: %v", got, r)
				}
			}
			w.kept(t, tt.want)
		})
	}
}

// A caller that throws the answer away has chosen so: the exit code is the agent's own.
func TestStdoutIsThrownAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, guard)
	if err := w.shellRun(t, stdin(rm), `exec "$@" >/dev/null`).Run(); err != nil {
		t.Error(err)
	}
	w.kept(t, blocks)
}

// If an agent closes the pipe before the answer, the hook ends, which is not a block.
func TestReaderIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, guard)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := w.hook(t, stdin(rm), claude.args...)
	cmd.Stdout = write
	if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == 2 || cmd.ProcessState.Success() {
		t.Errorf("%v, want an end that is no answer", err)
	}
	w.kept(t, blocks)
}

// An event is complete when its JSON value is. Some agents and shells never close the pipe.
func TestStdinStaysOpen(t *testing.T) {
	t.Parallel()
	for name, a := range agents {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := a.write(a.call(rm))
			for _, parts := range [][]string{{text}, {text[:40], text[40:], "\n"}} {
				w := newWorld(t, guard)
				cmd := w.hook(t, nil, a.args...)
				stdin, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				var stdout, stderr bytes.Buffer
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				for _, part := range parts {
					if _, err := io.WriteString(stdin, part); err != nil && part != "\n" { // it may have ended
						t.Fatal(err)
					}
				}
				_ = cmd.Wait() // before stdin is closed; the result is checked below
				_ = stdin.Close()
				r := result{stdout: stdout.String(), stderr: stderr.String(), exit: cmd.ProcessState.ExitCode()}
				if got := heeds(t, a.name, r); !got.blocked || strings.Contains(r.stdout, "cannot read") {
					t.Errorf("the agent does %+v: %v", got, r)
				}
			}
		})
	}
}

// used returns a world in which a guard, a program and an observing program have run, so that
// every state file of Grapnel exists.
func used(t *testing.T) world {
	t.Helper()
	w := newWorld(t, strings.Replace(guard, "hooks:", `hooks:
  - {name: stop, on: agent.after, block: Go on.}
  - {name: look, on: tool.before, run: 'true', async: true}`, 1))
	blocked(t, w.hook(t, stdin(rm), claude.args...))
	blocked(t, w.hook(t, strings.NewReader(`{"hook_event_name":"Stop","session_id":"s1","last_assistant_message":"again"}`), claude.args...))
	return w
}

// stateFiles lists the files below the state directory.
func (w world) stateFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(filepath.Join(w.root, "state"), func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the drain removes files
		}
		if err == nil && !d.IsDir() {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// With any damage to the state files, the guard answers in time: it needs only the policy.
func TestDamagedState(t *testing.T) {
	t.Parallel()
	remove := func(name string) error {
		if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	for name, damage := range map[string]func(name string) error{
		"gone":    remove,
		"empty":   func(name string) error { return os.Truncate(name, 0) },
		"cut off": func(name string) error { return os.Truncate(name, 30) },
		"noise": func(name string) error {
			return os.WriteFile(name, bytes.Repeat([]byte("\x00\xff{\"a\":["), 20_000), 0o600)
		},
		"a directory":           func(name string) error { return errors.Join(remove(name), os.Mkdir(name, 0o700)) },
		"a pipe":                func(name string) error { return errors.Join(remove(name), syscall.Mkfifo(name, 0o600)) },
		"a link to itself":      func(name string) error { return errors.Join(remove(name), os.Symlink(name, name)) },
		"a link without end":    func(name string) error { return errors.Join(remove(name), os.Symlink("/dev/zero", name)) },
		"a link to another one": func(name string) error { return errors.Join(remove(name), os.Symlink(name+".other", name)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := used(t)
			files := w.stateFiles(t)
			if len(files) < 6 {
				t.Fatalf("the state has the files %q, want records, locks, stops and snapshots", files)
			}
			for _, file := range files {
				if err := damage(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
			}
			for range 2 { // the second run gets the files that the first has left
				r := blocked(t, w.hook(t, stdin(rm), claude.args...))
				if !strings.Contains(r.stdout, "Not this one.") {
					t.Errorf("the reason is not that of the rule: %v", r)
				}
			}
			stop := run(t, w.hook(t, strings.NewReader(`{"hook_event_name":"Stop","session_id":"s1","last_assistant_message":"again","stop_hook_active":true}`), claude.args...))
			if stop.exit != 0 {
				t.Errorf("a stop: %v", stop)
			}
		})
	}
}

// If the state directory is unusable, the guard answers and reports that no Record was written.
func TestNoState(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(state string) error{
		"a file":            func(state string) error { return os.WriteFile(state, nil, 0o600) },
		"a pipe":            func(state string) error { return syscall.Mkfifo(state, 0o600) },
		"a link to nothing": func(state string) error { return os.Symlink("/nowhere/at/all", state) },
		"a link to itself":  func(state string) error { return os.Symlink(state, state) },
		"a read-only one":   func(state string) error { return os.Mkdir(state, 0o500) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "a read-only one" && os.Getuid() == 0 {
				t.Skip("to root nothing is read-only")
			}
			w := newWorld(t, guard)
			if err := plant(filepath.Join(w.root, "state")); err != nil {
				t.Fatal(err)
			}
			if r := blocked(t, w.hook(t, stdin(rm), claude.args...)); !strings.Contains(r.stdout, "Not this one.") || !strings.Contains(r.stderr, "no Record was stored") {
				t.Errorf("%v", r)
			}
			// A strict policy blocks an event without a Record, but never a stop.
			w.write(t, "grapnel.yaml", guards["strict"])
			blocked(t, w.hook(t, stdin(ls), claude.args...))
			stop := run(t, w.hook(t, strings.NewReader(`{"hook_event_name":"Stop","session_id":"s1"}`), claude.args...))
			if got := heeds(t, claude.name, stop); got != (effect{}) {
				t.Errorf("at a stop the agent does %+v: %v", got, stop)
			}
		})
	}
}

// The machine has no resources left: a full disk, few open files.
func TestLimits(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"no file may grow":    `ulimit -f 0; exec "$@"`,
		"few open files":      `ulimit -n 12; exec "$@"`,
		"no core, no locks":   `ulimit -c 0; exec "$@"`,
		"the lowest of all":   `exec nice -n 19 "$@"`,
		"a strange umask":     `umask 777; exec "$@"`,
		"no directory at all": `mkdir "$GONE" && cd "$GONE" && rmdir "$GONE" && exec "$@"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, guard)
			cmd := w.shellRun(t, stdin(rm), line)
			cmd.Env = append(cmd.Env, "GONE="+filepath.Join(w.dir, "gone"))
			if r := blocked(t, cmd); !strings.Contains(r.stdout, "Not this one.") {
				t.Errorf("the reason is not that of the rule: %v", r)
			}
		})
	}
}

// A policy that is not a readable file blocks tools in time, and no prompt.
func TestNoPolicyFile(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(file string) error{
		"a directory":         func(file string) error { return os.Mkdir(file, 0o700) },
		"a pipe":              func(file string) error { return syscall.Mkfifo(file, 0o600) },
		"a link to itself":    func(file string) error { return os.Symlink(file, file) },
		"a link without end":  func(file string) error { return os.Symlink("/dev/zero", file) },
		"a link to nothing":   func(file string) error { return os.Symlink(file+".none", file) },
		"noise":               func(file string) error { return os.WriteFile(file, bytes.Repeat([]byte("\x00\xff"), 1000), 0o600) },
		"a million lines":     func(file string) error { return os.WriteFile(file, bytes.Repeat([]byte("- a\n"), 1_000_000), 0o600) },
		"aliases of aliases":  func(file string) error { return os.WriteFile(file, []byte(laughs()), 0o600) },
		"brackets":            func(file string) error { return os.WriteFile(file, bytes.Repeat([]byte("["), 100_000), 0o600) },
		"two documents":       func(file string) error { return os.WriteFile(file, []byte(guard+"---\nversion: 1\n"), 0o600) },
		"a key that is twice": func(file string) error { return os.WriteFile(file, []byte(guard+"hooks: []\n"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "")
			if err := plant(filepath.Join(w.root, "grapnel.yaml")); err != nil {
				t.Fatal(err)
			}
			if r := blocked(t, w.hook(t, stdin(ls), claude.args...)); !strings.Contains(r.stdout, "grapnel check") {
				t.Errorf("the way out is not named: %v", r)
			}
			prompt := run(t, w.hook(t, strings.NewReader(`{"hook_event_name":"UserPromptSubmit","session_id":"s1","prompt":"hello"}`), claude.args...))
			if got := heeds(t, claude.name, prompt); got != (effect{}) || prompt.exit != 0 {
				t.Errorf("at a prompt the agent does %+v: %v", got, prompt)
			}
		})
	}
}

// laughs returns YAML that grows to gigabytes if aliases are expanded.
func laughs() string {
	var b strings.Builder
	b.WriteString("version: 1\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := '1'; i <= '9'; i++ {
		before := "*a" + string(i-1)
		b.WriteString("a" + string(i) + ": &a" + string(i) + " [" + strings.Repeat(before+",", 9) + before + "]\n")
	}
	return b.String()
}

// Text from a model cannot control the terminal of a user.
func TestTerminal(t *testing.T) {
	t.Parallel()
	const attack = `\u001b]0;owned\u0007\u001b[2J\u009b31m\r\u0000\u202e`
	w := newWorld(t, guard+"  - {name: look, on: [tool.before, prompt.before], run: \"printf '\\\\033[2J\\\\a' >&2; exit 3\"}\n")
	for _, payload := range []string{
		`{"hook_event_name":"PreToolUse","session_id":"` + attack + `","cwd":"/` + attack + `","tool_name":"` + attack + `","tool_input":{"command":"rm -rf ` + attack + `"}}`,
		`{"hook_event_name":"PreToolUse","session_id":"` + attack + `","tool_name":"` + attack + `","tool_input":"` + attack + `"}`,
		`{"hook_event_name":"` + attack + `","session_id":"` + attack + `"}`,
		`{"hook_event_name":"UserPromptSubmit","session_id":"s","prompt":"` + attack + `"}`,
		"{\"hook_event_name\":\"PreToolUse\"\x1b[2J}", "\x1b[2J", `{"kind":"` + attack + `"}`,
	} {
		for _, args := range [][]string{claude.args, {"plain"}, {"gemini-cli"}} {
			run(t, w.hook(t, strings.NewReader(payload), args...))
		}
	}
	event := filepath.Join(t.TempDir(), "event.json")
	if err := os.WriteFile(event, []byte(`{"hook_event_name":"PreToolUse","session_id":"s","cwd":"/`+attack+`","tool_name":"`+attack+`","tool_input":{"command":"rm -rf `+attack+`"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"log"}, {"status"}, {"check"}, {"explain", "claude-code", "--event", event}} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(built, "grapnel"), append(args, "--root", w.root)...)
		cmd.Env = []string{"HOME=" + w.root, "PATH=/usr/bin:/bin"}
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || len(out) == 0 {
			t.Errorf("grapnel %s: %v, %q", args[0], err, out)
		}
		visible(t, "what grapnel "+args[0]+" prints", string(out))
	}
}
