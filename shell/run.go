package shell

import (
	"cmp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// run finds the commands that a command runs, by its row. args are its words, at.parent is the
// command itself.
func (w *walker) run(row *program, name string, args []Word, at place) {
	if at.depth >= maxDepth && row.runs != runsNothing {
		w.unknown("unparsable: nested too deeply")
		return
	}
	w.sure = w.sure && (row.branches() || passesFailure(row.name))
	switch row.runs {
	case runsNothing:
		switch {
		case row.branches():
			w.branch(row, name, args, at)
		case row.line != "" || row.open != "" || row.does != "":
			w.wrapper(row, name, args, at)
		}
	case runsCommand, runsLine, runsEnv, runsXargs, runsParallel:
		w.wrapper(row, name, args, at)
	case runsShell:
		w.shell(row, name, args, at)
	case runsFind:
		w.find(row, name, args, at)
	case runsTrap:
		w.trap(name, args, at)
	case runsAlias:
		for _, a := range args {
			if _, value, ok := strings.Cut(a.code(), "="); ok {
				w.nest(value, !a.Literal, "alias", at.behind(name))
			}
		}
	case runsSource:
		s := scanner{rows: []*program{row}, args: args}
		for s.scan() {
			if s.kind != option {
				w.sourced(name, s.word, at)
				return
			}
		}
	case runsCode:
		w.interpreter(row, name, args, at)
	case runsTmux:
		w.tmux(row, name, args, at)
	case runsCrontab:
		w.crontab(row, name, args, at)
	case runsMake:
		w.wrapper(row, name, args, at)
		w.makefile(name, args, at)
	case runsPowerShell:
		w.powerShell(name, args, at)
	case runsCmd:
		w.cmd(name, args, at)
	case runsRemoveItem:
		w.removeItem(name, args, at)
	case runsInput:
		w.input(name, at)
	case evaluates:
		for _, a := range args {
			w.subscript(a.Text)
		}
	}
}

// behind returns the place of a command that a wrapper runs.
func (at place) behind(name string) place {
	at.via = append(slices.Clip(at.via), name)
	at.away = at.away || isAway(name)
	at.depth++
	return at
}

// branch looks for a subcommand that runs another command: "bundle exec rm".
func (w *walker) branch(row *program, name string, args []Word, at place) {
	s := scanner{rows: []*program{row}, args: args}
	for s.scan() {
		if s.kind == option {
			o := row.full(s.name, s.short)
			if kind := get(row.does, o); kind != "" && s.valued {
				w.does(kind, name+" "+dashes(o), s.value, at)
			}
			continue
		}
		if !s.word.Literal {
			w.unknown("computed subcommand of " + name)
			return
		}
		sub := lookup(row.name + " " + row.canonical(s.word.Text))
		if sub == nil && s.loose {
			continue // may be the argument of an unknown option
		}
		if sub != nil && (sub.runs != runsNothing || sub.line != "" || sub.does != "" || sub.branches()) {
			w.run(sub, name+" "+s.word.Text, args[s.next:], at)
		}
		return
	}
}

// wrapper reads the options of a command that runs another one, then the other command.
func (w *walker) wrapper(row *program, name string, args []Word, at place) {
	before := w.where
	w.forked = before.forked || row.name == "git submodule foreach"
	w.wrapperWords(row, name, args, at)
	switch w.env = before.env; {
	case row.runs == runsEnv:
		w.where = before
	case !before.forked && row.name == "git submodule foreach":
		w.forked = false
	}
}

// wrapperWords reads the words of a wrapper.
func (w *walker) wrapperWords(row *program, name string, args []Word, at place) {
	r := wrapperScan{walker: w, row: row, name: name, at: at, skip: int(row.skip), opened: row.open == "*"}
	r.s = scanner{rows: []*program{row}, args: args, late: row.style&settled == 0}
	for r.s.scan() {
		if r.s.kind == option && !r.option() || r.s.kind != option && !r.operand() {
			return
		}
	}
	switch {
	case r.ran:
	case r.program != nil:
		w.command([]Word{*r.program}, r.at.behind(name))
	case row.open == "fed":
		if r.at.from != nil || len(r.at.stdin) > 0 {
			w.input(name, r.at)
		}
	case row.runs == runsParallel:
		w.unknown(name + " runs the lines it reads")
	case r.opened:
		w.input(name, r.at)
	}
}

// A wrapperScan reads the words of a wrapper. Its methods report whether to read more words.
type wrapperScan struct {
	*walker

	s        scanner
	row      *program
	name     string
	at       place
	skip     int    // operands to skip before the command
	operands int    // operands read so far
	replace  string // the text that xargs and parallel replace
	program  *Word  // a program from an option, inserted before the words that follow
	opened   bool   // it reads commands from standard input
	found    bool   // the command was found
	ran      bool   // a command was read, so standard input holds no commands
}

func (r *wrapperScan) option() bool {
	s, row := &r.s, r.row
	o := row.full(s.name, s.short)
	switch does := get(row.does, o); {
	case has(row.none, o):
		return false
	case row.runs == runsEnv && s.valued && has("C chdir", o):
		r.enterDir("cd", []Word{s.value})
	case row.runs == runsEnv && (o == "S" || o == "split-string"):
		r.split(r.name, s.value, s.args[s.next:], r.at)
		return false
	case has(row.line, o):
		if s.valued {
			r.ran = true
			r.elsewhere = r.elsewhere || row.name == "nc" // nc reads from a network connection
			verb := r.name + " " + dashes(o)
			r.nest(s.value.code(), !s.value.Literal, verb, r.at.behind(verb))
		}
	case does == "program":
		if s.valued {
			value := s.value
			r.program = &value
		}
	case does == "command":
		words := s.args[s.next:]
		if s.valued {
			words = append([]Word{s.value}, words...)
		}
		if len(words) > 0 {
			r.command(words, r.at.behind(r.name+" "+dashes(o)))
		}
		return false
	case does != "":
		if s.valued {
			r.ran = r.ran || has(get(row.does, "unless"), o)
			r.does(does, r.name+" "+dashes(o), s.value, r.at)
		}
	case row.runs == runsXargs && has("a arg-file", o):
		r.at.from = nil // it reads commands from that file instead
	case row.runs == runsXargs && has("I J i replace", o), row.runs == runsParallel && has("I i replace", o):
		r.replace = cmp.Or(s.value.Text, "{}")
	case has(row.open, o):
		r.opened = true
	}
	if s.value.many() && row.runs != runsNothing { // the word may hold the command too
		r.wrap(s.next-1, r.mild || row.runs == runsCommand && r.oneWord(s.value))
	}
	return true
}

func (r *wrapperScan) operand() bool {
	switch s, row := &r.s, r.row; {
	case s.kind == open && row.runs != runsLine && row.runs != runsNothing:
		// The word may be options, or the command itself. Both are recorded, the first as a
		// command with a computed name.
		r.wrap(s.at, r.mild || r.skip > 0 && row.runs == runsCommand && r.oneWord(s.word))
		r.skip = max(r.skip-1, 0)
	case s.word.Text == "-" && s.word.Literal: // env -, su -
	case row.style&assigns != 0 && strings.IndexByte(s.certain(), '=') > 0:
		r.assignment(s.word, s.certain(), r.at)
	case row.does != "" && row.runs == runsNothing || row.runs == runsMake:
		r.operands++
		kind := get(row.does, "1")
		if r.operands > 1 || kind == "" || r.instead(row, s.args) {
			kind = get(row.does, "*")
		}
		if kind != "" {
			r.doesOperand(kind, r.name, s.word, s.args[s.next:], r.at)
		}
	case r.skip > 0:
		r.skip--
	case row.runs == runsNothing || r.found:
	case r.program != nil:
		r.command(append([]Word{*r.program}, s.args[s.at:]...), r.at.behind(r.name))
		return false
	default:
		r.wrap(s.at, r.mild)
		r.found, r.ran = true, true
		return row.style&mixed != 0
	}
	return true
}

// wrap reads the words from index from as the command that is run.
func (r *wrapperScan) wrap(from int, mild bool) {
	before := r.mild
	r.mild = mild
	r.wrapped(r.row, r.name, r.s.args[from:], r.replace, r.at)
	r.mild = before
}

// assignment reads NAME=value before a command. certain is the known beginning of the word.
func (w *walker) assignment(word Word, certain string, at place) {
	name, value, _ := strings.Cut(certain, "=")
	w.sends(name, value, word.Literal)
	if word.Literal {
		w.set(name, false, value)
	}
	if runsVariable(name) == "" {
		return
	}
	word.Text = word.Text[len(name)+1:]
	if word.c != nil {
		c := *word.c
		c.code = c.code[len(name)+1:]
		word.c = &c
	}
	w.variable(name, word, at)
}

// dashes returns an option with its dashes.
func dashes(option string) string {
	if len(option) == 1 {
		return "-" + option
	}
	return "--" + option
}

// wrapped reads the words after a wrapper's own words.
func (w *walker) wrapped(row *program, name string, words []Word, replace string, at place) {
	if row.runs == runsXargs || row.runs == runsParallel {
		if text, ok := w.fedText(&at); ok && row.runs == runsXargs && w.again() {
			w.command(given(words, text, replace), at.behind(name))
		}
		if row.runs == runsParallel {
			w.parallel(name, words, replace, at.behind(name))
		}
		words = w.fed(row, words, replace, w.listed(&at))
	}
	at = at.behind(name)
	if row.runs == runsLine && len(words) == 1 && words[0].c != nil && words[0].c.init {
		return
	}
	if row.runs != runsLine && row.runs != runsParallel {
		w.command(words, at)
		return
	}
	var line strings.Builder
	literal := true
	for i, a := range words {
		if i > 0 {
			line.WriteByte(' ')
		}
		line.WriteString(a.code())
		literal = literal && a.Literal
	}
	w.nest(line.String(), !literal, name, at)
}

// fed inserts the input of xargs or parallel: in place of a mark, or at the end. all is a glob
// that the input matches, or "".
func (w *walker) fed(row *program, words []Word, replace, all string) []Word {
	words = slices.Clone(words)
	if row.runs == runsParallel {
		if replace == "" {
			replace = "{}"
		}
		if i := slices.IndexFunc(words, func(a Word) bool { return strings.HasPrefix(a.Text, ":::") }); i >= 0 {
			words = words[:i]
		}
	}
	found := false
	for i, a := range words {
		if replace != "" && a.Literal && strings.Contains(a.Text, replace) {
			words[i] = w.filled(a.Text, replace, replace, row.runs == runsParallel, false)
			if all != "" {
				words[i].c.glob = strings.ReplaceAll(a.Text, replace, all)
			}
			found = true
		}
	}
	if replace == "" || row.runs == runsParallel && !found {
		words = append(words, w.filled("...", "...", "...", true, false))
		words[len(words)-1].c.glob = all
	}
	return words
}

// split reads the argument of env -S. Its syntax differs slightly from a shell line.
func (w *walker) split(name string, value Word, rest []Word, at place) {
	var line strings.Builder
	line.WriteString("env ")
	literal := value.Literal
	text := value.code()
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && strings.IndexByte("_tnrfv", text[i+1]) >= 0 {
			line.WriteByte(' ')
			i++
			continue
		}
		line.WriteByte(text[i])
	}
	for _, a := range rest {
		line.WriteString(" " + Quote(a.code()))
		literal = literal && a.Literal
	}
	w.nest(line.String(), !literal, name+" -S", at.behind(name+" -S"))
}

