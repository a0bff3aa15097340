package match

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/gitdir"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/shell"
)

// This file finds the checkout of git in which a command or a file of a call is, and its branch at
// that moment: the line may switch branches, make worktrees and enter directories before. Files are
// read once for each event, and never kept for the next one.

// A head is a reference as far as it is known: the branch of a checkout, or of a push.
type head struct {
	ref  string // full name, such as refs/heads/main; empty = none: a detached HEAD, or no repository
	open bool   // ref is only the beginning of the name
	why  string // why it is not known; empty = known
}

const heads = "refs/heads/"

// String returns the branch for explanations.
func (h head) String() string {
	switch name := strings.TrimPrefix(h.ref, heads); {
	case h.open:
		return name + "... (computed)"
	case h.why != "":
		return "unknown (" + h.why + ")"
	default:
		return cmp.Or(name, "no branch")
	}
}

// fits reports whether one of the globs matches the branch or the full name. sure is how it
// answers if the head is not known: false = it may match.
func (h head) fits(globs []Glob, sure bool) bool {
	name := strings.TrimPrefix(h.ref, heads)
	switch {
	case h.open:
		return !sure && slices.ContainsFunc(globs, func(g Glob) bool { return g.mayBegin(name) || g.mayBegin(h.ref) })
	case h.why != "":
		return !sure
	}
	return h.ref != "" && (AnyGlob(globs, name) || AnyGlob(globs, h.ref))
}

// mayBegin reports whether a word that begins with begin may match.
func (g *Glob) mayBegin(begin string) bool {
	switch {
	case g.re != nil:
		return true
	case g.glob == "":
		return strings.HasPrefix(g.source, begin)
	}
	return strings.HasPrefix(g.prefix, begin) || strings.HasPrefix(begin, g.prefix)
}

// headOf returns the head with the name that a word gives a branch.
func headOf(w shell.Word) head {
	switch {
	case w.Literal:
		return head{ref: heads + w.Text}
	case w.Begins() != "":
		return head{ref: heads + w.Begins(), open: true}
	}
	return head{why: "the line computes the name of a branch: " + Shorten(w.Text)}
}

// A checkout is a checkout of git.
type checkout struct {
	key  string       // identifies it; empty = outside of checkouts, or not known
	repo *gitdir.Repo // nil = none, or the line makes it
	head head
	dir  string // in which a command works; empty = not known
}

// A lineState is the changes by the commands of a line up to some point.
type lineState struct {
	heads  map[string]switched // by checkout.key
	made   []checkout          // checkouts that the line makes; dir is their top directory
	config string              // why the configuration is not the one in the files
	why    string              // why the branch of any checkout may be another one
	failed bool                // the last command fails
}

// switched is the branch that a line gives to a checkout, and the one before it.
type switched struct{ now, before head }

// checkouts finds the checkouts of one event.
type checkouts struct {
	f      *Facts
	mu     sync.Mutex
	reader *gitdir.Reader
	states map[*shell.Step]*lineState
	found  map[string]foundRepo // by directory
	disk   map[string]head      // by checkout.key
	real   map[string]string    // directories without symbolic links
	pushes map[*shell.Command][]head
}

// realPath is RealPath, once for each name.
func (g *checkouts) realPath(name string) string {
	real, known := g.real[name]
	if !known {
		real = RealPath(name)
		g.real[name] = real
	}
	return real
}

type foundRepo struct {
	repo *gitdir.Repo
	err  error
}

func (f *Facts) checkouts() *checkouts {
	return f.keptCheckouts.get(func() *checkouts {
		return &checkouts{
			f: f, reader: gitdir.NewReader(home.Known()), states: map[*shell.Step]*lineState{nil: {}}, found: map[string]foundRepo{}, disk: map[string]head{},
			real: map[string]string{}, pushes: map[*shell.Command][]head{},
		}
	})
}

// ofCommand returns the branch in whose checkout a command works.
func (g *checkouts) ofCommand(script *shell.Script, i int) head {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := &script.Commands[i]
	return g.place(c, g.state(script, c.Before())).head
}

