package process_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// probe attempts an action of a hostile program. It exits with 0 if the action succeeded, with 1 if
// the system prevented it, and with 3 if the result is unknown.
func probe(args []string) {
	try, ok := probes[args[0]]
	if !ok {
		os.Exit(3)
	}
	err := try(args[1:])
	switch {
	case err == nil:
		fmt.Println("done")
		os.Exit(0)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EXDEV), errors.Is(err, unix.ENOSYS),
		errors.Is(err, unix.EROFS), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EBADF), strings.Contains(err.Error(), "permitted"):
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(3)
}

var probes = map[string]func([]string) error{
	"read":    func(a []string) error { _, err := os.ReadFile(a[0]); return err },
	"list":    func(a []string) error { _, err := os.ReadDir(a[0]); return err },
	"write":   func(a []string) error { return os.WriteFile(a[0], []byte("x"), 0o600) },
	"append":  func(a []string) error { return touch(os.OpenFile(a[0], os.O_WRONLY|os.O_APPEND, 0)) },
	"empty":   func(a []string) error { return os.Truncate(a[0], 0) },
	"rdtrunc": func(a []string) error { return touch(os.OpenFile(a[0], os.O_RDONLY|os.O_TRUNC, 0)) },
	"remove":  func(a []string) error { return os.Remove(a[0]) },
	"mkdir":   func(a []string) error { return os.Mkdir(a[0], 0o700) },
	"link":    func(a []string) error { return os.Link(a[0], a[1]) },
	"rename":  func(a []string) error { return os.Rename(a[0], a[1]) },
	"linkread": func(a []string) error {
		_ = os.Remove(a[1])
		if err := os.Symlink(a[0], a[1]); err != nil {
			return err
		}
		_, err := os.ReadFile(a[1])
		return err
	},
	"exec": func(a []string) error { return exec.Command(a[0]).Run() },
	"tcp":  dial("tcp"),
	"udp": func(a []string) error {
		c, err := net.Dial("udp", a[0])
		if err == nil {
			_, err = c.Write([]byte("x"))
		}
		return err
	},
	"unix":     dial("unix"),
	"unixgram": dial("unixgram"),
	"listen":   func([]string) error { _, err := net.Listen("tcp", "127.0.0.1:0"); return err },
	"autobind": func([]string) error { // listen without bind takes any port
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err == nil {
			err = unix.Listen(fd, 1)
		}
		return err
	},
	"fastopen": func(a []string) error {
		addr, err := net.ResolveTCPAddr("tcp", a[0])
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		to := &unix.SockaddrInet4{Port: addr.Port, Addr: [4]byte(addr.IP.To4())}
		if a[1] == "msg" {
			return unix.Sendmsg(fd, []byte("x"), nil, to, unix.MSG_FASTOPEN)
		}
		return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, to)
	},
	"socket": func(a []string) error {
		var n [3]int
		for i := range n {
			n[i], _ = strconv.Atoi(a[i])
		}
		_, err := unix.Socket(n[0], n[1], n[2])
		return err
	},
	"pairgram": func(a []string) error { // a socket pair can also send to another socket
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err == nil {
			err = unix.Sendto(fds[0], []byte("x"), 0, &unix.SockaddrUnix{Name: a[0]})
		}
		return err
	},
	"pair": func([]string) error {
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	},
	"uring": func([]string) error {
		var params [120]byte
		_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
		return orNil(errno)
	},
	"keyring": func([]string) error {
		_, err := unix.AddKey("user", "grapnel-test", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
		return err
	},
	"kill":  func(a []string) error { return unix.Kill(pid(a[0]), 0) },
	"group": func(a []string) error { return unix.Kill(-pid(a[0]), 0) },
	"pidfd": func(a []string) error {
		fd, err := unix.PidfdOpen(pid(a[0]), 0)
		if err == nil {
			err = unix.PidfdSendSignal(fd, 0, nil, 0)
		}
		return err
	},
	"ptrace": func(a []string) error {
		runtime.LockOSThread()
		if err := unix.PtraceSeize(pid(a[0])); err != nil {
			return err
		}
		return unix.PtraceInterrupt(pid(a[0]))
	},
	"memory": func(a []string) error {
		buf := make([]byte, 1)
		var at uintptr // any address, because the kernel checks the permission first
		fields, err := os.ReadFile("/proc/self/maps")
		if err == nil {
			n, _ := strconv.ParseUint(string(fields[:strings.IndexByte(string(fields), '-')]), 16, 64)
			at = uintptr(n)
		}
		_, err = unix.ProcessVMReadv(pid(a[0]), []unix.Iovec{{Base: &buf[0], Len: 1}}, []unix.RemoteIovec{{Base: at, Len: 1}}, 0)
		if errors.Is(err, unix.EFAULT) {
			return nil // permitted, but the address is invalid
		}
		return err
	},
	"stealfd": func(a []string) error {
		fd, err := unix.PidfdOpen(pid(a[0]), 0)
		if err == nil {
			_, err = unix.PidfdGetfd(fd, 0, 0)
		}
		return err
	},
	"limit": func(a []string) error {
		var now unix.Rlimit
		return unix.Prlimit(pid(a[0]), unix.RLIMIT_CORE, nil, &now)
	},
	"type": func([]string) error {
		var c byte
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
		if errno == unix.ENOTTY || errno == unix.EIO {
			return nil // the call is not prevented, but stdin is no terminal, or this kernel has no TIOCSTI
		}
		return orNil(errno)
	},
	"setsid":  func([]string) error { return leave(&syscall.SysProcAttr{Setsid: true}) },
	"setpgid": func([]string) error { return leave(&syscall.SysProcAttr{Setpgid: true}) },
	"fd": func(a []string) error {
		_, err := unix.FcntlInt(uintptr(pid(a[0])), unix.F_GETFD, 0)
		return err
	},
	"setuid": func([]string) error { // the result depends on no_new_privs
		n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
		if err == nil && n == 1 {
			err = unix.EPERM
		}
		return err
	},
	"child": func(a []string) error { // the same action in a child of this process
		cmd := exec.Command(os.Args[0], a...)
		out, err := cmd.CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
			return fmt.Errorf("not permitted: %s", out)
		}
		return err
	},
}

func touch(f *os.File, err error) error {
	if err == nil {
		_ = f.Close()
	}
	return err
}

func dial(network string) func([]string) error {
	return func(a []string) error {
		c, err := net.DialTimeout(network, a[0], 5*time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err
	}
}

func orNil(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

func pid(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

func leave(how *syscall.SysProcAttr) error {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = how
	return cmd.Run()
}
