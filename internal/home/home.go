package home

import (
	"path/filepath"
	"strings"
	"sync"
)

// Known is the home directory of the user database, read once. The environment is not
// asked: an agent's project settings can set it.
var Known = sync.OnceValue(func() string {
	dir, err := Dir()
	if err != nil {
		return string(filepath.Separator)
	}
	return dir
})

// Expand replaces ~ at the beginning of a path by the home directory.
func Expand(name string) string {
	if name == "~" || strings.HasPrefix(name, "~/") {
		return filepath.Join(Known(), name[1:])
	}
	return name
}

// Absolute returns the path of a name that counts from a directory. ~ is the home directory.
func Absolute(name, dir string) string {
	name = Expand(name)
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	return filepath.Clean(name)
}
