// Package loss judges the loss if a directory or file is deleted: nothing, because a build makes it
// again, or the work of a person.
//
//	p := &loss.Place{Root: "/home/dev/shop", Home: "/home/dev"}
//	p.Tree("/home/dev/shop/node_modules") // Rebuilt, if .gitignore has it
//	p.Tree("/home/dev/shop/uploads")      // Ignored, or Project
//
// The package reads files, .gitignore files, and the marks of tools in their directories. If these do not
// decide, names do. It does not know which files git tracks, and starts no program.
package loss

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/glob"
)

// A Class is a kind of loss.
type Class uint16

// The classes. A set of them is their sum.
const (
	Session    Class = 1 << iota // the session made it
	Rebuilt                      // tools make it again, or it is empty
	Temporary                    // in a directory for temporary files or caches
	Ignored                      // git ignores it, so that git cannot restore it
	Project                      // the rest of the project
	Root                         // the whole project
	Repository                   // history of the repository
	Elsewhere                    // outside of the project, with a name of something that tools make
	Outside                      // the rest outside of the project
	Home                         // the home directory, or what is directly in it
	System                       // a directory of the system
	Unknown                      // it does not exist or is not known, and has no name of something that tools make
)

// words are the names of the classes in policies, in the order of the constants.
var words = []string{"session", "rebuilt", "temporary", "ignored", "project", "root", "repository", "elsewhere", "outside", "home", "system", "unknown"}

// Words lists the names of all classes.
func Words() []string { return slices.Clone(words) }

// Of returns the set of the classes with these names.
func Of(names []string) (set Class) {
	for i, word := range words {
		if slices.Contains(names, word) {
			set |= 1 << i
		}
	}
	return set
}

// Words lists the names of the classes in a set.
func (c Class) Words() (names []string) {
	for i, word := range words {
		if c&(1<<i) != 0 {
			names = append(names, word)
		}
	}
	return names
}

// MaxEntries is the number of directory entries that are read for one event. The entries beyond them are
// Project.
const MaxEntries = 20_000

// A Place is a project on this machine, for one event. All paths are absolute and without symbolic
// links.
type Place struct {
	Root, Home string
	Made       func(path string) bool // reports whether the session made a directory; nil = none
	Wrote      func(path string) bool // reports whether the session wrote a file; nil = none

	read    int // directory entries so far
	ignores map[string][]ignoreRule
}

// Tree returns the class of a directory with all of its content, or of a file. name has no symbolic
// links in its parent directories. If it is a link itself, only the link is deleted.
func (p *Place) Tree(name string) Class {
	name = filepath.Clean(name)
	if c := p.Where(name); c != Project {
		return c
	}
	return p.inside(name)
}

// Where returns the class of a path by its position alone. Project means that it is below the root.
func (p *Place) Where(name string) Class {
	rel, inRoot := below(p.Root, name)
	_, homeInRoot := below(p.Root, p.Home)
	home, inHome := below(p.Home, name)
	_, aboveHome := below(name, p.Home)
	_, aboveRoot := below(name, p.Root)
	slashed := filepath.ToSlash(name)
	switch {
	case inRoot && !homeInRoot && rel == "":
		return Root
	case inRoot && !homeInRoot && hasPart(rel, ".git", ".hg", ".svn", ".jj"):
		if matchesAny(repositoryState, rel) {
			return Rebuilt
		}
		return Repository
	case inRoot && !homeInRoot:
		return Project
	case matchesAny(temporary, slashed) || inHome && matchesAny(caches, home):
		return Temporary
	case isSystem(slashed):
		return System
	case aboveHome:
		return Home
	case aboveRoot:
		return Root
	case inHome && home[0] == '.':
		return Home
	case Remade(lastParts(slashed, 2)) && matchesAny(containers, slashed):
		return Rebuilt
	case Remade(lastParts(slashed, 2)):
		return Elsewhere
	case inHome && !strings.Contains(home, "/") || isHome(slashed):
		return Home
	}
	return Outside
}

