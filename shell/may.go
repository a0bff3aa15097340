package shell

import (
	"slices"
	"strings"
)

// Begin is how every command that the pattern matches begins, for [Script.May]: the
// program, which may be a glob, and the first word of the subcommand, if there is one.
func (p *Pattern) Begin() string {
	switch {
	case strings.IndexByte(p.program.text, ' ') >= 0:
		return "*"
	case p.program.glob:
		return p.program.text
	case p.inner == nil && len(p.lead) > 0 && !p.lead[0].glob && strings.IndexByte(p.lead[0].text, ' ') < 0:
		return p.key + " " + p.lead[0].text
	}
	return p.key
}

// May reports whether a pattern that begins like that may match a command of the script.
// It is false only if that is certain.
func (s *Script) May(begin string) bool {
	name, word, _ := strings.Cut(begin, " ")
	program := term{text: name, glob: strings.ContainsAny(name, `*?[\`)}
	for i := range s.Commands {
		c := &s.Commands[i]
		if c.computed {
			return true
		}
		if (program.match(c.key) || program.match(foldCase(c.Path))) && (word == "" || c.may(word)) {
			return true
		}
	}
	return false
}

// Begins joins what patterns begin with, for [Script.MayAny].
func Begins(begins []string) string {
	var globs, plain []string
	for _, b := range begins {
		switch {
		case slices.Contains(globs, b) || slices.Contains(plain, b):
		case strings.ContainsAny(b, "*?[\\/\n") || b == "":
			globs = append(globs, b)
		default:
			plain = append(plain, b)
		}
	}
	if len(globs)+len(plain) == 0 {
		return ""
	}
	return strings.Join(globs, "\n") + "\x00\n" + strings.Join(plain, "\n") + "\n"
}

// MayAny is May of several at once, as Begins joined them.
func (s *Script) MayAny(begins string) bool {
	globs, plain, _ := strings.Cut(begins, "\x00")
	for globs != "" {
		var begin string
		if begin, globs, _ = strings.Cut(globs, "\n"); s.May(begin) {
			return true
		}
	}
	if len(plain) < 3 { // two newlines
		return false
	}
	for i := range s.Commands {
		c := &s.Commands[i]
		if c.computed {
			return true
		}
		name, before := "\n"+c.key, c.key != ""
		for rest := plain; before; {
			at := strings.Index(rest, name)
			if at < 0 {
				break
			}
			rest = rest[at+len(name):]
			if rest[0] == '\n' {
				return true
			}
			if rest[0] != ' ' {
				continue
			}
			word, _, _ := strings.Cut(rest[1:], "\n")
			if c.may(word) {
				return true
			}
		}
	}
	return false
}

// may reports whether the first word of a subcommand may be among the arguments.
func (c *Command) may(word string) bool {
	sub := term{text: word, clean: shortest(word)}
	row := lookup(c.key)
	if row == nil {
		row = anyProgram
	}
	for _, a := range c.Args {
		if !a.Literal || sub.match(row.canonical(a.Text)) || sub.match(a.Text) {
			return true
		}
	}
	return false
}

// MayMatch reports whether a pattern that is not compiled yet may match a command of the
// script. It is false only if that is certain, and sees that only in plain patterns.
func (s *Script) MayMatch(pattern string) bool {
	program, rest, _ := strings.Cut(pattern, " ")
	for i := range len(program) {
		if c := program[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return true
		}
	}
	if program == "" {
		return true
	}
	part, sub := "", ""
	switch row := lookup(program); {
	case row == nil || row.wraps():
	case row.style&flat != 0:
		part = lastPart(rest)
	default:
		if sub, _, _ = strings.Cut(rest, " "); plainWord(sub) {
			sub = row.canonical(sub)
		} else {
			sub = ""
		}
	}
	for i := range s.Commands {
		c := &s.Commands[i]
		if c.computed {
			return true
		}
		if c.key == program && (sub == "" || c.may(sub)) && c.holds(part) {
			return true
		}
	}
	return false
}

func plainWord(word string) bool {
	for i := range len(word) {
		if !letter(word[i]) && (word[i] != '-' || i == 0) {
			return false
		}
	}
	return word != ""
}

// lastPart is a piece of the last word of a pattern that stands in every word that it
// matches, "" = none is known.
func lastPart(words string) string {
	word := words[strings.LastIndexByte(words, ' ')+1:]
	if strings.HasPrefix(word, "-") || strings.ContainsAny(word, "'\"\\$`{}~=+") {
		return ""
	}
	best := ""
	for i := 0; i < len(word); i++ {
		switch word[i] {
		case '[':
			if end := strings.IndexByte(word[i:], ']'); end > 0 {
				i += end
			} else {
				return ""
			}
		case '*', '?', '/':
		default:
			start := i
			for i+1 < len(word) && strings.IndexByte("[*?/", word[i+1]) < 0 {
				i++
			}
			if part := word[start : i+1]; len(part) > len(best) {
				best = part
			}
		}
	}
	if len(best) < 3 {
		return ""
	}
	return best
}

// holds reports whether a piece of text may stand in one of the arguments.
func (c *Command) holds(part string) bool {
	if part == "" {
		return true
	}
	for _, a := range c.Args {
		if !a.Literal || strings.Contains(a.Text, part) {
			return true
		}
	}
	return false
}