// shell reads a call of a shell: sh -c line, sh script, or sh alone, which reads commands from
// standard input.
func (w *walker) shell(row *program, name string, args []Word, at place) {
	at.sh = has("sh ash dash", foldCase(name))
	rest, line, input, ok := w.shellOptions(row, name, args, at)
	switch {
	case !ok || line && len(rest) == 0:
	case line:
		if rest[0].many() {
			w.unknown("computed words after " + name + " -c")
		}
		defer w.withArgs(rest[min(2, len(rest)):])()
		if len(rest) > 1 {
			w.zero = &rest[1]
		}
		defer func(child bool) { w.child = child }(w.child)
		w.child = true
		w.nest(rest[0].code(), !rest[0].Literal, name+" -c", at.behind(name+" -c"))
	case len(rest) > 0 && !rest[0].Literal:
		w.unknown("computed words after " + name)
		if c := rest[0].c; c.feed != nil {
			w.nest(*c.feed, false, name, at.behind(name))
		}
	case len(rest) > 0 && len(args) == len(rest)+1 && args[0].Literal && args[0].Text == "-n": // only checks the syntax
	case len(rest) > 0 && !input && w.wrote(rest[0], func(text string, computed bool) { w.shellFile(text, computed, name, rest[1:], at) }):
	case len(rest) > 0 && !input && !standardInput(rest[0].Text):
		// A script from outside the line is treated like any other program: the command is
		// recorded, the content of the file is not read.
	default:
		w.input(name, at)
	}
}