// inside returns the class of the entries below the root.
func (p *Place) inside(name string) Class {
	info, err := os.Lstat(name)
	switch {
	case p.Made != nil && p.Made(name):
		return Session
	case err != nil && (errors.Is(err, fs.ErrNotExist) || !isDir(filepath.Dir(name))):
		return p.Named(p.rel(name))
	case err != nil:
		return Project
	case info.IsDir() && isDir(filepath.Join(name, ".git")):
		return Repository
	}
	if info.IsDir() && p.Empty(name) {
		return Rebuilt
	}
	kind := Remade(p.rel(name)) || p.marked(name)
	repo := p.repository(filepath.Dir(name))
	switch {
	case repo == "" && kind:
		return Rebuilt
	case repo == "":
		return Project
	case !p.ignored(repo, name, info.IsDir()) && !(kind && info.IsDir() && p.allIgnored(repo, name)):
		return Project
	case kind:
		return Rebuilt
	}
	return Ignored
}

// allIgnored reports whether git ignores each entry of a directory, except for the files that keep it.
func (p *Place) allIgnored(repo, dir string) bool {
	entries, err := p.list(dir, MaxEntries)
	return err == nil && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		keeps := e.Name() == ".gitkeep" || e.Name() == ".gitignore" || e.Name() == ".keep"
		return !keeps && !p.ignored(repo, filepath.Join(dir, e.Name()), e.IsDir())
	})
}

// Named returns the class of something that does not exist or is not known, by its name.
func (p *Place) Named(text string) Class {
	if Remade(text) {
		return Rebuilt
	}
	return Unknown
}

func (p *Place) rel(name string) string {
	rel, _ := below(p.Root, name)
	return rel
}

// Contents returns the classes of the files and directories that a pattern matches. tree is whether
// directories are deleted, too. If nothing matches, the name of the pattern decides.
func (p *Place) Contents(pattern string, tree bool) Class {
	dir, base := filepath.Split(pattern)
	dir = filepath.Clean(dir)
	if p.Made != nil && p.Made(dir) {
		return Session
	}
	if everything(base) && !strings.ContainsAny(dir, "*?[") && tree { // all of a directory
		if c := p.Where(dir); c != Project && p.Where(filepath.Join(dir, "x")) != Temporary {
			return c
		}
	}
	found, err := p.expand(pattern)
	if err != nil {
		return Project
	}
	return p.all(found, tree, pattern)
}

// expand returns the files and directories that match a pattern.
func (p *Place) expand(pattern string) ([]string, error) {
	volume := filepath.VolumeName(pattern)
	found, wild := []string{volume + string(filepath.Separator)}, false
	for part := range strings.SplitSeq(filepath.ToSlash(filepath.Clean(pattern[len(volume):])), "/") {
		if part == "" {
			continue
		}
		if !strings.ContainsAny(part, "*?[") {
			for i := range found {
				found[i] = filepath.Join(found[i], part)
			}
			if wild {
				found = slices.DeleteFunc(found, absent)
			}
			continue
		}
		wild = true
		var next []string
		for _, parent := range found {
			names, err := p.matches(parent, part)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			next = append(next, names...)
		}
		found = next
	}
	return found, nil
}