// ofFile returns the branch of the checkout that contains a file, at the moment of the command that
// names it; of a redirection, at the end of the line.
func (g *checkouts) ofFile(p Path) head {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := &lineState{}
	if by := p.by.script; by != nil {
		st = g.state(by, by.Commands[p.by.i].Before())
	} else if len(OrZero(g.f.Event.Tool).Commands) > 0 {
		last := g.f.Scripts()[len(g.f.Scripts())-1]
		st = g.state(last, last.End())
	}
	return g.at(above(filepath.Dir(p.Real)), st).head
}

// ofCall returns the branches of a call without a shell line: of its files, or of the agent's
// directory.
func (g *checkouts) ofCall() []head {
	const enough = 64 // files in one call
	var list []head
	for _, p := range g.f.Paths() {
		if len(list) == enough {
			return append(list, head{why: "the call names too many files"})
		}
		if h := g.ofFile(p); p.explicit && !slices.Contains(list, h) {
			list = append(list, h)
		}
	}
	if list == nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		list = []head{g.at(g.realPath(workDir(g.f.Event)), &lineState{}).head}
	}
	return list
}

// above returns the nearest directory that exists: a file may be in a new directory.
func above(dir string) string {
	for {
		parent := filepath.Dir(dir)
		if info, err := os.Stat(dir); err == nil && info.IsDir() || parent == dir {
			return dir
		}
		dir = parent
	}
}

// state returns the changes by the line after a step.
func (g *checkouts) state(script *shell.Script, step *shell.Step) *lineState {
	if st := g.states[step]; st != nil {
		return st
	}
	var st *lineState
	if ends := append([]*shell.Step{step.After}, step.Or...); len(ends) == 1 {
		st = g.state(script, step.After)
	} else {
		st = g.joined(script, ends)
	}
	if step.Command >= 0 {
		before := *st
		before.failed = false
		st = g.after(script, step.Command, &before)
	}
	g.states[step] = st
	return st
}

// joined returns the state after one of several steps. A step that fails is not the end, if another one
// runs instead of it: "git switch x || git switch -c x".
func (g *checkouts) joined(script *shell.Script, ends []*shell.Step) *lineState {
	var st *lineState
	for i, end := range ends {
		next := g.state(script, end)
		follows := func(other *shell.Step) bool { return other != nil && other.Command >= 0 && other.After == end }
		switch {
		case next.failed && !slices.ContainsFunc(ends, follows) && (st != nil || i < len(ends)-1):
		case st == nil:
			st = next
		default:
			st = g.either(st, next)
		}
	}
	return st
}

const underCondition = "the line switches branches under a condition"

// either returns the state of a line of which only one of two parts ran.
func (g *checkouts) either(a, b *lineState) *lineState {
	if a == b {
		return a
	}
	st := &lineState{heads: map[string]switched{}, made: slices.Concat(a.made, b.made), config: cmp.Or(a.config, b.config), why: cmp.Or(a.why, b.why)}
	for _, one := range []*lineState{a, b} {
		for key := range one.heads {
			first, second := g.headIn(a, key), g.headIn(b, key)
			if first != second {
				first = head{why: underCondition}
			}
			st.heads[key] = switched{now: first, before: head{why: underCondition}}
		}
	}
	return st
}

// headIn returns the branch of a checkout in a state.
func (g *checkouts) headIn(st *lineState, key string) head {
	if s, ok := st.heads[key]; ok {
		return s.now
	}
	return g.disk[key]
}

// with returns a state in which a checkout is on another branch. If the checkout is not known, it may
// be any one.
func (g *checkouts) with(st *lineState, c checkout, now head) *lineState {
	next := &lineState{heads: map[string]switched{}, made: st.made, config: st.config, why: st.why}
	maps.Copy(next.heads, st.heads)
	switch {
	case c.key != "":
		next.heads[c.key] = switched{now: now, before: c.head}
	case c.head.why != "":
		next.why = "the line switches the branch of a checkout that is not known"
	}
	return next
}

