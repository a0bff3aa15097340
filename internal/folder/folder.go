// Package folder lists directories in no order. os.ReadDir sorts what it lists, and to
// sort entries is 12 KB of code in a program that has no other use for it.
package folder

import (
	"io/fs"
	"os"
)

// List lists a directory. Beside an error it returns what was read until then.
func List(name string) ([]fs.DirEntry, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}
