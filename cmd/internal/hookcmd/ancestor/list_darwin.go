package ancestor

import (
	"encoding/binary"
	"strings"

	"golang.org/x/sys/unix"
)

// lister returns a function that describes a process.
func lister() (func(pid int) (process, error), error) { return read, nil }

func read(pid int) (process, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return process{}, err
	}
	p := process{parent: int(info.Eproc.Ppid), name: unix.ByteSliceToString(info.Proc.P_comm[:])}
	raw, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil || len(raw) < 4 { // not readable for processes of other users
		return p, nil //nolint:nilerr // the name is known
	}
	// The number of arguments, the program, padding, the arguments, the environment.
	n := int(binary.NativeEndian.Uint32(raw))
	var rest string
	p.exe, rest, _ = strings.Cut(string(raw[4:]), "\x00")
	p.args = strings.Split(strings.TrimLeft(rest, "\x00"), "\x00")
	p.args = p.args[:max(0, min(n, len(p.args)))]
	return p, nil
}
