package match

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/gitdir"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/shell"
)

// This file reads the effects of git commands on branches.

// after returns the state of the line after a command.
func (g *checkouts) after(script *shell.Script, i int, st *lineState) *lineState {
	c := &script.Commands[i]
	git, ok := c.Git()
	switch {
	case c.Again():
		return st
	case !ok: // gh and similar programs
		if slices.ContainsFunc(c.Args, func(w shell.Word) bool { return w.Text == "checkout" || w.Text == "co" }) {
			return g.with(st, g.place(c, st), head{why: c.Name + " switches to a branch that the line does not name"})
		}
		return st
	case git.Sub.Literal && unmoving(git.Sub.Text):
		return st
	}
	at := g.place(c, st)
	git, why := g.aliased(c, git, at, st, 0)
	if why != "" {
		return g.with(st, at, head{why: why})
	}
	return g.runs(script, i, git, at, st)
}

// runs returns the state after a command of git in a checkout.
func (g *checkouts) runs(script *shell.Script, i int, git shell.Git, at checkout, st *lineState) *lineState {
	first := func(n int) shell.Word {
		if n < len(git.Operands) {
			return git.Operands[n]
		}
		return shell.Word{Literal: true}
	}
	switch git.Sub.Text {
	case "checkout", "switch":
		if g.refused(git, at) {
			next := *st
			next.failed = true
			return &next
		}
		if now, ok := g.target(script, i, git, at, st); ok {
			next := g.with(st, at, now)
			next.failed = strings.HasPrefix(now.why, noBranch)
			return next
		}
	case "branch":
		return g.renamed(git, first(0), first(max(0, len(git.Operands)-1)), at, st)
	case "symbolic-ref":
		if first(0).Text == "HEAD" && len(git.Operands) > 1 {
			now := headOf(first(1))
			now.ref = strings.TrimPrefix(now.ref, heads)
			return g.with(st, at, now)
		}
	case "rebase":
		if len(git.Operands) > 1 {
			return g.with(st, at, g.meaning(first(1), at))
		}
	case "stash":
		if first(0).Text == "branch" {
			return g.with(st, at, headOf(first(1)))
		}
	case "config":
		return configured(git, strings.ToLower(first(0).Begins()), st)
	case "bisect":
		return g.with(st, at, head{why: "git bisect switches to commits"})
	case "worktree":
		if first(0).Text == "add" {
			return g.addWorktree(git, at, st)
		}
	case "clone":
		if dir := first(1); dir.Text != "" || first(0).Literal {
			if dir.Text == "" {
				dir = shell.Word{Text: base(first(0).Text), Literal: true}
			}
			now := head{why: "the remote repository decides the branch of a clone"}
			if b, ok := git.Option("branch"); ok {
				now = headOf(b)
			}
			return g.newCheckout(dir, at, nil, now, st)
		}
	case "init":
		return g.initialized(git, first(0), at, st)
	}
	return st
}

// renamed returns the state after "git branch", which may rename the current branch.
func (g *checkouts) renamed(git shell.Git, from, to shell.Word, at checkout, st *lineState) *lineState {
	switch {
	case git.Has("set-upstream-to", "unset-upstream"):
		next := *st
		next.config = "the line changes the upstream of a branch"
		return &next
	case git.Has("move") && (len(git.Operands) < 2 || !from.Literal || headOf(from).ref == at.head.ref):
		return g.with(st, at, headOf(to))
	}
	return st
}

// configured returns the state after "git config", which may change the effect of a push.
func configured(git shell.Git, key string, st *lineState) *lineState {
	changes := slices.ContainsFunc([]string{"push.", "remote.", "branch.", "alias.", "include"}, func(section string) bool { return strings.HasPrefix(key, section) })
	if !git.Open && (len(git.Operands) == 1 || !changes) {
		return st
	}
	next := *st
	next.config = "the line changes the configuration of git"
	return &next
}

