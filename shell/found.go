package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// found returns a glob for the paths that find inserts for {}: "src/*/node_modules" for "find src
// -name node_modules". It returns "" if the glob is not known: with several directories, with
// tests joined by -o, or with tests that a glob cannot express.
func found(args []Word) string {
	start, name := "", ""
	tests := args
	for len(tests) > 0 && tests[0].Literal && has("-H -L -P", tests[0].Text) {
		tests = tests[1:]
	}
	switch {
	case len(tests) == 0 || strings.HasPrefix(tests[0].Text, "-"):
		start = "."
	case tests[0].Text == "" || strings.IndexByte("(!", tests[0].Text[0]) >= 0 || !tests[0].Literal:
		return ""
	default:
		start, tests = strings.TrimRight(tests[0].Text, "/"), tests[1:]
	}
	narrow := false
	for i := 0; i < len(tests); i++ {
		test := tests[i]
		if !test.Literal || test.Text == "" {
			return ""
		}
		switch word := strings.TrimPrefix(test.Text, "-"); {
		case has("! not", word) && i+2 < len(tests) && has("-name -iname -path -wholename -regex -type", tests[i+1].Text):
			i += 2 // everything except those names
		case has("depth prune print print0 xdev mount follow daystart noleaf", word):
		case has("type maxdepth mindepth", word):
			i++
		case has("name iname", word) && i+1 < len(tests) && tests[i+1].Literal && name == "":
			i++
			name = tests[i].Text
		case has("mtime mmin ctime cmin atime amin newer size user group perm links", word):
			narrow = true
			i++
		case has("empty readable writable executable nouser nogroup", word):
			narrow = true
		default:
			return ""
		}
	}
	switch {
	case strings.Trim(name, "*?") != "":
		return start + "/*/" + name
	case narrow:
		return ""
	}
	return start + "/*"
}

// listed returns a glob for the output of a find before a pipe, like found, or "".
func (w *walker) listed(at *place) string {
	if at.from == nil {
		return ""
	}
	for _, r := range at.stdin {
		switch r.Op {
		case syntax.RdrIn, syntax.RdrInOut, syntax.DplIn, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
			return ""
		}
	}
	return w.listing(at.from, at)
}

// listOf returns a glob for a word that is a command substitution with a list of files, such as
// $(ls src), or "".
func (w *walker) listOf(wd *syntax.Word, at *place) string {
	if len(wd.Parts) != 1 {
		return ""
	}
	if c, ok := wd.Parts[0].(*syntax.CmdSubst); ok && len(c.Stmts) == 1 {
		return w.listing(c.Stmts[0], at)
	}
	return ""
}

// listing returns a glob that matches every file that a command lists, as in "find . -name '*.go'".
// It returns "" if it does not know the command or some of its words.
func (w *walker) listing(st *syntax.Stmt, at *place) string {
	c, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || len(c.Args) == 0 || len(c.Assigns) > 0 {
		return ""
	}
	var words []Word
	for _, a := range c.Args {
		words = w.words(at, a, words)
	}
	if len(words) == 0 || !words[0].Literal {
		return ""
	}
	switch args := words[1:]; words[0].Text {
	case "find":
		return found(args)
	case "ls":
		dir := ""
		for _, a := range args {
			switch {
			case !a.Literal || a.glob || dir != "":
				return ""
			case !strings.HasPrefix(a.Text, "-"):
				dir = strings.TrimRight(a.Text, "/") + "/"
			case strings.ContainsAny(a.Text, "d"):
				return ""
			}
		}
		return dir + "*"
	case "git":
		return trackedFiles(args)
	case "rg", "fd", "fdfind":
		return searchedFiles(words[0].Text, args)
	}
	return ""
}

// trackedFiles returns a glob for the files that "git ls-files" lists, like listing.
func trackedFiles(args []Word) string {
	texts, ok := literals(args)
	if !ok || len(texts) == 0 || texts[0] != "ls-files" ||
		slices.ContainsFunc(texts, func(s string) bool { return has("-o --others -i --ignored -d --deleted", s) }) {
		return ""
	}
	return below(operandsOf(texts[1:]), "*")
}

// searchedFiles returns a glob for the files that "rg --files" or fd lists, like listing.
func searchedFiles(program string, args []Word) string {
	texts, ok := literals(args)
	if !ok || slices.ContainsFunc(texts, func(s string) bool {
		return strings.HasPrefix(s, "-g") || strings.HasPrefix(s, "-x") || strings.HasPrefix(s, "-e")
	}) {
		return ""
	}
	paths := operandsOf(texts)
	switch {
	case program == "rg" && !slices.Contains(texts, "--files"):
		return ""
	case program != "rg" && len(paths) > 0: // the first operand of fd is a pattern
		if paths[0] != "." {
			return ""
		}
		paths = paths[1:]
	}
	return below(paths, "./*")
}

// below returns a glob for all files below a directory: here if there is no path, "" if there are
// several.
func below(paths []string, here string) string {
	switch len(paths) {
	case 0:
		return here
	case 1:
		return strings.TrimRight(paths[0], "/") + "/*"
	}
	return ""
}

// operandsOf returns the words that are not options.
func operandsOf(words []string) (operands []string) {
	for _, word := range words {
		if !strings.HasPrefix(word, "-") {
			operands = append(operands, word)
		}
	}
	return operands
}

// A listed is a variable that a loop gives one file after the other.
type listed struct {
	glob     string // like found
	branches int    // conditions around the loop
}

// keepList records the files of a loop's variable.
func (w *walker) keepList(name, glob string) {
	if w.lists == nil {
		w.lists = map[string]listed{}
	}
	if len(w.lists) < maxVars {
		w.lists[name] = listed{glob, w.branches}
	}
}

// listedBy returns the files that a word of one variable may be, or "". Under a condition of the loop these
// are only some.
func (w *walker) listedBy(wd *syntax.Word) string {
	parts := wd.Parts
	if quoted, ok := parts[0].(*syntax.DblQuoted); ok && len(parts) == 1 {
		parts = quoted.Parts
	}
	if len(parts) != 1 {
		return ""
	}
	if p, ok := parts[0].(*syntax.ParamExp); ok && p.Param != nil && p.Exp == nil && p.Slice == nil && p.Repl == nil && !p.Length && !p.Excl {
		if list := w.lists[p.Param.Value]; list.branches == w.branches {
			return list.glob
		}
	}
	return ""
}
