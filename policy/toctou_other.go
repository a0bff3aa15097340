//go:build !linux

package policy

import (
	"io/fs"
	"time"
)

// lastChange returns the modification time of a file. Unlike the ctime on Linux, users can set it.
func lastChange(info fs.FileInfo) time.Time { return info.ModTime() }
