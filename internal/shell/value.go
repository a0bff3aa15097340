package shell

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// If the line itself sets a value, the package reads the command again with the value
// inserted: X=rm; $X -rf / is also rm -rf /. This only adds commands. The computed word remains
// unknown, because the variable may have other values: conditions and other lines are not
// evaluated.

// Limits for further readings.
const (
	maxValues = 3       // values of one variable that are inserted
	maxValue  = 4 << 10 // bytes of one value
	maxVars   = 256     // variables, and separately functions and aliases
)

// A variable is a variable with one of its values.
type variable struct {
	name  string
	words []string // one word, or the elements of an array
	array bool
}

// A function is a function that the line defines, or an alias.
type function struct {
	body   *syntax.Stmt
	alias  string
	at     place
	active bool // it is being expanded: in its own body an alias is not expanded
}

// define records a function or an alias. The last definition of a name applies.
func (w *walker) define(name string, f function) {
	switch old := w.funcs[name]; {
	case old != nil && old.active:
		return // the expansion ends before the new definition applies
	case old == nil && len(w.funcs) >= maxVars:
		w.limited("unparsable: too many functions and aliases")
		return
	case w.funcs == nil:
		w.funcs = map[string]*function{}
	}
	w.funcs[name] = &f
}

func (w *walker) set(name string, array bool, words ...string) {
	size := 0
	for _, word := range words {
		size += len(word)
	}
	if len(w.vars) >= maxVars {
		w.limited("unparsable: too many variables")
	} else if size <= maxValue {
		w.vars = append(w.vars, variable{name, words, array})
	}
}

// currentValue returns the value of a variable in the current reading: the last assignment in
// the first reading, the one before it in the next.
func (w *walker) currentValue(name string) (variable, bool) {
	found, left := -1, w.subst
	for i, v := range slices.Backward(w.vars) {
		if v.name != name {
			continue
		}
		if left == 0 {
			w.older = true
			break
		}
		found = i
		left--
	}
	if found >= 0 {
		return w.vars[found], true
	}
	// Variables that every shell sets.
	switch name {
	case "IFS":
		return variable{words: []string{" "}}, true
	case "HOME":
		return variable{words: []string{"~"}}, true
	case "PWD":
		return variable{words: []string{w.here()}}, true
	case "SHELL", "BASH":
		return variable{words: []string{"bash"}}, true
	case "0":
		return variable{words: []string{"sh"}}, true
	case "@", "*":
		return variable{words: w.args, array: true}, true
	}
	if n, err := strconv.Atoi(name); err == nil && n > 0 {
		if n <= len(w.args) {
			return variable{words: w.args[n-1 : n]}, true
		}
		return variable{words: []string{""}}, true
	}
	return variable{}, false
}

func (w *walker) here() string {
	if w.dir == "" {
		return "."
	}
	return w.dir
}

// literally resolves a word with the known values. It reports whether the result is completely
// known. A nil word is "".
func (w *walker) literally(wd *syntax.Word, at *place) (string, bool) {
	if wd == nil {
		return "", true
	}
	before, used := w.subst, w.used
	w.subst = max(1, before)
	f := folded{}
	w.foldParts(&f, at, wd.Parts, doubleQuotedValue)
	w.subst, w.used = before, used
	return string(f.text), !f.computed && len(f.text) <= maxValue
}

// doubleQuotedValue is the quoting for the value of an assignment: the value is not split.
const doubleQuotedValue = unquoted

