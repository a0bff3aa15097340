package service

import (
	"time"

	"golang.org/x/sys/unix"
)

// uptime is how long the machine has run, and slept, which Go's clock leaves out.
func uptime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // here it goes on while the machine sleeps
	return time.Duration(ts.Nano())
}
