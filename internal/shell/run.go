package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// run finds what a command runs, by its row. args are its words, at.parent is
// the command itself.
func (w *walker) run(row *program, name string, args []Word, at place) {
	if at.depth >= maxDepth && row.runs != runsNothing {
		w.unknown("unparsable: nested too deeply")
		return
	}
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

// behind is the place of what a wrapper runs.
func (at place) behind(name string) place {
	at.via = append(slices.Clip(at.via), name)
	at.depth++
	return at
}

// branch looks for a subcommand that runs something: "bundle exec rm".
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
			continue // perhaps the argument of an option we do not know
		}
		if sub != nil && (sub.runs != runsNothing || sub.line != "" || sub.does != "" || sub.branches()) {
			w.run(sub, name+" "+s.word.Text, args[s.next:], at)
		}
		return
	}
}

// wrapper reads the options of a command that runs another one, then that.
func (w *walker) wrapper(row *program, name string, args []Word, at place) {
	s := scanner{rows: []*program{row}, args: args, late: row.style&settled == 0}
	skip, replace, operands := int(row.skip), "", 0
	does, reads := row.does, row.open
	opened, ran, wrapped := reads == "*", false, false
	var program *Word // that an option puts before the words that follow
	for s.scan() {
		if s.kind == option {
			o := row.full(s.name, s.short)
			switch {
			case has(row.none, o):
				return
			case row.runs == runsEnv && (o == "S" || o == "split-string"):
				w.split(name, s.value, args[s.next:], at)
				return
			case has(row.line, o):
				if s.valued {
					ran = true
					verb := name + " " + dashes(o)
					w.elsewhere = w.elsewhere || row.name == "nc" // a connection
					w.nest(s.value.code(), !s.value.Literal, verb, at.behind(verb))
				}
			case get(does, o) == "program":
				if s.valued {
					value := s.value
					program = &value
				}
			case get(does, o) == "command":
				words := args[s.next:]
				if s.valued {
					words = append([]Word{s.value}, words...)
				}
				if len(words) > 0 {
					w.command(words, at.behind(name+" "+dashes(o)))
				}
				return
			case get(does, o) != "":
				if s.valued {
					ran = ran || has(get(does, "unless"), o)
					w.does(get(does, o), name+" "+dashes(o), s.value, at)
				}
			case row.runs == runsXargs && has("a arg-file", o):
				at.from = nil // it reads that file
			case row.runs == runsXargs && has("I J i replace", o), row.runs == runsParallel && has("I i replace", o):
				if replace = s.value.Text; replace == "" {
					replace = "{}"
				}
			case has(reads, o):
				opened = true
			}
			if s.value.many() && row.runs != runsNothing {
				mild := w.mild
				w.mild = mild || row.runs == runsCommand && w.oneWord(s.value)
				w.wrapped(row, name, args[s.next-1:], replace, at) // it may hold the command too
				w.mild = mild
			}
			continue
		}
		switch {
		case s.kind == open && row.runs != runsLine && row.runs != runsNothing:
			// It may be options, or the command itself. Both are recorded, the
			// first as a command with a computed name.
			mild := w.mild
			w.mild = mild || skip > 0 && row.runs == runsCommand && w.oneWord(s.word)
			skip = max(skip-1, 0)
			w.wrapped(row, name, args[s.at:], replace, at)
			w.mild = mild
		case s.word.Text == "-" && s.word.Literal: // env -, su -
		case row.style&assigns != 0 && strings.IndexByte(s.certain(), '=') > 0:
			if variable, value, _ := strings.Cut(s.word.Text, "="); s.word.Literal {
				w.set(variable, false, value)
			}
			if variable, _, _ := strings.Cut(s.certain(), "="); runsVariable(variable) != "" {
				value := s.word
				value.Text = value.Text[len(variable)+1:]
				if value.c != nil {
					c := *value.c
					c.code = c.code[len(variable)+1:]
					value.c = &c
				}
				w.variable(variable, value, at)
			}
		case does != "" && row.runs == runsNothing || row.runs == runsMake:
			operands++
			kind := get(does, "1")
			if operands > 1 || kind == "" || does != "" && w.instead(row, args) {
				kind = get(does, "*")
			}
			if kind != "" {
				w.doesOperand(kind, name, s.word, args[s.next:], at)
			}
		case skip > 0:
			skip--
		case row.runs == runsNothing || wrapped:
		case program != nil:
			w.command(append([]Word{*program}, args[s.at:]...), at.behind(name))
			return
		default:
			w.wrapped(row, name, args[s.at:], replace, at)
			if row.style&mixed == 0 {
				return
			}
			wrapped, ran = true, true
		}
	}
	switch {
	case ran:
	case program != nil:
		w.command([]Word{*program}, at.behind(name))
	case reads == "fed":
		if at.from != nil || len(at.stdin) > 0 {
			w.input(name, at)
		}
	case row.runs == runsParallel:
		w.unknown(name + " runs the lines it reads")
	case opened:
		w.input(name, at)
	}
}

