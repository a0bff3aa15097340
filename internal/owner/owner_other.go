//go:build !unix

// Package owner tells whether a file is one's own, or root's alone. Call [Root] or
// [Mine] with what Stat says of a file that is open already, since what a name leads
// to can change in between, and [Path] for what leads to it.
package owner

import (
	"errors"
	"io/fs"
)

var errUnknown = errors.New("on this system Grapnel cannot tell who may write a file")

// Root returns an error: who may write a file cannot be told here, so nothing counts
// as root's alone.
func Root(fs.FileInfo) error { return errUnknown }

// Path returns an error, as Root does.
func Path(string) error { return errUnknown }

// Mine returns nil: what lies in a directory of a user is guarded by its access list.
func Mine(fs.FileInfo) error { return nil }