// remember records the value of an assignment. If the variable holds a command, it reads the
// command.
func (w *walker) remember(a *syntax.Assign, at *place) { //nolint:gocognit // a function that calls itself gets one more
	if a.Name == nil {
		return
	}
	if a.Array != nil {
		var words []string
		for _, e := range a.Array.Elems {
			if e.Value == nil {
				continue
			}
			text, ok := w.literally(e.Value, at)
			if !ok {
				w.tainted(a.Name.Value)
				return
			}
			words = append(words, text)
		}
		w.set(a.Name.Value, true, words...)
		return
	}
	if a.Value == nil {
		return
	}
	text, ok := w.literally(a.Value, at)
	if w.subst == 0 {
		origin := originOf(w.word(at, a.Value))
		if a.Append {
			origin = originAssigned
		}
		w.assigns(a.Name.Value, origin)
	}
	if ok {
		if a.Append {
			for _, v := range slices.Backward(w.vars) {
				if v.name == a.Name.Value && len(v.words) > 0 {
					text = v.words[0] + text
					break
				}
			}
		}
		w.set(a.Name.Value, false, text)
	} else if word := w.word(at, a.Value); word.c == nil || !w.givenHoles(word.c.code) {
		w.tainted(a.Name.Value)
	}
	if runsVariable(a.Name.Value) != "" {
		word := Word{Text: text, Literal: true}
		if !ok {
			word = w.word(at, a.Value)
		}
		w.variable(a.Name.Value, word, *at)
	}
}

// looped records the values of a for loop's variable.
func (w *walker) looped(l *syntax.WordIter, at *place) {
	for i, item := range l.Items {
		if i == maxValues {
			return
		}
		if l.Name != nil {
			w.assigns(l.Name.Value, originOf(w.word(at, item)))
		}
		if text, ok := w.literally(item, at); ok && l.Name != nil {
			w.set(l.Name.Value, false, text)
		} else if l.Name != nil {
			w.tainted(l.Name.Value)
			if all := w.lists(item, at); all != "" {
				w.set(l.Name.Value, false, all)
			}
		}
	}
}

// setArgs handles "set -- rm -rf /".
func (w *walker) setArgs(args []Word) {
	var list []string
	options := true
	for _, a := range args {
		if options && a.Literal && a.Text == "--" {
			options = false
			continue
		}
		if options && a.Literal && strings.HasPrefix(a.Text, "-") {
			continue
		}
		options = false
		if !a.Literal {
			return
		}
		list = append(list, a.Text)
	}
	if len(list) > 0 {
		w.args = list
	}
}

func (w *walker) aliases(args []Word, at place) {
	for _, a := range args {
		if name, value, ok := strings.Cut(a.Text, "="); ok && a.Literal {
			w.define(name, function{alias: value, at: at})
		}
	}
}

// readVars handles "printf -v x rm" and "read x <<< rm".
func (w *walker) readVars(name string, args []Word, at *place) {
	texts, ok := literals(args)
	switch {
	case !ok:
	case name == "printf":
		if len(texts) > 2 && texts[0] == "-v" {
			text, _ := printed(texts[2], texts[3:])
			w.set(texts[1], false, text)
		}
	default:
		all := ""
		if at.from != nil {
			all = w.listing(at.from, at)
		}
		for _, name := range texts {
			if strings.HasPrefix(name, "-") {
				continue
			}
			w.tainted(name)
			w.assigns(name, originAssigned)
			if all != "" {
				w.set(name, false, all)
			}
		}
		if text, ok := w.fedText(at); ok {
			names := slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return strings.HasPrefix(s, "-") })
			fields := strings.Fields(text)
			for i, name := range names {
				switch {
				case i >= len(fields):
				case i == len(names)-1:
					w.set(name, false, strings.Join(fields[i:], " "))
				default:
					w.set(name, false, fields[i])
				}
			}
		}
	}
}

func literals(words []Word) ([]string, bool) {
	texts := make([]string, 0, len(words))
	for _, word := range words {
		if !word.Literal {
			return nil, false
		}
		texts = append(texts, word.Text)
	}
	return texts, true
}

// enterDir handles cd.
func (w *walker) enterDir(args []Word) {
	to := ""
	for _, a := range args {
		switch {
		case !a.Literal:
			dir, ok := homely(a.Text)
			if !ok {
				w.dir = ""
				return
			}
			to = dir
		case strings.HasPrefix(a.Text, "-") && a.Text != "-" || strings.HasPrefix(a.Text, "+"):
		default:
			to = a.Text
		}
	}
	switch to {
	case "":
		to = "~"
	case "-":
		w.dir = ""
		return
	}
	w.dir = join(w.dir, to)
}

