//go:build unix

package process_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/process"
)

// patience limits steps that must end but can be slow on a busy machine. A hook that hangs does so
// for much longer.
const patience = await.Limit

// event returns a call of a shell tool in a new directory.
func event(t *testing.T) *grapnel.Event {
	t.Helper()
	dir := t.TempDir()
	return &grapnel.Event{
		ID: "e1", Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: "claude-code"},
		Session: grapnel.Session{ID: "s1", CWD: dir, Root: dir},
		Tool: &grapnel.Tool{
			Name: "Bash", Class: grapnel.ClassShell, Input: json.RawMessage(`{"command":"ls <a&b>"}`), Commands: []string{"ls <a&b>"},
		},
	}
}

// here returns the command with System as its Executor.
func here(c *process.Command) *process.Command {
	own := *c
	own.Executor = process.System
	return &own
}

// handle runs a hook that must end before its deadline.
func handle(t *testing.T, c *process.Command, ev *grapnel.Event) (grapnel.Outcome, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return here(c).Handle(ctx, ev)
}

// late runs a hook whose deadline passes as soon as the hook has written "here" to its life pipe.
func late(t *testing.T, c *process.Command, ev *grapnel.Event, life life) (grapnel.Outcome, error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		life.here(t)
		cancel(fmt.Errorf("%w of 300ms", grapnel.ErrTimeout))
	}()
	out, err := here(c).Handle(ctx, ev)
	<-passed
	return out, err
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		line    string
		kind    grapnel.Kind // tool.before unless set
		want    grapnel.Outcome
		is      error    // nil = any error
		wantErr []string // parts of the error; empty = no error
	}{
		"silent":             {line: `exit 0`},
		"text at tool":       {line: `echo fine`},
		"text as context":    {line: `echo fine`, kind: grapnel.SessionStart, want: grapnel.Outcome{Context: []string{"fine"}}},
		"json":               {line: `echo '{"decision":"ask","reason":"why"}'`, want: grapnel.Outcome{Decision: grapnel.Ask, Reason: "why"}},
		"byte order mark":    {line: `printf '\357\273\277\n {"decision":"block","reason":"r"}\n\n'`, want: grapnel.Outcome{Decision: grapnel.Block, Reason: "r"}},
		"broken json":        {line: `echo '{"decision":'`, wantErr: []string{"cannot read its answer"}},
		"block by code":      {line: `echo no >&2; exit 2`, want: grapnel.Outcome{Decision: grapnel.Block, Reason: "no"}},
		"block, silent":      {line: `exit 2`, want: grapnel.Outcome{Decision: grapnel.Block}},
		"block, json":        {line: `echo '{"reason":"because"}'; exit 2`, want: grapnel.Outcome{Decision: grapnel.Block, Reason: "because"}},
		"not utf-8":          {line: `printf 'bad \377 byte' >&2; exit 2`, want: grapnel.Outcome{Decision: grapnel.Block, Reason: "bad \ufffd byte"}},
		"code 1":             {line: `echo oops >&2; exit 1`, wantErr: []string{"exit code 1", "oops"}},
		"code 3 and json":    {line: `echo '{"decision":"block","reason":"r"}'; exit 3`, want: grapnel.Outcome{Decision: grapnel.Block, Reason: "r"}, wantErr: []string{"exit code 3"}},
		"code 126":           {line: `mkdir d; ./d`, is: process.ErrStart, wantErr: []string{"126", "./d", "executable"}},
		"code 127":           {line: `no-such-program-at-all --x`, is: process.ErrStart, wantErr: []string{"127", "no-such-program-at-all", "PATH"}},
		"own signal":         {line: `kill -KILL $$`, is: process.ErrSignal, wantErr: []string{"SIGKILL"}},
		"signal after json":  {line: `echo '{"decision":"block"}'; kill -TERM $$`, want: grapnel.Outcome{Decision: grapnel.Block}, is: process.ErrSignal, wantErr: []string{"SIGTERM"}},
		"stdin unread":       {line: `exec <&-; echo '{"decision":"allow"}'`, want: grapnel.Outcome{Decision: grapnel.Allow}},
		"stderr only":        {line: `echo note >&2`},
		"long stderr in err": {line: `head -c 5000 /dev/zero | tr '\0' x >&2; echo end >&2; exit 1`, wantErr: []string{"xxxend", "…"}},
		"arguments with $":   {line: `printf '{"reason":"%s"}' "$GRAPNEL_HOOK"`, want: grapnel.Outcome{Reason: "the hook"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ev := event(t)
			if tt.kind != "" {
				ev.Kind = tt.kind
			}
			got, err := handle(t, &process.Command{Name: "the hook", Line: tt.line}, ev)
			if diff := cmp.Diff(tt.want, got, answerOnly); diff != "" {
				t.Errorf("outcome of %s (-want +got):\n%s", tt.line, diff)
			}
			if (err != nil) != (len(tt.wantErr) > 0) || tt.is != nil && !errors.Is(err, tt.is) {
				t.Fatalf("error of %s = %v, want one with %q that is %v", tt.line, err, tt.wantErr, tt.is)
			}
			for _, part := range tt.wantErr {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error of %s = %q, want it to say %q", tt.line, err, part)
				}
			}
		})
	}
}

