package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A file behind a redirection is an operand like any other, but no program reports a wrong one: the
// shell opens it. So all values that the line gives to its variables count, in every combination:
//
//	X=/etc/passwd; echo x > $X
//	for f in a b; do echo x > $f; done
//	f() { echo x > "$1"; }; f .env
//
// A target that remains unknown makes the line unknown, unless it can only be a name in a known
// directory (out.$$) or a usual place (a temporary file, $GITHUB_OUTPUT).

// Limits of the values of one target, and of the targets that are read again at the end of a loop.
const (
	maxChoices = 16
	maxLater   = 64
)

// A choice is the value of one variable in one reading of a target: its n-th value from the last.
type choice struct {
	name string
	n    int
	more bool // there is an earlier value
}

// A laterTarget is a computed target that may have other values when its loop or function runs
// again.
type laterTarget struct {
	r        *syntax.Redirect
	at       place
	dir      string
	args     []string
	argsOpen bool
	assigned int // walker.assigned, when it was read
}

// redirects walks the redirections of a statement in a directory, and records the files.
func (w *walker) redirects(list []*syntax.Redirect, dir string, at *place) {
	after := w.dir
	w.dir = dir
	defer func() { w.dir = after }()
	for _, r := range list {
		if r.Word == nil {
			continue
		}
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			if !plainDelimiter(r.Word) {
				// The parser and the shell may disagree about the end of the document.
				w.unknown("unparsable: unusual end of a here-document")
			}
			if r.Hdoc != nil {
				w.parts(r.Hdoc.Parts, at, document)
			}
			continue
		case syntax.WordHdoc:
			w.inWord(r.Word, at)
			continue
		}
		w.inWord(r.Word, at)
		if r.N != nil && strings.HasPrefix(r.N.Value, "{") { // exec {fd}> file
			w.set(strings.Trim(r.N.Value, "{}"), false, "10")
		}
		w.redirect(r, at)
	}
}

// redirect records the files of one redirection.
func (w *walker) redirect(r *syntax.Redirect, at *place) {
	known := w.assigned
	targets, why := w.targets(at, r.Word)
	for _, target := range targets {
		w.opens(r.Op, target.Text)
	}
	w.reportTarget(why, w.source(at, r.Word))
	if _, literal := plain(r.Word); literal {
		return
	}
	switch {
	case w.declares != nil:
		w.declares.opens = true
	case (w.loops > 0 || trapped(at)) && len(w.later) < maxLater:
		w.later = append(w.later, laterTarget{r, *at, w.dir, w.args, w.argsOpen, known})
	}
}

// trapped reports whether a line runs when the shell ends.
func trapped(at *place) bool { return slices.Contains(at.via, "trap") }

// opens records a file that a redirection opens.
func (w *walker) opens(op syntax.RedirOperator, name string) {
	if (op == syntax.DplIn || op == syntax.DplOut) && descriptor(name) {
		return
	}
	names := []string{name}
	if joined := join(w.dir, name); joined != name { // the line may enter the directory only under a condition
		names = append(names, joined)
	}
	if op == syntax.RdrIn || op == syntax.RdrInOut {
		w.s.Reads = append(w.s.Reads, names...)
	}
	if op != syntax.RdrIn && op != syntax.DplIn {
		w.s.Writes = append(w.s.Writes, names...)
	}
}

// descriptor reports whether s is the right side of 2>&1 or 2>&-.
func descriptor(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return s[i] == '-' && i == len(s)-1
		}
	}
	return true
}

// The reasons for which a target is not known.
const (
	openTarget  = "any"   // it may be any file
	usualTarget = "usual" // it is a file in a usual place
)

// reportTarget makes the line unknown. The targets in the body of a function are reported if a call
// cannot be read, see expandFunction.
func (w *walker) reportTarget(why, source string) {
	switch {
	case why == "" || w.declares != nil:
	case why == usualTarget:
		w.usual("computed file of a redirection: " + visible(source))
	default:
		w.unknown("computed file of a redirection: " + visible(source))
	}
}

// loop walks the statements of a loop. Values that its body assigns are values of the targets
// before them, too.
func (w *walker) loop(body func()) {
	w.loops++
	first := len(w.later)
	w.repeated(body)
	w.loops--
	if w.loops == 0 {
		w.readLater(first, false)
	}
}

// perhaps walks a part of the line that may not run in the shell of the line. The variables that it
// assigns may have no value afterwards.
func (w *walker) perhaps(walk func()) {
	w.branches++
	walk()
	w.branches--
}

