//go:build !linux

package hookcmd

import (
	"io/fs"
	"time"
)

// changed is when the content of a file has changed last.
func changed(info fs.FileInfo) time.Time { return info.ModTime() }
