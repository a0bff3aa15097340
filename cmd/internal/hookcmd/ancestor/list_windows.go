package ancestor

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// lister returns a function that describes a process. Of other processes, the system shows only the
// name of the program: agents that run as node.exe are not recognized.
func lister() (func(pid int) (process, error), error) {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = windows.CloseHandle(snapshot) }()
	known := map[int]process{}
	entry := windows.ProcessEntry32{}
	entry.Size = uint32(unsafe.Sizeof(entry))
	for err = windows.Process32First(snapshot, &entry); err == nil; err = windows.Process32Next(snapshot, &entry) {
		name := windows.UTF16ToString(entry.ExeFile[:])
		known[int(entry.ProcessID)] = process{parent: int(entry.ParentProcessID), exe: name, name: name}
	}
	if !errors.Is(err, windows.ERROR_NO_MORE_FILES) {
		return nil, err
	}
	return func(pid int) (process, error) {
		p, ok := known[pid]
		if !ok && pid == os.Getpid() {
			return p, os.ErrNotExist
		}
		return p, nil // an ancestor that has ended has no parent
	}, nil
}
