package load

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/glob"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
)

// Limits of one entry, because Grapnel reads its files at each event.
const (
	maxForeignSize    = 1 << 20 // bytes per file
	maxForeignFiles   = 256     // files that a pattern finds
	maxForeignEntries = 10_000  // directory entries that a pattern search visits
	maxForeignDepth   = 8       // directory levels below the first
)

// A candidate is a file that an entry names or finds.
type candidate struct {
	hookfiles.File
	real  string // path with symlinks resolved; empty = not resolved
	state State
	err   *policyfile.Error // why the current content is not used
	root  bool              // only used if no user except root can write it

	unsettled bool // the file was just changed, see [Request.Settled]
}

// find lists the files of an entry without duplicates, in the order in which the system reads them.
// A file that cannot be read has err set and no data.
func (ld *loader) find(file File, l *policyfile.LoadFrom) []*candidate { //nolint:gocognit // a place may be missing, unreadable or outside, and all add to one list
	f := systems.Find(l.Format.Text)
	dir := filepath.Dir(file.Path)
	own := placesOf(f, file.Scope, ld.home(), dir)
	places := own
	if l.File != "" {
		name, at := l.File, dir
		if rest, ok := strings.CutPrefix(name, "~"); ok && (rest == "" || rest[0] == '/') {
			name, at = "."+rest, ld.home()
		}
		place := namedPlace(f, name, at)
		if policyfile.OfProject(file.Scope) && place.dir != dir && !below(dir, place.dir) {
			return []*candidate{ld.broken(f, file, filepath.Join(place.dir, place.patterns[0]), outside)}
		}
		places = []foreignPlace{place}
	}
	var all []*candidate
	for _, place := range places {
		for _, pattern := range place.patterns {
			names, err := globFiles(place.dir, pattern)
			if whole := filepath.Join(place.dir, filepath.FromSlash(pattern)); err != nil && !has(all, whole) {
				all = append(all, ld.broken(f, file, whole, files.Reason(err)))
			}
			for _, name := range names {
				c := ld.candidate(f, file, filepath.Join(place.dir, filepath.FromSlash(name)), name)
				if c.read(); c.state == Absent && !place.must {
					continue
				}
				c.real = match.RealPath(c.Path)
				if slices.ContainsFunc(all, func(o *candidate) bool { return o.Path == c.Path || o.real == c.real && o.err == nil }) {
					continue
				}
				if i := slices.IndexFunc(own, func(p foreignPlace) bool { return p.has(c) }); i >= 0 {
					c.Own, c.WorkDir = true, own[i].where
				}
				if policyfile.OfProject(file.Scope) && c.err == nil && !below(match.RealPath(dir), c.real) {
					c = ld.broken(f, file, c.Path, outside)
				}
				all = append(all, c)
			}
		}
	}
	return all
}

func has(all []*candidate, path string) bool {
	return slices.ContainsFunc(all, func(c *candidate) bool { return c.Path == path })
}

func (ld *loader) candidate(f *hookfiles.Format, file File, path, name string) *candidate {
	source := grapnel.Source{Name: f.Name + ":" + path, Scope: file.Scope, File: path}
	return &candidate{File: hookfiles.File{Path: path, Name: name, Source: source}, state: Valid, root: file.Root}
}

// broken returns a candidate in state Broken with an error message.
func (ld *loader) broken(f *hookfiles.Format, file File, path, msg string) *candidate {
	c := ld.candidate(f, file, path, filepath.Base(path))
	c.state, c.err = Broken, &policyfile.Error{File: path, Msg: msg}
	return c
}

