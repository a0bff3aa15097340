package files

import "path/filepath"

// Below returns a path relative to a directory, with slashes, if it is that directory (then ".") or below
// it. It looks at the names only: links are not resolved. An empty directory contains nothing.
func Below(dir, path string) (rel string, ok bool) {
	if dir == "" {
		return "", false
	}
	rel, err := filepath.Rel(dir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}
