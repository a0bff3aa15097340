//go:build !unix

// Package owner tells whether a file is root's alone. Call [Root] with what Stat says
// of a file that is open already: what a name leads to can change in between.
package owner

import (
	"errors"
	"io/fs"
)

// Root returns an error: who may write a file cannot be told here, so nothing counts
// as root's alone.
func Root(fs.FileInfo) error {
	return errors.New("on this system Grapnel cannot tell who may write a file")
}
