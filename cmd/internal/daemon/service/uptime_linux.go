package service

import (
	"time"

	"golang.org/x/sys/unix"
)

// uptime is how long the machine has run, and slept, which Go's clock leaves out.
func uptime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // it is there since Linux 2.6.39
	return time.Duration(ts.Nano())
}