// join returns a path relative to a directory. It does not clean the path, because the meaning of
// ".." after a symbolic link depends on the file system.
func join(dir, name string) string {
	if dir == "" || strings.HasPrefix(name, "/") || name == "~" || strings.HasPrefix(name, "~/") || len(name) > 1 && name[1] == ':' {
		return name
	}
	if len(dir) > maxValue {
		return name
	}
	return strings.TrimSuffix(dir, "/") + "/" + name
}

// homely converts $HOME/x and $PWD/x, as in Word.Text, to paths.
func homely(text string) (string, bool) {
	for _, known := range [...][2]string{{"$HOME", "~"}, {"$PWD", "."}, {"$(pwd)", "."}, {"$OLDPWD", "."}} {
		rest, ok := strings.CutPrefix(text, known[0])
		if ok && (rest == "" || rest[0] == '/') && !strings.ContainsAny(rest, "$`") {
			return known[1] + rest, true
		}
	}
	if rest, ok := strings.CutPrefix(text, "${HOME:"); ok { // ${HOME:?}/x, ${HOME:-/root}/x
		if _, rest, ok = strings.Cut(rest, "}"); ok && (rest == "" || rest[0] == '/') && !strings.ContainsAny(rest, "$`") {
			return "~" + rest, true
		}
	}
	return "", false
}

// readings reads a command again with the known values inserted, and with functions and aliases
// of the line expanded.
func (w *walker) readings(c *syntax.CallExpr, words []Word, at *place) {
	if w.subst > 0 || len(words) == 0 {
		if w.subst > 0 && len(words) > 0 {
			w.expand(words, at)
		}
		return
	}
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
			if len(again) > 0 {
				subst := w.subst
				w.subst = 0 // the first reading of nested lines inserts no values
				w.command(again, in)
				w.subst = subst
				w.expand(again, at)
			}
			if !w.older {
				break
			}
		}
		w.subst = 0
	}
	w.expand(words, at)
}

