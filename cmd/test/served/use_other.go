//go:build !linux

package served

import (
	"errors"
	"time"
)

// Use is what a daemon takes.
type Use struct {
	RSS     int64 // bytes in memory
	Handles int
	Threads int
	CPU     time.Duration // so far
}

// Use says that this system does not tell.
func (d *Daemon) Use() (Use, error) {
	return Use{}, errors.New("what a process takes is read from /proc, which only Linux has")
}
