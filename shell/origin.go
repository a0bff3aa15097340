package shell

import (
	"path"
	"slices"
	"strings"
)

// The name of a variable or directory does not show its value. If the line shows where a value
// or a directory comes from, patterns see that:
//
//	x=$(mktemp -d); rm -rf "$x"      # "rm -rf $(mktemp)"
//	x=$(pwd)/build; rm -rf "$x"      # "rm -rf ./build"
//	tmp=$(realpath ~); rm -rf "$tmp" # "rm -rf $(assigned)", not "rm -rf $tmp"
//	mv src dist && rm -rf dist       # also "rm -rf src"

// The texts that patterns see for a variable that the line assigns, unless its only value is known.
const (
	originTemporary = "$(mktemp)"
	originAssigned  = "$(assigned)"
)

// assigns records the origin of a value that the line gives to a variable.
func (w *walker) assigns(name, origin string) {
	if w.origins == nil {
		w.origins = map[string]string{}
	}
	if old := w.origins[name]; old != "" && old != origin {
		origin = originAssigned
	}
	if len(w.origins) < maxVars || w.origins[name] != "" {
		w.origins[name] = origin
	}
}

// originOf returns the origin of the value of an assignment.
func originOf(value Word) string {
	text := value.Text
	if value.c != nil && value.c.origin != "" {
		text = value.c.origin
	}
	below := func(prefix string) bool { return strings.HasPrefix(text, prefix) && !strings.Contains(text, "..") }
	if below("$(mktemp") && !strings.ContainsAny(text, ";|&") || below("$TMPDIR/") || below("${TMPDIR:-/tmp}/") || below("$RUNNER_TEMP/") ||
		value.Literal && (below("/tmp/") || below("/var/tmp/") || below("/private/tmp/")) {
		return originTemporary
	}
	if printsBranch(text) || text == topDirectory {
		return text
	}
	if path, ok := knownText(value); ok && path != "" && !strings.ContainsAny(path, " \t\n*?[$`") {
		return path
	}
	return originAssigned
}

// replaced returns the text of a word with the origins of its variables in place of their names,
// or "" if the line assigns none of them.
func (f *folded) replaced(text string) string {
	if len(f.origins) == 0 {
		return ""
	}
	return strings.NewReplacer(f.origins...).Replace(text)
}

// A moved directory or link: its content was at another place.
type moved struct {
	to   string // clean path; the known beginning if the path is computed
	open bool   // to is only a beginning
	from Word
	at   string // clean path of from; empty = not known
}

// maxMoved is the maximum number of moves that are remembered.
const maxMoved = 512

// moves records "mv a b", "ln -s a b" and "mount --bind a b".
func (w *walker) moves(args []Word) {
	var operands []Word
	into := ""
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a.Literal && (a.Text == "-t" || a.Text == "--target-directory") && i+1 < len(args):
			i++
			into = args[i].Text
		case a.Literal && strings.HasPrefix(a.Text, "-") && a.Text != "-":
		default:
			operands = append(operands, a)
		}
	}
	if into == "" {
		if len(operands) < 2 {
			return
		}
		last := operands[len(operands)-1]
		operands = operands[:len(operands)-1]
		if !last.Literal {
			if last.c.head != "" && last.c.head != "/" {
				w.move(moved{to: join(w.dir, last.c.head), open: true, from: operands[0]})
			}
			return
		}
		into = last.Text
		if len(operands) == 1 {
			w.move(moved{to: w.writtenKey(into), from: operands[0], at: w.placeOf(operands[0])})
		}
	}
	for _, a := range operands {
		w.move(moved{to: w.writtenKey(into + "/" + path.Base(a.Text)), from: a, at: w.placeOf(a)})
	}
}

func (w *walker) move(m moved) {
	switch {
	case !m.from.Literal && m.from.Text == "":
	case len(w.moved)-w.before >= maxMoved:
		w.limited("unparsable: too many moved files")
	default:
		w.moved = append(w.moved, m)
	}
}

// deletesMoved reads a command that deletes files again, with the former paths of directories that
// the line moved or linked.
func (w *walker) deletesMoved(words []Word, at place) {
	if len(w.moved) == 0 || !w.again() {
		return
	}
	again := slices.Clone(words)
	for i, a := range again {
		text, ok := knownText(a)
		if i == 0 || !ok || strings.HasPrefix(text, "-") {
			continue
		}
		for _, m := range slices.Backward(w.moved) { // what was moved twice has its first name
			if ok && m.touches(w, text) {
				again[i] = m.from
				text, ok = knownText(m.from)
			}
		}
	}
	if slices.EqualFunc(again, words, func(a, b Word) bool { return a.Text == b.Text }) {
		return
	}
	before := w.moved
	w.moved = nil
	w.command(again, at)
	w.moved = before
}

// touches reports whether a path that is deleted is the new place, above it or below it.
func (m *moved) touches(w *walker, text string) bool {
	fixed := text
	if i := strings.IndexAny(fixed, "*?["); i >= 0 {
		fixed = fixed[:i]
		return strings.HasPrefix(m.to, path.Clean(join(w.dir, fixed))) || m.open && strings.HasPrefix(m.to, join(w.dir, fixed))
	}
	key := w.writtenKey(fixed)
	return key == m.to || strings.HasPrefix(m.to, key+"/") || !m.open && strings.HasPrefix(key, m.to+"/") || m.open && strings.HasPrefix(key, m.to)
}