// newCheckout returns the state with a checkout in a directory that a command names. git refuses a
// directory with files.
func (g *checkouts) newCheckout(dir shell.Word, at checkout, repo *gitdir.Repo, now head, st *lineState) *lineState {
	name, ok := dir.Path()
	if !ok || at.dir == "" && !filepath.IsAbs(home.Expand(name)) {
		return st
	}
	top := g.realPath(home.Absolute(name, at.dir))
	if entries, _ := os.ReadDir(top); len(entries) > 0 {
		return st
	}
	return withMade(st, top, repo, now)
}

// initialized returns the state after "git init". It leaves a repository unchanged.
func (g *checkouts) initialized(git shell.Git, dir shell.Word, at checkout, st *lineState) *lineState {
	name, ok := dir.Path()
	if !ok || at.dir == "" {
		return st
	}
	top := g.realPath(home.Absolute(name, at.dir))
	if there := g.at(above(top), st); there.repo != nil && there.repo.Top == top {
		return st
	}
	now := head{ref: heads + "master"}
	if b, ok := git.Option("initial-branch", "b"); ok {
		now = headOf(b)
	} else if c, err := g.reader.Config(nil, nil, nil); err == nil && c.Get("init.defaultbranch") != "" {
		now.ref = heads + c.Get("init.defaultbranch")
	}
	return withMade(st, top, nil, now)
}

// addWorktree returns the state after "git worktree add".
func (g *checkouts) addWorktree(git shell.Git, at checkout, st *lineState) *lineState {
	if len(git.Operands) < 2 {
		return st
	}
	dir, now := git.Operands[1], head{}
	name, _ := dir.Path()
	switch b, ok := git.Option("b", "B"); {
	case ok && g.refused(git, at):
		return st
	case ok:
		now = headOf(b)
	case git.Has("detach"):
	case len(git.Operands) > 2:
		now = g.meaning(git.Operands[2], at)
	default:
		now = head{ref: heads + filepath.Base(name)}
	}
	return g.newCheckout(dir, at, at.repo, now, st)
}

// target returns the branch after "git checkout" or "git switch", and whether it switches at all.
func (g *checkouts) target(script *shell.Script, i int, git shell.Git, at checkout, st *lineState) (head, bool) {
	if b, ok := git.Option("b", "B", "create", "force-create", "c", "C", "orphan"); ok {
		return headOf(b), true
	}
	files := git.Paths >= 0 && (git.Paths != 1 || len(git.Operands) > 1) || git.Has("patch", "ours", "theirs", "pathspec-from-file")
	switch {
	case files || len(git.Operands) != 1 && !git.Open && !git.Has("detach"):
		return head{}, false
	case git.Has("detach"):
		return head{}, true
	case git.Open:
		return head{why: "the line computes the words of git " + git.Sub.Text}, true
	}
	to := git.Operands[0]
	switch {
	case to.IsBranch(), to.Text == "HEAD", to.Text == "@":
		return head{}, false
	case !to.Literal:
		return headOf(to), true
	case git.Has("track", "t"):
		_, name, _ := strings.Cut(strings.TrimPrefix(to.Text, "refs/remotes/"), "/")
		return head{ref: heads + name}, true
	case to.Text == "-", strings.HasPrefix(to.Text, "@{-"):
		return g.earlier(to.Text, at, st), true
	}
	now := g.meaning(to, at)
	if now.why == "" {
		return now, true
	}
	if git.Sub.Text == "checkout" && git.Paths < 0 && at.dir != "" {
		if _, err := os.Lstat(filepath.Join(at.dir, filepath.FromSlash(to.Text))); err == nil || to.Text == "." {
			return head{}, false
		}
	}
	if brings(script, i, to.Text) {
		now = head{ref: heads + to.Text}
	}
	return now, true
}

// brings reports whether an earlier command of the line may make a branch.
func brings(script *shell.Script, i int, name string) bool {
	return slices.ContainsFunc(script.Commands[:i], func(c shell.Command) bool {
		git, _ := c.Git()
		switch git.Sub.Text {
		case "fetch", "pull", "remote":
			return true
		case "branch", "update-ref":
			return slices.ContainsFunc(git.Operands, func(w shell.Word) bool { return w.Text == name || w.Text == heads+name })
		}
		return false
	})
}

