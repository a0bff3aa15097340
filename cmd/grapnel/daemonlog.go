package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
)

// maxLog is the size in bytes at which a log becomes the old one, and another begins.
const maxLog = 1 << 20

// oldLog is where a log goes that has become too large.
func oldLog(name string) string { return name + ".old" }

// A logFile is a log of bounded size. Standard output and standard error go there, too, so
// that the last words of a crash are kept.
type logFile struct {
	mu   sync.Mutex
	name string
	max  int64
	file *os.File
	std  bool // it is standard error, too
}

// newLogFile opens the log of this process.
func newLogFile(name string) (*logFile, error) {
	f, err := openLog(name)
	if err != nil {
		return nil, err
	}
	l := &logFile{name: name, max: maxLog, file: f, std: true}
	return l, become(f)
}

func openLog(name string) (*os.File, error) {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() { // to open a pipe would wait
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// Write writes a line. What cannot be written is lost: nobody else could be told.
func (l *logFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if info, err := l.file.Stat(); err == nil && info.Size()+int64(len(line)) > l.max && info.Size() > 0 {
		l.turn()
	}
	_, _ = l.file.Write(line)
	return len(line), nil
}

// turn makes the log the old one. If that cannot be done it goes on growing until it can.
func (l *logFile) turn() {
	if os.Rename(l.name, oldLog(l.name)) != nil {
		return
	}
	f, err := openLog(l.name)
	if err != nil {
		return
	}
	if l.std {
		_ = become(f)
	}
	_ = l.file.Close()
	l.file = f
}

// Close closes it.
func (l *logFile) Close() error { return l.file.Close() }

func newDaemonLogs(c *console) *cobra.Command {
	var follow bool
	var n int
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Show what the daemon has said",
		Long: `Prints the end of STATE/daemon/log, to which a daemon writes that "grapnel daemon start" has
started. At 1 MiB it becomes STATE/daemon/log.old, and the old one is gone.

A daemon that systemd runs writes to the journal: journalctl --user -u grapnel`,
		Example: "  grapnel daemon logs -n 200\n  grapnel daemon logs -f",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if n < 0 {
				return cli.Usage(cli.WithHint(fmt.Errorf("-n %d: a log has no such number of lines", n), "grapnel daemon logs -n 200"))
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			name := daemonFile(place, "log")
			t := &tail{name: name, out: c.Out}
			defer t.close()
			err = t.last(n)
			if errors.Is(err, fs.ErrNotExist) && !follow {
				return cli.WithHint(fmt.Errorf("there is no log %s", name), `"grapnel daemon start" writes one; a daemon of systemd writes to the journal: journalctl --user -u grapnel`)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("cannot read the log: %w", err)
			}
			if follow {
				return t.follow(ctx)
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for more")
	cmd.Flags().IntVarP(&n, "lines", "n", 50, "print the last `N` lines")
	return cmd
}

// A tail prints the end of a log.
type tail struct {
	name string
	out  io.Writer
	file *os.File // what it reads; nil = there is none yet
}

func (t *tail) close() {
	if t.file != nil {
		_ = t.file.Close()
	}
}

// last prints the last lines, those of the old log included.
func (t *tail) last(n int) error {
	old, err := os.ReadFile(oldLog(t.name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var now []byte
	if t.file, err = os.Open(t.name); err == nil {
		now, err = io.ReadAll(t.file)
	}
	if err != nil && (len(old) == 0 || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	lines := slices.Collect(bytes.Lines(slices.Concat(old, now)))
	return t.print(bytes.Join(lines[max(0, len(lines)-n):], nil))
}

// print prints what was written. Who wrote it does not steer the terminal.
func (t *tail) print(text []byte) error {
	_, err := io.WriteString(t.out, printable.Text(strings.ToValidUTF8(string(text), "\uFFFD")))
	return err
}

// logPause is how long a reader waits before it looks for more.
const logPause = 200 * time.Millisecond

// follow prints what is written until ctx is done, in whichever file.
func (t *tail) follow(ctx context.Context) error {
	for {
		next := t.next()
		if t.file != nil { // to its end: nobody writes to it once there is another
			text, err := io.ReadAll(t.file)
			if err == nil && len(text) > 0 {
				err = t.print(text)
			}
			if err != nil {
				return err
			}
		}
		if next != nil {
			t.close()
			t.file = next
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(logPause):
		}
	}
}

// next opens the log if it is another than the one that is read, and goes back to the
// beginning of one that was emptied.
func (t *tail) next() *os.File {
	info, err := os.Stat(t.name)
	if err != nil {
		return nil // not yet
	}
	if t.file != nil {
		have, err := t.file.Stat()
		if err == nil && os.SameFile(info, have) {
			if at, err := t.file.Seek(0, io.SeekCurrent); err == nil && at > have.Size() {
				_, _ = t.file.Seek(0, io.SeekStart)
			}
			return nil
		}
	}
	f, err := os.Open(t.name)
	if err != nil {
		return nil
	}
	return f
}
