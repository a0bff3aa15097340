//go:build system && unix

package server

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// The client neither sends anything to a daemon of another user nor trusts its reply, even if the
// directory allows it.
func TestOtherUsers(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	socket := socketOf(t)
	serveOn(t, socket, Options{Version: "1"})
	for _, open := range []string{filepath.Dir(filepath.Dir(filepath.Dir(socket))), filepath.Dir(filepath.Dir(socket)), filepath.Dir(socket), socket} {
		chmod(t, open, 0o777)
	}
	// A copy of the test program that the other user can execute.
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Skip("this system does not show a program to itself")
	}
	bin, err := os.MkdirTemp("", "gr") //nolint:usetesting // other users must reach it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(bin) }()
	chmod(t, bin, 0o755)
	if err := os.WriteFile(filepath.Join(bin, "relay"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "relay"), "-test.run=^TestAsOther$")
	cmd.Env, cmd.Dir = []string{asOther + "=" + socket, "TMPDIR=/tmp"}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4711, Gid: 4711}}
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the other user: %v", err)
		}
	}()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	theirs, ok := strings.CutPrefix(strings.TrimSpace(line), "listening ")
	if err != nil || !ok {
		t.Fatalf("the other user says %q, %v", line, err)
	}
	// The directory has another owner. If root owns it, only the process behind the socket
	// identifies the user.
	for _, given := range []bool{false, true} {
		if given {
			if err := errors.Join(os.Chown(filepath.Dir(theirs), 0, 0), os.Chmod(filepath.Dir(theirs), 0o700)); err != nil {
				t.Fatal(err)
			}
		}
		q := &client.Question{Version: "1", Budget: await.Limit}
		if _, err := client.Ask(theirs, q); err == nil || !strings.Contains(err.Error(), "users other than this one") {
			t.Errorf("thin.Ask, given %v: %v", given, err)
		}
		if _, err := Look(t.Context(), theirs); err == nil || !strings.Contains(err.Error(), "4711") && given {
			t.Errorf("Look, given %v: %v", given, err)
		}
	}
	if err := os.Chown(filepath.Dir(theirs), 4711, 4711); err != nil {
		t.Error(err)
	}
}