// A reason that a program did not complete says how the program ended: `hook failed: ` tells people
// nothing.
//
// Proves: MC-19
func TestReasonOfSilentPrograms(t *testing.T) {
	t.Parallel()
	long := ": " + strings.Repeat("x", 100) + "; exit 1"
	for line, want := range map[string]string{
		"exit 3":              "hook failed: exit status 3 of exit 3",
		"echo no; exit 1":     "hook failed: exit status 1 of echo no; exit 1",
		"echo ' ' >&2; false": "hook failed: exit status 1 of echo ' ' >&2; false",
		"echo no >&2; false":  "hook failed: no",
		"kill -KILL $$":       "hook failed: signal SIGKILL ended kill -KILL $$",
		long:                  "hook failed: exit status 1 of " + long[:80] + "…",
	} {
		if out, _ := handle(t, &process.Command{Line: line, Dialect: dialect.Miniclaw()}, event(t)); out.Decision != grapnel.Block || out.Reason != want {
			t.Errorf("%s: %v %q, want %q", line, out.Decision, out.Reason, want)
		}
	}
	named := &process.Command{Line: "exit 1", Title: "lint", Dialect: dialect.Miniclaw()}
	if out, _ := handle(t, named, event(t)); out.Reason != "hook failed: exit status 1 of lint" {
		t.Errorf("reason %q, want the title of the command", out.Reason)
	}
	own := &process.Command{Line: `echo '{"decision":"block","reason":"see: "}'`}
	if out, _ := handle(t, own, event(t)); out.Reason != "see: " {
		t.Errorf("the reason of a program became %q", out.Reason)
	}
}

// script writes a program. While the file is open for writing, no other thread of this process can
// fork: a child would keep the file open, and the start of the program would fail with "text file
// busy".
func script(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	ev := event(t)
	dir := ev.Session.CWD
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	script(t, filepath.Join(dir, "plain"), "#!/bin/sh\nexit 0\n", 0o600)
	script(t, filepath.Join(dir, "orphan"), "#!/no/such/interpreter\n", 0o700)
	script(t, filepath.Join(dir, "noise"), "\x7fnot a program", 0o700)

	tests := map[string]struct {
		c       process.Command
		wantErr []string
	}{
		"nothing":              {process.Command{}, []string{"no program"}},
		"empty args":           {process.Command{Args: []string{}}, []string{"no program"}},
		"both":                 {process.Command{Line: "true", Args: []string{"true"}}, []string{"both"}},
		"not on PATH":          {process.Command{Args: []string{"no-such-program-at-all"}}, []string{"no-such-program-at-all", "PATH"}},
		"gone, absolute":       {process.Command{Args: []string{filepath.Join(dir, "gone")}}, []string{"gone", "no such file"}},
		"gone, relative":       {process.Command{Args: []string{"./gone"}}, []string{"./gone", "no such file", dir}},
		"a directory":          {process.Command{Args: []string{"./folder"}}, []string{"directory"}},
		"not executable":       {process.Command{Args: []string{"./plain"}}, []string{"chmod +x"}},
		"bad interpreter":      {process.Command{Args: []string{"./orphan"}}, []string{"interpreter"}},
		"no program":           {process.Command{Args: []string{"./noise"}}, []string{"#!/bin/sh"}},
		"arguments too large":  {process.Command{Args: []string{"/bin/true", strings.Repeat("x", 1<<20)}}, []string{"too large"}},
		"language without one": {process.Command{Line: "true", Dialect: &dialect.Dialect{Name: "mute"}}, []string{`"mute"`}},
		"language that cannot": {process.Command{Line: "true", Dialect: &dialect.Dialect{
			WriteEvent:  func(*grapnel.Event) ([]byte, error) { return nil, errors.New("no words") },
			ReadOutcome: dialect.Plain().ReadOutcome,
		}}, []string{"no words"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := handle(t, &tt.c, ev)
			if !errors.Is(err, process.ErrStart) || !cmp.Equal(out, grapnel.Outcome{}, answerOnly) {
				t.Fatalf("Handle = %+v, %v, want nothing and ErrStart", out, err)
			}
			for _, part := range tt.wantErr {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error = %q, want it to say %q", err, part)
				}
			}
		})
	}
}

