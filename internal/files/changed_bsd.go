//go:build darwin || freebsd || netbsd

package files

import (
	"io/fs"
	"syscall"
	"time"
)

// Changed returns the time of the last change of a file's content or metadata (ctime). Programs
// cannot set it.
func Changed(info fs.FileInfo) time.Time {
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(sys.Ctimespec.Unix())
	}
	return info.ModTime()
}
