// Package gitdir reads the files of git repositories: which checkout contains a directory, which
// branch it is on, and which branches a push changes. It starts no process.
//
//	r := gitdir.NewReader(home)
//	repo, err := r.Find("/srv/app/src")
//	ref, err := repo.Head() // "refs/heads/main"; "" = a detached HEAD
//
// A [Reader] reads few and small files, and never waits for a pipe. An error means that the answer
// is not known. The package does not check the owner of a repository, and reads no reftables.
package gitdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// Limits of a Reader and of the files that it reads.
const (
	maxFiles  = 512      // files and directories of one Reader
	maxSmall  = 32 << 10 // bytes of HEAD, of a reference, and of a file that names a directory
	maxConfig = 1 << 20  // bytes of a configuration
	maxPacked = 8 << 20  // bytes of packed-refs and of logs/HEAD
	maxLinks  = 5        // symbolic references that follow each other, as in git
	maxRefs   = 20000    // branches or tags of a repository
)

// A Reader reads files of repositories for one event. It is not safe for concurrent use.
type Reader struct {
	home string // home directory of the user
	left int    // files that it may still read
}

// NewReader returns a Reader for a user with a home directory.
func NewReader(home string) *Reader { return &Reader{home: home, left: maxFiles} }

// file reads a whole file.
func (r *Reader) file(name string, limit int64) (string, error) {
	if r.left--; r.left < 0 {
		return "", errors.New("too many files of git")
	}
	data, err := files.Read(name, limit+1)
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is too large", name)
	}
	return string(data), err
}

// optional is like file. A file that does not exist is empty.
func (r *Reader) optional(name string, limit int64) (string, error) {
	text, err := r.file(name, limit)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return text, err
}

// A Repo is a checkout with its repository, or a repository without a checkout.
type Repo struct {
	Dir    string // git directory of the checkout: it contains HEAD
	Common string // git directory of all checkouts of the repository
	Top    string // top directory of the checkout; empty = not known, or none

	reader *Reader
}

// Find returns the checkout that contains a directory, or nil. dir is absolute and has no symbolic
// links. The error is fs.ErrNotExist if the directory does not exist.
func (r *Reader) Find(dir string) (*Repo, error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("there is no directory %s: %w", dir, fs.ErrNotExist)
	}
	for {
		name := filepath.Join(dir, ".git")
		switch info, err := os.Stat(name); {
		case err == nil && info.IsDir():
			if repo := r.at(name); repo != nil {
				repo.Top = dir
				return repo, nil
			}
		case err == nil:
			repo, err := r.Open(name)
			if err != nil {
				return nil, err
			}
			repo.Top = dir
			return repo, nil
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
		if repo := r.at(dir); repo != nil { // bare, or inside of .git
			return repo, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil, nil
		}
		dir = parent
	}
}

// Open returns the repository with a git directory. name may also be a file that contains the name of
// the git directory, as in linked worktrees and submodules.
func (r *Reader) Open(name string) (*Repo, error) {
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		text, err := r.file(name, maxSmall)
		if err != nil {
			return nil, err
		}
		to, ok := strings.CutPrefix(text, "gitdir: ")
		if !ok {
			return nil, fmt.Errorf("%s does not name a git directory", name)
		}
		name = absolute(strings.TrimRight(to, "\r\n"), filepath.Dir(name))
	}
	if repo := r.at(name); repo != nil {
		return repo, nil
	}
	return nil, fmt.Errorf("%s is not a git directory", name)
}

// at returns the repository whose git directory is dir, or nil. The conditions are the ones of git: a
// directory that only looks like a repository must not hide the real one.
func (r *Reader) at(dir string) *Repo {
	if _, err := os.Lstat(filepath.Join(dir, "HEAD")); err != nil {
		return nil
	}
	repo := &Repo{Dir: dir, Common: dir, reader: r}
	if text, err := r.file(filepath.Join(dir, "commondir"), maxSmall); err == nil {
		repo.Common = absolute(strings.TrimRight(text, "\r\n"), dir)
	}
	for _, name := range []string{"objects", "refs"} {
		if info, err := os.Stat(filepath.Join(repo.Common, name)); err != nil || !info.IsDir() {
			return nil
		}
	}
	return repo
}

func absolute(name, dir string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(dir, name)
}

// Head returns the branch of the checkout as a full name, such as refs/heads/main. While git rebases a
// branch, it is this branch. An empty name is a detached HEAD.
func (p *Repo) Head() (string, error) {
	name := filepath.Join(p.Dir, "HEAD")
	text, err := p.reader.file(name, maxSmall)
	if ref, ok := linked(name); ok && (err != nil || !strings.HasPrefix(text, "ref:")) {
		return p.Resolve(ref)
	}
	if err != nil {
		return "", err
	}
	if ref, ok := symbolic(text); ok {
		if ref == "refs/heads/.invalid" {
			return "", fmt.Errorf("%s keeps its references in a reftable, which Grapnel does not read", p.Common)
		}
		return p.Resolve(ref)
	}
	if !isHash(strings.TrimSpace(text)) {
		return "", fmt.Errorf("%s is damaged", name)
	}
	for _, dir := range []string{"rebase-merge", "rebase-apply"} {
		text, err := p.reader.optional(filepath.Join(p.Dir, dir, "head-name"), maxSmall)
		if ref := strings.TrimSpace(text); err != nil || strings.HasPrefix(ref, "refs/") {
			return ref, err
		}
	}
	return "", nil
}

