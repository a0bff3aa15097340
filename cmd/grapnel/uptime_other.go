//go:build !linux && !darwin

package main

import "time"

var started = time.Now()

// uptime is how long the program has run. No daemon listens here.
func uptime() time.Duration { return time.Since(started) }