// earlier returns the branch of "-" and @{-n}.
func (g *checkouts) earlier(text string, at checkout, st *lineState) head {
	n := 1
	if text != "-" {
		n, _ = strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(text, "@{-"), "}"))
	}
	if s, ok := st.heads[at.key]; ok {
		if n != 1 {
			return head{why: "the line switches branches more than once"}
		}
		return s.before
	}
	if at.repo == nil {
		return head{why: "its earlier branch is not known"}
	}
	name, err := at.repo.Earlier(n)
	if err != nil {
		return head{why: Shorten(err.Error())}
	}
	return g.meaning(shell.Word{Text: name, Literal: true}, at)
}

// noBranch is the beginning of why a switch to a missing branch fails.
const noBranch = "there is no branch "

// refused reports whether git certainly refuses to switch: the new branch exists, or another checkout
// is on the branch.
func (g *checkouts) refused(git shell.Git, at checkout) bool {
	if at.repo == nil {
		return false
	}
	if b, ok := git.Option("b", "create"); ok {
		has, err := at.repo.Has(heads + b.Text)
		return b.Literal && has && err == nil
	}
	if len(git.Operands) != 1 || git.Has("ignore-other-worktrees", "detach", "orphan", "patch") || git.Paths >= 0 || !git.Operands[0].Literal {
		return false
	}
	ref := heads + git.Operands[0].Text
	has, err := at.repo.Has(ref)
	return has && err == nil && ref != at.head.ref && at.repo.Elsewhere(ref)
}

// meaning returns the branch that a name means in a repository, or no branch for a tag or a commit.
func (g *checkouts) meaning(w shell.Word, at checkout) head {
	name := w.Text
	switch {
	case !w.Literal:
		return headOf(w)
	case at.repo == nil:
		return head{ref: heads + name}
	}
	has, err := at.repo.Has(heads + name)
	if err == nil && has {
		ref, err := at.repo.Resolve(heads + name)
		if err != nil {
			return head{why: Shorten(err.Error())}
		}
		return head{ref: ref}
	}
	remotes, other := at.repo.Refs("refs/remotes")
	switch {
	case err != nil:
		return head{why: Shorten(err.Error())}
	case other != nil:
		return head{why: Shorten(other.Error())}
	case slices.ContainsFunc(remotes, func(ref string) bool { return isRemote(ref, name) }):
		return head{ref: heads + name}
	case slices.Contains(remotes, "refs/remotes/"+name), isCommit(name):
		return head{}
	}
	for _, ref := range []string{"refs/tags/" + name, "refs/" + name, name} {
		if has, _ := at.repo.Has(ref); has && strings.HasPrefix(ref, "refs/") {
			return head{}
		}
	}
	return head{why: noBranch + Shorten(name)}
}

// isRemote reports whether a reference is the branch of this name in a remote repository.
func isRemote(ref, name string) bool {
	_, branch, ok := strings.Cut(strings.TrimPrefix(ref, "refs/remotes/"), "/")
	return ok && branch == name
}

// isCommit reports whether a name is an expression for a commit.
func isCommit(name string) bool {
	return name == "HEAD" || name == "@" || strings.ContainsAny(name, "~^:") || strings.Contains(name, "@{") || len(name) >= 7 && strings.Trim(name, "0123456789abcdef") == ""
}

// unmoving reports whether a subcommand of git neither switches a branch nor makes a checkout nor can
// be an alias.
func unmoving(sub string) bool {
	return builtin(sub) && !slices.Contains([]string{"checkout", "switch", "branch", "symbolic-ref", "rebase", "stash", "bisect", "config", "worktree", "clone", "init"}, sub)
}

// builtin reports whether a subcommand is one of git's own, so that an alias of this name has no
// effect.
func builtin(sub string) bool { return strings.Contains(builtins, " "+sub+" ") }

