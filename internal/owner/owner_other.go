//go:build !unix

// Package owner checks whether other users can change a file. Call [Root] or [Mine] with the
// result of Stat on an open file, because the file behind a name can change between two calls.
// Call [Path] for the directories and links of a path.
package owner

import (
	"errors"
	"io/fs"
)

var errUnknown = errors.New("cannot check file permissions on this system")

// Root returns an error, because Grapnel cannot determine here who may write a file. Therefore it
// treats no file as owned by root.
func Root(fs.FileInfo) error { return errUnknown }

// Path returns an error, for the same reason as [Root].
func Path(string) error { return errUnknown }

// Mine returns nil: the access control list of the user's directory protects the file.
func Mine(fs.FileInfo) error { return nil }
