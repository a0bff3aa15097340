package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A call of a function or an alias that the line defines is read like its body.

// A function is a function that the line defines, or an alias.
type function struct {
	body   *syntax.Stmt
	alias  string
	at     place
	active bool // it is being expanded: in its own body an alias is not expanded
	opens  bool // its redirections have computed targets, so each call is read
	called bool // a call was read, or reported
}

// define records a function or an alias. The last definition of a name applies.
func (w *walker) define(name string, f function) {
	switch old := w.funcs[name]; {
	case old != nil && old.active: // the expansion ends before the new definition applies
		if f.opens {
			w.unknown("computed file of a redirection in a function: " + visible(name))
		}
		return
	case old == nil && len(w.funcs) >= maxVars:
		w.limited("unparsable: too many functions and aliases")
		return
	case w.funcs == nil:
		w.funcs = map[string]*function{}
	}
	w.funcs[name] = &f
}

// readings reads a command again with the known values inserted, and with functions and aliases
// of the line expanded. from is the state before the command.
func (w *walker) readings(c *syntax.CallExpr, words []Word, at *place, from start) {
	if w.subst > 0 || len(words) == 0 {
		if w.subst > 0 && len(words) > 0 {
			w.calls(c, words, w.expand(words, at), at)
		}
		return
	}
	read := false
	in := *at
	if in.line == 0 {
		in.line, in.col = int(c.Args[0].Pos().Line()), int(c.Args[0].Pos().Col())
	}
	if slices.ContainsFunc(words, func(a Word) bool { return a.c != nil }) {
		for w.subst = 1; w.subst <= maxValues && w.again(); w.subst++ {
			w.used, w.older = false, false
			var again []Word
			for _, a := range c.Args {
				again = w.words(at, a, again)
			}
			if !w.used {
				break
			}
			if w.subst == 1 {
				w.restate(c, words, at, from)
			}
			if len(again) > 0 {
				subst := w.subst
				w.subst = 0 // the first reading of nested lines inserts no values
				w.command(again, in)
				w.subst = subst
				read = w.expand(again, at) || read
			}
			if !w.older {
				break
			}
		}
		w.subst = 0
	}
	w.calls(c, words, w.expand(words, at) || read, at)
	if words[0].Literal && words[0].Text == "set" && w.anyOpen(c.Args[1:], at, maxChoices) {
		w.argsOpen = true
	}
}

// calls reports a call of a function whose redirections depend on words that are not known. read
// is whether its body was read with values for them.
func (w *walker) calls(c *syntax.CallExpr, words []Word, read bool, at *place) {
	f := w.funcs[words[0].Text]
	if f == nil || f.active || !f.opens || !words[0].Literal {
		return
	}
	f.called = true
	values := maxValues
	if w.subst > 0 {
		values = 1
	}
	if !read || w.anyOpen(c.Args[1:], at, values) {
		w.reportTarget(openTarget, w.source(at, c))
		if w.declares != nil {
			w.declares.opens = true
		}
	}
}

// anyOpen reports whether a word may have other values than the known ones, or more of them than
// values.
func (w *walker) anyOpen(list []*syntax.Word, at *place, values int) bool {
	return slices.ContainsFunc(list, func(wd *syntax.Word) bool {
		known, why := w.targets(at, wd)
		return why == openTarget || len(known) > values
	})
}

// expand reads the body of a function, or the line of an alias, with the words of its call, and
// reports whether it did.
func (w *walker) expand(words []Word, at *place) bool {
	name := words[0].Text
	f := w.funcs[name]
	if f == nil || f.active || !words[0].Literal {
		return false
	}
	if w.expanding >= maxExpanding {
		w.limited("unparsable: functions and aliases inside each other")
		return false
	}
	if !w.again() {
		return false
	}
	w.expanding++
	f.active = true
	read := true
	if f.body == nil {
		w.expandAlias(f, words, at)
	} else {
		read = w.expandFunction(f, words)
	}
	f.active = false
	w.expanding--
	return read
}

func (w *walker) expandAlias(f *function, words []Word, at *place) {
	if len(words) == 1 && strings.TrimSpace(f.alias) == words[0].Text {
		return
	}
	var line strings.Builder
	line.WriteString(f.alias)
	for _, a := range words[1:] {
		line.WriteString(" " + Quote(a.code()))
	}
	w.nest(line.String(), false, "alias", at.behind("alias"))
}

// expandFunction reads the body of a function that is called with literal words, and reports whether
// it did. A call without words needs no second reading, unless the targets of redirections are
// computed: the body was read at its declaration.
func (w *walker) expandFunction(f *function, words []Word) bool {
	args, ok := literals(words[1:])
	if !ok || len(args) == 0 && !f.opens || w.tree > maxTree/2 {
		return false
	}
	zero, subst, declares := w.zero, w.subst, w.declares
	back := w.withArgs(words[1:])
	w.zero, w.subst, w.declares = zero, 1, nil
	body := f.at
	w.stmt(f.body, &body)
	back()
	w.subst, w.declares = subst, declares
	return true
}

