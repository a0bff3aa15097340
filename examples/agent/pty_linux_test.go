//go:build system

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/internal/testhelp/pty"
)

// runAtTerminal runs an agent with a terminal as standard input and standard error. Each line of
// types is the text to wait for, " => ", and the input to type then, if any; ^C is Ctrl-C, and \n
// starts another line.
func (w *world) runAtTerminal(t *testing.T, types string, args ...string) (stdout, stderr string, exit int) {
	t.Helper()
	person, program, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer person.Close()
	cmd := w.command(t, args...)
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, &out, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = program.Close()
	screen := &screen{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		screen.read(person)
	}()
	for line := range strings.Lines(types) {
		until, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " => ")
		if err := screen.await(until); err != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Fatal(err)
		}
		if !ok {
			continue
		}
		text = strings.ReplaceAll(text, `\n`, "\n") + "\n"
		if text == "^C\n" {
			text = "\x03"
		}
		if _, err := person.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait()
	<-done
	return out.String(), screen.text(), cmd.ProcessState.ExitCode()
}

// A screen collects the output of a terminal.
type screen struct {
	mu    sync.Mutex
	shown bytes.Buffer
	seen  int
}

func (s *screen) read(person *os.File) {
	buffer := make([]byte, 4096)
	for {
		n, err := person.Read(buffer)
		s.mu.Lock()
		s.shown.Write(buffer[:n])
		s.mu.Unlock()
		if err != nil { // EIO marks the end of a terminal
			return
		}
	}
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.String()
}

// await waits until a new text is shown.
func (s *screen) await(text string) error {
	for deadline := time.Now().Add(await.Limit); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		all := s.text()
		if i := strings.Index(all[s.seen:], text); i >= 0 {
			s.seen += i + len(text)
			return nil
		}
	}
	return fmt.Errorf("%q is not shown:\n%s", text, s.text())
}
