package shell

import (
	"slices"
	"strings"
)

// Begin is how every command that the pattern matches begins, for [Begins]: the
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

// Begins is an index of many lists of patterns by what they begin with: of a hundred lists
// a script needs to be compared with those only that are about its programs. It has a line
// for each beginning, plain ones sorted, with a byte for each list behind a tab. Globs
// come first. There can be MaxLists of them.
func Begins(lists [][]*Pattern) string {
	var begins []string
	of := map[string]string{}
	for i, patterns := range lists {
		letter := string([]byte{firstList + byte(i)})
		for _, p := range patterns {
			begin := p.Begin()
			if strings.ContainsAny(begin, "\t\n"+endGlobs) {
				begin = "*"
			}
			if _, known := of[begin]; !known {
				begins = append(begins, begin)
			}
			if !strings.HasSuffix(of[begin], letter) {
				of[begin] += letter
			}
		}
	}
	slices.Sort(begins)
	var globs, plain strings.Builder
	for _, begin := range begins {
		b := &plain
		if isGlob(begin) {
			b = &globs
		}
		b.WriteString(begin + "\t" + of[begin] + "\n")
	}
	if globs.Len()+plain.Len() == 0 {
		return ""
	}
	return globs.String() + endGlobs + plain.String()
}

// MaxLists is how many lists an index of [Begins] may be of.
const MaxLists = 128

const (
	firstList = 0x80 // the byte of the first list
	endGlobs  = "\x00"
)

func isGlob(begin string) bool { return begin == "" || strings.ContainsAny(begin, `*?[\/`) }

// Near calls for each list that may have a pattern which matches a command of the script,
// or returns true for all. The index is one of [Begins].
func (s *Script) Near(index string, near func(list int)) (all bool) {
	globs, plain, _ := strings.Cut(index, endGlobs)
	for i := range s.Commands {
		if s.Commands[i].computed {
			return true
		}
	}
	for globs != "" {
		var line string
		line, globs, _ = strings.Cut(globs, "\n")
		if at := strings.LastIndexByte(line, '\t'); s.begins(line[:at]) {
			eachList(line[at+1:], near)
		}
	}
	for i := range s.Commands {
		c := &s.Commands[i]
		if c.key == "" {
			continue
		}
		for rest := plain[lineOf(plain, c.key):]; strings.HasPrefix(rest, c.key); {
			var line string
			line, rest, _ = strings.Cut(rest, "\n")
			begin, lists, _ := strings.Cut(line, "\t")
			word, more := begin[len(c.key):], false
			if word, more = strings.CutPrefix(word, " "); !more && word != "" {
				break // another program, whose name goes on
			}
			if word == "" || c.may(word) {
				eachList(lists, near)
			}
		}
	}
	return false
}

// lineOf returns where the first line begins that does not come before a key.
func lineOf(lines, key string) int {
	low, high := 0, len(lines) // both begin lines
	for low < high {
		at := low + strings.LastIndexByte(lines[low:(low+high)/2], '\n') + 1
		if end := at + strings.IndexByte(lines[at:], '\n'); lines[at:end] < key {
			low = end + 1
		} else {
			high = at
		}
	}
	return low
}

func eachList(letters string, near func(list int)) {
	for i := range len(letters) {
		near(int(letters[i] - firstList))
	}
}

// begins reports whether a command of the script may begin like that. It is false only if
// that is certain.
func (s *Script) begins(begin string) bool {
	name, word, _ := strings.Cut(begin, " ")
	program := term{text: name, glob: strings.ContainsAny(name, `*?[\`)}
	for i := range s.Commands {
		c := &s.Commands[i]
		if c.computed || (program.match(c.key) || program.match(foldCase(c.Path))) && (word == "" || c.may(word)) {
			return true
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
	switch program = foldCase(program); {
	case program == "" || strings.ContainsAny(program, "'\"\\$`{}~=") || strings.ContainsFunc(pattern, func(r rune) bool { return r < ' ' || r > '~' }):
		return true
	case strings.ContainsAny(program, "*?["):
		return s.begins(program)
	}
	if program = programName(program); !s.mayRun(program) {
		return false
	}
	part, sub := "", ""
	switch row := rowOf(program); {
	case row == nil || row.wraps():
	case row.style&flat != 0:
		part = lastPart(rest)
	default:
		if sub, _, _ = strings.Cut(rest, " "); plainWord(sub) {
			sub = row.canonical(sub)
		} else {
			sub = ""
		}
		if row.style&typed == 0 && strings.Contains(rest[strings.LastIndexByte(rest, ' ')+1:], ".") {
			part = lastPart(rest) // no name of a subcommand, of which there may be several
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

// mayRun reports whether a command of the script may be one of a program.
func (s *Script) mayRun(program string) bool {
	for i := range s.Commands {
		if c := &s.Commands[i]; c.computed || c.key == program {
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
	if strings.HasPrefix(word, "-") || strings.ContainsAny(word, "'\"\\$`{}~+:") || strings.Contains(word, "=") && !strings.Contains(word, ".") {
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
		case '*', '?', '/', '=':
		default:
			start := i
			for i+1 < len(word) && strings.IndexByte("[*?/=", word[i+1]) < 0 {
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
