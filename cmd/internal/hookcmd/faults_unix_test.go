//go:build linux || darwin

package hookcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/internal/ask"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/local"
)

// A heard holds the requests to a failing daemon.
type receivedRequests struct {
	mu      sync.Mutex
	firings []string
	held    []net.Conn // connections that stay open
}

// failing starts a daemon that reads a question if reads is true, and then calls does.
func failing(t *testing.T, root string, reads bool, does func(w io.Writer, hold func())) *receivedRequests {
	t.Helper()
	l, err := server.Listen(client.Socket(filepath.Join(root, "state")))
	if err != nil {
		t.Fatal(err)
	}
	got := &receivedRequests{}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				if reads {
					r, err := http.ReadRequest(bufio.NewReader(conn))
					if err == nil {
						_, err = io.Copy(io.Discard, r.Body)
					}
					if err != nil {
						t.Errorf("the question cannot be read: %v", err)
					} else {
						got.mu.Lock()
						got.firings = append(got.firings, r.Header.Get(client.HeaderFiring))
						got.mu.Unlock()
					}
				}
				held := false
				does(conn, func() { held = true })
				if !held {
					_ = conn.Close()
					return
				}
				got.mu.Lock()
				got.held = append(got.held, conn)
				got.mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
		for _, conn := range got.held {
			_ = conn.Close()
		}
	})
	return got
}

// records returns the Records of a root.
func records(t *testing.T, root string) []spool.Entry {
	t.Helper()
	var all []spool.Entry
	for e, err := range spool.Read(filepath.Join(root, "state"), spool.Filter{}) {
		if err != nil {
			t.Error(err)
		}
		all = append(all, e)
	}
	return all
}

const (
	removesAll = `{"session_id":"s","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"rm -rf /"}}`
	another    = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nGrapnel-Exit: 0\r\nGrapnel-Stdout: 4\r\n\r\nfake"
)

// If a daemon does not send a valid answer, the agent gets the same bytes as without a daemon,
// before its timeout. There is one Record, with the ID of the firing that the daemon got, so that
// a Record that the daemon stored is the same one.
//
// chaos: daemons
func TestFailingDaemons(t *testing.T) {
	t.Parallel()
	writes := func(text string) func(io.Writer, func()) {
		return func(w io.Writer, _ func()) { _, _ = io.WriteString(w, text) }
	}
	head := func(lines ...string) string { return "HTTP/1.1 200 OK\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n" }
	answered := make(chan struct{}) // closed when the program without a reply in time has answered
	const atWork = "HTTP/1.1 102 Processing\r\n\r\n"
	for name, does := range map[string]func(w io.Writer, hold func()){
		"closes":                    writes(""),
		"says nothing":              func(_ io.Writer, hold func()) { hold() },
		"begins too late":           func(w io.Writer, _ func()) { <-answered; writes(another)(w, nil) },
		"at work, then dead":        writes(atWork),
		"at work, then half a head": writes(atWork + "HTTP/1.1 200 O"),
		"at work, then half a body": writes(atWork + another[:len(another)-2]),
		"at work, then garbage":     writes(atWork + "\x00\xff\r\n\r\n"),
		"at work, then not for us":  writes(atWork + "HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n"),
		"garbage":                   writes("\x00\xff\xfe\r\n\r\nmore\r\n\r\n"),
		"garbage without an end":    writes(strings.Repeat("garbage ", 1<<17)),
		"half a head":               writes(another[:30]),
		"half an answer":            writes(another[:len(another)-2]),
		"a length of 1 TB":          writes(head("Content-Length: 1099511627776", "Grapnel-Exit: 0", "Grapnel-Stdout: 4") + "fake"),
		"a length beyond numbers":   writes(head("Content-Length: 99999999999999999999", "Grapnel-Exit: 0", "Grapnel-Stdout: 4") + "fake"),
		"a length below 0":          writes(head("Content-Length: -4", "Grapnel-Exit: 0", "Grapnel-Stdout: 0") + "fake"),
		"no length":                 writes(head("Grapnel-Exit: 0", "Grapnel-Stdout: 4") + "fake"),
		"longer than it says":       writes(another + "more"),
		"shorter than it says":      writes(strings.Replace(another, "fake", "fak", 1)),
		"stdout beyond the end":     writes(strings.Replace(another, "Stdout: 4", "Stdout: 5", 1)),
		"no stdout":                 writes(strings.Replace(another, "Grapnel-Stdout", "X", 1)),
		"exit code 256":             writes(strings.Replace(another, "Exit: 0", "Exit: 256", 1)),
		"exit code -1":              writes(strings.Replace(another, "Exit: 0", "Exit: -1", 1)),
		"in chunks":                 writes("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nGrapnel-Exit: 0\r\nGrapnel-Stdout: 4\r\n\r\n4\r\nfake\r\n0\r\n\r\n"),
		"an error":                  writes("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\nGrapnel-Exit: 0\r\nGrapnel-Stdout: 4\r\n\r\nfake"),
		"sent elsewhere":            writes("HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1/\r\nContent-Length: 4\r\nGrapnel-Exit: 0\r\nGrapnel-Stdout: 4\r\n\r\nfake"),
		"older HTTP":                writes(strings.Replace(another, "1.1", "1.0", 1)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := rootWith(t, servedPolicy)
			want := program([]string{"claude-code", "--root", root}, []byte(removesAll))
			if !strings.Contains(want.Stdout, "Use trash.") {
				t.Fatalf("without a daemon: %+v", want)
			}
			before := len(records(t, root))
			daemon := failing(t, root, true, does)
			got := program([]string{"claude-code", "--root", root}, []byte(removesAll))
			if name == "begins too late" {
				close(answered)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-without +with a daemon)\n%s", diff)
			}
			kept := records(t, root)
			await.Until(t, "the daemon has read the question", func() bool {
				daemon.mu.Lock()
				defer daemon.mu.Unlock()
				return len(daemon.firings) > 0
			})
			daemon.mu.Lock()
			defer daemon.mu.Unlock()
			if len(kept) != before+1 || len(daemon.firings) != 1 || kept[len(kept)-1].ID != daemon.firings[0] {
				t.Errorf("%d Records, want %d, the last of the firing %q that the daemon was told: %+v", len(kept), before+1, daemon.firings, kept[len(kept)-1].ID)
			}
		})
	}
	t.Run("reads nothing", func(t *testing.T) {
		t.Parallel()
		root := rootWith(t, servedPolicy)
		payload := []byte(strings.Replace(removesAll, "rm -rf /", "rm -rf / #"+strings.Repeat("x", 8<<20), 1))
		want := program([]string{"claude-code", "--root", root}, payload)
		failing(t, root, false, func(_ io.Writer, hold func()) { hold() })
		if diff := cmp.Diff(want, program([]string{"claude-code", "--root", root}, payload)); diff != "" {
			t.Errorf("(-without +with a daemon)\n%s", diff)
		}
		if kept := records(t, root); len(kept) != 2 {
			t.Errorf("%d Records, want 2", len(kept))
		}
	})
}