func TestExecForm(t *testing.T) {
	t.Parallel()
	ev := event(t)
	script(t, filepath.Join(ev.Session.CWD, "check"), "#!/bin/sh\nprintf '{\"reason\":\"%s|%s\"}' \"$1\" \"$2\"\n", 0o700)
	tests := map[string]*process.Command{
		"relative": {Args: []string{"./check", "a b", "$HOME"}},
		// The program is looked up in the PATH that Env sets.
		"own PATH": {Args: []string{"check", "a b", "$HOME"}, Env: []string{"PATH=.:" + ev.Session.CWD + ":/usr/bin:/bin"}},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := handle(t, c, ev)
			if want := "a b|$HOME"; err != nil || out.Reason != want {
				t.Errorf("Handle = %+v, %v, want reason %q", out, err, want)
			}
		})
	}
	t.Run("exit code 127 is its own", func(t *testing.T) {
		t.Parallel()
		_, err := handle(t, &process.Command{Args: []string{"sh", "-c", "exit 127"}}, ev)
		if err == nil || errors.Is(err, process.ErrStart) {
			t.Errorf("error = %v, want one that is not ErrStart: it did start", err)
		}
	})
}

// The program gets the whole event unchanged, even if it is larger than the buffer of a pipe. A
// program need not read it.
func TestEventOnStdin(t *testing.T) {
	t.Parallel()
	ev := event(t)
	ev.Tool.Content = strings.Repeat("x", 1<<20)
	if _, err := handle(t, &process.Command{Line: "cat > got"}, ev); err != nil {
		t.Fatal(err)
	}
	data := []byte(readFile(t, ev, "got"))
	if n := bytes.Count(data, []byte("\n")); n != 1 || !bytes.HasSuffix(data, []byte("\n")) {
		t.Errorf("the event has %d newlines, want one, at its end", n)
	}
	if !bytes.Contains(data, []byte(`ls <a&b>`)) {
		t.Errorf("the event has HTML escapes in it: %.300s", data)
	}
	var read grapnel.Event
	if err := json.Unmarshal(data, &read); err != nil || read.Tool == nil || len(read.Tool.Content) != 1<<20 {
		t.Errorf("the event does not come back: %v", err)
	}

	for _, line := range []string{`exit 2`, `exec <&-; exit 2`, `head -c 10 >/dev/null; exit 2`} {
		out, err := handle(t, &process.Command{Line: line}, ev)
		if err != nil || out.Decision != grapnel.Block {
			t.Errorf("%s with an event of 1 MiB = %+v, %v, want a block and no error", line, out, err)
		}
	}
}

