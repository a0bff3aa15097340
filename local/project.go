package local

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
)

// ProjectPolicy is the name of policy files in projects.
const ProjectPolicy = "grapnel.yaml"

// A Dir is a directory with a project policy that applies to an event.
type Dir struct {
	Path       string // absolute, with links resolved
	GuardsOnly bool   // outside the session's project: an `allow` in its policy has no effect
}

// Dirs lists the directories with the policies that apply to an event. First come the project's
// directories, from the root of the session down to the working directory. Then comes every other
// directory above the working directory that has a trusted policy; such a policy can only add
// guards.
//
// The first event of a session fixes its root, so a guard still applies when the agent changes
// its directory. It is the root of the project that contains the event's root, or else its working
// directory. If keep is set, Dirs stores the root for later events. Dirs sets the event's root. If
// the root cannot be stored, Dirs uses only the event's own directory; see [Place.RootsRefused].
func (p Place) Dirs(ev *grapnel.Event, keep bool) []Dir {
	dirs, _ := p.SessionDirs(ev, keep)
	return dirs
}

// SessionDirs is like Dirs and also returns the reason why the root of the session was not
// stored.
func (p Place) SessionDirs(ev *grapnel.Event, keep bool) ([]Dir, error) {
	cwd := ev.Session.CWD
	if !filepath.IsAbs(cwd) || len(cwd) > MaxPath {
		cwd, _ = os.Getwd() // agents run hooks in their own working directory
	}
	from := cwd
	if root := ev.Session.Root; filepath.IsAbs(root) && len(root) <= MaxPath {
		from = root // the model may have chosen the working directory
	}
	root, err := p.sessionRoot(ev, from, keep)
	if ev.Session.Root == "" || from == ev.Session.Root {
		ev.Session.Root = root.called
	}
	return p.policyDirs(root, cwd), err
}

// DirsOf lists the directories with the policies that apply to an agent that starts in dir.
func (p Place) DirsOf(dir string) []Dir { return p.policyDirs(rootOf(dir), dir) }

// ProjectRoot returns the real root of the project that dir is in, or "" if dir is empty.
func ProjectRoot(dir string) string { return rootOf(dir).real }

// policyDirs returns the directories of a project and the trusted directories above cwd.
func (p Place) policyDirs(r root, cwd string) []Dir {
	real := r.real // most agents work in the root, so no link needs to be resolved
	if cwd != r.called && cwd != r.real {
		real = match.RealPath(cwd)
	}
	var dirs []Dir
	for _, path := range r.downTo(real) {
		dirs = append(dirs, Dir{Path: path})
	}
	trusts := p.Trusts()
	if _, err := os.Lstat(string(trusts)); err != nil || real == "" {
		return dirs // no policy has ever been trusted
	}
	for last := ""; real != last; last, real = real, filepath.Dir(real) {
		inProject := slices.ContainsFunc(dirs, func(d Dir) bool { return d.Path == real })
		if !inProject && trusts.Has(filepath.Join(real, ProjectPolicy)) {
			dirs = append(dirs, Dir{Path: real, GuardsOnly: true})
		}
	}
	return dirs
}

// A root is the root directory of a project, by two names.
type root struct {
	called string // the path in the agent's spelling
	real   string
}

func rootOf(dir string) root {
	called := vcsRoot(dir)
	return root{called, match.RealPath(called)}
}

// ProjectFile returns the absolute path of a project's policy, with links in its directory
// resolved. The file need not exist.
func ProjectFile(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	return filepath.Join(match.RealPath(filepath.Dir(abs)), filepath.Base(abs)), nil
}

// vcsRoot returns the nearest directory with a version control marker, looking upward from dir
// and then from its real path. Without one, it returns dir. A grapnel.yaml is not a marker: an
// attacker could move the root by adding one in a subdirectory.
func vcsRoot(dir string) string {
	for _, at := range []string{dir, match.RealPath(dir)} {
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

// MaxPath is the maximum length of a usable path in bytes.
const MaxPath = 4096

// downTo lists the directories from the root down to a real directory. If the directory is not
// below the root, it returns only the root.
func (r root) downTo(dir string) []string {
	if r.real == "" {
		return nil // the working directory is unknown
	}
	dirs := []string{r.real}
	rel, err := filepath.Rel(r.real, dir)
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