// A correct answer of the fake daemon is used: the cases above differ from it in one point.
func TestFakeDaemonIsBelieved(t *testing.T) {
	t.Parallel()
	root := rootWith(t, servedPolicy)
	failing(t, root, true, func(w io.Writer, _ func()) { _, _ = io.WriteString(w, another) })
	for range 5 { // a busy machine may be late
		if got := program([]string{"claude-code", "--root", root}, []byte(removesAll)); got.Stdout == "fake" {
			return
		}
	}
	t.Error("nobody believes it")
}

// handled starts a real daemon of a root behind a faulty handler.
func handled(t *testing.T, root, version string, around func(answers http.Handler) http.Handler) *listening {
	t.Helper()
	l := &listening{}
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	l.warm = NewWarm(WarmOptions{State: place.State, Ask: func(context.Context, []byte) (ask.Reply, error) { return ask.Reply{}, nil }, Keep: func(_ context.Context, lines [][]byte, _ []Notice, _ bool) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, line := range lines {
			l.lines = append(l.lines, string(line))
		}
		return nil
	}})
	socket, err := server.Listen(client.Socket(place.State))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: around(server.Handler(server.Options{Version: version, Answer: l.warm.Answer, Declined: func(why string) {
		l.mu.Lock()
		l.declined = append(l.declined, why)
		l.mu.Unlock()
	}}))}
	served := make(chan error, 1)
	go func() { served <- s.Serve(socket) }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		if err := l.warm.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

// A daemon of another version gets the question, reports its version, and stores no Record.
//
// chaos: daemons
func TestOtherVersion(t *testing.T) {
	t.Parallel()
	root := rootWith(t, servedPolicy)
	want := program([]string{"claude-code", "--root", root}, []byte(removesAll))
	daemon := handled(t, root, Version+"-next", func(h http.Handler) http.Handler { return h })
	if diff := cmp.Diff(want, program([]string{"claude-code", "--root", root}, []byte(removesAll))); diff != "" {
		t.Errorf("(-without +with a daemon)\n%s", diff)
	}
	daemon.mu.Lock()
	defer daemon.mu.Unlock()
	if kept := records(t, root); len(kept) != 2 || len(daemon.lines) != 0 || !slices.Equal(daemon.declined, []string{"version"}) {
		t.Errorf("%d Records in the log, want 2; %d of the daemon, want none; declined %v", len(kept), len(daemon.lines), daemon.declined)
	}
}

// A daemon dies after it has stored the Record and before the program gets the answer. The
// program answers, and both Records are of one firing, so that only one of them counts.
func TestDiesWithTheAnswer(t *testing.T) {
	t.Parallel()
	root := rootWith(t, servedPolicy)
	want := program([]string{"claude-code", "--root", root}, []byte(removesAll))
	daemon := handled(t, root, Version, func(answers http.Handler) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			answers.ServeHTTP(&discardWriter{header: http.Header{}}, r)
			panic(http.ErrAbortHandler)
		})
	})
	if diff := cmp.Diff(want, program([]string{"claude-code", "--root", root}, []byte(removesAll))); diff != "" {
		t.Errorf("(-without +with a daemon)\n%s", diff)
	}
	daemon.mu.Lock()
	defer daemon.mu.Unlock()
	kept := records(t, root)
	if len(kept) != 2 || len(daemon.lines) != 1 || !strings.Contains(daemon.lines[0], fmt.Sprintf("%q", kept[1].ID)) {
		t.Errorf("the daemon has kept %v, the spool %d Records, the last of %s: want the same", daemon.lines, len(kept), kept[len(kept)-1].ID)
	}
}

// discardWriter is a response writer that drops everything.
type discardWriter struct{ header http.Header }

func (u *discardWriter) Header() http.Header         { return u.header }
func (u *discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (u *discardWriter) WriteHeader(int)             {}
