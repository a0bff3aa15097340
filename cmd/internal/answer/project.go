package answer

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
)

// ProjectPolicy is what a project calls its policies.
const ProjectPolicy = "grapnel.yaml"

// Dirs lists the directories of a project whose policies count for an event: their
// real names, from the root down to where the agent works. The root is fixed by the
// first event of a session, so that no change of the working directory moves a guard
// out of the way: one outside of the root leaves only the root's own policy. keep
// writes the root down for the events to come. An event that names no root is given
// this one.
func (p Place) Dirs(ev *grapnel.Event, keep bool) []string {
	cwd := ev.Session.CWD
	if !filepath.IsAbs(cwd) || len(cwd) > maxPath {
		cwd, _ = os.Getwd() // agents run their hooks where they work
	}
	root := p.sessionRoot(ev, cwd, keep)
	if ev.Session.Root == "" {
		ev.Session.Root = root.called
	}
	return root.downTo(cwd)
}

// DirsOf lists the directories for who works in dir.
func DirsOf(dir string) []string { return rootOf(dir).downTo(dir) }

// A root is that of a project, by two names.
type root struct {
	called string // as the agent has it
	real   string
}

func rootOf(dir string) root {
	called := vcsRoot(dir)
	return root{called, policy.RealPath(called)}
}

// ProjectFile is the name by which the policy of a project is known, wherever it is
// called from: its directory is the real one. The file itself may be gone.
func ProjectFile(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	return filepath.Join(policy.RealPath(filepath.Dir(abs)), filepath.Base(abs)), nil
}

// vcsRoot is the nearest directory that a version control system calls its own, by
// the name of dir or else by its real name; without one, dir itself. A grapnel.yaml is
// no mark: whoever plants one further down would move the root.
func vcsRoot(dir string) string {
	for _, at := range []string{dir, policy.RealPath(dir)} {
		for last := ""; at != last; last, at = at, filepath.Dir(at) {
			for _, mark := range []string{".git", ".hg", ".jj"} {
				if _, err := os.Lstat(filepath.Join(at, mark)); err == nil {
					return at
				}
			}
		}
	}
	return dir
}

// maxPath is the length of the longest path that a system opens.
const maxPath = 4096

// downTo lists the real directories from the root down to dir.
func (r root) downTo(dir string) []string {
	if r.real == "" {
		return nil // nobody knows where the agent works
	}
	dirs := []string{r.real}
	if dir == r.called || dir == r.real { // most of the time, and no link has to be followed
		return dirs
	}
	rel, err := filepath.Rel(r.real, policy.RealPath(dir))
	if err != nil || !filepath.IsLocal(rel) || rel == "." {
		return dirs
	}
	at := r.real
	for part := range strings.SplitSeq(rel, string(filepath.Separator)) {
		at = filepath.Join(at, part)
		dirs = append(dirs, at)
	}
	return dirs
}

const (
	keepSessions = 1000                // how many roots are kept
	sessionsAge  = 30 * 24 * time.Hour // and how long
)

// sessionRoot is the root of the event's session. Where it cannot be kept, each event
// finds its own.
func (p Place) sessionRoot(ev *grapnel.Event, cwd string, keep bool) root {
	if ev.Session.ID == "" {
		return rootOf(cwd)
	}
	name := filepath.Join(p.sessions(), nameOf(ev.Agent.Name, ev.Session.ID))
	if p.roots != nil {
		if kept, ok := p.roots.load(name); ok {
			return kept
		}
	}
	kept, ok := readRoot(name)
	switch {
	case ok:
	case !keep || cwd == "":
		return rootOf(cwd)
	default:
		kept = p.keepRoot(name, rootOf(cwd))
	}
	if p.roots != nil {
		p.roots.store(name, kept)
	}
	return kept
}

func readRoot(name string) (root, bool) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // of a pipe nobody may ever write to it
	if err != nil {
		return root{}, false
	}
	defer f.Close()
	data := make([]byte, 2*maxPath+2)
	n, _ := f.Read(data) // it was written whole
	called, real, _ := strings.Cut(string(data[:n]), "\x00")
	return root{called, real}, filepath.IsAbs(called) && filepath.IsAbs(real)
}

// keepRoot writes a root down, and returns it, or the one that another event of the
// session wrote at the same time.
func (p Place) keepRoot(name string, found root) root {
	if os.MkdirAll(p.sessions(), 0o700) != nil {
		return found
	}
	f, err := os.CreateTemp(p.sessions(), ".new-*") // mode 0600
	if err != nil {
		return found
	}
	defer p.sweepSessions()
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(found.called + "\x00" + found.real)
	if errors.Join(err, f.Close()) != nil {
		return found
	}
	err = os.Link(f.Name(), name) // unlike a rename it replaces nothing
	if first, ok := readRoot(name); err != nil && ok {
		return first
	}
	if err != nil { // no links on this file system, or what is there is no root
		_ = os.Rename(f.Name(), name)
	}
	return found
}

// sweepSessions removes the roots of sessions that are long over, and the oldest of
// too many.
func (p Place) sweepSessions() {
	entries, _ := os.ReadDir(p.sessions())
	type session struct {
		name string
		at   time.Time
	}
	var files []session
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			files = append(files, session{entry.Name(), info.ModTime()})
		}
	}
	slices.SortStableFunc(files, func(a, b session) int { return b.at.Compare(a.at) })
	for i, file := range files {
		if i >= keepSessions || time.Since(file.at) > sessionsAge {
			_ = os.Remove(filepath.Join(p.sessions(), file.name))
		}
	}
}
