package ancestor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// lister returns a function that describes a process.
func lister() (func(pid int) (process, error), error) { return read, nil }

func read(pid int) (process, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return process{}, err
	}
	// PID (NAME) STATE PARENT ...; the name may contain any character.
	head, rest, _ := strings.Cut(string(stat), "(")
	end := strings.LastIndexByte(rest, ')')
	fields := strings.Fields(rest[end+1:])
	if head == "" || end < 0 || len(fields) < 2 {
		return process{}, os.ErrInvalid
	}
	p := process{name: rest[:end]}
	if p.parent, err = strconv.Atoi(fields[1]); err != nil {
		return process{}, err
	}
	p.exe, _ = os.Readlink(filepath.Join(dir, "exe")) // not readable for processes of other users
	args, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if len(args) > 0 {
		p.args = strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00")
	}
	return p, err
}