// shellOptions reads the options of a shell and returns the words after them. line reports that
// the first word is a line (-c), input that -s is present, ok that the shell runs something.
func (w *walker) shellOptions(row *program, name string, args []Word, at place) (rest []Word, line, input, ok bool) {
	for len(args) > 0 && args[0].Literal {
		t := args[0].Text
		if t == "-" || t == "--" {
			args = args[1:]
			break
		}
		if len(t) < 2 || t[0] != '-' && t[0] != '+' {
			break
		}
		takes := 0 // how many of the next words are arguments of options
		if text, ok := strings.CutPrefix(t, "--"); ok {
			long, value, attached := strings.Cut(text, "=")
			switch {
			case has(row.none, long):
				return nil, false, false, false
			case attached && has("command init-command", long):
				w.nest(value, false, name+" -c", at.behind(name+" -c"))
				line = line || long == "command"
			case has("command init-command", long):
				line = true
			case !attached && has(row.args, long):
				takes = 1
			}
		} else {
			line = line || t[0] == '-' && strings.Contains(t, "c")
			input = input || t[0] == '-' && strings.Contains(t, "s")
			takes = strings.Count(t, "o") + strings.Count(t, "O") // -euo pipefail
		}
		args = args[min(1+takes, len(args)):]
	}
	return args, line, input, true
}

