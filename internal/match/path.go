package match

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/shell"
)

// Path is one reading of a path that a call names: as the text says, relative to
// where the agent works, or made real, with symbolic links followed. Both count,
// also when the file does not exist yet. Otherwise a model could reach a guarded
// file through another name of it, or a guard of a name that is itself a link, as
// those in a home directory often are, would guard nothing.
type Path struct {
	name string // as the call names it
	in   *Facts // of the project; nil = none is known
	Real string // this reading: absolute and clean
	use  shell.Use
	told bool // the call or a redirection says so; false for what a table of programs tells
	by   namer
}

// reads and writes say whether the file may be read or run, written or deleted, or
// for sure and nothing else.
func (p Path) reads(sure bool) bool {
	if sure {
		return p.use == shell.UseRead
	}
	return p.use != shell.UseWrite && p.use != shell.UseDelete
}

func (p Path) writes(sure bool) bool {
	if sure {
		return p.use == shell.UseWrite
	}
	return p.use != shell.UseRead && p.use != shell.UseExecute
}

// Match reports whether a pattern means this path. A relative pattern counts from
// the project's root, one that begins with **/ also holds outside of it, ~/ is the
// home directory, and a slash at the end means all that is in the directory.
func (p Path) Match(pattern string) bool {
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	if pattern == "~" || strings.HasPrefix(pattern, "~/") || filepath.IsAbs(pattern) {
		pattern = home.Expand(pattern)
		return slices.ContainsFunc(realPatterns(pattern), func(pattern string) bool { return matchGlob(pattern, p.Real) })
	}
	for strings.HasPrefix(pattern, "./") {
		pattern = strings.TrimLeft(pattern[1:], "/")
	}
	var roots []string
	if p.in != nil {
		roots = p.in.roots()
	}
	return slices.ContainsFunc(roots, func(root string) bool {
		rel, err := filepath.Rel(root, p.Real)
		outside := rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator))
		return err == nil && outside == strings.HasPrefix(pattern, "../") && matchGlob(pattern, rel)
	}) || strings.HasPrefix(pattern, "**/") && matchGlob(pattern, strings.TrimPrefix(p.Real, string(filepath.Separator)))
}

// foldsCase: the file systems of these make no difference between .env and .ENV.
const foldsCase = runtime.GOOS == "darwin" || runtime.GOOS == "windows"

func matchGlob(pattern, name string) bool {
	if foldsCase {
		pattern, name = strings.ToLower(pattern), strings.ToLower(name)
	}
	return doublestar.MatchUnvalidated(filepath.ToSlash(pattern), filepath.ToSlash(name))
}

// MaxPath is the length in bytes beyond which links are not followed: no system opens
// a path of that length.
const MaxPath = 32 << 10

// ResolvePath lists the readings of a path. Where a dot-dot follows a symbolic link there
// are two that are real: most agents clean the text first, the system follows the
// link first.
func ResolvePath(name string, ev *grapnel.Event, dir func(string) RealDirectory) []string {
	if scheme := len("file:"); len(name) > scheme && strings.EqualFold(name[:scheme], "file:") {
		name = unescape(name[scheme:])
		if rest, ok := strings.CutPrefix(name, "//"); ok { // and a host, which is this one
			if at := strings.IndexByte(rest, '/'); at >= 0 {
				name = rest[at:]
			}
		}
	}
	name = home.Expand(name)
	if !filepath.IsAbs(name) {
		name = workDir(ev) + string(filepath.Separator) + name
	}
	clean := filepath.Clean(name)
	if len(clean) > MaxPath {
		return []string{clean}
	}
	if len(name) > MaxPath || !strings.Contains(filepath.ToSlash(name)+"/", "/../") {
		const short = 256 // what is found again takes longer than to ask, in long names
		var real string
		if len(clean) < short {
			real = dir(clean).path
		} else {
			real = RealPath(clean)
		}
		if real == clean {
			return []string{clean}
		}
		return []string{clean, real}
	}
	return distinct(clean, RealPath(clean), RealPath(name))
}

// distinct drops what is there twice.
func distinct(words ...string) []string {
	slices.Sort(words)
	return slices.Compact(words)
}

// maxLinks is how many symbolic links are followed, as in Linux.
const maxLinks = 40

// RealPath follows the symbolic links of an absolute path. What does not exist yet
// is kept as it is, and so is the target of a link that does not exist yet.
//
// It takes time in proportion to what exists: a model may write many and long paths,
// and an agent that waits too long goes on without its guards.
func RealPath(name string) string {
	if len(name) > MaxPath {
		return filepath.Clean(name)
	}
	const sep = filepath.Separator
	volume := filepath.VolumeName(name)
	real, todo := []byte(volume), name[len(volume):]
	absent := 0 // so many parts at the end of real are not there, or cannot be reached
	for links := 0; todo != ""; {
		var part string
		part, todo, _ = strings.Cut(todo, string(sep))
		switch part {
		case "", ".":
			continue
		case "..":
			real = real[:max(len(volume), bytes.LastIndexByte(real, sep))]
			absent = max(absent-1, 0)
			continue
		}
		parent := len(real)
		real = append(append(real, sep), part...)
		if absent > 0 || links == maxLinks {
			absent++
			continue
		}
		target, err := os.Readlink(string(real))
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
			absent = 1
			continue
		case err != nil: // not a link
			continue
		}
		links++
		if real = real[:parent]; filepath.IsAbs(target) {
			real = real[:len(volume)]
		}
		todo = target + string(sep) + todo
	}
	if len(real) == len(volume) {
		real = append(real, sep)
	}
	return string(real)
}

// realPatterns returns an absolute pattern as it stands, and with symbolic links
// followed in the part before its first wildcard.
func realPatterns(pattern string) []string {
	base, rest := doublestar.SplitPattern(filepath.ToSlash(pattern))
	if !strings.ContainsAny(rest, `*?[{\`) {
		return distinct(pattern, RealPath(pattern))
	}
	return distinct(pattern, RealPath(filepath.FromSlash(base))+"/"+rest)
}

// projectRoot is the root that the event names, else the nearest directory above
// where the agent works that a version control system or an agent calls its own.
func projectRoot(ev *grapnel.Event) string {
	if ev.Session.Root != "" {
		return ev.Session.Root
	}
	for dir := workDir(ev); dir != ""; dir = filepath.Dir(dir) {
		for _, mark := range []string{".git", ".hg", ".jj", "grapnel.yaml"} {
			if _, err := os.Lstat(filepath.Join(dir, mark)); err == nil {
				return dir
			}
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return workDir(ev)
}

// workDir is where the agent works. A name that no system could open is not walked
// up, once for each path of a call.
func workDir(ev *grapnel.Event) string {
	if len(ev.Session.CWD) > MaxPath {
		return string(filepath.Separator)
	}
	return ev.Session.CWD
}
