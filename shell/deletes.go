package shell

import (
	"cmp"
	"slices"
	"strings"
)

// A Deletion is one thing that a command deletes: a directory with its content, or the files that
// wildcards match.
type Deletion struct {
	Text  string   // the word, as written; a variable that the line assigns is replaced by its origin
	Path  string   // like File.Path; empty = not known
	Glob  bool     // Path has wildcards
	Tree  bool     // directories with all of their content, too
	Names []string // globs: only the entries below Path with such a name, in all directories
	Spare string   // the directory whose names stay: rsync --delete Spare/ Path
	Away  bool     // on another machine, or in a container
}

// Deleters are the programs that have deletions.
func Deleters() []string {
	return []string{"rm", "srm", "unlink", "rimraf", "rd", "rmdir", "del", "find", "fd", "fdfind", "rsync", "robocopy"}
}

// Deletes lists the deletions by a command, except for files that it names.
func (c *Command) Deletes() (list []Deletion) {
	if c.help {
		return nil
	}
	switch c.key {
	case "rm", "srm", "unlink":
		list = c.removes()
	case "rimraf":
		for _, word := range c.Args {
			if !strings.HasPrefix(word.Text, "-") {
				word.glob = word.glob || strings.ContainsAny(word.Text, "*?[")
				list = append(list, c.deletion(word, true))
			}
		}
	case "rd", "rmdir", "del": // of cmd.exe, in a line of another shell
		if slices.ContainsFunc(c.Args, func(w Word) bool { return strings.EqualFold(w.Text, "/s") }) {
			for _, word := range c.Args {
				if !strings.HasPrefix(word.Text, "/") {
					list = append(list, c.deletion(word, true))
				}
			}
		}
	case "find":
		list = c.finds()
	case "fd", "fdfind":
		list = c.searches()
	case "rsync":
		list = c.mirrors()
	case "robocopy":
		list = c.mirrorsOfWindows()
	}
	away := slices.ContainsFunc(c.Via, isAway)
	for i := range list {
		list[i].Away = away
		if c.Lost && strings.IndexByte("/~", (list[i].Path + " ")[0]) < 0 {
			list[i].Path = ""
		}
	}
	return list
}

// deletion returns the deletion of a word.
func (c *Command) deletion(w Word, tree bool) Deletion {
	d := Deletion{Text: w.Text, Glob: w.glob, Tree: tree}
	text, known := knownText(w)
	if w.c != nil {
		d.Text = cmp.Or(w.c.origin, w.Text)
		switch {
		case known:
		case w.c.glob != "":
			return c.listed(w.c.glob, tree)
		case d.Text != "" && !strings.ContainsAny(d.Text, "$`") && w.c.origin != "":
			text, known = d.Text, true
		}
	}
	if known && text != "" {
		d.Path = join(c.Dir, text)
	}
	return d
}

// listed returns the deletion of the entries that a command listed; see found.
func (c *Command) listed(glob string, tree bool) Deletion {
	start, name, _ := strings.Cut(glob, "/*/")
	if name != "" && !strings.Contains(name, "/") {
		return Deletion{Text: glob, Path: join(c.Dir, cmp.Or(start, "/")), Tree: tree, Names: []string{name}}
	}
	return Deletion{Text: glob, Path: join(c.Dir, glob), Glob: true, Tree: tree}
}

// removes lists the deletions of rm: the operands with -r, and the ones with wildcards.
func (c *Command) removes() (list []Deletion) {
	row := lookup("rm")
	tree, help, operands := false, false, []Word(nil)
	for s := (scanner{rows: []*program{row}, args: c.Args, late: true}); s.scan(); {
		switch name := row.full(s.name, s.short); {
		case s.kind == option:
			tree, help = tree || has("r R recursive", name), help || name == "help"
		default:
			operands = append(operands, s.word)
		}
	}
	if operands == nil && tree && !help && !slices.ContainsFunc(c.Via, isAway) { // in PowerShell, its operands come through a pipe
		return []Deletion{{Tree: true}}
	}
	for _, word := range operands {
		if len(c.Via) > 0 && strings.HasPrefix(c.Via[len(c.Via)-1], "find ") && strings.Contains(word.Text, "{}") {
			continue // the deletion is one of find
		}
		if d := c.deletion(word, tree); tree || d.Glob || d.Names != nil {
			list = append(list, d)
		}
	}
	return list
}

