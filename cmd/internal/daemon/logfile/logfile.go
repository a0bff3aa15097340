// Package logfile writes and reads the log file of the daemon, which has a maximum size.
package logfile

import (
	"fmt"
	"os"
	"sync"
)

// maxLog is the size in bytes at which a log is rotated.
const maxLog = 1 << 20

// Old returns the path to which the log name is rotated.
func Old(name string) string { return name + ".old" }

// A File is a log file with a maximum size. It is safe for concurrent use.
type File struct {
	mu   sync.Mutex
	name string
	max  int64
	file *os.File
	std  bool // the file is also standard output and standard error
}

// New opens the log of this process. It also redirects standard output and standard error there,
// so that the log contains the message of a crash.
func New(name string) (*File, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	l := &File{name: name, max: maxLog, file: f, std: true}
	return l, redirectOutput(f)
}

// Open opens a log for appending.
func Open(name string) (*os.File, error) {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() { // opening a pipe would block
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// Write writes a line and never returns an error. A line that cannot be written is lost, because
// no other place for messages exists.
func (l *File) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if info, err := l.file.Stat(); err == nil && info.Size()+int64(len(line)) > l.max && info.Size() > 0 {
		l.rotate()
	}
	_, _ = l.file.Write(line)
	return len(line), nil
}

// rotate renames the log to the old one and begins a new log. If that fails, the log grows until
// a later rotation succeeds.
func (l *File) rotate() {
	if os.Rename(l.name, Old(l.name)) != nil {
		return
	}
	f, err := Open(l.name)
	if err != nil {
		return
	}
	if l.std {
		_ = redirectOutput(f)
	}
	_ = l.file.Close()
	l.file = f
}

// Close closes the file.
func (l *File) Close() error { return l.file.Close() }
