package policy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/home"
)

// realNames is a path that a call names, made real: relative to where the agent
// works, symbolic links followed, dots cleaned, also when the file does not exist
// yet. Otherwise a model could reach a guarded file through another name of it.
type realNames struct {
	name string   // as the call names it
	root string   // the project's, real
	real []string // its readings, see resolve
}

// match reports whether a pattern means this path. A relative pattern counts from
// the project's root, one that begins with **/ also holds outside of it, and ~/ is
// the home directory.
func (p realNames) match(pattern string) bool {
	if strings.HasPrefix(pattern, "~/") || filepath.IsAbs(pattern) {
		pattern = realPattern(expandHome(pattern))
		return slices.ContainsFunc(p.real, func(real string) bool { return matchGlob(pattern, real) })
	}
	return slices.ContainsFunc(p.real, func(real string) bool {
		rel, err := filepath.Rel(p.root, real)
		inside := err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
		return inside && matchGlob(pattern, rel) ||
			strings.HasPrefix(pattern, "**/") && matchGlob(pattern, strings.TrimPrefix(real, string(filepath.Separator)))
	})
}

func matchGlob(pattern, name string) bool {
	ok, _ := doublestar.Match(filepath.ToSlash(pattern), filepath.ToSlash(name))
	return ok
}

// resolve makes a path real from where the agent works. Where a dot-dot follows a
// symbolic link there are two readings: most agents clean the text first, the
// system follows the link first. Both count.
func resolve(name string, ev *grapnel.Event) []string {
	name = expandHome(name)
	if !filepath.IsAbs(name) {
		name = ev.Session.CWD + string(filepath.Separator) + name
	}
	clean := realPath(filepath.Clean(name))
	if !strings.Contains(name, "..") {
		return []string{clean}
	}
	return []string{clean, realPath(name)}
}

// maxLinks is how many symbolic links are followed, as in Linux.
const maxLinks = 40

// realPath follows the symbolic links of an absolute path. What does not exist yet
// is kept as it is, and so is the target of a link that does not exist yet.
func realPath(name string) string {
	const sep = string(filepath.Separator)
	volume := filepath.VolumeName(name)
	real, todo := volume+sep, strings.Split(name[len(volume):], sep)
	for links := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			real = filepath.Dir(real)
			continue
		}
		next := filepath.Join(real, part)
		target, err := os.Readlink(next)
		if err != nil || links == maxLinks { // not a link, or not there
			real = next
			continue
		}
		links++
		if filepath.IsAbs(target) {
			real = volume + sep
		}
		todo = append(strings.Split(target, sep), todo...)
	}
	return real
}

// realPattern follows symbolic links in the part of a pattern before its first
// wildcard.
func realPattern(pattern string) string {
	base, rest := doublestar.SplitPattern(filepath.ToSlash(pattern))
	return realPath(filepath.FromSlash(base)) + "/" + rest
}

// projectRoot is the root that the event names, else the nearest directory above
// where the agent works that a version control system or an agent calls its own.
func projectRoot(ev *grapnel.Event) string {
	if ev.Session.Root != "" {
		return ev.Session.Root
	}
	for dir := ev.Session.CWD; dir != ""; dir = filepath.Dir(dir) {
		for _, mark := range []string{".git", ".hg", ".jj", "grapnel.yaml"} {
			if _, err := os.Lstat(filepath.Join(dir, mark)); err == nil {
				return dir
			}
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return ev.Session.CWD
}

func expandHome(name string) string {
	if name == "~" || strings.HasPrefix(name, "~/") {
		return filepath.Join(homeDir(), name[1:])
	}
	return name
}

// homeDir is the home directory of the user database. The environment is not
// asked: an agent's project settings can set it.
var homeDir = sync.OnceValue(func() string {
	dir, err := home.Dir()
	if err != nil {
		return string(filepath.Separator)
	}
	return dir
})
