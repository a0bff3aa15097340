//go:build !unix

package files

import (
	"errors"
	"io/fs"
)

var errUnknown = errors.New("cannot check file permissions on this system")

// OnlyRoot returns an error, because Grapnel cannot determine here which users may write a file. Therefore it
// treats no file as owned by root.
func OnlyRoot(fs.FileInfo) error { return errUnknown }

// OnlyRootPath returns an error, for the same reason as [Root].
func OnlyRootPath(string) error { return errUnknown }

// Mine returns nil: the access control list of the user's directory protects the file.
func Mine(fs.FileInfo) error { return nil }
