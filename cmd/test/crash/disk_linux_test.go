//go:build system

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/test/served"
	"github.com/grapnel-dev/grapnel/internal/await"
)

// smallDisk names the environment variable with the directory on which the child process of a
// test mounts a small disk.
const smallDisk = "GRAPNEL_TEST_DISK"

// onSmallDisk runs a test again, in a process with its own mount namespace, where it returns a
// directory that holds 4 MB. In the first process it waits for that process and returns "".
func onSmallDisk(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv(smallDisk); dir != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=0700"); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := root(t)
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	may := exec.CommandContext(t.Context(), "true")
	may.SysProcAttr = attr
	if err := may.Run(); errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EACCES) {
		t.Skipf("this system lets nobody mount a small disk: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env, cmd.SysProcAttr = append(os.Environ(), smallDisk+"="+dir, "GRAPNEL_TEST_PROGRAMS="+filepath.Dir(bin)), attr
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("on the small disk: %v", err)
	}
	return ""
}

// fill uses all free space on the disk of a directory. empty frees it.
func fill(t *testing.T, dir string) (empty func()) {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 64 << 10; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 16
		}
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

// While a disk is full, events are answered as before, and every answer without a warning has a
// Record. A strict policy blocks calls that cannot get a Record. When the disk has space again,
// everything continues without manual steps.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := onSmallDisk(t)
	if disk == "" {
		return
	}
	for _, strict := range []bool{false, true} {
		dir := filepath.Join(disk, fmt.Sprint(strict))
		tr := trialOf(t, dir, fmt.Sprintf("strict: %v\n%s", strict, policy))
		d := start(t, tr)
		if err := errors.Join(tr.askDaemon(d, "toolu_before", "ls", false), tr.askHook(t.Context(), "toolu_before_hook", "ls", false)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond) // until the anchor and the word index are written
		empty := fill(t, disk)
		warned, let := 0, 0
		for n := range 300 {
			line, blocked := command(n)
			id := fmt.Sprintf("toolu_full_%d", n)
			var stdout, stderr string
			if n%4 == 3 {
				cmd := exec.CommandContext(t.Context(), served.Exe(bin, "grapnel-hook"), "claude-code", "--root", dir)
				var out, errOut strings.Builder
				cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = served.Project(dir), served.Env(dir), &out, &errOut
				cmd.Stdin = strings.NewReader(string(served.Event(dir, "crash", id, line)))
				if err := cmd.Run(); err != nil {
					t.Fatalf("strict %v, %s: %v: %s", strict, id, err, errOut.String())
				}
				stdout, stderr = out.String(), errOut.String()
			} else {
				a, err := client.Ask(d.Socket(), d.Question("f-"+id, served.Event(dir, "crash", id, line)))
				if errors.Is(err, client.ErrSelf) {
					continue // the daemon declines; grapnel-hook would answer
				}
				if err != nil {
					t.Fatalf("strict %v, %s: %v: %s", strict, id, err, d.Output())
				}
				stdout, stderr = string(a.Stdout), string(a.Stderr)
			}
			denied := strings.Contains(stdout, `"permissionDecision":"deny"`)
			switch {
			case blocked && !denied:
				t.Fatalf("strict %v, %s: the canary passes: %q, %q", strict, id, stdout, stderr)
			case strict && denied && !blocked, strings.Contains(stderr, "no Record was stored"):
				warned++
			case denied && !blocked:
				t.Fatalf("%s: blocked for want of room: %q, %q", id, stdout, stderr)
			default:
				tr.ask(id, "", blocked)()
				let++
			}
		}
		t.Logf("strict %v: of 300 answers %d have a Record, and %d say that they have none", strict, let, warned)
		if warned == 0 {
			t.Errorf("strict %v: nobody was told that a disk is full: it was not", strict)
		}
		empty()
		await.Until(t, "records are kept with room again", func() bool {
			id := fmt.Sprintf("toolu_again_%d", time.Now().UnixNano())
			err := tr.askDaemon(d, id, "ls", false)
			if err != nil {
				delete(tr.asked, id)
			}
			return err == nil
		})
		if err := tr.askHook(t.Context(), "toolu_after_hook", "ls", false); err != nil {
			t.Fatal(err)
		}
		if err := d.Kill(); err != nil {
			t.Fatal(err)
		}
		tr.loose = true
		if err := tr.check(t.Context()); err != nil {
			t.Errorf("strict %v: %v", strict, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}
