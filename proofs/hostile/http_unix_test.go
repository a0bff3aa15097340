//go:build system && unix

package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// judge starts a server that blocks rm -rf and counts the requests.
func judge(t *testing.T) (policy string, asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		body, err := io.ReadAll(r.Body)
		if err == nil && bytes.Contains(body, []byte("rm -rf")) {
			fmt.Fprint(w, `{"decision":"block","reason":"Not this one."}`)
			return
		}
		fmt.Fprint(w, `{"decision":"allow","reason":"Go on."}`)
	}))
	t.Cleanup(server.Close)
	return "version: 1\nnetworks: [127.0.0.1/32]\nhooks:\n  - {name: judge, on: tool.before, http: " + quoted(server.URL+"/decide") + ", on_error: closed}\n", asked
}

// Damaged state does not prevent requests to a server: it cannot open the circuit breaker, and if
// no state can be stored, there is no circuit breaker.
func TestAskWithDamagedState(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(name string) error{
		"empty":   func(name string) error { return os.Truncate(name, 0) },
		"cut off": func(name string) error { return os.Truncate(name, 30) },
		"noise": func(name string) error {
			return os.WriteFile(name, bytes.Repeat([]byte("\x00\xff{\"a\":["), 2000), 0o600)
		},
		"huge":        func(name string) error { return os.WriteFile(name, bytes.Repeat([]byte("9"), 1<<20), 0o600) },
		"a pipe":      func(name string) error { return errors.Join(os.Remove(name), syscall.Mkfifo(name, 0o600)) },
		"a directory": func(name string) error { return errors.Join(os.Remove(name), os.Mkdir(name, 0o700)) },
		"a long link": func(name string) error { return errors.Join(os.Remove(name), os.Symlink("/dev/zero", name)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy, asked := judge(t)
			w := newWorld(t, strings.Replace(policy, "http://127.0.0.1:", "http://127.0.0.1:1/", 1)) // no server listens there
			blocked(t, w.hook(t, stdin(ls), claude.args...))
			w.write(t, "grapnel.yaml", policy)
			blocked(t, w.hook(t, stdin(rm), claude.args...))
			for _, file := range w.stateFiles(t) {
				if err := damage(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
			}
			before := asked.Load()
			for range 2 {
				if r := blocked(t, w.hook(t, stdin(rm), claude.args...)); !strings.Contains(r.stdout, "Not this one.") {
					t.Errorf("%v", r)
				}
			}
			if n := asked.Load() - before; n != 2 {
				t.Errorf("the server was asked %d times, want 2", n)
			}
		})
	}
}

// The same is true without a state directory.
func TestAskWithoutState(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(state string) error{
		"a file":            func(state string) error { return os.WriteFile(state, nil, 0o600) },
		"a link to nothing": func(state string) error { return os.Symlink("/nowhere/at/all", state) },
		"a full disk":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy, _ := judge(t)
			w := newWorld(t, policy)
			cmd := w.hook(t, stdin(rm), claude.args...)
			if plant == nil {
				cmd = w.shellRun(t, stdin(rm), `ulimit -f 0; exec "$@"`)
			} else if err := plant(filepath.Join(w.root, "state")); err != nil {
				t.Fatal(err)
			}
			if r := blocked(t, cmd); !strings.Contains(r.stdout, "Not this one.") {
				t.Errorf("%v", r)
			}
		})
	}
}

// An allow from the server does not overrule a hook in a file of another system.
func TestAskBesideLoad(t *testing.T) {
	t.Parallel()
	policy, asked := judge(t)
	w := newWorld(t, policy+"load: [ironclaw]\n")
	w.plant(t, foreignFiles["ironclaw"].name, strings.ReplaceAll(foreignFiles["ironclaw"].text, "rm -rf", "pwd"))
	for _, command := range []string{rm, `"pwd"`} {
		if r := blocked(t, w.hook(t, stdin(command), claude.args...)); !strings.Contains(r.stdout, "Not this one.") {
			t.Errorf("%v", r)
		}
	}
	r := run(t, w.hook(t, stdin(ls), claude.args...))
	if got := heeds(t, claude.name, r); got.blocked || got.asked {
		t.Errorf("%v", r)
	}
	if n := asked.Load(); n < 2 || n > 3 {
		t.Errorf("the server was asked %d times", n)
	}
}
