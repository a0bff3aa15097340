package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock versions that added features. Versions below wholeABI do not support the complete
// sandbox.
const (
	truncateABI = 3 // earlier versions let a program truncate read-only files
	portsABI    = 4
	ioctlABI    = 5
	wholeABI    = 6 // restricts signals and abstract sockets
)

// landlockABI returns the kernel's Landlock version; 0 = not supported or disabled.
func landlockABI() int {
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// missing returns the part of the sandbox that this machine does not support. An error means that
// it supports no sandbox.
func (s *Sandbox) missing() (string, error) {
	if auditArch() == 0 {
		return "", errors.New("sandboxes do not work on " + runtime.GOARCH)
	}
	switch abi := landlockABI(); {
	case abi >= wholeABI:
		return "", nil
	case abi == 0:
		return "this kernel has no Landlock, or Landlock is disabled, so Grapnel cannot restrict file access (Linux 6.12 or later can)", nil
	case abi < truncateABI:
		return "this kernel cannot prevent a program from truncating files or sending signals (Linux 6.12 or later can)", nil
	default:
		return "this kernel cannot prevent a program from sending signals to other programs (Linux 6.12 or later can)", nil
	}
}

// A shim is this program, started to run a sandboxed program.
type shim struct{ theirs, ours *os.File }

// newShim changes cmd so that it starts this program, which then executes the original one.
func newShim(cmd *exec.Cmd, r *rules) (*shim, error) {
	r.Path = cmd.Path
	spec, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	// Not os.Executable: the file at that path may have been replaced.
	cmd.Path, cmd.Args = "/proc/self/exe", append([]string{cmd.Args[0], sandboxFlag, string(spec)}, cmd.Args...)
	cmd.ExtraFiles = []*os.File{theirs}
	return &shim{theirs, ours}, nil
}

// started closes the child's end of the status pipe.
func (s *shim) started() {
	if s != nil {
		_ = s.theirs.Close()
	}
}

// close closes the status pipe if the child was not started.
func (s *shim) close() {
	if s != nil {
		_ = s.theirs.Close()
		_ = s.ours.Close()
	}
}

// became returns the error if the program did not run. Call it after the child has ended.
func (s *shim) became(p *Program, end *Ending) error {
	defer s.ours.Close()
	report, err := io.ReadAll(io.LimitReader(s.ours, 4<<10))
	if string(report) == becomes {
		return nil
	}
	after, ok := strings.CutPrefix(string(report), becomes)
	if no, notErrno := strconv.Atoi(after); ok && notErrno == nil {
		err := startError(p, syscall.Errno(no))
		if syscall.Errno(no) == syscall.EACCES {
			err = fmt.Errorf("%w; the sandbox must allow reading the file and its interpreter", err)
		}
		return err
	}
	switch {
	case end.Stopped != nil:
		return nil // stopped before the program began
	case err != nil:
		return fmt.Errorf("%w: %w", ErrSandbox, err)
	case len(report) == 0:
		return fmt.Errorf("%w: the process that sets up the sandbox ended with exit code %d%s", ErrSandbox, end.Exit, end.Stderr.last())
	}
	return fmt.Errorf("%w: %s", ErrSandbox, report)
}

// init keeps main, and so become, on the first thread of the process. Landlock and seccomp rules
// apply to the thread that then executes the program, and only the first thread has the signal
// that the process gets when its parent dies: see [contain].
func init() {
	if restarted() {
		runtime.LockOSThread()
	}
}

// become applies the rules to this process and executes the program. It returns only on an error.
func become(r *rules, args []string) error {
	// Close the agent's open files on exec, including the status pipe.
	if err := unix.CloseRange(statusFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("cannot close other files: %w", err)
	}
	abi := landlockABI()
	if abi < wholeABI && !r.Optional {
		return errors.New("Landlock is no longer available") //nolint:staticcheck // a proper name
	}
	rules, err := landlock(abi, r)
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	dropCapabilities()
	if rules >= 0 {
		if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules), 0, 0); errno != 0 {
			return fmt.Errorf("landlock_restrict_self: %w", errno)
		}
	}
	filter := syscalls(r)
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]} // about 80 instructions
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	if _, err := unix.Write(statusFD, []byte(becomes)); err != nil {
		return err
	}
	err = syscall.Exec(r.Path, args, os.Environ())
	if errno, ok := err.(syscall.Errno); ok { //nolint:errorlint // Exec returns this type, and errors.AsType would add code to this small helper
		return errors.New(strconv.Itoa(int(errno)))
	}
	return err
}

