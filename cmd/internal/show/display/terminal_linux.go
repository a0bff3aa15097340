package display

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/internal/testhelp/pty"
)

// A Terminal runs a program on a new pseudo terminal, and reads and types like a user.
type Terminal struct {
	*Screen

	cmd    *exec.Cmd
	person *os.File
	news   chan struct{} // signals new output
	ended  chan struct{}

	mu  sync.Mutex
	raw bytes.Buffer
}

// Start starts a program on a terminal of the given size. If the program still runs when t ends,
// Start kills it.
func Start(t testing.TB, cmd *exec.Cmd, width, height int) *Terminal {
	t.Helper()
	person, program, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Resize(program, width, height); err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	_ = program.Close()
	if err != nil {
		_ = person.Close()
		t.Fatal(err)
	}
	term := &Terminal{Screen: NewScreen(width, height), cmd: cmd, person: person, news: make(chan struct{}, 1), ended: make(chan struct{})}
	go term.look()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-term.ended
		_ = person.Close()
		_ = term.Close()
		if unknown := term.Unknown(); len(unknown) > 0 {
			t.Errorf("the screen content may be wrong: unknown sequences %v", unknown)
		}
	})
	return term
}

// look reads the output until the program has ended.
func (t *Terminal) look() {
	defer close(t.ended)
	buf := make([]byte, 32<<10)
	for {
		n, err := t.person.Read(buf)
		if err != nil { // reading fails when the program has closed the terminal
			break
		}
		t.mu.Lock()
		t.raw.Write(buf[:n])
		t.mu.Unlock()
		_, _ = t.Write(buf[:n])
		select {
		case t.news <- struct{}{}:
		default:
		}
	}
	_ = t.cmd.Wait()
}

// Raw returns the whole output with its control sequences.
func (t *Terminal) Raw() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.raw.String()
}

// Press types keys.
func (t *Terminal) Press(tb testing.TB, keys string) {
	tb.Helper()
	if _, err := t.person.WriteString(keys); err != nil {
		tb.Fatal(err)
	}
}

// SetSize changes the size of the terminal, as if a user resizes the window.
func (t *Terminal) SetSize(tb testing.TB, width, height int) {
	tb.Helper()
	t.Resize(width, height)
	if err := pty.Resize(t.person, width, height); err != nil {
		tb.Fatal(err)
	}
}

// Want waits until the screen contains all texts at the same time, and returns the screen.
func (t *Terminal) Want(tb testing.TB, texts ...string) string {
	tb.Helper()
	return t.Until(tb, func(screen string) bool {
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	}, texts)
}

// Until waits until the screen meets a condition, and returns it. If it does not, the test fails,
// and the message contains want.
func (t *Terminal) Until(tb testing.TB, is func(screen string) bool, want any) string {
	tb.Helper()
	late := time.NewTimer(await.Limit)
	defer late.Stop()
	for over := false; ; {
		screen := t.String()
		if is(screen) {
			return screen
		}
		if over {
			tb.Fatalf("wanted is %q, seen is\n%s", want, screen)
		}
		select {
		case <-t.news:
		case <-t.ended:
			over = true
		case <-late.C:
			over = true
		}
	}
}

// Exit waits until the program has ended, and returns its exit status.
func (t *Terminal) Exit(tb testing.TB) int {
	tb.Helper()
	select {
	case <-t.ended:
	case <-time.After(await.Limit):
		tb.Fatalf("the program does not end; seen is\n%s", t.String())
	}
	return t.cmd.ProcessState.ExitCode()
}