// dashes is an option as it is written.
func dashes(option string) string {
	if len(option) == 1 {
		return "-" + option
	}
	return "--" + option
}

// wrapped reads what follows a wrapper's own words.
func (w *walker) wrapped(row *program, name string, words []Word, replace string, at place) {
	if row.runs == runsXargs || row.runs == runsParallel {
		if text, ok := w.fedText(&at); ok && row.runs == runsXargs && w.again() {
			w.command(given(words, text, replace), at.behind(name))
		}
		if row.runs == runsParallel {
			w.parallel(name, words, replace, at.behind(name))
		}
		words = w.fed(row, words, replace, listed(&at))
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

// fed puts what xargs or parallel reads where it goes: in the place of a mark,
// or at the end. All of it matches the glob all, if that is known.
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

// split reads env -S, whose argument is words and not quite a shell line.
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
		line.WriteString(" '")
		line.WriteString(strings.ReplaceAll(a.code(), "'", `'\''`))
		line.WriteByte('\'')
		literal = literal && a.Literal
	}
	w.nest(line.String(), !literal, name+" -S", at.behind(name+" -S"))
}

// shell reads a call of a shell: sh -c line, sh script, or sh alone, which reads
// its commands.
func (w *walker) shell(row *program, name string, args []Word, at place) {
	i, line, input := 0, false, false
	switch foldCase(name) {
	case "sh", "ash", "dash":
		at.sh = true
	default:
		at.sh = false
	}
options:
	for i < len(args) {
		a := args[i]
		if !a.Literal {
			break
		}
		t := a.Text
		switch {
		case t == "-" || t == "--":
			i++
			break options
		case len(t) < 2 || t[0] != '-' && t[0] != '+':
			break options
		case strings.HasPrefix(t, "--"):
			long, value, ok := strings.Cut(t[2:], "=")
			if has(row.none, long) {
				return
			}
			i++
			switch {
			case ok && (long == "command" || long == "init-command"):
				w.nest(value, false, name+" -c", at.behind(name+" -c"))
				line = line || long == "command"
			case !ok && (long == "command" || long == "init-command"):
				line = true
			case !ok && has(row.args, long):
				i++
			}
		default:
			i++
			for j := 1; j < len(t); j++ {
				switch t[j] {
				case 'c':
					line = line || t[0] == '-'
				case 's':
					input = input || t[0] == '-'
				case 'o', 'O':
					if i < len(args) { // each takes a word of its own: -euo pipefail
						i++
					}
				}
			}
		}
	}
	switch {
	case line:
		if i < len(args) {
			if args[i].many() {
				w.unknown("computed words after " + name + " -c")
			}
			before := w.args
			defer func() { w.args = before }()
			if rest, ok := literals(args[min(i+2, len(args)):]); ok {
				w.args = rest
			}
			w.nest(args[i].code(), !args[i].Literal, name+" -c", at.behind(name+" -c"))
		}
	case i < len(args) && !args[i].Literal:
		w.unknown("computed words after " + name)
		if c := args[i].c; c.feed != nil {
			w.nest(*c.feed, false, name, at.behind(name))
		}
	case i < len(args) && !input && !standardInput(args[i].Text):
		// A script is a program like any other: that it runs is known, what it
		// does is not looked at.
	default:
		w.input(name, at)
	}
}

// standardInput reports file names that mean "what I am given to read".
func standardInput(file string) bool {
	return file == "-" || file == "/dev/stdin" || strings.HasPrefix(file, "/dev/fd/") || strings.HasPrefix(file, "/proc/self/fd/")
}

