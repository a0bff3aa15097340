// Nofork runs a program that cannot start child processes:
//
//	go test -exec "$PWD/bin/nofork -except process.test" ./...
//
// "make test" runs the unit tests this way, so a test that starts a program fails
// there with "operation not permitted". Such a test needs the build tag system. The
// program that -except names may start others.
// Nofork works on Linux for amd64 and arm64.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	except := flag.String("except", "", "file name of a program that may start child processes")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: nofork [-except NAME] PROGRAM [ARG]...")
		os.Exit(64)
	}
	if err := run(flag.Args(), filepath.Base(flag.Arg(0)) != *except); err != nil {
		fmt.Fprintf(os.Stderr, "nofork: error: %v\n", err)
		os.Exit(1)
	}
}

// run returns only if it cannot replace this process by the program.
func run(args []string, forbid bool) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	if forbid {
		runtime.LockOSThread() // the filter is for this thread only, and this thread becomes the program
		if err := forbidFork(); err != nil {
			return fmt.Errorf("cannot forbid child processes: %w", err)
		}
	}
	return fmt.Errorf("cannot run %s: %w", path, syscall.Exec(path, args, os.Environ()))
}

// forbidFork makes the kernel refuse every new process of this thread. New threads stay
// possible. clone3 does not exist for the program, because its flags are in memory that
// a filter cannot read; the C library then uses clone.
func forbidFork() error {
	const (
		number    = 0  // offset of seccomp_data.nr
		firstArg  = 16 // offset of seccomp_data.args[0], the flags of clone
		refuse    = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		undefined = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	)
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	ret := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	// unless skips the next instruction if the comparison does not hold.
	unless := func(compare uint16, k uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | compare | unix.BPF_K, K: k, Jf: 1}
	}
	filter := []unix.SockFilter{load(number)}
	for _, call := range forks {
		filter = append(filter, unless(unix.BPF_JEQ, call), ret(refuse))
	}
	filter = append(filter,
		unless(unix.BPF_JEQ, unix.SYS_CLONE3), ret(undefined),
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLONE, Jt: 1}, ret(unix.SECCOMP_RET_ALLOW),
		load(firstArg),
		unless(unix.BPF_JSET, unix.CLONE_THREAD), ret(unix.SECCOMP_RET_ALLOW),
		ret(refuse),
	)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errors.New("seccomp: " + errno.Error())
	}
	return nil
}
