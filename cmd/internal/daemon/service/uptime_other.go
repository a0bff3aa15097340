//go:build !linux && !darwin

package service

import "time"

var started = time.Now()

// uptime is how long the program has run. No daemon listens here.
func uptime() time.Duration { return time.Since(started) }
