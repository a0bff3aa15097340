package match

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/internal/glob"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/policy/prefilter"
)

// nearPaths reports whether one of the patterns may match a path of the call. It only searches for
// the literal parts of the patterns, so that patterns that cannot match are not compiled. lists
// contains the patterns of path, reads and writes.
func (f *Facts) nearPaths(lists string) bool {
	if n, size := f.pathSize(); n > maxPaths || size > maxPathBytes {
		return true // the hook reports this as an error
	}
	for lists != "" {
		end := strings.IndexAny(lists, prefilter.NextSet+"\n")
		if end < 0 {
			end = len(lists)
		}
		if pattern := lists[:end]; pattern != "" && f.nearPath(pattern) {
			return true
		}
		lists = lists[min(end+1, len(lists)):]
	}
	return false
}

// joinedPaths returns all readings of the paths, one per line.
func (f *Facts) joinedPaths() string {
	return f.keptJoined.get(func() string {
		paths := f.Paths()
		if len(paths) == 1 {
			return foldPath(paths[0].Real)
		}
		var b strings.Builder
		for _, p := range paths {
			b.WriteString(p.Real)
			b.WriteByte('\n')
		}
		return foldPath(b.String())
	})
}

func foldPath(text string) string {
	if foldsCase {
		text = strings.ToLower(text)
	}
	return filepath.ToSlash(text)
}

func (f *Facts) nearPath(pattern string) bool {
	if oddPath(pattern) {
		return true
	}
	all := f.joinedPaths()
	if pattern != "~" && !strings.HasPrefix(pattern, "~/") && !filepath.IsAbs(pattern) {
		return holdsPieces(all, foldPath(pattern))
	}
	base, rest := glob.Split(filepath.ToSlash(home.Expand(pattern)))
	switch {
	case !strings.ContainsAny(rest, `*?[{`):
		base += "/" + rest
	case !holdsPieces(all, foldPath(rest)): // symlinks do not matter in this part
		return false
	}
	base = filepath.Clean(filepath.FromSlash(base))
	return strings.Contains(all, foldPath(base)) || strings.Contains(all, foldPath(f.RealDir(base).path))
}

// firstPiece returns a literal that every path must contain to match the pattern; empty = unknown.
func firstPiece(pattern string) string {
	if pattern == "~" || strings.HasPrefix(pattern, "~/") || filepath.IsAbs(pattern) || oddPath(pattern) {
		return ""
	}
	pattern = foldPath(pattern)
	start := 0
	for start < len(pattern) && (pattern[start] == '*' || pattern[start] == '/' || pattern[start] == '?') {
		start++
	}
	end := start
	for end < len(pattern) && !endsPiece(pattern[end]) {
		end++
	}
	if piece := pattern[start:end]; piece != "." {
		return piece
	}
	return ""
}

// oddPath reports whether the literals of a pattern do not have to occur in a matching path: a
// symlink before .. leads elsewhere, and a non-ASCII character may match invalid UTF-8.
func oddPath(pattern string) bool {
	for i := range len(pattern) {
		if c := pattern[i]; c == '\\' || c >= utf8.RuneSelf || c == '.' && i > 0 && pattern[i-1] == '.' {
			return true
		}
	}
	return false
}

// holdsPieces reports whether all contains all literal parts of a pattern. For braces, the parts of
// one alternative are enough.
func holdsPieces(all, pattern string) bool {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '*', '?', '/', '}':
		case '[':
			if end := strings.IndexByte(pattern[i:], ']'); end > 0 {
				i += end
			}
		case '{':
			end := endOfBraces(pattern, i)
			if !holdsOne(all, pattern[i+1:end]) {
				return false
			}
			i = end
		default:
			start := i
			for i+1 < len(pattern) && !endsPiece(pattern[i+1]) {
				i++
			}
			if piece := pattern[start : i+1]; piece != "." && !strings.Contains(all, piece) {
				return false
			}
		}
	}
	return true
}

func endsPiece(c byte) bool {
	switch c {
	case '{', '}', '[', '*', '?', '/':
		return true
	}
	return false
}

// holdsOne reports whether all contains the literal parts of one of the alternatives in braces.
func holdsOne(all, alternatives string) bool {
	depth, start := 0, 0
	for i := 0; i <= len(alternatives); i++ {
		switch {
		case i == len(alternatives) || alternatives[i] == ',' && depth == 0:
			if holdsPieces(all, alternatives[start:i]) {
				return true
			}
			start = i + 1
		case alternatives[i] == '{':
			depth++
		case alternatives[i] == '}':
			depth--
		}
	}
	return false
}

// endOfBraces returns the index of the brace that closes the one at open, or the length of the
// pattern.
func endOfBraces(pattern string, open int) int {
	depth := 0
	for i := open; i < len(pattern); i++ {
		switch pattern[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(pattern)
}

// A RealDirectory is an absolute path with symlinks resolved, as by RealPath.
type RealDirectory struct {
	name, path string
	absent     bool // the path does not exist or cannot be reached
}

// RealDir returns the real path of a clean path; see [RealPath]. It caches directories, so that
// each further path in the same directory costs one system call.
func (f *Facts) RealDir(name string) RealDirectory {
	f.lowering.Lock()
	defer f.lowering.Unlock()
	if len(f.dirs) > maxDirs {
		return RealDirectory{name: name, path: RealPath(name)}
	}
	return f.realPart(name)
}

// maxDirs is the number of cached directories per event.
const maxDirs = 256

func (f *Facts) realPart(name string) RealDirectory {
	for i := range f.dirs {
		if f.dirs[i].name == name {
			return f.dirs[i]
		}
	}
	d := RealDirectory{name: name, path: name}
	if parent := filepath.Dir(name); parent != name {
		above := f.realPart(parent)
		if d.absent = above.absent; above.path != parent {
			d.path = filepath.Join(above.path, filepath.Base(name))
		}
		if !d.absent {
			var some [1]byte // os.Readlink allocates, and the target is not needed
			_, err := syscall.Readlink(d.path, some[:])
			switch {
			case err == nil, errors.Is(err, syscall.EINTR):
				d.path = RealPath(d.path)
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
				d.absent = true
			}
		}
	}
	if f.dirs == nil {
		f.dirs = f.fewDirs[:0]
	}
	f.dirs = append(f.dirs, d)
	return d
}