// standardInput reports whether a file name means standard input.
func standardInput(file string) bool {
	return file == "-" || file == "/dev/stdin" || strings.HasPrefix(file, "/dev/fd/") || strings.HasPrefix(file, "/proc/self/fd/")
}

// input handles a command that runs its standard input. If the line contains the input, as a
// here-document or as words of echo, the input is read like any other line.
func (w *walker) input(name string, at place) {
	in := at.behind(name)
	in.stdin, in.from = nil, nil // this input is already read
	for _, r := range slices.Backward(at.stdin) {
		if !feeds(r) {
			continue
		}
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
			text, literal := w.hereText(&at, r)
			w.nest(text, !literal, name, in)
			w.valued(literal, r, name, &at, in)
		default:
			w.script(name, r, &at, func(text string, computed bool) { w.shellFile(text, computed, name, nil, at) })
		}
		return
	}
	if at.from == nil {
		if reason := name + " runs what it reads"; w.elsewhere {
			w.unknown(reason)
		} else { // the shell has no input
			w.usual(reason)
		}
		return
	}
	w.unknown("pipe into " + name)
	if text, ok := w.evalStmt(at.from, &at, ""); ok {
		w.nest(text, false, name, in)
		return
	}
	if text, ok := w.output(&at); ok {
		w.nest(text, false, name, in)
	}
}

// script reads "sh < file" with runs. It records that a script runs, as for "sh file".
func (w *walker) script(name string, r *syntax.Redirect, at *place, runs func(text string, computed bool)) {
	reason, file, read := name+" runs what it reads from a file", Word{}, false
	files, why := w.targets(at, r.Word)
	for _, file = range files {
		read = r.Op == syntax.RdrIn && w.wrote(file, runs) || read
	}
	if read && why == "" {
		return
	}
	if r.Op != syntax.RdrIn || !file.Literal || why != "" || isDevice(file.Text) || strings.HasPrefix(file.Text, "/proc/") {
		w.unknown(reason)
	} else {
		w.usual(reason)
	}
}

// valued reads the text of a here-document again, with the known values of variables inserted.
func (w *walker) valued(literal bool, r *syntax.Redirect, name string, at *place, in place) {
	if literal || w.subst > 0 || !w.again() {
		return
	}
	w.subst = 1
	text, ok := w.given(at, r)
	w.subst = 0
	if ok {
		w.nest(text, false, name, in)
	}
}

// output returns the output of the command before a pipe, for echo, printf and cat with a
// here-document. It only adds commands; the pipe remains in Script.Unknown.
func (w *walker) output(at *place) (string, bool) {
	from := pipeEnd(at.from)
	c, ok := from.Cmd.(*syntax.CallExpr)
	if !ok || len(c.Args) == 0 {
		return "", false
	}
	var words []Word
	for _, a := range c.Args {
		words = w.words(at, a, words)
	}
	if len(words) == 0 {
		return "", false
	}
	switch programName(words[0].Text) {
	case "echo", "printf":
		var b strings.Builder
		for _, a := range words[1:] {
			b.WriteString(a.code())
			b.WriteByte(' ')
		}
		return strings.ReplaceAll(b.String(), `\n`, "\n"), true
	case "cat":
		for _, r := range from.Redirs {
			if r.Hdoc != nil {
				text, _ := w.hereText(at, r)
				return text, true
			}
		}
	}
	return "", false
}

