//go:build linux || darwin

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// socketOf returns the socket of a test's state directory, with a path that is short enough for
// every system.
func socketOf(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gr") //nolint:usetesting // a socket path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return client.Socket(filepath.Join(dir, "state"))
}

// serveOn serves options on a socket until the test ends.
func serveOn(t *testing.T, socket string, opts Options) {
	t.Helper()
	l, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l, opts)
}

// ask returns the reply of a daemon. It repeats the question if a busy machine makes the daemon
// begin too late.
func ask(t *testing.T, socket string, q *client.Question) *client.Answer {
	t.Helper()
	var got *client.Answer
	await.Until(t, "the daemon answers a question", func() (ok bool) {
		var err error
		got, err = client.Ask(socket, q)
		return err == nil
	})
	return got
}

// look returns a daemon and its health. It repeats the request if a busy machine makes the daemon
// answer too late.
func look(t *testing.T, socket string) (found *Found, err error) {
	t.Helper()
	await.Until(t, "the daemon says how it is", func() bool {
		found, err = Look(t.Context(), socket)
		return !errors.Is(err, ErrSilent)
	})
	return found, err
}

func serve(t *testing.T, l net.Listener, opts Options) {
	t.Helper()
	server := NewServer(opts, &http.Server{ReadHeaderTimeout: time.Minute})
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

func TestListenMakesItsDirectoryPrivate(t *testing.T) {
	t.Parallel()
	socket := socketOf(t)
	l, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{filepath.Dir(socket): os.ModeDir | 0o700, socket: os.ModeSocket | 0o600} {
		if info, err := os.Lstat(name); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket outlives its daemon: %v", err)
	}
	if _, err := Look(t.Context(), socket); !errors.Is(err, ErrAbsent) || errors.Is(err, ErrDead) {
		t.Errorf("Look = %v, want %v", err, ErrAbsent)
	}
}

// Neither side uses a directory in which another user could put a socket. Both errors contain a
// hint.
func TestDirectoriesOfOthers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil   func(t *testing.T, dir string)
		wantErr string
	}{
		"open to the group": {func(t *testing.T, dir string) { chmod(t, dir, 0o750) }, "chmod 700"},
		"open to read":      {func(t *testing.T, dir string) { chmod(t, dir, 0o755) }, "chmod 700"},
		"a file":            {func(t *testing.T, dir string) { chmod(t, dir, 0o600); replace(t, dir, false) }, "not a directory"},
		"a link":            {func(t *testing.T, dir string) { replace(t, dir, true) }, "not a directory"},
		"of another user": {func(t *testing.T, dir string) {
			if os.Getuid() != 0 {
				t.Skip("only root can give a directory away")
			}
			if err := os.Chown(dir, 4711, -1); err != nil {
				t.Fatal(err)
			}
		}, "is owned by user 4711"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			socket := socketOf(t)
			serveOn(t, socket, Options{Version: "1", Answer: echo})
			q := &client.Question{Version: "1", Payload: []byte("x"), Budget: await.Limit}
			ask(t, socket, q)
			tt.spoil(t, filepath.Dir(socket))
			if got, err := client.Ask(socket, q); err == nil {
				t.Errorf("a program believes %s", got.Stdout)
			}
			if found, err := Look(t.Context(), socket); err == nil {
				t.Errorf("Look believes %v", found)
			}
			if l, err := Listen(socket); err == nil {
				t.Errorf("Listen does not refuse it")
				_ = l.Close()
			} else if !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("Listen says %q, want %q in it", err, tt.wantErr)
			}
		})
	}
}