// withMade returns a state with a checkout that the line makes in a directory.
func withMade(st *lineState, dir string, repo *gitdir.Repo, at head) *lineState {
	next := *st
	next.made = append(slices.Clip(st.made), checkout{key: "made:" + dir, repo: repo, dir: dir, head: at})
	return &next
}

// at returns the checkout that contains a directory without symbolic links.
func (g *checkouts) at(dir string, st *lineState) checkout {
	for _, m := range slices.Backward(st.made) {
		if rel, err := filepath.Rel(m.dir, dir); err == nil && filepath.IsLocal(rel) {
			return g.current(checkout{key: m.key, repo: m.repo, head: m.head, dir: dir}, st)
		}
	}
	found, ok := g.found[dir]
	if !ok {
		found.repo, found.err = g.reader.Find(dir)
		g.found[dir] = found
	}
	return g.opened(found.repo, found.err, dir, st)
}

// opened returns the checkout of a repository that was read.
func (g *checkouts) opened(repo *gitdir.Repo, err error, dir string, st *lineState) checkout {
	switch {
	case err != nil:
		return checkout{head: head{why: Shorten(err.Error())}, dir: dir}
	case repo == nil:
		return checkout{dir: dir}
	}
	now, known := g.disk[repo.Dir]
	if !known {
		now.ref, err = repo.Head()
		if err != nil {
			now = head{why: Shorten(err.Error())}
		}
		g.disk[repo.Dir] = now
	}
	return g.current(checkout{key: repo.Dir, repo: repo, head: now, dir: dir}, st)
}

// current sets the branch of a checkout as the line has changed it.
func (g *checkouts) current(c checkout, st *lineState) checkout {
	if s, ok := st.heads[c.key]; ok {
		c.head = s.now
	}
	if st.why != "" {
		c.head = head{why: st.why}
	}
	return c
}

// dir returns the directory in which a command works, and why it is not known.
func (g *checkouts) dir(c *shell.Command) (dir, why string) {
	from := workDir(g.f.Event)
	in, known := c.In()
	switch {
	case c.Lost || !known:
		return "", "the line enters a directory that is not known"
	case from == "" && !filepath.IsAbs(home.Expand(c.Dir)), strings.HasPrefix(c.Dir, "~") && home.Expand(c.Dir) == c.Dir:
		return "", "the directory of the command is not known"
	}
	dir = g.realPath(home.Absolute(c.Dir, from))
	if in = home.Expand(in); filepath.IsAbs(in) {
		dir = g.realPath(in)
	} else if in != "" {
		dir = g.realPath(dir + string(filepath.Separator) + in)
	}
	return dir, ""
}

// dirOf is dir for one command; empty = not known.
func (g *checkouts) dirOf(c *shell.Command) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	dir, _ := g.dir(c)
	return dir
}

// place returns the checkout in which a command works.
func (g *checkouts) place(c *shell.Command, st *lineState) checkout {
	dir, why := g.dir(c)
	if c.Name == "git" {
		git, _ := c.Git()
		if to, given := gitDirOf(c, git); given {
			return g.named(to, dir, why, st)
		}
	}
	if why != "" {
		return checkout{head: head{why: why}}
	}
	at := g.at(dir, st)
	if at.key == "" && at.head.why != "" && g.makes(dir) {
		at = g.at(above(dir), st)
		at.dir = dir
	}
	return at
}

// makes reports whether the line may make a directory that does not exist yet.
func (g *checkouts) makes(dir string) bool {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return slices.ContainsFunc(g.f.Scripts(), func(s *shell.Script) bool {
		return slices.ContainsFunc(s.Commands, func(c shell.Command) bool { return c.Name == "mkdir" || c.Name == "install" })
	})
}

// gitDirOf returns the git directory that a command names, in an option or a variable.
func gitDirOf(c *shell.Command, git shell.Git) (to shell.Word, given bool) {
	env := c.Env()
	if value, ok := gitdir.Var(env, "GIT_DIR"); ok && value != "" {
		to, given = shell.Word{Text: value, Literal: true}, true
	} else if slices.Contains(env, "GIT_DIR") {
		given = true
	}
	for _, o := range git.Global {
		if o.Name == "git-dir" && o.Valued {
			to, given = o.Value, true
		}
	}
	return to, given
}

