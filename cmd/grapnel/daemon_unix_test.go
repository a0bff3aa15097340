//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/internal/await"
)

// The log has a bound, one older one, and the last words of a process.
func TestLogFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "log")
	f, err := openLog(name)
	if err != nil {
		t.Fatal(err)
	}
	l := &logFile{name: name, file: f, max: 100}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() { fmt.Fprintf(l, "line %02d\n", i) })
	}
	wg.Wait()
	now, err := os.ReadFile(name)
	old, oldErr := os.ReadFile(oldLog(name))
	if err != nil || oldErr != nil || len(now) > 100 || len(old) > 100 || len(old) < 90 {
		t.Errorf("the log has %d bytes, the old one %d (%v, %v)", len(now), len(old), err, oldErr)
	}
	if long := strings.Repeat("x", 300) + "\n"; true { // one that is longer than all is kept as a whole
		fmt.Fprint(l, long)
		if now, err = os.ReadFile(name); err != nil || string(now) != long {
			t.Errorf("the log holds %q, %v", now, err)
		}
	}
	// Where it cannot be renamed it goes on.
	if err := os.Remove(oldLog(name)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(oldLog(name), "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(l, "after\n")
	if now, err = os.ReadFile(name); err != nil || !strings.HasSuffix(string(now), "x\nafter\n") {
		t.Errorf("the log ends with %q, %v", now[max(0, len(now)-20):], err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openLog(pipe); err == nil {
		t.Error("a pipe is taken for a log")
	}
}

// A writer that a test can read at any time.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// What is followed has every line once and in order, over changes of the file, and nothing
// in it steers the terminal.
func TestTail(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "log")
	put := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	for n, want := range map[int]string{0: "", 1: "d", 2: "c\nd", 9: "a\nb\nc\nd"} {
		put(oldLog(name), "a\nb\n")
		put(name, "c\nd")
		var out bytes.Buffer
		tail := &tail{name: name, out: &out}
		if err := tail.last(n); err != nil || out.String() != want {
			t.Errorf("the last %d lines are %q, %v, want %q", n, out.String(), err, want)
		}
		tail.close()
	}
	if err := errors.Join(os.Remove(name), os.Remove(oldLog(name))); err != nil {
		t.Fatal(err)
	}
	var out shared
	tl := &tail{name: name, out: &out}
	defer tl.close()
	if err := tl.last(3); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("last, without a log = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- tl.follow(ctx) }()
	f, err := openLog(name)
	if err != nil {
		t.Fatal(err)
	}
	l := &logFile{name: name, file: f, max: 1000}
	var want strings.Builder
	for i := range 120 {
		line := fmt.Sprintf("line %d\n", i)
		want.WriteString(line)
		fmt.Fprint(l, line)
		if i%40 == 39 { // a reader sees each file, if it is not gone before it looks
			await.Until(t, "all lines are printed", func() bool { return out.String() == want.String() })
		}
	}
	fmt.Fprint(l, "\x1b[31mred\xff\n")
	await.Until(t, "the last line is printed without control characters", func() bool { return strings.HasSuffix(out.String(), "\uFFFD[31mred\uFFFD\n") })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	_ = l.Close()
}

func TestSize(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1 kB", 1500: "1.5 kB", 23_100_000: "23.1 MB", 5_000_000_000_000: "5000 GB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestDaemonEnv(t *testing.T) {
	t.Parallel()
	got := daemonEnv([]string{"PATH=/bin", "GRAPNEL_DEPTH=3", "GRAPNELDEBUG=x=1", "TRACEPARENT=00-1", "HOME=/h", "GRAPNEL_HOOK=x"})
	if want := []string{"PATH=/bin", "GRAPNELDEBUG=x=1", "HOME=/h"}; !slices.Equal(got, want) {
		t.Errorf("daemonEnv = %q, want %q", got, want)
	}
}

// hostile are words that mean something to those who read units.
var hostile = []string{"/opt/my tools/grapnel", "serve", "--root", `/a b%h$HOME${X}"quoted"'single'\back;&<tag>--#x`, ""}

// systemdSplit reads a command line as systemd.service(5) says: quotes, escapes, then
// specifiers, then variables but in the first word.
func systemdSplit(line string) []string {
	var words []string
	var b strings.Builder
	quoted, in := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\':
			i++
			b.WriteByte(line[i])
		case c == '"':
			quoted, in = !quoted, true
		case c == ' ' && !quoted:
			words = append(words, b.String())
			b.Reset()
			in = false
		default:
			in = true
			b.WriteByte(c)
		}
	}
	if in {
		words = append(words, b.String())
	}
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "%%", "%")
		if i > 0 {
			words[i] = strings.ReplaceAll(words[i], "$$", "$")
		}
	}
	return words
}

