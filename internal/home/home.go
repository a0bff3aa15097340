package home

import (
	"path/filepath"
	"strings"
	"sync"
)

// Known returns the home directory from the user database, which it reads once. It does not use
// the environment, because an agent's project settings can change it.
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

// Absolute returns the absolute path of a name that is relative to dir. ~ is the home directory.
func Absolute(name, dir string) string {
	name = Expand(name)
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	return filepath.Clean(name)
}
