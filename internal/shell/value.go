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

func (w *walker) set(name string, array bool, words ...string) {
	if w.branches == 0 {
		w.certain = append(w.certain, name)
	}
	size := 0
	for _, word := range words {
		size += len(word)
	}
	if len(w.vars) >= maxVars {
		w.limited("unparsable: too many variables")
		w.isUnsure(name, openTarget)
	} else if size <= maxValue {
		w.assigned++
		w.vars = append(w.vars, variable{name, words, array})
	} else {
		w.isUnsure(name, openTarget)
	}
}

// currentValue returns the value of a variable in the current reading: the last assignment in
// the first reading, the one before it in the next.
func (w *walker) currentValue(name string) (variable, bool) {
	if w.choosing {
		c := w.chosen(name)
		if list := w.values(name); len(list) > 0 {
			c.more = c.n < len(list)
			return list[min(c.n, len(list))-1], true
		}
	}
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
		if w.choosing { // targets are joined to the directory
			return variable{words: []string{"."}}, true
		}
		return variable{words: []string{w.here()}}, true
	case "SHELL", "BASH":
		return variable{words: []string{"bash"}}, true
	case "0":
		if w.zero != nil {
			return variable{words: []string{w.zero.Text}}, w.zero.Literal
		}
		return variable{words: []string{"sh"}}, true
	}
	if !positional(name) {
		return variable{}, false
	}
	w.readsArgs = true
	if w.argsOpen || w.declares != nil {
		return variable{}, false
	}
	switch name {
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
			texts, ok := w.allWords(e.Value, at)
			if !ok {
				w.tainted(a.Name.Value)
				w.isUnsure(a.Name.Value, openTarget)
				return
			}
			words = append(words, texts...)
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
	w.rememberValues(a, at, text, ok)
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

// allWords returns the words that an element of a list becomes with the known values.
func (w *walker) allWords(wd *syntax.Word, at *place) ([]string, bool) {
	subst, used := w.subst, w.used
	w.subst = max(1, subst)
	texts, ok := literals(w.words(at, wd, nil))
	w.subst, w.used = subst, used
	return texts, ok
}

// rememberValues records, for targets, all values that an assignment may give to a variable.
func (w *walker) rememberValues(a *syntax.Assign, at *place, text string, ok bool) {
	name := a.Name.Value
	if a.Append && len(w.values(name)) != 1 {
		w.isUnsure(name, openTarget)
	}
	if _, literal := plain(a.Value); literal {
		return
	}
	before := w.readsArgs
	w.readsArgs = false
	list, why := w.targets(at, a.Value)
	switch args := w.readsArgs; {
	case args && w.declares != nil:
		w.declares.opens = true // a call gives it its value
		why = ""
	case args && (w.shifted || w.loops > 0):
		why = openTarget
	}
	w.readsArgs = before
	for _, value := range list {
		if !ok || value.Text != text {
			w.mayBe(name, value.Text)
		}
	}
	w.isUnsure(name, why)
}

// looped records the values of a for loop's variable. Only targets see the ones after the first
// maxValues.
func (w *walker) looped(l *syntax.WordIter, at *place) {
	if l.Name == nil {
		return
	}
	name, values, slash := l.Name.Value, w.args, false
	if l.InPos.IsValid() {
		values = nil
		for i, item := range l.Items {
			if i < maxValues {
				w.assigns(name, originOf(w.word(at, item)))
			}
			values = append(values, w.loopedItem(name, item, i < maxValues, at)...)
		}
	} else if w.declares != nil { // for x; do
		w.declares.opens = true
	} else if w.argsOpen || w.shifted {
		w.isUnsure(name, openTarget)
	}
	for _, text := range values {
		slash = slash || strings.Contains(text, "/") || strings.HasPrefix(text, ".")
	}
	for i, text := range values {
		switch {
		case i < maxValues:
			w.set(name, false, text)
			w.certain = append(w.certain, name)
		case len(values) <= maxChoices:
			w.mayBe(name, text)
		case slash:
			w.isUnsure(name, openTarget)
			return
		default:
			w.mayBe(name, "*")
			return
		}
	}
}

// loopedItem returns the values of an item of a for loop: one for a plain word, several for "$@" and
// {1..9}. taints reports an unknown one to the readings of commands, too.
func (w *walker) loopedItem(name string, item *syntax.Word, taints bool, at *place) (values []string) {
	subst, used, older, args := w.subst, w.used, w.older, w.readsArgs
	w.subst, w.older, w.readsArgs = max(1, subst), false, false
	for _, word := range w.words(at, item, nil) {
		text, known := knownText(word)
		if known {
			values = append(values, text)
			continue
		}
		if taints {
			w.tainted(name)
		}
		all := w.lists(item, at)
		switch {
		case all != "" && taints:
			w.set(name, false, all)
			w.isUnsure(name, usualTarget) // files below a known directory
		case w.readsArgs && w.declares != nil:
			w.declares.opens = true
		case strings.HasPrefix(word.Text, "$(seq "), strings.HasPrefix(word.Text, "{") && strings.Trim(word.Text, "{}.-0123456789") == "":
			w.mayBe(name, "*")
		default:
			w.isUnsure(name, openTarget)
		}
	}
	if w.older {
		w.isUnsure(name, openTarget)
	}
	w.subst, w.used, w.older, w.readsArgs = subst, used, older, args
	return values
}

// withArgs sets the positional parameters, and returns a function that sets them back.
func (w *walker) withArgs(words []Word) (back func()) {
	args, open, zero, shifted := w.args, w.argsOpen, w.zero, w.shifted
	texts, ok := literals(words)
	w.args, w.argsOpen, w.zero, w.shifted = texts, !ok, nil, false
	return func() { w.args, w.argsOpen, w.zero, w.shifted = args, open, zero, shifted }
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
			w.argsOpen = true
			w.assigned++
			return
		}
		list = append(list, a.Text)
	}
	if len(list) > 0 {
		w.args, w.argsOpen, w.shifted = list, false, w.loops > 0
		w.assigned++
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
	w.readsInto(name, args)
	switch {
	case !ok || name == "mapfile" || name == "readarray" || name == "getopts":
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

// readsInto records, for targets, that a command gives unknown values to the variables that it
// names.
func (w *walker) readsInto(command string, args []Word) {
	if command == "printf" && (len(args) < 3 || args[0].Text != "-v" || !slices.ContainsFunc(args[2:], func(a Word) bool { return !a.Literal })) {
		return
	}
	for _, name := range []string{"REPLY", "MAPFILE", "OPTARG", "OPTIND"} {
		w.isUnsure(name, openTarget)
	}
	for i, a := range args {
		switch {
		case a.Literal:
			w.isUnsure(a.Text, openTarget)
		case command != "printf" || i == 1:
			w.indirect = true
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
				w.dir, w.lost = "", true
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
		w.dir, w.lost = "", true
		return
	}
	w.lost = w.lost && join("x", to) != to
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
// tells whether its body was read with values for them.
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
	if !known || w.choosing && ok && cutsUnknown(p, words) {
		return nil, false
	}
	if p.Exp != nil {
		words, ok = w.operated(p, at, words, ok)
	}
	if !ok {
		return nil, false
	}
	if w.foreignList(p, words) {
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

// foreignList reports whether a parameter is a list that the shell joins with another byte than a
// blank, or of which it takes a part.
func (w *walker) foreignList(p *syntax.ParamExp, words []string) bool {
	which := indexText(p)
	if which == "" {
		which = p.Param.Value
	}
	joined := which == "*" && len(words) > 1 && len(w.values("IFS")) > 0
	return joined || (which == "@" || which == "*") && (p.Slice != nil || p.Repl != nil && len(words) > 1)
}

// cutsUnknown reports whether an expansion changes text with a "*" in it, which may be anything, so
// that the result is not known.
func cutsUnknown(p *syntax.ParamExp, words []string) bool {
	if !slices.ContainsFunc(words, func(s string) bool { return strings.Contains(s, "*") }) {
		return false
	}
	if p.Exp == nil {
		return p.Slice != nil || p.Repl != nil
	}
	switch p.Exp.Op {
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull, syntax.ErrorUnset, syntax.ErrorUnsetOrNull,
		syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		return false
	}
	pattern := ""
	if p.Exp.Word != nil {
		pattern = p.Exp.Word.Lit()
	}
	switch {
	case pattern == "" || len(words) != 1:
		return true
	case p.Exp.Op == syntax.RemSmallPrefix || p.Exp.Op == syntax.RemLargePrefix:
		return pattern != "*/"
	case p.Exp.Op == syntax.RemSmallSuffix || p.Exp.Op == syntax.RemLargeSuffix:
		return pattern != "/*" && (strings.ContainsAny(pattern, "*?[") || !strings.HasSuffix(words[0], pattern))
	}
	return true
}

// indexText returns the index in ${x[index]}, or "".
func indexText(p *syntax.ParamExp) string {
	if wd, ok := p.Index.(*syntax.Word); ok {
		return wd.Lit()
	}
	return ""
}

// elements returns the words that an index selects: ${x[1]}, ${x[@]}, $x.
func elements(p *syntax.ParamExp, v variable) ([]string, bool) {
	if p.Index == nil {
		if v.array && !has("@ *", p.Param.Value) && len(v.words) > 0 {
			return v.words[:1], true
		}
		return v.words, true
	}
	text := indexText(p)
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
		if w.choosing && !positional(p.Param.Value) {
			w.mayBe(p.Param.Value, operand) // perhaps the line sets it only under a condition
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
