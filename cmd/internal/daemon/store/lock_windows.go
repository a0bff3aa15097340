package store

import (
	"io/fs"
)

const openNoFollow = 0

// checkOwner accepts every directory: permissions are in access control lists, which the user's
// profile directory sets.
func checkOwner(string, fs.FileInfo) error { return nil }
