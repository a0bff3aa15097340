package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A state is the effects of the commands so far on the next one.
type state struct {
	where

	did *Step
}

// A where is the place of a shell. A subshell has its own.
type where struct {
	dir    string // Command.Dir of the next command
	lost   bool   // the line entered a directory that is not known
	same   bool   // the lost directory is in the same checkout as dir
	forked bool   // the line may have entered another directory than dir
	env    *setVar
	back   *where // before the last cd, for "cd -"
	under  *where // below it on the stack of pushd
}

// A setVar is the last of the variables that the line gives to programs.
type setVar struct {
	text   string // NAME=value; a NAME alone has a value that is not known
	before *setVar
}

// A Step is an action of a line before a command, as far as it may matter to repositories: a command of
// git, after other steps. A nil Step is the beginning of the line.
type Step struct {
	Command int     // index in Script.Commands; -1 = none
	After   *Step   // the step before it
	Or      []*Step // other steps that may be before it instead
}

// Before returns the last step before the command. It is nil at the beginning of the line.
func (c *Command) Before() *Step { return c.before }

// End returns the last step of the line.
func (s *Script) End() *Step { return s.end }

// Again reports whether the script has the same command again, with all values of its computed words.
func (c *Command) Again() bool { return c.again }

// Env returns the variables of git and of the home directory that the line sets for the command, as
// NAME=value. A NAME alone has a value that is not known.
func (c *Command) Env() []string { return c.env.list(steersGit) }

// list returns the variables with a name that fits, the oldest first.
func (v *setVar) list(fits func(name string) bool) (env []string) {
	for ; v != nil; v = v.before {
		if name, _, _ := strings.Cut(v.text, "="); fits(name) {
			env = append(env, v.text)
		}
	}
	slices.Reverse(env)
	return env
}

// git returns the last variable that changes where git works.
func (v *setVar) git() *setVar {
	for ; v != nil; v = v.before {
		if name, _, _ := strings.Cut(v.text, "="); steersGit(name) {
			break
		}
	}
	return v
}

// steersGit reports whether a variable changes where git works.
func steersGit(name string) bool {
	return strings.HasPrefix(name, "GIT_") || name == "HOME" || name == "XDG_CONFIG_HOME"
}

func steersAny(name string) bool { return steersGit(name) || steersServer(name) }

// sends records a variable that the next commands get.
func (w *walker) sends(name, value string, known bool) {
	if !steersAny(name) {
		return
	}
	if known {
		name += "=" + value
	}
	w.env = &setVar{name, w.env}
}

// sendsAssigned records the assignments before a command, in an export, or of a line, to variables with a
// name that fits.
func (w *walker) sendsAssigned(list []*syntax.Assign, at *place, fits func(name string) bool) {
	for _, a := range list {
		switch {
		case a.Name == nil || !fits(a.Name.Value):
		case a.Value == nil && a.Naked:
			if values := w.values(a.Name.Value); len(values) == 1 {
				w.sends(a.Name.Value, strings.Join(values[0].words, " "), true)
			} else {
				w.sends(a.Name.Value, "", false)
			}
		default:
			text, ok := w.literally(a.Value, at)
			w.sends(a.Name.Value, text, ok && !a.Append)
		}
	}
}

// acts records a step after the last command.
func (w *walker) acts() {
	w.changes++
	w.did = &Step{Command: len(w.s.Commands) - 1, After: w.did}
}

// oneOf returns the state after one of several ends.
func oneOf(ends ...state) state {
	first, last := &ends[0], ends[len(ends)-1]
	var or []*Step
	for _, end := range ends {
		if path.Clean(end.dir) != path.Clean(first.dir) || end.lost != first.lost || end.forked || end.env.git() != first.env.git() {
			last.forked = true
		}
		if end.env != first.env {
			last.env = &setVar{anyServer, last.env}
		}
		if end.did != first.did && !slices.Contains(or, end.did) {
			or = append(or, end.did)
		}
	}
	if or != nil {
		last.did = &Step{Command: -1, After: first.did, Or: or}
	}
	return last
}

// alternatives walks parts of the line of which at most one runs. all means that one runs in any
// case.
func (w *walker) alternatives(all bool, parts ...func()) {
	before := w.state
	var ends []state
	if !all {
		ends = append(ends, before)
	}
	for _, part := range parts {
		w.state = before
		w.perhaps(part)
		ends = append(ends, w.state)
	}
	w.state = oneOf(ends...)
}