// finds lists the deletions of a find with -delete, or with -exec and rm. A find with tests that it does
// not know has none.
func (c *Command) finds() (list []Deletion) {
	args := c.Args
	for len(args) > 0 && has("-H -L -P", args[0].Text) {
		args = args[1:]
	}
	var starts []Word
	for len(args) > 0 && (args[0].Text == "" || strings.IndexByte("-(!", args[0].Text[0]) < 0) {
		starts, args = append(starts, args[0]), args[1:]
	}
	var names []string
	deletes, tree := false, false
	for i := 0; i < len(args); i++ {
		switch word := strings.TrimPrefix(args[i].Text, "-"); {
		case word == "delete":
			deletes = true
		case has("exec execdir ok okdir", word):
			i++
			deletes = deletes || i < len(args) && has("rm srm rimraf unlink shred", programName(args[i].Text))
			for ; i < len(args) && args[i].Text != ";" && args[i].Text != "+"; i++ {
				tree = tree || strings.HasPrefix(args[i].Text, "-") && strings.ContainsAny(args[i].Text, "rR") || args[i].Text == "rimraf"
			}
		case has("! not", word) && i+2 < len(args) && has("-name -iname -path -ipath -wholename -regex -type", args[i+1].Text):
			i += 2 // all others
		case has("name iname", word) && i+1 < len(args):
			if i++; strings.Trim(args[i].Text, "*?") != "" {
				names = append(names, args[i].Text)
			}
		case has("type maxdepth mindepth", word):
			i++
		case has("path ipath", word) && i+2 < len(args) && args[i+2].Text == "-prune":
			i += 2
		case has("mtime mmin ctime cmin atime amin newer empty size xtype samefile inum regex iregex path ipath wholename", word):
			return nil // a few files, which a person chose
		}
	}
	if !deletes {
		return nil
	}
	if starts == nil {
		starts = []Word{{Text: ".", Literal: true}}
	}
	for _, start := range starts {
		d := c.deletion(start, tree || names == nil)
		d.Names = names
		list = append(list, d)
	}
	return list
}

// searches lists the deletions of fd with -x or -X and rm. Options other than the ones that are read here
// choose a few files.
func (c *Command) searches() (list []Deletion) {
	var names, operands []string
	deletes, tree := false, false
	for i := 0; i < len(c.Args) && !deletes; i++ {
		switch word := c.Args[i].Text; {
		case has("-e --extension", word) && i+1 < len(c.Args):
			i++
			names = append(names, "*."+c.Args[i].Text)
		case has("-t --type", word):
			i++
		case has("-x -X --exec --exec-batch", word) && i+1 < len(c.Args):
			if !has("rm unlink rimraf shred", programName(c.Args[i+1].Text)) {
				return nil
			}
			deletes = true
			tree = slices.ContainsFunc(c.Args[i+1:], func(w Word) bool { return strings.HasPrefix(w.Text, "-") && strings.ContainsAny(w.Text, "rR") })
		case has("-H -I -u -0 --hidden --no-ignore --print0 --", word):
		case strings.HasPrefix(word, "-"):
			return nil
		default:
			operands = append(operands, word)
		}
	}
	if !deletes {
		return nil
	}
	if len(operands) > 0 && strings.Trim(operands[0], ".*^$") != "" {
		names = append(names, "*"+operands[0]+"*")
	}
	if operands = operands[min(1, len(operands)):]; operands == nil {
		operands = []string{"."}
	}
	for _, dir := range operands {
		d := c.deletion(Word{Text: dir, Literal: true}, tree || names == nil)
		d.Names = names
		list = append(list, d)
	}
	return list
}

// mirrors lists the deletions of rsync --delete.
func (c *Command) mirrors() []Deletion {
	row := lookup("rsync")
	deletes, operands := false, []Word(nil)
	for s := (scanner{rows: []*program{row}, args: c.Args, late: true}); s.scan(); {
		switch {
		case s.kind != option:
			operands = append(operands, s.word)
		case has("n dry-run", s.name):
			return nil
		default:
			deletes = deletes || s.name == "del" || strings.HasPrefix(s.name, "delete")
		}
	}
	if !deletes || len(operands) != 2 || remote(operands[1].Text) {
		return nil
	}
	d, from := c.deletion(operands[1], true), c.deletion(operands[0], true)
	if d.Spare = from.Path; d.Spare == "" && !strings.HasPrefix(from.Text, originTemporary[:len(originTemporary)-1]) {
		return nil
	}
	return []Deletion{d}
}

// mirrorsOfWindows lists the deletions of robocopy /MIR.
func (c *Command) mirrorsOfWindows() []Deletion {
	option := func(names string) bool {
		return slices.ContainsFunc(c.Args, func(w Word) bool { return has(names, foldCase(w.Text)) })
	}
	if len(c.Args) < 3 || !option("/mir /purge") || option("/l") {
		return nil
	}
	d, from := c.deletion(c.Args[1], true), c.deletion(c.Args[0], true)
	d.Spare = from.Path
	return []Deletion{d}
}