func (c *candidate) read() {
	if strings.ContainsFunc(c.Path, unicode.IsControl) { // a control character could falsify messages and the input of digests
		c.state, c.err = Broken, &policyfile.Error{File: c.Path, Msg: "has a control character in its name"}
		return
	}
	check := func(fs.FileInfo) error { return nil }
	if c.root {
		check = files.OnlyRoot
	}
	begun := time.Now()
	data, modified, err := files.ReadStamped(c.Path, maxForeignSize+1, check)
	c.unsettled = err == nil && settling(modified, begun)
	if err == nil && c.root {
		err = files.OnlyRootPath(c.Path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && files.Exists(c.Path):
		c.state, c.err = Broken, &policyfile.Error{File: c.Path, Msg: "is a link to a file that does not exist"}
	case errors.Is(err, fs.ErrNotExist):
		c.state, c.err = Absent, &policyfile.Error{File: c.Path, Msg: "the file does not exist"}
	case err != nil:
		c.state, c.err = Broken, &policyfile.Error{File: c.Path, Msg: files.Reason(err)}
	case len(data) > maxForeignSize:
		c.state, c.err = Broken, &policyfile.Error{File: c.Path, Msg: fmt.Sprintf("is larger than %d MiB", maxForeignSize>>20)}
	default:
		c.content(data)
	}
}

// called returns the source name with symlinks resolved. Trusted content keeps its own name: a
// symlink at its path must not give it the name of another file.
func (c *candidate) called() string {
	if c.real == "" || c.err != nil {
		return c.Source.Name
	}
	return strings.TrimSuffix(c.Source.Name, c.Path) + c.real
}

// content sets the data and the digest of the file.
func (c *candidate) content(data []byte) {
	c.Data, c.Source.Digest = data, files.Digest(data)
}

// last sets earlier content of the file. The agent does not run the hooks of such content itself.
func (c *candidate) last(data []byte) {
	c.content(data)
	c.Own = false
}

// A foreignPlace is a directory with patterns of the files to find in it.
type foreignPlace struct {
	dir      string
	patterns []string
	must     bool   // the policy names the file, so it must exist
	where    string // real path of the directory, if the system reads these files only when it runs there
}

// has reports whether a file is part of the place, also under its resolved name.
func (p foreignPlace) has(c *candidate) bool {
	rel, err := filepath.Rel(p.dir, c.Path)
	real, realErr := filepath.Rel(match.RealPath(p.dir), c.real)
	return slices.ContainsFunc(p.patterns, func(pattern string) bool {
		return err == nil && glob.Match(pattern, filepath.ToSlash(rel)) ||
			realErr == nil && glob.Match(pattern, filepath.ToSlash(real)) ||
			!isPattern(pattern) && match.RealPath(filepath.Join(p.dir, filepath.FromSlash(pattern))) == c.real
	})
}

// placesOf returns the places where a system stores hook files of a scope.
func placesOf(f *hookfiles.Format, scope grapnel.Scope, home, dir string) []foreignPlace {
	switch scope {
	case grapnel.ScopeManaged:
		var places []foreignPlace
		for _, pattern := range f.Managed {
			base, rest := glob.Split(pattern)
			places = append(places, foreignPlace{dir: filepath.FromSlash(base), patterns: []string{rest}})
		}
		return places
	case grapnel.ScopeUser:
		return []foreignPlace{{dir: home, patterns: f.User}, {dir: dir, where: match.RealPath(dir), patterns: slices.Concat(f.User, f.Project)}} // the overlap is harmless: each file is loaded once
	default:
		return []foreignPlace{{dir: dir, patterns: f.Project}}
	}
}

// namedPlace returns the place that an entry's `file:` value names. A directory is searched like a
// project directory.
func namedPlace(f *hookfiles.Format, name, from string) foreignPlace {
	if isPattern(name) {
		base, rest := glob.Split(name)
		return foreignPlace{dir: home.Absolute(filepath.FromSlash(base), from), patterns: []string{rest}}
	}
	name = home.Absolute(filepath.FromSlash(name), from)
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		if f.Project == nil {
			return foreignPlace{dir: name, patterns: f.User}
		}
		return foreignPlace{dir: name, patterns: f.Project}
	}
	return foreignPlace{dir: filepath.Dir(name), patterns: []string{filepath.Base(name)}, must: true}
}

func isPattern(name string) bool { return strings.ContainsAny(name, "*?[{") }

const outside = "is outside the directory of the policy: a project can only load its own files"

// home returns the home directory for user files.
func (ld *loader) home() string {
	if ld.Home != "" {
		return ld.Home
	}
	return home.Known()
}

// globFiles lists the files below dir that match a pattern, sorted by name. A pattern without wildcards
// is returned unchanged. globFiles does not follow symlinks that lead out of the directory, and no
// symlinks to directories, because they can form a loop.
func globFiles(dir, pattern string) ([]string, error) {
	if !isPattern(pattern) {
		return []string{pattern}, nil
	}
	base, rest := glob.Split(pattern)
	w := &walk{root: filepath.Join(dir, filepath.FromSlash(base))}
	err := w.dir("", "", rest, 0)
	slices.Sort(w.found)
	for i := range w.found {
		w.found[i] = path.Join(base, w.found[i])
	}
	return w.found, err
}

type walk struct {
	root   string
	looked int
	found  []string
}

// dir searches the directory name for files that match a pattern below from. It only enters
// directories that can contain a match.
func (w *walk) dir(name, from, pattern string, depth int) error {
	first, rest, more := strings.Cut(pattern, "/")
	deep := name != from || strings.Contains(first, "**") || strings.Contains(pattern, "{") // braces may contain a slash
	if more && !deep && !isPattern(first) {
		name = path.Join(name, first)
		if real := match.RealPath(w.path(name)); !below(match.RealPath(w.root), real) {
			return nil
		}
		return w.dir(name, name, rest, depth)
	}
	if info, err := os.Stat(w.path(name)); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil
	}
	entries, err := os.ReadDir(w.path(name))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if w.looked++; w.looked > maxForeignEntries {
			return fmt.Errorf("more than %d files to search: use a narrower name", maxForeignEntries)
		}
		called := path.Join(name, entry.Name())
		switch {
		case entry.IsDir() && depth < maxForeignDepth && deep:
			err = w.dir(called, from, pattern, depth+1)
		case entry.IsDir() && depth < maxForeignDepth && more && glob.Match(first, entry.Name()):
			err = w.dir(called, called, rest, depth+1)
		case !entry.IsDir() && glob.Match(pattern, strings.TrimPrefix(strings.TrimPrefix(called, from), "/")):
			err = w.file(called, entry)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) file(name string, entry fs.DirEntry) error {
	if entry.Type()&fs.ModeSymlink != 0 && !w.inside(name) {
		return nil
	}
	if len(w.found) == maxForeignFiles {
		return fmt.Errorf("more than %d such files", maxForeignFiles)
	}
	w.found = append(w.found, name)
	return nil
}

func (w *walk) path(name string) string { return filepath.Join(w.root, filepath.FromSlash(name)) }

// inside reports whether a symlink leads to a regular file in the directory.
func (w *walk) inside(name string) bool {
	real := match.RealPath(w.path(name))
	info, err := os.Stat(real)
	return below(match.RealPath(w.root), real) && (err != nil || info.Mode().IsRegular())
}