// repeated walks the body of a loop, whose commands also run after its end.
func (w *walker) repeated(body func()) {
	first, before := len(w.s.Commands), w.state
	w.alternatives(false, body)
	for i := first; i < len(w.s.Commands); i++ {
		c := &w.s.Commands[i]
		c.Lost = c.Lost || w.forked && !before.forked
		if w.did != before.did {
			c.before = &Step{Command: -1, After: c.before, Or: []*Step{w.did}}
		}
	}
}

// A body is a range of commands in the declaration of a function.
type body struct{ first, end, changes int }

// A start is the state before a command, and the index that the command gets.
type start struct {
	state

	command int
}

// restate is called before the first reading of a command with values for its computed words. If these
// have one value each, that reading takes the place of the one before.
func (w *walker) restate(c *syntax.CallExpr, words []Word, at *place, from start) {
	if !has("git cd chdir pushd", words[0].Text) || from.command >= len(w.s.Commands) {
		return
	}
	if len(words) == 2 && words[0].Text == "cd" && inCheckout(words[1]) {
		return
	}
	first := w.state
	w.state = from.state
	for _, a := range c.Args {
		values, why := w.targets(at, a)
		if len(values) > 1 || why != "" || len(values) == 0 && a.Lit() == "" {
			w.state = first
			w.forked = w.forked || words[0].Text != "git"
			return
		}
	}
	w.s.Commands[from.command].again = true
}

// mayFail reports whether the line probably continues after a statement failed. The usual commands
// before && succeed.
func mayFail(st *syntax.Stmt) bool {
	st = pipeEnd(st)
	c, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || st.Negated {
		return true
	}
	if len(c.Args) == 0 {
		return false
	}
	switch c.Args[0].Lit() {
	case "cd", "pushd", "popd", "mkdir", "echo", "printf", "export", "true", ":", "pwd", "ls", "touch", "set", "source", ".":
		return false
	case "git":
		return slices.ContainsFunc(c.Args, func(a *syntax.Word) bool { return asks(a.Lit()) })
	}
	return true
}

// asks reports whether a subcommand of git answers by its exit code.
func asks(sub string) bool {
	switch sub {
	case "diff", "grep", "rev-parse", "show-ref", "merge-base", "ls-remote", "check-ignore", "cat-file", "config":
		return true
	}
	return false
}

// leaves reports whether nothing of the line runs after a statement.
func leaves(st *syntax.Stmt) bool {
	switch c := st.Cmd.(type) {
	case *syntax.CallExpr:
		return len(c.Args) > 0 && has("exit return break continue", c.Args[0].Lit())
	case *syntax.Block:
		return len(c.Stmts) > 0 && leaves(c.Stmts[len(c.Stmts)-1])
	}
	return false
}

// isAway reports whether a wrapper runs its command on another machine, or with other files.
func isAway(wrapper string) bool {
	name, _, _ := strings.Cut(wrapper, " ")
	switch name {
	case "ssh", "autossh", "docker", "docker-compose", "podman", "nerdctl", "crictl", "kubectl", "oc", "adb", "gcloud", "fly", "doctl", "eb", "vagrant", "heroku", "lxc", "multipass":
		return true
	}
	return false
}

// enterDir handles cd, pushd and popd.
func (w *walker) enterDir(name string, args []Word) {
	w.changes++
	before := w.where
	to, lost := "", false
	for _, a := range args {
		switch dir, ok := knownText(a); {
		case a.Text == "$OLDPWD":
			to = "-"
		case ok && a.Literal && (strings.HasPrefix(dir, "-") && dir != "-" || strings.HasPrefix(dir, "+")):
		case ok:
			to = dir
		case len(args) == 1 && inCheckout(a):
			w.lost, w.same, w.back = true, true, &before
			return
		default:
			lost = true
		}
	}
	switch {
	case name == "popd" || name == "pushd" && to == "":
		if before.under != nil {
			w.where = *before.under
			w.env = before.env
		} else {
			w.forked = true
		}
		return
	case to == "-" && before.back != nil:
		w.where = *before.back
		w.env, w.under = before.env, before.under
	case lost || to == "-":
		w.dir, w.lost, w.same = "", true, false
	default:
		if to == "" {
			to = "~"
		}
		placed := join("x", to) == to
		w.lost, w.forked, w.same = w.lost && !placed, w.forked && !placed, false
		w.dir = join(w.dir, to)
	}
	w.back = &before
	if name == "pushd" {
		w.under = &before
	}
}

// inCheckout reports whether a word is the top directory of the current checkout.
func inCheckout(a Word) bool {
	text := a.Text
	if a.c != nil && a.c.origin != "" {
		text = a.c.origin
	}
	return strings.Replace(text, " 2>/dev/null", "", 1) == topDirectory
}

const topDirectory = "$(git rev-parse --show-toplevel)"
