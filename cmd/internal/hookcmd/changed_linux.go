package hookcmd

import (
	"io/fs"
	"syscall"
	"time"
)

// changed is when anything of a file has changed last, which nobody can set.
func changed(info fs.FileInfo) time.Time {
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(sys.Ctim.Unix())
	}
	return info.ModTime()
}