// hereText returns the text of a here-document or a here-string, with holes for computed pieces.
func (w *walker) hereText(at *place, r *syntax.Redirect) (string, bool) {
	switch {
	case r.Op == syntax.WordHdoc:
		return w.text(at, r.Word, unquoted)
	case r.Hdoc == nil:
		return "", true
	case quotedDelimiter(r.Word):
		return w.text(at, r.Hdoc, verbatim)
	}
	return w.text(at, r.Hdoc, document)
}

// text resolves a word to the text of a line, with holes for computed pieces.
func (w *walker) text(at *place, wd *syntax.Word, q quoting) (string, bool) {
	f := folded{}
	w.foldParts(&f, at, wd.Parts, q)
	if f.computed {
		return string(f.code), false
	}
	return string(f.text), true
}

// quotedDelimiter reports whether a here-document has a quoted delimiter, so that its body is not
// expanded.
func quotedDelimiter(wd *syntax.Word) bool {
	for _, part := range wd.Parts {
		l, ok := part.(*syntax.Lit)
		if !ok || strings.Contains(l.Value, `\`) {
			return true
		}
	}
	return false
}

// find reads the commands in find's -exec and similar options.
func (w *walker) find(row *program, name string, args []Word, at place) {
	for i := 0; i < len(args); i++ {
		switch text := args[i].Text; {
		case text == "-delete" && row.style&dashed != 0 && slices.ContainsFunc(args[:i], func(a Word) bool { return a.Text == "!" || a.Text == "-not" }):
			// With a negated test -delete removes everything except the named files. Record it as
			// rm -r of the glob from found.
			if all := found(args[:i]); all != "" {
				words := []Word{{Text: "rm", Literal: true}, {Text: "-r", Literal: true}, w.filled("{}", "{}", "{}", true, true)}
				words[2].c.glob = all
				w.command(words, at.behind(name+" -delete"))
			}
		case strings.HasPrefix(text, "-") && has(row.line, strings.TrimLeft(text, "-")):
			if !w.spend(len(args)) { // found reads the tests again for each -exec
				return
			}
			i = w.findExec(row, name, args, i, at)
		case text == ";" || text == "{}":
			// Without an -exec before it: find $x rm {} +
			w.unknown("computed command of " + name)
		}
	}
}

// findExec reads the command after the -exec at i and returns the index of its end.
func (w *walker) findExec(row *program, name string, args []Word, i int, at place) int {
	verb, marked, all := args[i].Text, false, found(args[:i])
	var words []Word
	for i++; i < len(args) && args[i].Text != ";" && (args[i].Text != "+" || args[i-1].Text != "{}"); i++ {
		a := args[i]
		if a.Literal && strings.Contains(a.Text, "{}") {
			// find inserts paths that begin with its start directory, so they are never options.
			text := a.Text
			a = w.filled(text, "{}", "{}", text == "{}" && i+1 < len(args) && args[i+1].Text == "+", true)
			if row.style&dashed != 0 && all != "" {
				a.c.glob = strings.ReplaceAll(text, "{}", all)
			}
			marked = true
		}
		words = append(words, a)
	}
	if len(words) == 0 {
		return i
	}
	if !marked && row.style&dashed == 0 { // fd
		words = append(words, w.filled("...", "...", "...", true, true))
	}
	forked := w.forked
	w.forked = forked || verb == "-execdir" || verb == "-okdir"
	w.command(words, at.behind(name+" "+verb))
	w.forked = forked
	return i
}

// trap reads a line that the shell stores for later.
func (w *walker) trap(name string, args []Word, at place) {
	if len(args) > 0 && args[0].Literal && strings.HasPrefix(args[0].Text, "-") && args[0].Text != "-" {
		if args[0].Text != "--" {
			return // -l and -p print
		}
		args = args[1:]
	}
	if len(args) > 1 && args[0].Text != "-" {
		w.nest(args[0].code(), !args[0].Literal, name, at.behind(name))
	}
}