func TestOutputLimit(t *testing.T) {
	t.Parallel()
	ev := event(t)
	start := event(t)
	start.Kind = grapnel.SessionStart

	t.Run("20 MB of noise, and the exit code counts", func(t *testing.T) {
		t.Parallel()
		out, err := handle(t, &process.Command{Line: `head -c 20000000 /dev/zero; head -c 20000000 /dev/zero >&2; exit 2`}, ev)
		if err != nil || out.Decision != grapnel.Block {
			t.Errorf("Handle = %s, %v, want a block and no error", out.Decision, err)
		}
		if len(out.Reason) > process.DefaultMaxOutput {
			t.Errorf("the reason has %d bytes", len(out.Reason))
		}
	})
	t.Run("text is cut between characters and says so", func(t *testing.T) {
		t.Parallel()
		out, err := handle(t, &process.Command{Line: `printf 'ééééé'`, MaxOutput: 5}, start)
		want := []string{"éé… [grapnel: 5 more bytes cut]"}
		if err != nil || !cmp.Equal(out.Context, want) {
			t.Errorf("Handle = %q, %v, want %q", out.Context, err, want)
		}
	})
	t.Run("JSON that does not fit is an error", func(t *testing.T) {
		t.Parallel()
		out, err := handle(t, &process.Command{Line: `printf ' {"decision":"allow","reason":"%s"}' "$(head -c 2000000 /dev/zero | tr '\0' x)"`}, ev)
		if !errors.Is(err, process.ErrOutput) || !strings.Contains(err.Error(), "1048576 bytes") || !cmp.Equal(out, grapnel.Outcome{}, answerOnly) {
			t.Errorf("Handle = %.100v, %v, want nothing and ErrOutput with the limit", out, err)
		}
	})
	t.Run("JSON that does not fit still blocks with code 2", func(t *testing.T) {
		t.Parallel()
		out, err := handle(t, &process.Command{Line: `echo '{"decision":"allow","reason":"long"}'; exit 2`, MaxOutput: 8}, ev)
		if !errors.Is(err, process.ErrOutput) || out.Decision != grapnel.Block {
			t.Errorf("Handle = %+v, %v, want a block and ErrOutput", out, err)
		}
	})
	t.Run("JSON of just the limit", func(t *testing.T) {
		t.Parallel()
		out, err := handle(t, &process.Command{Line: `printf '{"reason":"r"}'`, MaxOutput: 14}, ev)
		if err != nil || out.Reason != "r" {
			t.Errorf("Handle = %+v, %v, want reason r", out, err)
		}
	})
}

// A life is a pipe that the processes of a hook hold open. It reaches its end when the last of them
// has ended.
type life struct{ fifo, own *os.File }

// alive makes a pipe called life in the event's directory. A hook opens it with: exec 9>life
func alive(t *testing.T, ev *grapnel.Event) life {
	t.Helper()
	name := filepath.Join(ev.Session.CWD, "life")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	fifo, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fifo.Close(); err != nil {
			t.Error(err)
		}
	})
	// This process holds the pipe open until the hook does. Without a writer the pipe would be at
	// its end.
	own, err := os.OpenFile(name, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Close() })
	return life{fifo: fifo, own: own}
}

// here waits until a process of the hook writes "here".
func (l life) here(t *testing.T) {
	t.Helper()
	if err := l.fifo.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Error(err)
	}
	got := make([]byte, len("here\n"))
	if _, err := io.ReadFull(l.fifo, got); err != nil || string(got) != "here\n" {
		t.Errorf("the hook said %q on its life, %v, want here", got, err)
	}
	if err := l.own.Close(); err != nil {
		t.Error(err)
	}
}

// ended fails the test unless all processes of the hook end soon.
func (l life) ended(t *testing.T) {
	t.Helper()
	if err := l.fifo.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, l.fifo); err != nil {
		t.Errorf("processes of the hook live on: %v", err)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	const here = `echo here >&9; `
	tests := map[string]string{
		"hangs":             here + `sleep 1000`,
		"hangs itself":      here + `exec sleep 1000`,
		"child holds pipes": `sleep 1000 & ` + here + `wait`,
		"ignores SIGTERM":   `trap '' TERM; ` + here + `sleep 1000; sleep 1000`,
		"stopped":           here + `kill -STOP $$; sleep 1000`,
		"many children":     `i=0; while [ $i -lt 40 ]; do sleep 1000 & i=$((i+1)); done; ` + here + `wait`,
		"keeps forking":     `f() { while :; do (sleep 1000) & sleep 0.01; done; }; f & f & trap '' TERM; sleep 0.1; ` + here + `wait; sleep 1000`,
		"busy talking":      here + `while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done`,
		"leader ends first": `(trap '' TERM; ` + here + `sleep 1000; sleep 1000) >/dev/null 2>&1 & wait`,
		"never reads":       `sleep 1000 <&0 & ` + here + `wait`,
	}
	for name, line := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ev := event(t)
			ev.Tool.Content = strings.Repeat("x", 1<<20)
			life := alive(t, ev)
			out, err := late(t, &process.Command{Line: "exec 9>life; " + line}, ev, life)
			if !errors.Is(err, grapnel.ErrTimeout) || !cmp.Equal(out, grapnel.Outcome{}, answerOnly) {
				t.Errorf("Handle = %+v, %v, want nothing and ErrTimeout", out, err)
			}
			if err != nil && !strings.Contains(err.Error(), "300ms") {
				t.Errorf("error = %q, want it to name the timeout", err)
			}
			life.ended(t)
		})
	}
}

