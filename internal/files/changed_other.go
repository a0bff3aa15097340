//go:build !linux && !darwin && !freebsd && !netbsd

package files

import (
	"io/fs"
	"time"
)

// Changed returns the time of the last change of a file's content.
func Changed(info fs.FileInfo) time.Time { return info.ModTime() }
