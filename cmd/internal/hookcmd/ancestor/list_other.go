//go:build !linux && !darwin && !windows

package ancestor

import "errors"

// lister returns a function that describes a process.
func lister() (func(pid int) (process, error), error) { return nil, errors.ErrUnsupported }
