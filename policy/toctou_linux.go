package policy

import (
	"io/fs"
	"syscall"
	"time"
)

// changed is when the kernel last saw a change of a file, its name included.
func lastChange(info fs.FileInfo) time.Time {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(stat.Ctim.Unix())
	}
	return info.ModTime()
}
