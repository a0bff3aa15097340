// Package logfile writes and reads the log of the daemon, a file of bounded size.
package logfile

import (
	"fmt"
	"os"
	"sync"
)

// maxLog is the size in bytes at which a log becomes the old one, and another begins.
const maxLog = 1 << 20

// Old is where a log goes that has become too large.
func Old(name string) string { return name + ".old" }

// A File is a log of bounded size. Standard output and standard error go there, too, so
// that the last words of a crash are kept.
type File struct {
	mu   sync.Mutex
	name string
	max  int64
	file *os.File
	std  bool // it is standard error, too
}

// New opens the log of this process. Standard output and standard error go there, too.
func New(name string) (*File, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	l := &File{name: name, max: maxLog, file: f, std: true}
	return l, redirectOutput(f)
}

// Open opens a log to append to it.
func Open(name string) (*os.File, error) {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() { // to open a pipe would wait
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// Write writes a line. What cannot be written is lost: nobody else could be told.
func (l *File) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if info, err := l.file.Stat(); err == nil && info.Size()+int64(len(line)) > l.max && info.Size() > 0 {
		l.rotate()
	}
	_, _ = l.file.Write(line)
	return len(line), nil
}

// rotate makes the log the old one. If that cannot be done it goes on growing until it can.
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

// Close closes it.
func (l *File) Close() error { return l.file.Close() }