// readLater reads targets again for which the line has assigned further values. Those that run when
// the shell ends remain for the end of the line.
func (w *walker) readLater(first int, end bool) {
	first = min(first, len(w.later))
	list := w.later[first:]
	w.later = w.later[:first]
	for _, l := range list {
		at := l.at
		if !end && trapped(&at) {
			w.later = append(w.later, l)
		}
		if w.assigned == l.assigned && !w.shifted && (w.dir == l.dir || !end) || !w.again() {
			continue
		}
		dir, args, open := w.dir, w.args, w.argsOpen
		if !end {
			w.dir = l.dir
		}
		if len(l.args) > 0 || l.argsOpen {
			w.args, w.argsOpen = l.args, l.argsOpen
		}
		targets, why := w.targets(&at, l.r.Word)
		for _, target := range targets {
			w.opens(l.r.Op, target.Text)
		}
		w.reportTarget(why, w.source(&at, l.r.Word))
		w.dir, w.args, w.argsOpen = dir, args, open
	}
}

// targets returns the words that a word becomes with all values that the line gives to its
// variables. A piece that is not known, but has no slash, becomes a "*". why is empty if these are
// all words; otherwise it is one of the reasons above.
func (w *walker) targets(at *place, wd *syntax.Word) (list []Word, why string) {
	if word, ok := plain(wd); ok {
		return appendTarget(nil, word), w.placed(word)
	}
	if len(wd.Parts) == 1 {
		if _, ok := wd.Parts[0].(*syntax.ProcSubst); ok { // > >(command)
			return nil, ""
		}
	}
	subst, used, older, choices, choosing := w.subst, w.used, w.older, w.choices, w.choosing
	w.choices, w.choosing, w.subst = nil, true, 1
	defer func() { w.subst, w.used, w.older, w.choices, w.choosing = subst, used, older, choices, choosing }()
	for n := 0; ; n++ {
		if n >= maxChoices || n > 0 && !w.again() {
			why = worse(why, openTarget)
			break
		}
		word, reason := w.target(w.word(at, wd))
		why = worse(worse(why, reason), w.placed(word))
		list = appendTarget(list, word)
		if word.Literal && strings.Contains(word.Text, "{") { // Zsh writes to a{1,2}, Bash refuses it
			for _, each := range w.words(at, wd, nil) {
				list = appendTarget(list, each)
			}
		}
		if !w.nextChoice() {
			break
		}
	}
	if len(w.choices) > 0 && (w.indirect || w.splitsOddly()) {
		return list, openTarget
	}
	for _, c := range w.choices {
		if positional(c.name) && (w.shifted || w.argsOpen || w.declares != nil) {
			why = openTarget
		}
		why = worse(why, w.unsure[c.name])
	}
	return list, why
}

// splitsOddly reports whether the line makes the shell split values elsewhere than at blanks.
func (w *walker) splitsOddly() bool {
	return slices.ContainsFunc(w.values("IFS"), func(v variable) bool { return strings.Trim(strings.Join(v.words, ""), " \t\n") != "" })
}

// worse returns the stronger of two reasons.
func worse(a, b string) string {
	if a == openTarget || b == "" {
		return a
	}
	return b
}

func appendTarget(list []Word, word Word) []Word {
	text, known := knownText(word)
	if !known || text == "" || slices.ContainsFunc(list, func(a Word) bool { return a.Text == text }) {
		return list
	}
	word.Text = text
	return append(list, word)
}

// placed returns the reason for a relative name if the line entered an unknown directory.
func (w *walker) placed(word Word) string {
	if text, ok := knownText(word); w.lost && ok && text != "" && join("x", text) != text {
		return usualTarget
	}
	return ""
}

// target resolves the computed pieces of a target as far as possible, and returns the reason why
// the result is not known.
func (w *walker) target(word Word) (Word, string) {
	if _, known := knownText(word); known {
		return word, ""
	}
	if strings.HasPrefix(word.c.head, "/dev/tcp/") || strings.HasPrefix(word.c.head, "/dev/udp/") {
		return word, "" // a connection
	}
	var text strings.Builder
	code, why := word.c.code, ""
	for i := strings.IndexByte(code, hole); i >= 0; i = strings.IndexByte(code, hole) {
		text.WriteString(code[:i])
		show, n := w.holeAt(code[i:])
		code = code[i+n:]
		switch {
		case w.hasNoSlash(show):
			text.WriteByte('*')
		case w.usualPlace(show):
			why = worse(why, usualTarget)
		default:
			return word, openTarget
		}
	}
	text.WriteString(code)
	if why != "" {
		return word, why
	}
	return Word{Text: text.String(), Literal: true, glob: true}, ""
}

// nextChoice selects the next combination of values, like a counter.
func (w *walker) nextChoice() bool {
	for i := range w.choices {
		c := &w.choices[i]
		if c.more {
			c.n++
			for j := range i {
				w.choices[j].n = 1
			}
			return true
		}
	}
	return false
}