// The property list is XML, and holds the words as they are.
func TestLaunchdUnit(t *testing.T) {
	t.Parallel()
	dec := xml.NewDecoder(strings.NewReader(launchdUnit(hostile).text))
	var keys, words []string
	at := ""
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			at = tok.Name.Local
			if at == "string" {
				words = append(words, "")
			}
		case xml.EndElement:
			at = ""
		case xml.CharData:
			if at == "key" {
				keys = append(keys, string(tok))
			} else if at == "string" {
				words[len(words)-1] += string(tok)
			}
		}
	}
	if want := append([]string{"dev.grapnel.daemon"}, hostile...); !slices.Equal(words, want) {
		t.Errorf("it holds %q, want %q", words, want)
	}
	if want := []string{"Label", "ProgramArguments", "RunAtLoad", "KeepAlive", "SuccessfulExit", "ExitTimeOut"}; !slices.Equal(keys, want) {
		t.Errorf("its keys are %q, want %q", keys, want)
	}
}

// One that is of another version, and says that it is another process than the one that the
// kernel sees: as from a container. It is told apart, and nobody is ended in its place.
func TestOtherDaemon(t *testing.T) {
	t.Parallel()
	root, err := os.MkdirTemp("", "gr") //nolint:usetesting // names of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(root) }()
	l, err := server.Listen(client.Socket(filepath.Join(root, "state")))
	if err != nil {
		t.Fatal(err)
	}
	health := map[string]any{"version": "9.9.9-next", "pid": 1, "queue": map[string]int{"waiting": 7}, "evil\x1b[31m": "\x1b[31m"}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: server.Handler(server.Options{Version: "9.9.9-next", Health: func() (any, bool) { return health, true }})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	for _, tt := range []struct {
		args           string
		exit           int
		stdout, stderr string
	}{
		{"start", 0, "the daemon already runs: version 9.9.9-next, process " + strconv.Itoa(os.Getpid()), `hint: this program is of version 0.1.0; hooks of that version do not ask it: run "grapnel daemon restart"`},
		{"status", 0, "warning: it is of version 9.9.9-next and this program of 0.1.0", ""},
		{"status", 0, `queue      {"waiting":7}`, ""},
		{"status --json", 0, `"waiting": 7`, ""},
		{"stop", 1, "", "process " + strconv.Itoa(os.Getpid()) + " listens, and the daemon says that it is process 1"},
		{"restart", 1, "", "cannot stop the daemon"},
	} {
		var stdout, stderr bytes.Buffer
		exit := run(append([]string{"daemon", "--root", root}, strings.Fields(tt.args)...), strings.NewReader(""), &stdout, &stderr)
		if exit != tt.exit || !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) || strings.Contains(stdout.String(), "\x1b") {
			t.Errorf("daemon %s: exit %d, want %d\nstdout %s\nwant %s\nstderr %s\nwant %s", tt.args, exit, tt.exit, &stdout, tt.stdout, &stderr, tt.stderr)
		}
	}
}

// A part that has ended before it should is no secret: whoever asks how the daemon is hears it.
func TestHealth(t *testing.T) {
	t.Parallel()
	kept, err := store.Open(filepath.Join(t.TempDir(), "store"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kept.Close() })
	d := &daemon{log: slog.New(slog.DiscardHandler), begun: time.Now(), door: &door{}, store: kept}
	server := httptest.NewServer(server.Handler(server.Options{Health: d.health}))
	defer server.Close()
	ask := func() (status int, failed map[string]string) {
		resp, err := server.Client().Get(server.URL + "/v1/health")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var said struct {
			PID    int
			Failed map[string]string
		}
		if err := json.NewDecoder(resp.Body).Decode(&said); err != nil || said.PID != os.Getpid() {
			t.Errorf("it says of itself %+v, %v", said, err)
		}
		return resp.StatusCode, said.Failed
	}
	if status, failed := ask(); status != http.StatusOK || failed != nil {
		t.Errorf("a daemon whose parts all work says %d, %v", status, failed)
	}
	d.partFailed("intake", errors.New("no room"))
	if status, failed := ask(); status != http.StatusServiceUnavailable || failed["intake"] != "no room" {
		t.Errorf("a daemon without its intake says %d, %v", status, failed)
	}
}

// Who closes the store is waited for; who keeps it is not waited for longer than we are.
func TestOpenStore(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	before, err := store.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // must fire: the store is open
	defer cancel()
	if s, err := openStore(ctx, dir, time.Hour, nil); !errors.Is(err, store.ErrLocked) {
		t.Errorf("openStore = %v, %v, want %v", s, err, store.ErrLocked)
	}
	closed := make(chan error, 1)
	time.AfterFunc(100*time.Millisecond, func() { closed <- before.Close() })
	s, err := openStore(t.Context(), dir, time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-closed, s.Close()); err != nil {
		t.Error(err)
	}
}
