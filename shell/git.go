package shell

import "strings"

// Git is a command of git, with its words as git reads them.
type Git struct {
	Global   []Option // before the subcommand
	Sub      Word     // the subcommand; the zero Word = none
	Options  []Option
	Operands []Word // without the subcommand; computed words are here, too
	Paths    int    // number of Operands before "--"; -1 = the command has no "--"
	Open     bool   // a computed word may be any number of options and operands
}

// An Option is an option of a command.
type Option struct {
	Name   string // without dashes; the long name if the table of programs has one
	Value  Word
	Valued bool
}

// Git returns the words of a command of git, and false for another program.
func (c *Command) Git() (Git, bool) {
	if c.key != "git" || c.computed {
		return Git{}, false
	}
	row := lookup("git")
	g := Git{Paths: -1}
	s := scanner{rows: row.path(c.Args), args: c.Args, late: true}
	for s.scan() {
		if s.done && g.Paths < 0 {
			g.Paths = len(g.Operands)
		}
		switch {
		case s.kind == option:
			o := Option{s.fullName(), s.value, s.valued}
			if s.operands == 0 {
				g.Global = append(g.Global, o)
			} else {
				g.Options = append(g.Options, o)
			}
			continue
		case s.word.many() && !s.word.IsBranch():
			g.Open = true
		}
		if s.operands <= 1 && g.Sub.Text == "" {
			g.Sub = s.word
		} else {
			g.Operands = append(g.Operands, s.word)
		}
	}
	if g.Paths < 0 && len(c.Args) > 0 && c.Args[len(c.Args)-1].Text == "--" {
		g.Paths = len(g.Operands)
	}
	return g, true
}

// fullName returns the long name of the current option.
func (s *scanner) fullName() string {
	r := s.row()
	if s.short {
		name, _, _ := strings.Cut(s.names(), "+")
		if name == "" {
			name = s.name
		}
		return name
	}
	if r.complete(s.name) {
		return s.name
	}
	for _, list := range [...]string{r.args, r.attached, r.longs} {
		if long := lengthen(list, s.name); long != "" {
			return long
		}
	}
	for list := r.flags; list != ""; {
		var flag string
		flag, list, _ = strings.Cut(list, " ")
		if _, long, _ := strings.Cut(flag, "="); !strings.Contains(long, "+") && strings.HasPrefix(long, s.name) {
			return long
		}
	}
	return s.name
}

// Has reports whether one of the options has one of the names.
func (g *Git) Has(names ...string) bool {
	_, ok := g.Option(names...)
	return ok
}

// Option returns the value of the last option with one of the names.
func (g *Git) Option(names ...string) (value Word, ok bool) {
	for _, o := range g.Options {
		for _, name := range names {
			if o.Name == name {
				value, ok = o.Value, true
			}
		}
	}
	return value, ok
}

// In returns the directories of the options -C of a program, relative to each other: of git, make and
// some others. known is false if one of them is computed.
func (c *Command) In() (dir string, known bool) {
	row := rowOf(c.key)
	if row == nil || !strings.Contains(row.files, "="+fileDir) {
		return "", true
	}
	known = true
	s := scanner{rows: row.path(c.Args), args: c.Args, late: true}
	for s.scan() {
		if s.kind != option || !s.valued || get(row.files, row.full(s.name, s.short)) != fileDir || s.operands > 0 && c.key == "git" {
			continue
		}
		if dir == "" && inCheckout(s.value) {
			continue
		}
		text, ok := knownText(s.value)
		known = known && ok
		dir = join(dir, text)
	}
	return dir, known
}

// Acts reports whether a command works with files. Commands that only run other commands, change the
// directory of the shell or its variables, or print do not.
func (c *Command) Acts() bool {
	return !c.wraps && !c.again && (len(c.files) > 0 || !has(inactive, c.key))
}

const inactive = "cd chdir pushd popd export unset set shift alias declare typeset local readonly echo printf true false : exit return break continue test [ [["

// IsBranch reports whether a word is the output of a command that prints the current branch.
func (w Word) IsBranch() bool {
	text := w.Text
	if w.c != nil && w.c.origin != "" {
		text = w.c.origin
	}
	return printsBranch(text)
}

// printsBranch reports whether a text is a substitution that prints the current branch.
func printsBranch(text string) bool {
	switch strings.Replace(text, " 2>/dev/null", "", 1) {
	case "$(git branch --show-current)", "$(git rev-parse --abbrev-ref HEAD)", "$(git rev-parse --abbrev-ref @)", "$(git symbolic-ref HEAD)",
		"$(git symbolic-ref --short HEAD)", "$(git symbolic-ref --short -q HEAD)", "$(git symbolic-ref -q --short HEAD)":
		return true
	}
	return false
}

// noRevision reports whether git certainly takes a word for a file and not for a branch or a commit.
func (w Word) noRevision() bool {
	if text, known := knownText(w); known {
		return !mayBeRevision(text)
	}
	begin := w.Begins()
	return inCheckout(w) || strings.HasPrefix(begin, "/") || strings.HasPrefix(begin, "./") || strings.HasPrefix(begin, "../") || strings.HasPrefix(begin, ":")
}

// mayBeRevision reports whether a text may name a commit, as in gitrevisions(7).
func mayBeRevision(text string) bool {
	if a, b, ok := strings.Cut(text, "..."); ok && a != "" && b != "" && !strings.Contains(b, "...") {
		return mayBeRevision(a) && mayBeRevision(b)
	}
	name, suffix := text, ""
	if i := strings.IndexAny(text, "^~:"); i >= 0 {
		name, suffix = text[:i], text[i:]
	}
	name, at, _ := strings.Cut(name, "@{")
	return (mayBeRef(name) || name == "" && at != "") && !strings.Contains(suffix, `\`)
}

// mayBeRef reports whether a reference may have a name, as in git-check-ref-format(1).
func mayBeRef(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return !strings.Contains(name, "..") && !strings.HasSuffix(name, ".") &&
		!strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`?*[\`, r) })
}

// Begins returns the known beginning of a word.
func (w Word) Begins() string {
	if w.c != nil {
		return w.c.head
	}
	return w.Text
}

// Ends returns the known end of a word.
func (w Word) Ends() string {
	if w.c == nil {
		return w.Text
	}
	return w.c.code[strings.LastIndexByte(w.c.code, hole)+1:]
}

// Path returns the text of a word, with ~ for the home directory, and whether it is known.
func (w Word) Path() (string, bool) { return knownText(w) }