// chosen returns the choice for a variable, in the reading of a target.
func (w *walker) chosen(name string) *choice {
	i := slices.IndexFunc(w.choices, func(c choice) bool { return c.name == name })
	if i < 0 {
		i = len(w.choices)
		w.choices = append(w.choices, choice{name: name, n: 1})
	}
	return &w.choices[i]
}

// positional reports whether a parameter is one of the arguments.
func positional(name string) bool {
	return name == "@" || name == "*" || name != "" && name[0] >= '1' && name[0] <= '9'
}

// slashlessTools are programs that print one name or number, never a path.
const slashlessTools = " date basename hostname whoami uname nproc arch wc uuidgen id "

// hasNoSlash reports whether a computed piece is a number or a name without a slash.
func (w *walker) hasNoSlash(show string) bool {
	switch {
	case strings.HasPrefix(show, "$(("), strings.HasPrefix(show, "${#") && !strings.ContainsAny(show[3:], "/:%"):
		return true
	case strings.HasPrefix(show, "$("):
		first, _, _ := strings.Cut(strings.TrimLeft(show[2:len(show)-1], " "), " ")
		return tame(show) && (strings.HasSuffix(show, "| wc -l)") ||
			strings.Contains(slashlessTools, " "+first+" ") && !strings.ContainsAny(strings.Replace(show, "2>/dev/null", "", 1), "/|"))
	}
	name := bareName(show)
	return w.origins[name] == "" &&
		has("$ ? # ! RANDOM SRANDOM UID EUID PPID BASHPID SECONDS LINENO EPOCHSECONDS EPOCHREALTIME HOSTNAME SHLVL", name)
}

// bareName returns the name in $name and ${name}.
func bareName(show string) string {
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(show, "$"), "{"), "}")
}

// usualPlaces are variables of the environment that name a file or directory for output.
const usualPlaces = "TMPDIR TMP TEMP GITHUB_OUTPUT GITHUB_ENV GITHUB_PATH GITHUB_STEP_SUMMARY GITHUB_STATE RUNNER_TEMP GITHUB_WORKSPACE CI_PROJECT_DIR XDG_RUNTIME_DIR CLAUDE_ENV_FILE"

// usualPlace reports whether a computed piece names a temporary file, the working directory or
// another usual place.
func (w *walker) usualPlace(show string) bool {
	for _, known := range []string{"$(mktemp", "$(git rev-parse --show-toplevel", "$(pwd"} {
		if strings.HasPrefix(show, known) && tame(show) && !strings.Contains(show, "|") {
			return true
		}
	}
	name, _, _ := strings.Cut(bareName(show), ":")
	return w.unsure[name] == usualTarget || w.origins[name] == originTemporary || w.origins[name] == "" && has(usualPlaces, name)
}

// calculated records that arithmetic assigns a number to a variable.
func (w *walker) calculated(x syntax.ArithmExpr) {
	if wd, ok := x.(*syntax.Word); ok && wd.Lit() != "" {
		w.mayBe(wd.Lit(), "*")
	}
}

// mayBe records a further value of a variable, for targets. A "*" is text without a slash.
func (w *walker) mayBe(name, value string) {
	has := slices.ContainsFunc(w.maybe, func(v variable) bool { return v.name == name && v.words[0] == value })
	switch {
	case has || len(value) > maxValue:
	case len(w.maybe) >= maxVars:
		w.isUnsure(name, openTarget)
	default:
		w.assigned++
		w.maybe = append(w.maybe, variable{name: name, words: []string{value}})
	}
}

// isUnsure records that a variable may have a value that is not known.
func (w *walker) isUnsure(name, why string) {
	if why == "" || worse(w.unsure[name], why) == w.unsure[name] {
		return
	}
	if w.unsure == nil {
		w.unsure = map[string]string{}
	}
	w.assigned++
	w.unsure[name] = why
}

// values returns the values that the line may give to a variable, the last one first.
func (w *walker) values(name string) (list []variable) {
	for _, v := range slices.Backward(w.vars) {
		if v.name == name {
			list = append(list, v)
		}
	}
	for _, v := range w.maybe {
		if v.name == name {
			list = append(list, v)
		}
	}
	if len(list) > 0 && (w.child || !slices.Contains(w.certain, name)) {
		list = append(list, variable{name: name, words: []string{""}})
	}
	return list
}

// redirected adds the files of redirections to the command.
func (w *walker) redirected(first, reads, writes int) {
	c := &w.s.Commands[first]
	add := func(names []string, use Use) {
		for _, name := range names {
			c.files = append(c.files, File{Path: name, Use: use, Glob: strings.ContainsAny(name, "*?[")})
		}
	}
	add(w.s.Reads[reads:], UseRead)
	add(w.s.Writes[writes:], UseWrite)
}
