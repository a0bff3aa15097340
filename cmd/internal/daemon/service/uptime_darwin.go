package service

import (
	"time"

	"golang.org/x/sys/unix"
)

// uptime returns how long the machine has run, including sleep, which Go's monotonic clock
// excludes.
func uptime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // on macOS, this clock continues during sleep
	return time.Duration(ts.Nano())
}