// input handles a command that runs what it reads. If that stands in the line as
// a here-document or as words of echo, it is read like any other line.
func (w *walker) input(name string, at place) {
	in := at.behind(name)
	in.stdin, in.from = nil, nil // it was read
	for _, r := range slices.Backward(at.stdin) {
		if !feeds(r) {
			continue
		}
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			text, literal := "", true
			if r.Hdoc != nil {
				q := document
				if quotedDelimiter(r.Word) {
					q = verbatim
				}
				text, literal = w.text(&at, r.Hdoc, q)
			}
			w.nest(text, !literal, name, in)
			w.valued(literal, r, name, &at, in)
		case syntax.WordHdoc:
			text, literal := w.text(&at, r.Word, unquoted)
			w.nest(text, !literal, name, in)
			w.valued(literal, r, name, &at, in)
		default:
			w.script(name, r, &at)
		}
		return
	}
	if at.from == nil {
		if reason := name + " runs what it reads"; w.elsewhere {
			w.unknown(reason)
		} else { // there is nothing to read
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

// script reads "sh < file". That a script is run is known, as it is of "sh file".
func (w *walker) script(name string, r *syntax.Redirect, at *place) {
	reason, file := name+" runs what it reads from a file", w.word(at, r.Word)
	if r.Op != syntax.RdrIn || !file.Literal || strings.HasPrefix(file.Text, "/dev/") || strings.HasPrefix(file.Text, "/proc/") {
		w.unknown(reason)
	} else {
		w.usual(reason)
	}
}

// valued reads the text of a here-document once more with the values that are known.
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

// output is what the command before a pipe prints, for the two that are used to
// feed a shell. It only adds to what is known; the pipe stays unknown.
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
				q := document
				if quotedDelimiter(r.Word) {
					q = verbatim
				}
				text, _ := w.text(at, r.Hdoc, q)
				return text, true
			}
		}
	}
	return "", false
}

// text folds a word to the text of a line, with holes.
func (w *walker) text(at *place, wd *syntax.Word, q quoting) (string, bool) {
	f := folded{}
	w.foldParts(&f, at, wd.Parts, q)
	if f.computed {
		return string(f.code), false
	}
	return string(f.text), true
}

// quotedDelimiter reports a here-document whose body is taken as it is.
func quotedDelimiter(wd *syntax.Word) bool {
	for _, part := range wd.Parts {
		l, ok := part.(*syntax.Lit)
		if !ok || strings.Contains(l.Value, `\`) {
			return true
		}
	}
	return false
}

// find reads the commands in find's -exec and its kin.
func (w *walker) find(row *program, name string, args []Word, at place) {
	for i := 0; i < len(args); i++ {
		switch text := args[i].Text; {
		case text == "-delete" && row.style&dashed != 0 && slices.ContainsFunc(args[:i], func(a Word) bool { return a.Text == "!" || a.Text == "-not" }):
			// All but those: what is left is no longer told by the tests that stand there.
			if all := found(args[:i]); all != "" {
				words := []Word{{Text: "rm", Literal: true}, {Text: "-r", Literal: true}, w.filled("{}", "{}", "{}", true, true)}
				words[2].c.glob = all
				w.command(words, at.behind(name+" -delete"))
			}
			continue
		case strings.HasPrefix(text, "-") && has(row.line, strings.TrimLeft(text, "-")):
		case text == ";" || text == "{}":
			// Without an -exec before it: find $x rm {} +
			w.unknown("computed command of " + name)
			continue
		default:
			continue
		}
		if !w.spend(len(args)) { // found reads them for each -exec
			return
		}
		verb, marked, all := args[i].Text, false, found(args[:i])
		var words []Word
		for i++; i < len(args) && args[i].Text != ";"; i++ {
			if args[i].Text == "+" && args[i-1].Text == "{}" {
				break
			}
			a := args[i]
			if a.Literal && strings.Contains(a.Text, "{}") {
				// What find puts here begins with the path it was given, so it
				// is never an option.
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
			continue
		}
		if !marked && row.style&dashed == 0 { // fd
			words = append(words, w.filled("...", "...", "...", true, true))
		}
		w.command(words, at.behind(name+" "+verb))
	}
}

// trap reads a line that is kept for later.
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
