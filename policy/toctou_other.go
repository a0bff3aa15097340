//go:build !linux

package policy

import (
	"io/fs"
	"time"
)

// changed is when a file was last written, as far as it says.
func lastChange(info fs.FileInfo) time.Time { return info.ModTime() }