// dropCapabilities drops the capabilities that bypass Landlock, from root and from users with
// some of root's capabilities: access to other processes' memory and environment, file handles
// and devices. It keeps the capabilities for owners and modes of files. For other users it has no
// effect.
func dropCapabilities() {
	const kept = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID | 1<<unix.CAP_KILL | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	for capability := range uintptr(unix.CAP_LAST_CAP + 1) {
		if kept&(1<<capability) == 0 && unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0) != nil {
			return // only root may drop them, and only root would have them after exec
		}
	}
}

// The paths that programs on any distribution need to start. From /proc they include only files
// about the machine, not the command lines of other processes.
var (
	systemRead = [...]string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu/store", "/snap",
		"/proc/cpuinfo", "/proc/filesystems", "/proc/loadavg", "/proc/meminfo", "/proc/stat", "/proc/sys", "/proc/uptime", "/proc/version",
		"/sys/devices/system/cpu", "/dev/random", "/dev/urandom",
		"/run/systemd/resolve", "/run/NetworkManager/resolv.conf", "/run/resolvconf", // targets of the link /etc/resolv.conf
	}
	systemWrite = [...]string{"/dev/null", "/dev/zero", "/dev/full"}
)

const (
	readFile  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	readDir   = readFile | unix.LANDLOCK_ACCESS_FS_READ_DIR
	writeFile = readFile | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	writeDir  = writeFile | readDir | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	allOfFiles = writeDir | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// knownAccess returns the file access rights that a Landlock version supports.
func knownAccess(abi int) uint64 {
	known := uint64(allOfFiles)
	for _, since := range [...]struct {
		abi    int
		access uint64
	}{{2, unix.LANDLOCK_ACCESS_FS_REFER}, {truncateABI, unix.LANDLOCK_ACCESS_FS_TRUNCATE}, {ioctlABI, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV}} {
		if abi < since.abi {
			known &^= since.access
		}
	}
	return known
}

// ruleset is landlock_ruleset_attr. Older kernels support only its first members.
type ruleset struct{ files, net, scoped uint64 }

// pathRule is landlock_path_beneath_attr, which is packed. The kernel does not read the padding
// that the compiler adds at the end.
type pathRule struct {
	access uint64
	fd     int32
}

type portRule struct{ access, port uint64 }

const (
	rulePath = 1
	rulePort = 2
)

// landlock creates the ruleset for files, ports, signals and abstract sockets, and returns its
// file descriptor. It returns -1 if the kernel has no Landlock.
func landlock(abi int, r *rules) (int, error) {
	if abi == 0 {
		return -1, nil
	}
	known := knownAccess(abi)
	attr := ruleset{files: known}
	size := unsafe.Sizeof(attr.files)
	if abi >= portsABI {
		size += unsafe.Sizeof(attr.net)
		if !r.Net {
			attr.net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		}
	}
	if abi >= wholeABI {
		size += unsafe.Sizeof(attr.scoped)
		attr.scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return 0, fmt.Errorf("landlock_create_ruleset: %w", errno)
	}
	set := int(fd)
	for _, name := range systemRead {
		r.Read = append(r.Read, reach{Path: name})
	}
	for _, at := range r.Read {
		if err := at.add(set, known, readFile, readDir, false); err != nil {
			return 0, err
		}
	}
	for _, name := range systemWrite {
		if err := (reach{Path: name}).add(set, known, writeFile, writeFile, false); err != nil {
			return 0, err
		}
	}
	for _, at := range r.Write {
		if err := at.add(set, known, writeFile, writeDir, true); err != nil {
			return 0, err
		}
	}
	for _, port := range r.Ports {
		rule := portRule{unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, uint64(port)}
		if abi < portsABI {
			break // the rules are optional here
		}
		if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, fd, rulePort, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
			return 0, fmt.Errorf("port %d: %w", port, errno)
		}
	}
	return set, nil
}