const builtins = " add am annotate apply archive bisect blame branch bugreport bundle cat-file check-attr check-ignore check-mailmap check-ref-format checkout checkout-index cherry cherry-pick" +
	" citool clean clone column commit commit-graph commit-tree config count-objects credential daemon describe diff diff-files diff-index diff-tree difftool fast-export fast-import fetch" +
	" fetch-pack filter-branch fmt-merge-msg for-each-ref for-each-repo format-patch fsck gc grep gui hash-object help hook index-pack init init-db instaweb interpret-trailers log ls-files" +
	" ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base merge-file merge-index merge-tree mergetool mktag mktree multi-pack-index mv name-rev notes pack-objects pack-refs" +
	" patch-id prune prune-packed pull push range-diff read-tree rebase receive-pack reflog refs remote repack replace replay request-pull rerere reset restore rev-list rev-parse revert rm" +
	" send-email send-pack shortlog show show-branch show-index show-ref sparse-checkout stage stash status stripspace submodule switch symbolic-ref tag unpack-file unpack-objects" +
	" update-index update-ref update-server-info var verify-commit verify-pack verify-tag version whatchanged worktree write-tree lfs subtree "

// maxAliases is the maximum number of aliases of git that lead to each other.
const maxAliases = 4

// aliased returns a command of git with its alias replaced, and why this is not possible.
func (g *checkouts) aliased(c *shell.Command, git shell.Git, at checkout, st *lineState, depth int) (shell.Git, string) {
	sub := git.Sub.Text
	switch {
	case !git.Sub.Literal:
		return git, "the line computes the subcommand of git: " + Shorten(sub)
	case sub == "" || builtin(sub):
		return git, ""
	case sub == "flow" || sub == "town":
		return git, "git " + sub + " switches branches"
	}
	config, err := g.config(c, git, at, st)
	if err != nil {
		return git, Shorten(err.Error())
	}
	line := config.Get("alias." + strings.ToLower(sub))
	switch {
	case line == "" && at.key == "" && at.head.why != "":
		return git, at.head.why // the repository may have the alias
	case line == "", line[0] == '!' && harmless(line[1:]):
		return git, ""
	case line[0] == '!' || depth == maxAliases:
		return git, "git " + sub + " is an alias for a shell line: " + Shorten(line)
	}
	line = "git " + line
	for i, w := range c.Args {
		if i <= slices.IndexFunc(c.Args, func(w shell.Word) bool { return w.Text == sub }) {
			continue
		}
		if !w.Literal {
			return git, "the line computes the words of the alias " + sub
		}
		line += " " + shell.Quote(w.Text)
	}
	script := shell.Parse(line)
	if len(script.Commands) != 1 || len(script.Unknown) > 0 {
		return git, "git " + sub + " is an alias that Grapnel cannot read: " + Shorten(line)
	}
	inner, _ := script.Commands[0].Git()
	inner.Global = append(slices.Clip(git.Global), inner.Global...)
	return g.aliased(&script.Commands[0], inner, at, st, depth+1)
}

// harmless reports whether a shell line neither switches branches nor pushes.
func harmless(line string) bool {
	script := shell.Parse(line)
	return len(script.Unknown) == 0 && !slices.ContainsFunc(script.Commands, func(c shell.Command) bool {
		git, ok := c.Git()
		return ok && (!unmoving(git.Sub.Text) || git.Sub.Text == "push")
	})
}

// config returns the configuration for a command.
func (g *checkouts) config(c *shell.Command, git shell.Git, at checkout, st *lineState) (*gitdir.Config, error) {
	if st.config != "" {
		return nil, errors.New(st.config)
	}
	var more []string
	for _, o := range git.Global {
		if o.Name == "c" && o.Valued {
			more = append(more, o.Value.Text)
		}
	}
	return g.reader.Config(at.repo, c.Env(), more)
}

