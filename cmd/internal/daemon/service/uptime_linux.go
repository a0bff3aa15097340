package service

import (
	"time"

	"golang.org/x/sys/unix"
)

// uptime returns how long the machine has run, including sleep, which Go's monotonic clock
// excludes.
func uptime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // exists since Linux 2.6.39
	return time.Duration(ts.Nano())
}