// idiom recognizes programs with a computed path and a known name: $(which python3), $(npm
// bin)/eslint, ${PYTHON:-python3}.
func (w *walker) idiom(wd *syntax.Word, word *Word, at *place) {
	if word.c == nil || len(wd.Parts) == 0 {
		return
	}
	parts := wd.Parts
	if d, ok := parts[0].(*syntax.DblQuoted); ok && len(d.Parts) > 0 {
		parts = append(slices.Clone(d.Parts), parts[1:]...)
	}
	c := *word.c
	switch p := parts[0].(type) {
	case *syntax.CmdSubst:
		name, args, ok := w.plainCall(p.Stmts, at)
		if !ok || w.defined(name) {
			return
		}
		rest := parts[1:]
		switch name {
		case "which", "command", "type":
			if len(rest) > 0 || len(args) == 0 || len(args) > 2 || len(args) == 2 && !has("-v -p -P", args[0]) || name != "which" && len(args) != 2 {
				return
			}
			c.tail, c.many = "/"+programName(args[len(args)-1]), false
		case "npm", "yarn", "pnpm", "go", "brew", "git", "pwd", "dirname", "python-config", "composer", "gem", "nix", "realpath", "xcode-select":
			if c.tail == "" || len(rest) == 0 || slices.ContainsFunc(rest, func(p syntax.WordPart) bool { return !isLiteral(p) }) {
				return
			}
			c.many = false
		default:
			return
		}
	case *syntax.ParamExp:
		// The default applies only if nothing else in the line mentions the variable.
		if len(parts) > 1 || p.Param == nil || p.Exp == nil || p.Exp.Word == nil || p.Exp.Op != syntax.DefaultUnsetOrNull && p.Exp.Op != syntax.DefaultUnset ||
			len(p.Param.Value) < 2 || !w.spend(len(w.line)/64) || strings.Count(w.line, p.Param.Value) != 1 || strings.Contains(w.line, "eval") {
			return
		}
		name := p.Exp.Word.Lit()
		if name == "" || strings.ContainsAny(name, " \t\n\\*?[") || strings.IndexByte(name, hole) >= 0 {
			return
		}
		c.tail, c.many = "/"+programName(name), false
	default:
		return
	}
	word.c = &c
}

func isLiteral(p syntax.WordPart) bool {
	switch p := p.(type) {
	case *syntax.Lit:
		return strings.IndexByte(p.Value, hole) < 0 && !strings.ContainsAny(p.Value, "*?[{\\")
	case *syntax.SglQuoted:
		return true
	}
	return false
}

// plainCall returns the only command of a substitution, if all of its words are literal.
func (w *walker) plainCall(list []*syntax.Stmt, at *place) (string, []string, bool) {
	if len(list) != 1 || list[0].Cmd == nil {
		return "", nil, false
	}
	call, ok := list[0].Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 || len(call.Assigns) > 0 {
		return "", nil, false
	}
	var texts []string
	for _, a := range call.Args {
		word, ok := plain(a)
		if !ok {
			word = w.word(at, a)
		}
		if !word.Literal && len(texts) == 0 || !word.Literal && texts[0] != "dirname" && texts[0] != "realpath" {
			return "", nil, false
		}
		texts = append(texts, word.Text)
	}
	return texts[0], texts[1:], true
}

// defined reports whether the line defines a function or an alias with this name.
func (w *walker) defined(name string) bool {
	f := w.funcs[name]
	return f != nil && !f.active
}

// initTools lists tools that print shell code for eval, to set up a shell. They are treated like
// any other program: their output is not read.
const initTools = " ssh-agent direnv\x00hook direnv\x00export brew\x00shellenv pyenv\x00init pyenv\x00virtualenv-init rbenv\x00init nodenv\x00init goenv\x00init jenv\x00init" +
	" fnm\x00env mise\x00activate mise\x00env mise\x00hook-env rtx\x00activate starship\x00init zoxide\x00init thefuck\x00--alias atuin\x00init conda\x00shell.bash conda\x00shell.zsh" +
	" conda\x00shell.posix micromamba\x00shell mamba\x00shell opam\x00env luarocks\x00path dircolors lesspipe register-python-argcomplete docker-machine\x00env" +
	" minikube\x00docker-env minikube\x00-p keychain\x00--eval gpg-agent\x00--daemon fzf\x00--bash fzf\x00--zsh gh\x00completion kubectl\x00completion helm\x00completion npm\x00completion" +
	" pip\x00completion uv\x00generate-shell-completion tset\x00-s resize gnome-keyring-daemon dbus-launch\x00--sh-syntax nodenv\x00init vfox\x00activate devbox\x00shellenv" +
	" aws\x00configure asdf\x00exec volta\x00setup nvm\x00env phpenv\x00init plenv\x00init swiftenv\x00init tfenv\x00init rustup\x00completions op\x00signin podman-machine\x00env "

// initTool reports whether statements are a call of a tool in initTools, by its usual name.
func (w *walker) initTool(list []*syntax.Stmt, at *place) bool {
	if len(list) != 1 || len(list[0].Redirs) > 1 {
		return false
	}
	name, args, ok := w.plainCall(list, at)
	if !ok || w.defined(name) {
		return false
	}
	if strings.HasPrefix(name, "/") { // /opt/homebrew/bin/brew
		if strings.HasPrefix(name, "/tmp/") || strings.Contains(name, "..") {
			return false
		}
		name = programName(name)
	}
	if strings.ContainsAny(name, "/\x00 ") {
		return false
	}
	if strings.Contains(initTools, " "+name+" ") {
		return true
	}
	return len(args) > 0 && !strings.ContainsAny(args[0], "\x00 ") && strings.Contains(initTools, " "+name+"\x00"+args[0]+" ")
}
