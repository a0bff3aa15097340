package journal

import "github.com/grapnel-dev/grapnel/internal/fault"

// step marks a point at which tests kill the process.
func step(name string) {
	if fault.On {
		fault.At("journal: " + name)
	}
}