// expand reads the body of a function, or the line of an alias, with the words of its call.
func (w *walker) expand(words []Word, at *place) {
	name := words[0].Text
	f := w.funcs[name]
	if f == nil || f.active || !words[0].Literal {
		return
	}
	if w.expanding >= maxExpanding {
		w.limited("unparsable: functions and aliases inside each other")
		return
	}
	if !w.again() {
		return
	}
	w.expanding++
	f.active = true
	if f.body == nil {
		w.expandAlias(f, words, at)
	} else {
		w.expandFunction(f, words)
	}
	f.active = false
	w.expanding--
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

// expandFunction reads the body of a function that is called with literal words. A call without
// words needs no second reading: the body was read at its declaration.
func (w *walker) expandFunction(f *function, words []Word) {
	args, ok := literals(words[1:])
	if !ok || len(args) == 0 || w.tree > maxTree/2 {
		return
	}
	before, subst := w.args, w.subst
	w.args, w.subst = args, 1
	body := f.at
	w.stmt(f.body, &body)
	w.args, w.subst = before, subst
}

// Quote quotes a word for a POSIX shell.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// expandParam returns the words of a parameter in the current reading.
func (w *walker) expandParam(p *syntax.ParamExp, at *place, q quoting) ([]string, bool) {
	if p.Param == nil || p.Excl || p.Length || p.Width || p.NestedParam != nil || p.Names != 0 || !w.spend(1) {
		return nil, false
	}
	name := p.Param.Value
	v, ok := w.currentValue(name)
	if p.Index != nil && !ok {
		return nil, false
	}
	words, known := elements(p, v)
	if !known {
		return nil, false
	}
	if p.Exp != nil {
		words, ok = w.operated(p, at, words, ok)
	}
	if !ok {
		return nil, false
	}
	if len(words) == 1 && (p.Slice != nil || p.Repl != nil) {
		text, known := w.cutOut(words[0], p, at)
		if !known {
			return nil, false
		}
		words = []string{text}
	}
	if len(w.args) > 0 || name != "@" && name != "*" && (name[0] < '1' || name[0] > '9') {
		w.used = true
	} else if q != unquoted {
		return nil, false // the arguments of this call are not known
	}
	if q != unquoted && (name == "*" || len(words) == 0) {
		return []string{strings.Join(words, " ")}, true
	}
	return words, true
}

// elements returns the words that an index selects: ${x[1]}, ${x[@]}, $x.
func elements(p *syntax.ParamExp, v variable) ([]string, bool) {
	if p.Index == nil {
		if v.array && !has("@ *", p.Param.Value) && len(v.words) > 0 {
			return v.words[:1], true
		}
		return v.words, true
	}
	index, ok := p.Index.(*syntax.Word)
	if !ok {
		return nil, false
	}
	text := index.Lit()
	if text == "@" || text == "*" {
		return v.words, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= len(v.words) {
		return nil, false
	}
	return v.words[n : n+1], true
}

// operated evaluates ${x:-word}, ${x#pattern} and similar expansions. The argument set reports
// that the variable has a value, and so does the result.
func (w *walker) operated(p *syntax.ParamExp, at *place, words []string, set bool) ([]string, bool) {
	operand, known := w.literally(p.Exp.Word, at)
	if !known {
		return nil, false
	}
	empty := !set || len(words) == 0 || len(words) == 1 && words[0] == ""
	switch p.Exp.Op {
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull:
		if empty {
			return []string{operand}, true
		}
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		if empty {
			w.set(p.Param.Value, false, operand)
			return []string{operand}, true
		}
	case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		return []string{operand}, set
	default:
		if !set || len(words) != 1 || !w.spend(stepsPerTrim) {
			return nil, false
		}
		text, known := trimmed(words[0], p.Exp.Op, operand)
		return []string{text}, known
	}
	return words, set
}

// trimmed evaluates ${x#pattern}, ${x%pattern}, ${x^^} and similar expansions.
func trimmed(text string, op syntax.ParExpOperator, pattern string) (string, bool) {
	best, found := text, false
	take := func(rest string, largest bool) {
		if !found || largest == (len(rest) < len(best)) {
			best, found = rest, true
		}
	}
	switch op {
	case syntax.UpperAll:
		return strings.ToUpper(text), true
	case syntax.LowerAll:
		return strings.ToLower(text), true
	case syntax.RemSmallPrefix, syntax.RemLargePrefix:
		for i := 0; i <= len(text) && i <= 256; i++ {
			if glob(pattern, text[:i]) {
				take(text[i:], op == syntax.RemLargePrefix)
			}
		}
	case syntax.RemSmallSuffix, syntax.RemLargeSuffix:
		for i := len(text); i >= 0 && len(text)-i <= 256; i-- {
			if glob(pattern, text[i:]) {
				take(text[:i], op == syntax.RemLargeSuffix)
			}
		}
	default:
		return "", false
	}
	return best, true
}

// cutOut evaluates ${x:1:2} and ${x/a/b}.
func (w *walker) cutOut(text string, p *syntax.ParamExp, at *place) (string, bool) {
	if p.Slice != nil {
		number := func(x syntax.ArithmExpr, none int) (int, bool) {
			if x == nil {
				return none, true
			}
			wd, ok := x.(*syntax.Word)
			if !ok {
				return 0, false
			}
			n, err := strconv.Atoi(wd.Lit())
			return n, err == nil && n >= 0
		}
		from, ok1 := number(p.Slice.Offset, 0)
		n, ok2 := number(p.Slice.Length, len(text))
		if !ok1 || !ok2 {
			return "", false
		}
		text = text[min(from, len(text)):]
		return text[:min(n, len(text))], true
	}
	from, ok1 := w.literally(p.Repl.Orig, at)
	with, ok2 := w.literally(p.Repl.With, at)
	if !ok1 || !ok2 || from == "" || strings.ContainsAny(from, "*?[") || len(with)*len(text) > 1<<20 {
		return "", false
	}
	n := 1
	if p.Repl.All {
		n = -1
	}
	if !w.spend(len(text) * max(1, len(with))) {
		return "", false
	}
	return strings.Replace(text, from, with, n), true
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
