//go:build !linux && !darwin

package service

import "time"

var started = time.Now()

// uptime returns how long the program has run. No daemon listens on this system.
func uptime() time.Duration { return time.Since(started) }
