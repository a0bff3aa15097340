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

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/glob"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/shell"
)

// Path is one reading of a path in a call: as written, relative to the working directory, or with
// symlinks resolved. Rules apply to all readings, also if the file does not exist yet. Otherwise a
// model could reach a protected file through a symlink, or a rule for a path that is itself a
// symlink, which is common in home directories, would have no effect.
type Path struct {
	name     string // as the call names it
	in       *Facts // facts of the event, for the project root; nil = unknown
	Real     string // this reading: absolute and clean
	use      shell.Use
	redirect bool // a redirection names the path
	explicit bool // the tool input or a redirection names the path; false = derived from the table of programs
	by       namer
}

// reads reports whether the file may be read or run, and writes whether it may be written or
// deleted. If sure is true, they report whether this certainly and exclusively happens.
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

// Use returns how the call uses the file.
func (p Path) Use() shell.Use { return p.use }

// Match reports whether a pattern matches this path. A relative pattern is relative to the project
// root. A pattern that begins with **/ also matches outside the project. ~/ is the home directory,
// and a trailing slash matches everything in the directory.
func (p Path) Match(pattern string) bool {
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	pattern = rooted(pattern)
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

// foldsCase is true on systems whose file systems usually treat .env and .ENV as the same file.
const foldsCase = runtime.GOOS == "darwin" || runtime.GOOS == "windows"

func matchGlob(pattern, name string) bool {
	if foldsCase {
		pattern, name = strings.ToLower(pattern), strings.ToLower(name)
	}
	return glob.Match(filepath.ToSlash(pattern), filepath.ToSlash(name))
}

// MaxPath is the maximum length in bytes of a path whose symlinks are resolved. No system opens
// longer paths.
const MaxPath = 32 << 10

// ResolvePath returns the readings of a path. If .. follows a symlink, there are two resolved
// readings: most agents clean the text first, but the system resolves the symlink first.
func ResolvePath(name string, ev *grapnel.Event, dir func(string) RealDirectory) []string {
	if scheme := len("file:"); len(name) > scheme && strings.EqualFold(name[:scheme], "file:") {
		name = unescape(name[scheme:])
		if rest, ok := strings.CutPrefix(name, "//"); ok { // the host is ignored, because it is this machine
			if at := strings.IndexByte(rest, '/'); at >= 0 {
				name = rest[at:]
			}
		}
	}
	name = rooted(home.Expand(name))
	if !filepath.IsAbs(name) {
		name = workDir(ev) + string(filepath.Separator) + name
	}
	clean := filepath.Clean(name)
	if len(clean) > MaxPath {
		return []string{clean}
	}
	if len(name) > MaxPath || !strings.Contains(filepath.ToSlash(name)+"/", "/../") {
		const short = 256 // for long names, a cache lookup takes longer than resolving
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

// distinct returns the words sorted and without duplicates.
func distinct(words ...string) []string {
	slices.Sort(words)
	return slices.Compact(words)
}

// maxLinks is the maximum number of symlinks to follow, as in Linux.
const maxLinks = 40

// RealPath resolves the symlinks of an absolute path. Components that do not exist are kept,
// including the missing target of a symlink.
//
// Its running time is proportional to the components that exist: a model may write many long paths,
// and an agent that waits too long continues without its rules.
func RealPath(name string) string {
	if len(name) > MaxPath {
		return filepath.Clean(name)
	}
	const sep = filepath.Separator
	volume := filepath.VolumeName(name)
	real, todo := []byte(volume), name[len(volume):]
	absent := 0 // number of components at the end of real that do not exist or cannot be reached
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
		case err != nil: // not a symlink
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

// realPatterns returns an absolute pattern unchanged, and with symlinks resolved in the part before
// its first wildcard.
func realPatterns(pattern string) []string {
	base, rest := glob.Split(filepath.ToSlash(pattern))
	if !strings.ContainsAny(rest, `*?[{\`) {
		return distinct(pattern, RealPath(pattern))
	}
	return distinct(pattern, RealPath(filepath.FromSlash(base))+"/"+rest)
}

// projectRoot returns the root in the event, or else the nearest parent of the working directory
// that contains a version control directory or a grapnel.yaml.
func projectRoot(ev *grapnel.Event) string {
	if root := ev.Session.Root; root != "" && hasDrive(root) == hasDrive(ev.Session.CWD) { // else the agent is on another machine
		return rooted(root)
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

// workDir returns the working directory of the agent. It returns the root directory for a name that
// no system can open, because walking it up for each path would be slow.
func workDir(ev *grapnel.Event) string {
	if len(ev.Session.CWD) > MaxPath {
		return string(filepath.Separator)
	}
	return rooted(ev.Session.CWD)
}