// matches returns the entries of a directory whose names match a pattern. Only a pattern that begins with
// a dot matches hidden entries.
func (p *Place) matches(dir, pattern string) (names []string, err error) {
	entries, err := p.list(dir, MaxEntries)
	for _, e := range entries {
		if glob.Match(escapeBraces(pattern), e.Name()) && (e.Name()[0] != '.' || pattern[0] == '.') {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names, err
}

// Below returns the classes of all entries below a directory with a name that one of the globs matches.
func (p *Place) Below(dir string, names []string, tree bool) Class {
	var found []string
	var walk func(dir string) bool
	walk = func(dir string) bool {
		entries, err := p.list(dir, MaxEntries)
		if err != nil {
			return errors.Is(err, fs.ErrNotExist)
		}
		for _, e := range entries {
			name := filepath.Join(dir, e.Name())
			switch {
			case slices.ContainsFunc(names, func(n string) bool { return glob.Match(escapeBraces(n), e.Name()) }):
				found = append(found, name)
			case !e.IsDir() || e.Name() == ".git":
			case Remade(e.Name()) && p.Tree(name) == Rebuilt: // all of it is made again
			case !walk(name):
				return false
			}
		}
		return true
	}
	switch c := p.Where(dir); {
	case c == Project || c == Root:
		if slices.Contains(names, ".git") {
			return Repository
		}
	case !tree: // a few files outside, which a person chose by their names
		return 0
	}
	if !walk(dir) {
		return Project
	}
	if found == nil && !slices.ContainsFunc(names, func(n string) bool { return !Remade(n) }) {
		return Rebuilt
	}
	if absent(dir) && slices.ContainsFunc(names, allSources) {
		return Project
	}
	return p.all(found, tree, "")
}

// all returns the classes of a list. One file of the project is no loss that a rule about trees is for.
func (p *Place) all(found []string, tree bool, pattern string) (set Class) {
	files := 0
	for _, name := range found {
		file := IsFile(name)
		if !file && !tree { // rm without -r leaves directories
			continue
		}
		c := p.Tree(name)
		if file && c&(Project|Ignored) != 0 && Remade(filepath.Base(name)) {
			c = Rebuilt
		}
		if file && c == Project {
			files++
			continue
		}
		set |= c
	}
	if files > 1 {
		set |= Project
	}
	if len(found) > 0 || pattern == "" {
		return set
	}
	pattern = filepath.Clean(pattern)
	switch {
	case tree:
	case allSources(filepath.Base(pattern)) && p.Where(pattern) == Project && absent(filepath.Clean(p.Root)):
		return Project
	default:
		return set
	}
	if c := p.Where(pattern); c != Project {
		return c
	}
	return p.Named(p.rel(pattern))
}

// IsFile reports whether a path exists and is not a directory.
func IsFile(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && !info.IsDir()
}

// Empty reports whether a directory exists and has no entries.
func (p *Place) Empty(dir string) bool {
	entries, err := p.list(dir, 1)
	return len(entries) == 0 && err == nil
}

var errTooMany = errors.New("too many directory entries")

// list reads at most n entries of a directory, within the limit of the event.
func (p *Place) list(dir string, n int) ([]fs.DirEntry, error) {
	if p.read > MaxEntries {
		return nil, errTooMany
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(min(n, MaxEntries-p.read+1))
	if p.read += len(entries) + 1; p.read > MaxEntries {
		return nil, errTooMany
	}
	if errors.Is(err, io.EOF) { // it is empty
		return nil, nil
	}
	return entries, err
}

// repository returns the directory of the repository that contains dir; empty = none.
func (p *Place) repository(dir string) string {
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// below returns a path relative to a directory that contains it, with slashes. It is empty for the
// directory itself.
func below(dir, name string) (rel string, ok bool) {
	if name == "" {
		return "", false
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		if low := strings.ToLower(name); strings.HasPrefix(low, strings.ToLower(dir)) {
			dir = name[:min(len(dir), len(name))]
		}
	}
	rel, ok = files.Below(dir, name)
	if rel == "." {
		rel = ""
	}
	return rel, ok
}

func hasPart(rel string, parts ...string) bool {
	for part := range strings.SplitSeq(rel, "/") {
		if slices.Contains(parts, part) {
			return true
		}
	}
	return false
}

func absent(name string) bool {
	_, err := os.Lstat(name)
	return err != nil
}

func isDir(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.IsDir()
}
