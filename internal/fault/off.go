//go:build !faults

package fault

import "time"

// On reports whether this is a build with faults.
const On = false

// At marks a point at which a build for fault tests can kill the process.
func At(string) {}

// Now returns the time.
func Now() time.Time { return time.Now() }

// Less returns a size or a duration, which a build with faults reduces.
func Less[T ~int64](n T) T { return n }