// After SIGTERM, a hook can still give a reason. Its output is kept in addition to the timeout
// error.
func TestTimeoutIsPolite(t *testing.T) {
	t.Parallel()
	line := `trap 'echo cleaned > trace; echo "{\"decision\":\"block\",\"reason\":\"half done\"}"; echo sorry >&2; exit 0' TERM
		exec 9>life; echo here >&9
		while :; do sleep 0.01; done`
	for attempt := 1; ; attempt++ { // the grace is short, and the machine may be busy
		ev := event(t)
		out, err := late(t, &process.Command{Line: line}, ev, alive(t, ev))
		if !errors.Is(err, grapnel.ErrTimeout) {
			t.Fatalf("Handle = %+v, %v, want ErrTimeout", out, err)
		}
		_, statErr := os.Stat(filepath.Join(ev.Session.CWD, "trace"))
		switch polite := out.Decision == grapnel.Block && strings.Contains(err.Error(), "sorry") && statErr == nil; {
		case polite:
			return
		case attempt == 100:
			t.Fatalf("Handle = %+v, %v, %v, want a block, what it said, and its trace", out, err, statErr)
		}
	}
}

// The error contains the cause of the context, no matter why the context ended.
func TestCause(t *testing.T) {
	t.Parallel()
	away := errors.New("the agent went away")
	tests := map[string]struct {
		ctx  func() (context.Context, context.CancelFunc)
		want []error
		not  error
	}{
		"bare deadline": {func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 50*time.Millisecond) // must fire: the program hangs
		}, []error{grapnel.ErrTimeout, context.DeadlineExceeded}, nil},
		"cancelled": {func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(50*time.Millisecond, func() { cancel(away) })
			return ctx, func() { cancel(nil) }
		}, []error{away}, grapnel.ErrTimeout},
		"before it began": {func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(away)
			return ctx, func() {}
		}, []error{away, process.ErrStart}, grapnel.ErrTimeout},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := tt.ctx()
			defer cancel()
			_, err := here(&process.Command{Line: "sleep 1000"}).Handle(ctx, event(t))
			for _, want := range tt.want {
				if !errors.Is(err, want) {
					t.Errorf("error = %v, want it to be %v", err, want)
				}
			}
			if tt.not != nil && errors.Is(err, tt.not) {
				t.Errorf("error = %v, want it not to be %v", err, tt.not)
			}
		})
	}
}

// reap kills a process that a hook left behind. pid is the text that the hook wrote.
func reap(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(pid))
	if err != nil || n < 2 {
		t.Fatalf("the hook left no process id: %q", pid)
	}
	if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
		t.Errorf("what the hook left behind was not there any more: %v", err)
	}
}

