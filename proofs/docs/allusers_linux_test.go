//go:build system

package docs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// A server is a machine with the users alice and bob, on which root runs a daemon for all users.
type server struct {
	image

	t    *testing.T
	cmd  *exec.Cmd
	log  lines
	hook string
}

// lines is a log that a process writes while the test reads it.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

const alice, bob = "1001:1001", "1002:1002"

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{image: build(t), t: t}
	s.env = nil
	write(t, filepath.Join(s.root, "etc/passwd"), "root:x:0:0::/root:/bin/sh\nalice:x:1001:1001::/home/alice:/bin/sh\nbob:x:1002:1002::/home/bob:/bin/sh\n")
	write(t, filepath.Join(s.root, "etc/group"), "root:x:0:\nalice:x:1001:\nbob:x:1002:\nteam:x:2000:alice\n")
	for name, id := range map[string]int{"alice": 1001, "bob": 1002} {
		dir := filepath.Join(s.root, "home", name)
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, id, id)); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"run", "var/lib"} {
		if err := os.MkdirAll(filepath.Join(s.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.hook = s.image.hook(t, "kubectl apply -f x")
	return s
}

// serve starts the daemon for all users.
func (s *server) serve() {
	s.t.Helper()
	s.cmd = s.command(s.t, "0:0", "", "", "exec env SECRET=x grapnel serve --all-users --metrics 0")
	s.cmd.Stderr = &s.log
	s.cmd.Cancel = func() error { // the test has ended
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		return os.ErrProcessDone
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.end)
	s.await("the daemon listens", func() bool { return strings.Contains(s.log.String(), "listening for all users") })
}

// end waits until the daemon has ended after a signal.
func (s *server) end() {
	if s.cmd.ProcessState != nil {
		return
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("the daemon for all users: %v\n%s", err, &s.log)
	}
}

func (s *server) await(what string, ok func() bool) {
	s.t.Helper()
	await.Until(s.t, what, ok)
}

// as runs a command as a user.
func (s *server) as(user, command string) string {
	s.t.Helper()
	home := map[string]string{alice: "/home/alice", bob: "/home/bob", "0:0": "/root"}[user]
	out, errs, err := s.start(s.t, user, "", "", "export HOME="+home+"; "+command)
	if err != nil {
		s.t.Logf("%s: %v", command, err)
	}
	return out + errs
}

// blocked sends an event that the managed policy blocks.
func (s *server) blocked(user string) {
	s.t.Helper()
	if got := s.as(user, s.hook); !strings.Contains(got, `"deny"`) || !strings.Contains(got, "A pipeline deploys") {
		s.t.Errorf("%s: %s", user, got)
	}
}

// answered waits until the daemon of a user has answered n events. Its process may still be starting when
// an event comes, so more events may be necessary.
func (s *server) answered(user string, n int) {
	s.t.Helper()
	s.await(fmt.Sprintf("the daemon of %s answers", user), func() bool {
		s.blocked(user)
		m := regexp.MustCompile(`answered +(\d+)\n`).FindStringSubmatch(s.as(user, "grapnel daemon status"))
		if m == nil {
			return false
		}
		got, _ := strconv.Atoi(m[1])
		return got >= n
	})
}

// process returns the ID of the last process for a user.
func (s *server) process(name string) string {
	s.t.Helper()
	all := regexp.MustCompile(`the daemon of a user runs" user=`+name+` uid=\d+ pid=(\d+)`).FindAllStringSubmatch(s.log.String(), -1)
	if len(all) == 0 {
		s.t.Fatalf("no daemon for %s:\n%s", name, &s.log)
	}
	return all[len(all)-1][1]
}

// With one daemon of root, a managed policy is answered by a process with the rights and the state of the
// user who asks. The other user cannot disturb it.
func TestAllUsers(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.blocked(alice) // without any daemon
	s.serve()
	s.answered(alice, 2)
	write(t, filepath.Join(s.root, "home/bob/.config/grapnel/grapnel.yaml"), "version: 1\nhooks:\n  - {name: no-push, on: tool.before, match: {command: git push}, block: Bob says no.}\n")
	s.answered(bob, 1)
	push := strings.Replace(s.hook, "kubectl apply -f x", "git push", 1)
	if got := s.as(bob, push); !strings.Contains(got, "Bob says no.") {
		t.Errorf("the policy of bob: %s", got)
	}
	if got := s.as(alice, push); got != "" {
		t.Errorf("the policy of bob for alice: %s", got)
	}
	if got := s.as(alice, "grapnel log; grapnel status"); !strings.Contains(got, "no-deploy  kubectl apply -f x") || strings.Contains(got, "Bob") {
		t.Errorf("the log of alice:\n%s", got)
	}
	status, err := os.ReadFile("/proc/" + s.process("alice") + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Uid:\t1001\t1001\t1001\t1001\n", "Gid:\t1001\t1001\t1001\t1001\n", "Groups:\t1001 2000 \n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "CapAmb:\t0000000000000000\n"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("no %q in\n%s", want, status)
		}
	}
	if env, err := os.ReadFile("/proc/" + s.process("alice") + "/environ"); err != nil || !bytes.Contains(env, []byte("HOME=/home/alice\x00")) || bytes.Contains(env, []byte("SECRET")) {
		t.Errorf("environment %q, %v", env, err)
	}
	if st, err := os.Stat(filepath.Join(s.root, "home/alice/.local/state/grapnel/index")); err != nil || st.Sys().(*syscall.Stat_t).Uid != 1001 {
		t.Errorf("the index of alice: %v, %v", st, err)
	}
}

// A user can disturb only the process of this user, and then grapnel-hook answers by itself.
func TestAllUsersAttacked(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.serve()
	s.answered(alice, 1)
	s.answered(bob, 1)
	pid := s.process("alice")
	// The process of alice has no secrets for alice, and follows no debugger.
	for _, file := range []string{"environ", "mem", "maps", "fd/3"} {
		if got := s.as(alice, "cat /proc/"+pid+"/"+file); !strings.Contains(got, "Permission denied") {
			t.Errorf("alice reads %s: %q", file, got)
		}
	}
	for _, command := range []string{
		"kill -9 " + s.process("bob"),
		"rm -f /run/grapnel/socket",
		"mv /run/grapnel /run/other",
		"touch /var/lib/grapnel/users/1002",
		"grapnel serve --all-users",
		"grapnel serve --as 0:0:0 3<>/dev/null",
	} {
		if got := s.as(alice, command+" && echo done"); strings.Contains(got, "done") || got == "" {
			t.Errorf("alice runs %q: %s", command, got)
		}
	}
	s.blocked(bob)
	// A stopped process costs alice time, no rule.
	s.as(alice, "kill -STOP "+pid)
	s.blocked(alice)
	s.answered(bob, 2)
	s.as(alice, "kill -9 "+pid)
	s.blocked(alice)
	s.answered(alice, 1)
	if s.process("alice") == pid {
		t.Error("a killed process answers")
	}
	// A daemon that alice has started herself does not answer where root has policies.
	s.as(alice, "grapnel daemon stop")
	other := s.command(t, alice, "", "", "export HOME=/home/alice; exec grapnel serve --log /home/alice/log")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	s.await("the own daemon of alice runs", func() bool { return strings.Contains(s.as(alice, "grapnel daemon status"), "daemon     running") })
	s.blocked(alice)
	if got := s.as(alice, "grapnel daemon status"); !strings.Contains(got, "answered   0\n") {
		t.Errorf("the daemon of alice has answered: %s", got)
	}
	s.await("root says why there is no other daemon for alice", func() bool {
		s.blocked(alice)
		return strings.Contains(s.log.String(), "exit status 1: this user's") && strings.Contains(s.as(alice, "grapnel daemon logs -n 9"), "a daemon is running")
	})
	// A user without an entry is blocked, as without a daemon.
	if got := s.as("4711:4711", s.hook); !strings.Contains(got, `"deny"`) {
		t.Errorf("an unknown user: %s", got)
	}
}

// The daemon for all users starts the daemons of known users with itself, ends them with itself, and
// counts for all of them.
func TestAllUsersRestart(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.serve()
	s.answered(alice, 1)
	s.answered(bob, 1)
	if got := s.as(alice, "grapnel daemon restart"); !strings.Contains(got, "the daemon has stopped") || !strings.Contains(got, "the daemon runs: ") {
		t.Errorf("restart: %s", got)
	}
	s.answered(alice, 1)
	address := regexp.MustCompile(`url=(http://\S+)`).FindStringSubmatch(s.log.String())
	resp, err := http.Get(address[1])
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`grapnel_user_up{user="alice"} 1`, `grapnel_user_up{user="bob"} 1`, `user="bob"} 1`, `grapnel_answers_total{how="answered",reason="",user="alice"} `} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	old := []string{s.process("alice"), s.process("bob")}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.end()
	for _, pid := range old {
		if _, err := os.Stat("/proc/" + pid); err == nil {
			t.Errorf("process %s is still there", pid)
		}
	}
	s.blocked(alice)
	s.log = lines{}
	s.serve()
	s.await("both daemons run again", func() bool {
		return strings.Contains(s.as(alice, "grapnel daemon status"), "daemon     running") && strings.Contains(s.as(bob, "grapnel daemon status"), "daemon     running")
	})
}