// add allows access to the path if it exists.
func (at reach) add(set int, known, file, dir uint64, create bool) error {
	fd, err := at.open(create)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || !create && errors.Is(err, unix.EACCES) {
		return nil // the program could not read it either
	}
	if err != nil {
		return fmt.Errorf("%s: %w", at.Path, err)
	}
	defer closeFD(fd)
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return fmt.Errorf("%s: %w", at.Path, err)
	}
	rule := pathRule{access: file & known, fd: int32(fd)} // a file descriptor
	if info.Mode&unix.S_IFMT == unix.S_IFDIR {
		rule.access = dir & known
	}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), rulePath, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("%s: %w", at.Path, errno)
	}
	return nil
}

// open opens the path with O_PATH, which grants no access to its content.
func (at reach) open(create bool) (int, error) {
	const flags = unix.O_PATH | unix.O_CLOEXEC
	if at.Below == "" {
		if create {
			if _, err := os.Lstat(at.Path); err != nil {
				if err := os.MkdirAll(at.Path, 0o700); err != nil {
					return 0, err
				}
			}
		}
		return unix.Open(at.Path, flags, 0)
	}
	base, err := unix.Open(at.Below, flags|unix.O_DIRECTORY, 0)
	if err != nil {
		return 0, err
	}
	defer closeFD(base)
	rel, err := filepath.Rel(at.Below, at.Path)
	if err != nil {
		return 0, err
	}
	how := unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(base, rel, &how)
	if create && errors.Is(err, unix.ENOENT) {
		if fd, err = mkdirs(base, rel, &how); err == nil {
			return fd, nil
		}
	}
	if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ELOOP) {
		return 0, errors.New("a link leads outside of " + at.Below)
	}
	return fd, err
}

func closeFD(fd int) { _ = unix.Close(fd) }

// mkdirs creates the missing directories of a path and opens the last one. They are always below
// base, even if a process creates a link there at the same time.
func mkdirs(base int, rel string, how *unix.OpenHow) (int, error) {
	at, err := unix.Dup(base)
	for part := range strings.SplitSeq(rel, "/") {
		if err != nil {
			return 0, err
		}
		if err = unix.Mkdirat(at, part, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			closeFD(at)
			return 0, err
		}
		next, openErr := unix.Openat2(at, part, how)
		closeFD(at)
		at, err = next, openErr
	}
	return at, err
}

// auditArch returns the kernel's constant for this architecture; 0 = not supported.
func auditArch() uint32 {
	switch runtime.GOARCH {
	case "amd64":
		return unix.AUDIT_ARCH_X86_64
	case "arm64":
		return unix.AUDIT_ARCH_AARCH64
	case "riscv64":
		return unix.AUDIT_ARCH_RISCV64
	}
	return 0
}

