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
	"github.com/grapnel-dev/grapnel/cmd/proofs/served"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// smallDisk names the environment variable with the directory of the small disk, in the child
// process of a test.
const smallDisk = "GRAPNEL_TEST_DISK"

// A disk is a directory that can be made full.
type disk struct {
	dir    string
	limits bool // no disk can be mounted: a limit for the size of files makes it full
}

// onSmallDisk runs a subtest again in a child process, which gets a disk of 4 MB in its own mount
// namespace, or with limits a directory in which files cannot grow. In the first process it waits
// for the child and returns false.
func onSmallDisk(t *testing.T, limits bool) (disk, bool) {
	t.Helper()
	if dir := os.Getenv(smallDisk); dir != "" {
		if limits {
			return disk{dir, true}, true
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=0700"); err != nil {
			t.Fatal(err)
		}
		return disk{dir, false}, true
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := root(t)
	attr := &syscall.SysProcAttr{}
	if !limits {
		attr.Cloneflags = syscall.CLONE_NEWNS
		if os.Geteuid() != 0 {
			attr.Cloneflags |= syscall.CLONE_NEWUSER
			attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
			attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		}
		may := exec.CommandContext(t.Context(), "true")
		may.SysProcAttr = attr
		if err := may.Run(); errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EACCES) {
			t.Skipf("this system lets nobody mount a small disk; the test with a file size limit replaces this one: %v", err)
		}
	}
	pattern := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	cmd := exec.CommandContext(t.Context(), exe, "-test.run="+pattern, "-test.v")
	cmd.Env, cmd.SysProcAttr = append(os.Environ(), smallDisk+"="+dir, "GRAPNEL_TEST_PROGRAMS="+filepath.Dir(bin)), attr
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("on the small disk: %v", err)
	}
	return disk{}, false
}

// fill uses all free space, for this process, its children and a daemon. empty frees it.
func (k disk) fill(t *testing.T, d *served.Daemon) (empty func()) {
	t.Helper()
	if k.limits {
		return k.limit(t, d)
	}
	name := filepath.Join(k.dir, "ballast")
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

// limit is fill with a limit of 4 KiB for the size of files. The log of the hook program gets
// empty lines up to the limit, so that no line is torn.
func (disk) limit(t *testing.T, d *served.Daemon) (empty func()) {
	t.Helper()
	w := journal.Writer{Dir: filepath.Join(served.State(d.Root), spool.JournalDir)}
	_, err := w.Next()
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(w.Dir, "00000001.jsonl"), os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(strings.Repeat("\n", 4<<10))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	set := func(size uint64) {
		l := unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}
		if err := errors.Join(unix.Setrlimit(unix.RLIMIT_FSIZE, &l), unix.Prlimit(d.PID(), unix.RLIMIT_FSIZE, &l, nil)); err != nil {
			t.Fatal(err)
		}
	}
	set(4 << 10)
	return func() { set(unix.RLIM_INFINITY) }
}

// While a disk is full, events are answered as before, and every answer without a warning has a
// Record. A strict policy blocks calls that cannot get a Record. When the disk has space again,
// everything continues without manual steps.
//
// Each lost Record is counted: in the daemon's health and metrics, by "grapnel status" and "grapnel
// doctor", and the next reply with a message to the user reports it.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]bool{"tmpfs": false, "limit": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if k, ok := onSmallDisk(t, limits); ok {
				fullDisk(t, k)
			}
		})
	}
}

func fullDisk(t *testing.T, k disk) {
	for _, strict := range []bool{false, true} {
		dir := filepath.Join(k.dir, fmt.Sprint(strict))
		tr := trialOf(t, dir, fmt.Sprintf("strict: %v\n%s", strict, policy))
		d := start(t, tr)
		if err := errors.Join(tr.askDaemon(d, "toolu_before", "ls", false), tr.askHook(t.Context(), "toolu_before_hook", "ls", false)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond) // until the anchor and the word index are written
		empty := k.fill(t, d)
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
		reportsLosses(t, tr, d)
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
		if !strict {
			d = start(t, tr) // in the other round, grapnel-hook replies itself
		}
		showsLosses(t, dir)
		if !strict {
			if err := d.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// reportsLosses checks that lost Records are reported everywhere.
func reportsLosses(t *testing.T, tr *trial, d *served.Daemon) {
	t.Helper()
	h, err := d.Health(t.Context())
	if err != nil || h.Well || h.Store.Unrecorded == 0 {
		t.Errorf("health = %+v, %v; want 503 with lost records", h, err)
	}
	metrics, err := d.Get(t.Context(), "/metrics")
	if _, value, _ := strings.Cut(string(metrics), "\ngrapnel_unrecorded_answers_total "); err != nil || value == "" || strings.HasPrefix(value, "0") {
		t.Errorf("metrics have no lost records: %v", err)
	}
	if out, _ := typed(t, tr, "status"); !strings.Contains(out, "without a complete record since") {
		t.Errorf("status does not report lost records:\n%s", out)
	}
	if out, code := typed(t, tr, "doctor"); code == 0 || !strings.Contains(out, "without a complete record since") {
		t.Errorf("doctor (exit code %d) does not report lost records:\n%s", code, out)
	}
}

// showsLosses checks that the user sees a message about lost Records with the next prompt, and only
// with it.
func showsLosses(t *testing.T, dir string) {
	t.Helper()
	for n, want := range []bool{true, false} {
		cmd := exec.CommandContext(t.Context(), served.Exe(bin, "grapnel-hook"), "claude-code", "--root", dir)
		cmd.Dir, cmd.Env = served.Project(dir), served.Env(dir)
		cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"session_id":"crash","cwd":%q,"hook_event_name":"UserPromptSubmit","prompt":"hello"}`, served.Project(dir)))
		out, err := cmd.Output()
		if has := strings.Contains(string(out), `"systemMessage":"grapnel: lost Records: `); err != nil || has != want {
			t.Errorf("prompt %d: message %v, want %v: %q, %v", n, has, want, out, err)
		}
	}
}
