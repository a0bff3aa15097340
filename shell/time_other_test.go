//go:build !unix

package shell

import "time"

// processorTime returns 0, because this system has no portable way to ask.
func processorTime() time.Duration { return 0 }