// readFile returns the content of a file that a hook wrote into the event's directory.
func readFile(t *testing.T, ev *grapnel.Event, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(ev.Session.CWD, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A child in another session cannot be killed with the process group, and it holds the pipes open.
// It can delay neither the answer nor the timeout.
func TestGrandchildThatLeft(t *testing.T) {
	t.Parallel()
	deserter := func(how string) *process.Command {
		return &process.Command{
			Line: `exec 9>life; exec "$TEST_BINARY" ` + how + ` 2>pid`, Env: []string{roleVar + "=deserter", "TEST_BINARY=" + os.Args[0]},
		}
	}
	t.Run("program ends", func(t *testing.T) {
		t.Parallel()
		ev := event(t)
		ev.Tool.Content = strings.Repeat("x", 1<<20) // the program does not read it
		alive(t, ev)
		out, err := handle(t, deserter("end"), ev)
		if want := (grapnel.Outcome{Decision: grapnel.Block, Reason: "said before"}); err != nil || !cmp.Equal(out, want, answerOnly) {
			t.Errorf("Handle = %+v, %v, want %+v: the exit code was 0", out, err, want)
		}
		reap(t, readFile(t, ev, "pid"))
	})
	t.Run("program hangs", func(t *testing.T) {
		t.Parallel()
		ev := event(t)
		if _, err := late(t, deserter("hang"), ev, alive(t, ev)); !errors.Is(err, grapnel.ErrTimeout) {
			t.Errorf("error = %v, want ErrTimeout", err)
		}
		reap(t, readFile(t, ev, "pid"))
	})
}

// Background processes of a hook continue after it, unless the hook had to be killed.
func TestDaemonStays(t *testing.T) {
	t.Parallel()
	ev := event(t)
	life := alive(t, ev)
	line := `exec 9>life; echo here >&9; (while [ ! -e stop ]; do sleep 0.02; done; echo bye >&9) >/dev/null 2>&1 & exit 0`
	if out, err := handle(t, &process.Command{Line: line}, ev); err != nil || !cmp.Equal(out, grapnel.Outcome{}, answerOnly) {
		t.Fatalf("Handle = %+v, %v, want nothing", out, err)
	}
	if err := os.WriteFile(filepath.Join(ev.Session.CWD, "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	life.here(t)
	if err := life.fifo.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(life.fifo); err != nil || string(got) != "bye\n" {
		t.Errorf("the background said %q, %v, want it to live on until it was told to stop", got, err)
	}
}

// If the deadline passes while only the output of remaining children is awaited, the program's
// answer is still used.
func TestDeadlineAfterTheEnd(t *testing.T) {
	t.Parallel()
	ev := event(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	life := alive(t, ev)
	canceled := make(chan struct{})
	go func() { // a child reports that the program has ended
		defer close(canceled)
		life.here(t)
		cancel()
	}()
	line := `exec 9>life; echo '{"decision":"block"}'
		sh -c 'echo $$ >pid; while kill -0 "$1" 2>/dev/null; do :; done; echo here >&9; exec sleep 1000' - $$ & exit 0`
	out, err := here(&process.Command{Line: line}).Handle(ctx, ev)
	if err != nil || out.Decision != grapnel.Block {
		t.Errorf("Handle = %+v, %v, want its block", out, err)
	}
	<-canceled
	reap(t, readFile(t, ev, "pid"))
}

func TestWorkingDirectory(t *testing.T) {
	t.Parallel()
	there, other := t.TempDir(), t.TempDir()
	gone := filepath.Join(there, "gone")
	file := filepath.Join(there, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	locked := filepath.Join(there, "locked")
	if err := errors.Join(os.Mkdir(locked, 0), os.Mkdir(filepath.Join(there, "open"), 0o700)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(locked, 0o700) })
	lockedWant := other
	if os.Getuid() == 0 {
		lockedWant = locked // root can enter the directory
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		cwd, root, dir string
		want           string
	}{
		"of the event":     {there, other, "", there},
		"gone":             {gone, other, "", other},
		"a file":           {file, other, "", other},
		"closed":           {locked, other, "", lockedWant},
		"relative":         {".", other, "", other},
		"with a NUL":       {there + "\x00", other, "", other},
		"far too long":     {"/" + strings.Repeat("x/", 500000), other, "", other},
		"fallback":         {gone, gone, other, other},
		"none":             {"", "", "", home},
		"none of them":     {gone, gone, gone, home},
		"root if no cwd":   {"", other, there, other},
		"through ..":       {filepath.Join(there, "open") + "/..", "", "", there},
		"trailing slashes": {there + "//", "", "", there},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ev := event(t)
			ev.Session.CWD, ev.Session.Root = tt.cwd, tt.root
			out, err := handle(t, &process.Command{Line: `printf '{"reason":"%s"}' "$(pwd -P)"`, Dir: tt.dir}, ev)
			want, linkErr := filepath.EvalSymlinks(tt.want)
			if err != nil || linkErr != nil || out.Reason != want {
				t.Errorf("ran in %q, %v, want %q", out.Reason, err, want)
			}
		})
	}
}

// With InDir, a program runs in Dir or not at all. GRAPNEL_PATH names the same file as in any other
// directory.
func TestInDir(t *testing.T) {
	t.Parallel()
	dir, there := t.TempDir(), t.TempDir()
	for path, want := range map[string]string{"a/b": filepath.Join(there, "a/b"), "-x": filepath.Join(there, "-x"), "/a": "/a", "": ""} {
		ev := event(t)
		ev.Session.CWD = there
		ev.Tool.Paths = []grapnel.Path{{Path: path}}
		out, err := handle(t, &process.Command{Line: `printf '{"reason":"%s %s"}' "$(pwd -P)" "$GRAPNEL_PATH"`, Dir: dir, InDir: true}, ev)
		real, linkErr := filepath.EvalSymlinks(dir)
		if err != nil || linkErr != nil || out.Reason != real+" "+want {
			t.Errorf("path %q: ran in %q, %v, want %q", path, out.Reason, err, real+" "+want)
		}
	}
	gone := filepath.Join(dir, "gone")
	if _, err := handle(t, &process.Command{Line: "true", Dir: gone, InDir: true}, event(t)); !errors.Is(err, process.ErrStart) {
		t.Errorf("in %s: %v, want it not to run", gone, err)
	}
}

// A model that writes a lot of text must not be able to prevent the start of a hook: a variable of
// 128 KiB, or one with a NUL byte, makes a start fail.
func TestHugeEvent(t *testing.T) {
	t.Parallel()
	mb := strings.Repeat("y\x00", 1<<17)
	ev := event(t)
	ev.Kind, ev.Agent.Name = grapnel.Kind(mb), mb
	ev.Session = grapnel.Session{ID: mb, CWD: mb, Root: mb}
	ev.Tool = &grapnel.Tool{Name: mb, Class: grapnel.Class(mb), Paths: []grapnel.Path{{Path: mb}}, Commands: []string{mb, mb}}
	vars := func(*grapnel.Event) []string {
		vars := []string{"noise", "=x", "GRAPNEL_HOOK=forged"}
		for i := range 100 {
			vars = append(vars, fmt.Sprintf("MORE_%d=%s", i, mb))
		}
		return vars
	}
	c := &process.Command{Name: "h", Line: `env | wc -c >&2; printf '{"reason":"%s %s"}' "$GRAPNEL_HOOK" "$GRAPNEL_TOOL"`, Vars: vars, Inherit: process.InheritMinimal}
	out, err := handle(t, c, ev)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.Reason, "h yyy") || !strings.Contains(out.Reason, "more bytes cut]") || len(out.Reason) > 8<<10+10 {
		t.Errorf("hook and tool = %.60q... of %d bytes, want them cut at 8 KiB with a mark", out.Reason, len(out.Reason))
	}
}

// Scripts get the documented environment: Grapnel's own variables replace forged ones, and secrets
// are removed.
func TestEnvironment(t *testing.T) {
	for _, v := range []string{"GRAPNEL_DEPTH=2", "GRAPNEL_TOOL=Forged", "GRAPNEL_OLD=x", "DEMO_API_KEY=k", "DEMO_TOKEN=k", "DEMO_PLAIN=p", "BASH_ENV=/evil", "LC_DEMO=l"} {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	ev := event(t)
	ev.Tool.Paths = []grapnel.Path{{Path: "-rf", Use: grapnel.UseWrite}, {Path: "b"}}
	ev.Tool.Commands = []string{"one", "two"}
	read := func(c *process.Command) map[string]string {
		t.Helper()
		c.Name, c.Line = "h", `env > env.txt; printf %s "$GRAPNEL_COMMAND" > command.txt`
		if _, err := handle(t, c, ev); err != nil {
			t.Fatal(err)
		}
		env := map[string]string{}
		for line := range strings.Lines(readFile(t, ev, "env.txt")) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			env[name] = value
		}
		env["GRAPNEL_COMMAND"] = readFile(t, ev, "command.txt") // it has two lines
		return env
	}
	dir := ev.Session.CWD
	always := map[string]string{
		"GRAPNEL_EVENT": "tool.before", "GRAPNEL_AGENT": "claude-code", "GRAPNEL_SESSION": "s1", "GRAPNEL_CWD": dir, "GRAPNEL_ROOT": dir, "GRAPNEL_COMMAND_DIR": dir,
		"GRAPNEL_TOOL": "Bash", "GRAPNEL_TOOL_CLASS": "shell", "GRAPNEL_COMMAND": "one\ntwo", "GRAPNEL_PATH": "./-rf",
		"GRAPNEL_HOOK": "h", "GRAPNEL_DEPTH": "3", "PWD": dir, "EXTRA": "e", "PATH": os.Getenv("PATH"), "LC_DEMO": "l",
	}
	tests := map[string]struct {
		c       process.Command
		present map[string]string
		absent  []string
	}{
		"all":     {process.Command{}, map[string]string{"DEMO_PLAIN": "p"}, []string{"DEMO_API_KEY", "DEMO_TOKEN", "BASH_ENV", "GRAPNEL_OLD"}},
		"allowed": {process.Command{Allow: []string{"DEMO_TOKEN", "BASH_ENV"}}, map[string]string{"DEMO_TOKEN": "k", "BASH_ENV": "/evil"}, []string{"DEMO_API_KEY"}},
		"minimal": {
			process.Command{Inherit: process.InheritMinimal, Allow: []string{"DEMO_TOKEN"}},
			nil,
			[]string{"DEMO_PLAIN", "DEMO_TOKEN", "DEMO_API_KEY", "BASH_ENV", "GRAPNEL_OLD"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.c.Env = []string{"EXTRA=e", "GRAPNEL_TOOL=Forged"}
			env := read(&tt.c)
			for _, want := range []map[string]string{always, tt.present} {
				for name, value := range want {
					if env[name] != value {
						t.Errorf("%s = %q, want %q", name, env[name], value)
					}
				}
			}
			for _, name := range tt.absent {
				if value, ok := env[name]; ok {
					t.Errorf("%s = %q, want it gone", name, value)
				}
			}
		})
	}
}

// In an engine, a hook that hangs is killed and recorded, delays the answer only a little, and the
// other hooks still have their effect.
func TestEngine(t *testing.T) {
	t.Parallel()
	ev := event(t)
	var rec *grapnel.Record
	engine, err := grapnel.New([]grapnel.Spec{
		{Name: "slow", Hook: here(&process.Command{Line: `sleep 1000 & wait`}), Timeout: 300 * time.Millisecond, OnError: grapnel.OnErrorOpen},
		{Name: "gone", Hook: here(&process.Command{Args: []string{"./gone"}}), Timeout: patience, OnError: grapnel.OnErrorAsk},
		{Name: "fine", Hook: here(&process.Command{Line: `echo careful >&2; exit 2`}), Timeout: patience},
	}, &grapnel.Options{Observers: []grapnel.Observer{grapnel.ObserverFunc(func(_ context.Context, r *grapnel.Record) { rec = r })}})
	if err != nil {
		t.Fatal(err)
	}
	v := engine.Fire(t.Context(), ev)
	if v.Decision != grapnel.Block || v.Reason() != "careful" {
		t.Errorf("verdict = %s %q, want the block of the hook that answered", v.Decision, v.Reason())
	}
	if rec == nil || len(rec.Hooks) != 3 || rec.Hooks[0].Cause != grapnel.CauseTimeout || !rec.Hooks[0].FailOpen || rec.Hooks[1].Decision != grapnel.Ask {
		t.Errorf("record = %+v, want slow as a timeout that failed open, and gone as an ask", rec)
	}
}

func BenchmarkCommand(b *testing.B) {
	ev := &grapnel.Event{Kind: grapnel.ToolBefore, Session: grapnel.Session{CWD: b.TempDir()}, Tool: &grapnel.Tool{Name: "Bash"}}
	c := &process.Command{Line: ":", Executor: process.System}
	for b.Loop() {
		if _, err := c.Handle(b.Context(), ev); err != nil {
			b.Fatal(err)
		}
	}
}
