package shell

import "strings"

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
	program, sub := term{text: name, glob: strings.ContainsAny(name, `*?[\`)}, term{text: word, clean: shortest(word)}
	for i := range s.Commands {
		c := &s.Commands[i]
		if c.computed {
			return true
		}
		if !program.match(c.key) && !program.match(foldCase(c.Path)) {
			continue
		}
		if word == "" {
			return true
		}
		row := lookup(c.key)
		if row == nil {
			row = anyProgram
		}
		for _, a := range c.Args {
			if !a.Literal || sub.match(row.canonical(a.Text)) || sub.match(a.Text) {
				return true
			}
		}
	}
	return false
}