// linked returns the target of a HEAD that is a symbolic link, as old versions of git wrote it.
func linked(name string) (string, bool) {
	to, err := os.Readlink(name)
	return filepath.ToSlash(to), err == nil && strings.HasPrefix(filepath.ToSlash(to), "refs/")
}

func symbolic(text string) (ref string, ok bool) {
	ref, ok = strings.CutPrefix(text, "ref:")
	return strings.TrimSpace(ref), ok
}

func isHash(text string) bool {
	return len(text) >= 40 && strings.Trim(text, "0123456789abcdef") == ""
}

// Resolve follows symbolic references. It returns a name that does not exist unchanged.
func (p *Repo) Resolve(ref string) (string, error) {
	for range maxLinks {
		if !filepath.IsLocal(ref) {
			return "", fmt.Errorf("%q is not the name of a reference", ref)
		}
		text, err := p.loose(ref)
		if err != nil {
			return "", err
		}
		to, ok := symbolic(text)
		if !ok {
			return ref, nil
		}
		ref = to
	}
	return "", fmt.Errorf("%s is a symbolic reference of symbolic references", ref)
}

// loose returns the file of a reference, or "" if it does not exist or is a directory.
func (p *Repo) loose(ref string) (string, error) {
	name := filepath.Join(p.Common, filepath.FromSlash(ref))
	text, err := p.reader.optional(name, maxSmall)
	if info, other := os.Stat(name); err != nil && (other != nil || info.IsDir()) { // a directory, or a file in place of one
		err = nil
	}
	return text, err
}

// Has reports whether a reference exists.
func (p *Repo) Has(ref string) (bool, error) {
	if text, err := p.loose(ref); text != "" || err != nil {
		return text != "", err
	}
	found := false
	err := p.packed(func(name string) { found = found || name == ref })
	return found, err
}

// packed calls yield with each reference in packed-refs.
func (p *Repo) packed(yield func(ref string)) error {
	if _, err := os.Stat(filepath.Join(p.Common, "reftable")); err == nil {
		return fmt.Errorf("%s keeps its references in a reftable, which Grapnel does not read", p.Common)
	}
	text, err := p.reader.optional(filepath.Join(p.Common, "packed-refs"), maxPacked)
	for line := range strings.Lines(text) {
		if _, ref, ok := strings.Cut(strings.TrimRight(line, "\r\n"), " "); ok && line[0] != '#' {
			yield(ref)
		}
	}
	return err
}

// Refs returns the names of the references below a prefix such as refs/heads, sorted.
func (p *Repo) Refs(prefix string) ([]string, error) {
	var refs []string
	err := p.packed(func(ref string) {
		if strings.HasPrefix(ref, prefix+"/") {
			refs = append(refs, ref)
		}
	})
	if err != nil {
		return nil, err
	}
	root := filepath.Join(p.Common, filepath.FromSlash(prefix))
	n := 0
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if n++; n > maxRefs {
			return errors.New("there are too many references")
		}
		if err != nil {
			return err
		}
		if rel, err := filepath.Rel(p.Common, name); err == nil && !d.IsDir() && !strings.HasSuffix(name, ".lock") {
			refs = append(refs, filepath.ToSlash(rel))
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	slices.Sort(refs)
	return slices.Compact(refs), err
}

// Elsewhere reports whether another checkout of the repository is on a branch. git does not switch to
// such a branch.
func (p *Repo) Elsewhere(ref string) bool {
	others := []string{p.Common}
	links, _ := os.ReadDir(filepath.Join(p.Common, "worktrees"))
	for _, link := range links {
		others = append(others, filepath.Join(p.Common, "worktrees", link.Name()))
	}
	return slices.ContainsFunc(others, func(dir string) bool {
		if dir == p.Dir {
			return false
		}
		text, err := p.reader.file(filepath.Join(dir, "HEAD"), maxSmall)
		to, _ := symbolic(text)
		return err == nil && to == ref
	})
}

// Earlier returns the branch that the checkout was on before the n-th last switch, as in @{-n}. It may
// be the name of a commit.
func (p *Repo) Earlier(n int) (string, error) {
	text, err := p.reader.optional(filepath.Join(p.Dir, "logs", "HEAD"), maxPacked)
	if err != nil {
		return "", err
	}
	lines := strings.Split(text, "\n")
	for _, line := range slices.Backward(lines) {
		_, message, _ := strings.Cut(line, "\t")
		moves, ok := strings.CutPrefix(message, "checkout: moving from ")
		if !ok {
			continue
		}
		if n--; n <= 0 {
			from, _, _ := strings.Cut(moves, " ")
			return from, nil
		}
	}
	return "", errors.New("the checkout has no earlier branch")
}