// syscalls returns the seccomp filter for everything that Landlock does not restrict: sockets
// other than TCP, leaving the process group, typing into the terminal, limits of other processes,
// and the kernel's keys.
//
// Landlock does not yet restrict unix sockets with a path, and the servers behind them could act
// for the program, so the filter refuses all unix sockets. It refuses io_uring, because seccomp
// cannot filter its operations. Programs for another architecture, including 32-bit ones, use
// different system call numbers and are killed.
func syscalls(r *rules) []unix.SockFilter {
	const x32 = 0x40000000
	var f filter
	f.load(4)
	f.unless(auditArch(), unix.SECCOMP_RET_KILL_PROCESS)
	f.load(0)
	if runtime.GOARCH == "amd64" {
		f.add(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, x32, 0, 1)
		f.answer(refuse(unix.ENOSYS))
	}
	for _, nr := range [...]uint32{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL} {
		f.call(nr, filter{}.answered(refuse(unix.ENOSYS)))
	}
	for _, nr := range [...]uint32{unix.SYS_SETSID, unix.SYS_SETPGID} {
		if !r.Groups {
			f.call(nr, filter{}.answered(refuse(unix.EPERM)))
		}
	}
	var limits, terminal, pair, sock filter
	terminal.argument(1)
	for _, nr := range [...]uint32{unix.TIOCSTI, unix.TIOCLINUX} { // type into the terminal, whose shell is outside
		terminal.when(nr, refuse(unix.EPERM))
	}
	f.call(unix.SYS_IOCTL, terminal.answered(unix.SECCOMP_RET_ALLOW))

	limits.argument(0)
	limits.unless(0, refuse(unix.EPERM)) // 0 is the calling process
	f.call(unix.SYS_PRLIMIT64, limits.answered(unix.SECCOMP_RET_ALLOW))

	pair.argument(0)
	pair.unless(unix.AF_UNIX, refuse(unix.EACCES))
	pair.argument(1)
	pair.and(0xf)
	pair.when(unix.SOCK_STREAM, unix.SECCOMP_RET_ALLOW) // unlike a SOCK_DGRAM pair, it cannot be connected to another socket
	pair.when(unix.SOCK_SEQPACKET, unix.SECCOMP_RET_ALLOW)
	f.call(unix.SYS_SOCKETPAIR, pair.answered(refuse(unix.EACCES)))

	switch {
	case r.Net:
		sock.argument(0)
		sock.when(unix.AF_INET, unix.SECCOMP_RET_ALLOW)
		sock.when(unix.AF_INET6, unix.SECCOMP_RET_ALLOW)
		sock.unless(unix.AF_NETLINK, refuse(unix.EACCES))
		sock.argument(2)
		sock.when(unix.NETLINK_ROUTE, unix.SECCOMP_RET_ALLOW) // lists the addresses of the machine
	case len(r.Ports) > 0:
		f.call(unix.SYS_LISTEN, filter{}.answered(refuse(unix.EACCES)))
		for _, send := range [...][2]uint32{{unix.SYS_SENDTO, 3}, {unix.SYS_SENDMSG, 2}, {unix.SYS_SENDMMSG, 3}} {
			var fast filter
			fast.argument(send[1])
			fast.and(unix.MSG_FASTOPEN) // connects without a check by Landlock
			fast.unless(0, refuse(unix.EOPNOTSUPP))
			f.call(send[0], fast.answered(unix.SECCOMP_RET_ALLOW))
		}
		sock.argument(1)
		sock.and(0xf)
		sock.unless(unix.SOCK_STREAM, refuse(unix.EACCES))
		sock.argument(0)
		sock.equal(unix.AF_INET, 2, 0)
		sock.unless(unix.AF_INET6, refuse(unix.EACCES))
		sock.argument(2)
		sock.when(0, unix.SECCOMP_RET_ALLOW)
		sock.when(unix.IPPROTO_TCP, unix.SECCOMP_RET_ALLOW) // Landlock does not check connects of MPTCP and SCTP
	}
	f.call(unix.SYS_SOCKET, sock.answered(refuse(unix.EACCES)))
	return f.answered(unix.SECCOMP_RET_ALLOW)
}

func refuse(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) } // an error number

// A filter is a BPF program under construction.
type filter []unix.SockFilter

//go:noinline
func (f *filter) add(code uint16, k uint32, yes, no uint8) { // not inlined: it is called often, so its size matters
	*f = append(*f, unix.SockFilter{Code: code, K: k, Jt: yes, Jf: no})
}

func (f *filter) load(offset uint32) { f.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset, 0, 0) }

// argument loads the low half of an argument, which comes first on the supported architectures.
// All checked arguments are of type int.
func (f *filter) argument(n uint32) { f.load(16 + 8*n) }

func (f *filter) and(mask uint32) { f.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, mask, 0, 0) }

func (f *filter) answer(with uint32) { f.add(unix.BPF_RET|unix.BPF_K, with, 0, 0) }

func (f *filter) equal(value uint32, yes, no uint8) {
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, value, yes, no)
}

func (f filter) answered(with uint32) filter {
	f.answer(with)
	return f
}

// when returns the result with if the loaded value is equal to value. unless does so if it is not
// equal.
func (f *filter) when(value, with uint32) {
	f.equal(value, 0, 1)
	f.answer(with)
}

func (f *filter) unless(value, with uint32) {
	f.equal(value, 1, 0)
	f.answer(with)
}

// call lets another filter decide about a system call. The system call number must be loaded. The
// other filter must always return a result.
func (f *filter) call(nr uint32, by filter) {
	f.equal(nr, 0, uint8(len(by))) // at most 20
	*f = append(*f, by...)
}
