//go:build !linux

package served

import (
	"errors"
	"time"
)

// Use is the resource usage of a daemon.
type Use struct {
	RSS     int64 // bytes in memory
	Private int64 // bytes of RSS that are not pages of files
	Handles int
	Threads int
	CPU     time.Duration // since its start
}

// Use returns an error, because only Linux is supported.
func (d *Daemon) Use() (Use, error) {
	return Use{}, errors.New("the resource usage of a process comes from /proc, which only Linux has")
}