// named returns the checkout with a git directory that a command names.
func (g *checkouts) named(to shell.Word, dir, why string, st *lineState) checkout {
	name, ok := to.Path()
	name = home.Expand(name)
	switch {
	case !ok || name == "":
		return checkout{head: head{why: "the line computes the git directory: " + Shorten(to.Text)}}
	case filepath.IsAbs(name):
	case why != "":
		return checkout{head: head{why: why}}
	default:
		name = dir + string(filepath.Separator) + name
	}
	name = g.realPath(name)
	for _, m := range st.made {
		if filepath.Dir(name) == m.dir && filepath.Base(name) == ".git" {
			return g.at(m.dir, st)
		}
	}
	repo, err := g.reader.Open(name)
	return g.opened(repo, err, dir, st)
}

// Dir returns the directory in which a command of the event works: the first one that the match
// selects by its command, or else the last one of the event; without a command, the agent's. It is empty
// if the directory is not known. A nil Matcher selects nothing.
func (m *Matcher) Dir(ev *grapnel.Event) string {
	cache := &FactCache{}
	if m != nil {
		cache = m.Facts
	}
	f := cache.Of(ev)
	last := workDir(ev)
	for _, script := range f.Scripts() {
		for i := range script.Commands {
			c := &script.Commands[i]
			selected := m != nil && m.match != nil && len(m.match.Command) > 0 && !c.Again() && m.match.fitsCommand(f, script, i)
			if !selected && !c.Acts() {
				continue
			}
			if last = f.checkouts().dirOf(c); selected {
				return last
			}
		}
	}
	return last
}

// A checkoutPart is a branch or a pushed reference that matches the key.
type checkoutPart struct {
	key string
	head
}

// checkoutParts returns the branches and pushed references of a call that match.
func (c *compiled) checkoutParts(f *Facts) (parts []checkoutPart) {
	if !c.git() || c.reading.every() {
		return nil
	}
	add := func(key string, globs []Glob, list ...head) {
		for _, h := range list {
			if len(globs) > 0 && h.fits(globs, false) {
				parts = append(parts, checkoutPart{key, h})
			}
		}
	}
	if len(OrZero(f.Event.Tool).Commands) == 0 {
		add("branch", c.branch, f.checkouts().ofCall()...)
		return parts
	}
	for _, script := range f.Scripts() {
		for i := range script.Commands {
			if cmd := &script.Commands[i]; cmd.Again() || len(c.Command) == 0 && !cmd.Acts() || !c.fitsCommand(f, script, i) {
				continue
			}
			add("branch", c.branch, f.checkouts().ofCommand(script, i))
			add("pushes", c.pushes, f.checkouts().pushed(script, i)...)
		}
	}
	return parts
}

// Doubt returns why the branch or the push of an event that matches is not known, or "" if it is known
// or the match does not ask for it.
func (m *Matcher) Doubt(ev *grapnel.Event) string {
	if m == nil || m.match == nil || !m.match.git() {
		return ""
	}
	doubts := map[string]string{}
	for _, part := range m.match.checkoutParts(m.Facts.Of(ev)) {
		why := part.why
		if part.open {
			why = "the line computes the end of the name " + strings.TrimPrefix(part.ref, heads) + "..."
		}
		if old, ok := doubts[part.key]; !ok || old != "" {
			doubts[part.key] = why // one that is known is reason enough
		}
	}
	return cmp.Or(doubts["branch"], doubts["pushes"])
}

// AsksForCheckouts reports whether the match has keys for checkouts and pushes.
func (m *Matcher) AsksForCheckouts() bool { return m != nil && m.match != nil && m.match.git() }

// base returns the last element of the path of a repository, as "git clone" names its directory.
func base(address string) string {
	address = strings.TrimSuffix(strings.TrimSuffix(strings.TrimRight(address, "/"), "/.git"), ".git")
	return path.Base(address[strings.LastIndexByte(address, ':')+1:])
}