func chmod(t *testing.T, name string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

// replace replaces a directory by a file, or by a link to one.
func replace(t *testing.T, dir string, link bool) {
	t.Helper()
	err := os.Rename(dir, dir+".real")
	if err == nil && link {
		err = os.Symlink(dir+".real", dir)
	} else if err == nil {
		err = os.WriteFile(dir, nil, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func echo(_ context.Context, q *client.Question) (*client.Answer, error) {
	return &client.Answer{Stdout: q.Payload, Stderr: []byte("told"), Exit: 7, Drain: true}, nil
}

const asOther = "RELAY_TEST_SOCKET"

// TestAsOther uses a socket as another user; see TestOtherUsers.
func TestAsOther(t *testing.T) {
	socket := os.Getenv(asOther)
	if socket == "" {
		t.SkipNow()
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(await.Limit))
	fmt.Fprint(conn, "GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n")
	if n, err := io.ReadFull(conn, make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("the daemon talks to user %d", os.Getuid())
	}
	// Other users do not trust a socket of this user.
	dir, err := os.MkdirTemp("", "gr") //nolint:usetesting // other users must reach it
	if err != nil {
		t.Fatal(err)
	}
	l, err := Listen(filepath.Join(dir, "d", "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	defer l.Close()
	chmod(t, dir, 0o755)
	chmod(t, filepath.Join(dir, "d"), 0o755)
	fmt.Printf("listening %s\n", filepath.Join(dir, "d", "socket"))
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// If many daemons start at once, one listens, and the others report this.
func TestListenOnce(t *testing.T) {
	t.Parallel()
	for range 5 {
		socket := socketOf(t)
		var mu sync.Mutex
		var listening []net.Listener
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				l, err := Listen(socket)
				if err != nil && !errors.Is(err, ErrRunning) {
					t.Error(err)
				}
				if err == nil {
					mu.Lock()
					listening = append(listening, l)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(listening) != 1 {
			t.Fatalf("%d daemons listen, want 1", len(listening))
		}
		if !Busy(socket) {
			t.Error("Busy does not see it")
		}
		serve(t, listening[0], Options{Version: "v"})
		if found, err := look(t, socket); err != nil || string(found.Health["version"]) != `"v"` || found.PID != os.Getpid() || !found.Well {
			t.Errorf("Look = %+v, %v, want version v, pid %d", found, err, os.Getpid())
		}
	}
}

// Files of a dead daemon are recognized and do not prevent a start.
func TestLeftOver(t *testing.T) {
	t.Parallel()
	socket := socketOf(t)
	if err := Prepare(socket); err != nil {
		t.Fatal(err)
	}
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	if _, err := Look(t.Context(), socket); !errors.Is(err, ErrDead) || !errors.Is(err, ErrAbsent) {
		t.Errorf("Look = %v, want %v", err, ErrDead)
	}
	if Busy(socket) {
		t.Error("Busy takes it for one that runs")
	}
	l, err := Listen(socket)
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	if err := Clear(socket); !errors.Is(err, ErrRunning) {
		t.Errorf("Clear of one that runs = %v, want %v", err, ErrRunning)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(socket, nil, 0o600); err != nil { // any file
		t.Fatal(err)
	}
	if err := Clear(socket); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Clear leaves it: %v", err)
	}
}

// A process that listens but sends no valid health report is distinguished from a missing daemon.
func TestLookAtOddOnes(t *testing.T) {
	t.Parallel()
	for name, response := range map[string]string{
		"nothing":      "",
		"garbage":      "\x00\x01\xff\r\n\r\n",
		"half a head":  "HTTP/1.1 200 OK\r\nContent-Le",
		"no JSON":      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
		"null":         "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull",
		"half of it":   "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"version\":",
		"without end":  "HTTP/1.1 200 OK\r\n\r\n{\"a\":\"" + strings.Repeat("x", maxHealth),
		"another page": "HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			socket := socketOf(t)
			l, err := Listen(socket)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = conn.Read(make([]byte, 4096))
					_, _ = io.WriteString(conn, response)
					_ = conn.Close()
				}
			}()
			defer func() { _ = l.Close(); <-done }()
			found, err := Look(t.Context(), socket)
			if !errors.Is(err, ErrSilent) || found == nil || found.PID != os.Getpid() || found.Health != nil {
				t.Errorf("Look = %+v, %v, want %v and its pid", found, err, ErrSilent)
			}
		})
	}
	t.Run("a part does not work", func(t *testing.T) {
		t.Parallel()
		socket := socketOf(t)
		l, err := Listen(socket)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_ = json.NewEncoder(w).Encode(map[string]string{"store": "disk full"})
		})}
		go func() { _ = server.Serve(l) }()
		defer server.Close()
		found, err := look(t, socket)
		if err != nil || found.Well || string(found.Health["store"]) != `"disk full"` {
			t.Errorf("Look = %+v, %v", found, err)
		}
	})
	t.Run("hangs", func(t *testing.T) {
		t.Parallel()
		socket := socketOf(t)
		l, err := Listen(socket)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // must fire: the daemon hangs
		defer cancel()
		if found, err := Look(ctx, socket); !errors.Is(err, ErrSilent) || found == nil || found.PID != os.Getpid() {
			t.Errorf("Look = %+v, %v, want %v", found, err, ErrSilent)
		}
	})
}

// A socket path that is too long for the system is reached by another way, or refused.
func TestLongNames(t *testing.T) {
	t.Parallel()
	socket := client.Socket(filepath.Join(filepath.Dir(socketOf(t)), strings.Repeat("long/", 40)))
	l, err := Listen(socket)
	if err != nil {
		if strings.Contains(err.Error(), "too long") && len(socket) > maxName {
			return // this system has no other way
		}
		t.Fatal(err)
	}
	serve(t, l, Options{Version: "1", Answer: echo})
	if found, err := look(t, socket); err != nil || found.PID != os.Getpid() {
		t.Errorf("Look = %+v, %v", found, err)
	}
	got := ask(t, socket, &client.Question{Version: "1", Payload: []byte("x"), Budget: await.Limit})
	if string(got.Stdout) != "x" || string(got.Stderr) != "told" || got.Exit != 7 || !got.Drain {
		t.Errorf("Ask = %+v", got)
	}
}

// A daemon that has lost its socket notices it, and does not remove the socket of its successor.
func TestSocketRemoved(t *testing.T) {
	t.Parallel()
	socket := socketOf(t)
	listen := func() *Listener {
		t.Helper()
		l, err := Listen(socket)
		if err != nil {
			t.Fatal(err)
		}
		if l.SocketRemoved() {
			t.Error("a socket that was just made is lost")
		}
		return l
	}
	first := listen()
	if err := os.RemoveAll(filepath.Dir(socket)); err != nil {
		t.Fatal(err)
	}
	if !first.SocketRemoved() {
		t.Error("a socket that was removed is not lost")
	}
	second := listen()
	if !first.SocketRemoved() {
		t.Error("a socket in whose place there is another is not lost")
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if conn, err := Dial(t.Context(), socket); err != nil {
		t.Errorf("the socket of the second is gone with the first: %v", err)
	} else {
		_ = conn.Close()
	}
	if second.SocketRemoved() {
		t.Error("the second has lost its socket to the first")
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Dial(t.Context(), socket); !errors.Is(err, ErrAbsent) {
		t.Errorf("after both: %v, want %v", err, ErrAbsent)
	}
}
