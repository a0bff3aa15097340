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
				word := w.word(at, item)
				w.assigns(name, originOf(word))
				if word.Literal && word.glob {
					w.keepList(name, word.Text)
				}
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
		all := w.listOf(item, at)
		switch {
		case all != "" && taints:
			w.set(name, false, all)
			w.keepList(name, all)
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
				w.keepList(name, all)
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

// Quote quotes a word for a POSIX shell.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// QuoteWord returns s as one word that a POSIX shell and a command pattern read as s, with quotes only if it
// needs them.
func QuoteWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_") == "" {
		return s
	}
	return Quote(s)
}
