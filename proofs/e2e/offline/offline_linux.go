package offline

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

func enter() (level Level, exit int, done bool) {
	if os.Getenv(marker) != "" {
		if err := raiseLoopback(); err != nil {
			fmt.Fprintln(os.Stderr, "offline:", err)
			return Namespace, 1, true
		}
		return Namespace, 0, os.Getenv(marker) == markProbe
	}
	for _, attr := range ways() {
		if copyOf(attr, markProbe).Run() != nil {
			continue
		}
		cmd := copyOf(attr, markRun)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		err := run(cmd)
		var ended *exec.ExitError
		if err != nil && !errors.As(err, &ended) {
			fmt.Fprintln(os.Stderr, "offline: run again in a network namespace:", err)
			return Namespace, 1, true
		}
		if exit = cmd.ProcessState.ExitCode(); exit < 0 {
			fmt.Fprintln(os.Stderr, "offline: the copy in a network namespace:", err)
			exit = 1 // ended by a signal
		}
		return Namespace, exit, true
	}
	return ProxyOnly, 0, false
}

// run calls cmd.Run on a locked thread, because Pdeathsig acts when the thread that started the
// child ends, not the process.
func run(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.Run()
}

// ways lists the ways to get a network namespace. The way that changes least comes first.
func ways() []*syscall.SysProcAttr {
	plain := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	// Without privilege, a user namespace gives the capability to configure the new network. The
	// user ID stays the same, because agents treat root differently. For that reason the
	// capability must be ambient to survive the exec. The agents inherit it, but it only allows
	// them to change this network.
	uid, gid := os.Getuid(), os.Getgid()
	user := &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWNET | unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_NET_ADMIN},
		Pdeathsig:   syscall.SIGKILL,
	}
	if uid == 0 {
		return []*syscall.SysProcAttr{plain, user}
	}
	return []*syscall.SysProcAttr{user}
}

func copyOf(attr *syscall.SysProcAttr, mark string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), marker+"="+mark)
	cmd.SysProcAttr = attr
	return cmd
}

// raiseLoopback brings up the loopback interface. In a new network namespace it is down, and even
// 127.0.0.1 does not answer.
func raiseLoopback() error {
	sock, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bring up loopback: %w", err)
	}
	defer func() { _ = unix.Close(sock) }()
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("bring up loopback: %w", err)
	}
	if err := unix.IoctlIfreq(sock, unix.SIOCGIFFLAGS, lo); err != nil {
		return fmt.Errorf("read the flags of loopback: %w", err)
	}
	lo.SetUint16(lo.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(sock, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bring up loopback: %w", err)
	}
	return nil
}
