package policy

import (
	"io/fs"
	"syscall"
	"time"
)

// lastChange returns the ctime of a file: the time of the last write, rename or change of
// attributes.
func lastChange(info fs.FileInfo) time.Time {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(stat.Ctim.Unix())
	}
	return info.ModTime()
}