// pushed returns the changes that a command may make in a remote repository.
func (g *checkouts) pushed(script *shell.Script, i int) []head {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := &script.Commands[i]
	list, known := g.pushes[c]
	if !known {
		list = g.push(script, i)
		g.pushes[c] = list
	}
	return list
}

func (g *checkouts) push(script *shell.Script, i int) (list []head) {
	c := &script.Commands[i]
	git, ok := c.Git()
	if !ok || git.Sub.Literal && builtin(git.Sub.Text) && !slices.Contains([]string{"push", "send-pack", "subtree"}, git.Sub.Text) {
		return nil
	}
	st := g.state(script, c.Before())
	at := g.place(c, st)
	git, why := g.aliased(c, git, at, st, 0)
	switch {
	case why != "":
		return []head{{why: why}}
	case git.Sub.Text == "subtree" && len(git.Operands) > 0 && git.Operands[0].Text == "push":
		git.Operands = git.Operands[1:]
	case git.Sub.Text != "push" && git.Sub.Text != "send-pack":
		return nil
	case git.Open:
		return []head{{why: "the line computes the words of git push"}}
	}
	push := gitdir.Push{All: git.Has("all", "branches"), Mirror: git.Has("mirror"), Tags: git.Has("tags"), Delete: git.Has("delete"), Prune: git.Has("prune")}
	specs := git.Operands
	if len(specs) > 0 {
		push.Remote, specs = specs[0].Text, specs[1:]
	} else if repo, ok := git.Option("repo"); ok {
		push.Remote = repo.Text
	}
	for _, w := range specs {
		switch {
		case w.Literal:
			push.Refspecs = append(push.Refspecs, w.Text)
		case w.IsBranch():
			push.Refspecs = append(push.Refspecs, "HEAD")
			list = append(list, g.place(c, &lineState{}).head) // the line may have read it before it switched
		default:
			list = append(list, computedSpec(w))
		}
	}
	if len(specs) > 0 && len(push.Refspecs) == 0 && !push.All && !push.Tags && !push.Mirror {
		return list
	}
	return append(list, g.refs(c, git, at, st, push)...)
}

// refs returns the references that a push with known words changes.
func (g *checkouts) refs(c *shell.Command, git shell.Git, at checkout, st *lineState, push gitdir.Push) (list []head) {
	if at.key == "" && at.head.why == "" && !push.Complete() {
		return nil // outside of a repository git refuses
	}
	config := &gitdir.Config{}
	var err error
	if !push.Complete() && at.repo != nil {
		config, err = g.config(c, git, at, st)
	}
	var refs []string
	if err == nil {
		if (at.head.why != "" || at.head.open) && needsHead(push) {
			return []head{at.head}
		}
		refs, err = at.repo.Pushed(push, at.head.ref, config)
	}
	if err != nil {
		return []head{{why: Shorten(err.Error())}}
	}
	for _, ref := range refs {
		list = append(list, head{ref: ref})
	}
	return list
}

// needsHead reports whether a push depends on the current branch.
func needsHead(push gitdir.Push) bool {
	return len(push.Refspecs) == 0 && !push.All || slices.ContainsFunc(push.Refspecs, func(spec string) bool {
		return slices.Contains([]string{"HEAD", "@"}, strings.TrimSuffix(strings.TrimPrefix(spec, "+"), ":"))
	})
}

// computedSpec returns the references that a refspec with a computed piece may change.
func computedSpec(w shell.Word) head {
	if _, to, ok := strings.Cut(w.Ends(), ":"); ok && to != "" {
		return head{ref: heads + strings.TrimPrefix(to, heads)}
	}
	begin := strings.TrimPrefix(w.Begins(), "+")
	if _, to, ok := strings.Cut(begin, ":"); ok {
		begin = to
	}
	if begin == "" {
		return head{why: "the line computes what it pushes: " + Shorten(w.Text)}
	}
	if !strings.HasPrefix(begin, "refs/") && !strings.HasPrefix("refs/", begin) {
		begin = heads + begin
	}
	return head{ref: begin, open: true}
}
