//go:build !faults

package fault

import "time"

// On is whether this is a build with faults.
const On = false

// At is a point at which a process can die.
func At(string) {}

// Now is the time.
func Now() time.Time { return time.Now() }

// Less is how large or long something is.
func Less[T ~int64](n T) T { return n }
