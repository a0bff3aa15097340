package shell

import (
	"maps"
	"math/bits"
	"slices"
	"strings"
)

// begin returns the beginning of every command that the pattern can match, for [Begins]: the
// program, which may be a glob, and the first word of the subcommand, if the pattern has one.
// condition lists literals that the arguments must contain, or is "".
func (p *Pattern) begin() (begin, condition string) {
	begin = p.key
	switch {
	case strings.IndexByte(p.program.text, ' ') >= 0:
		return "*", ""
	case p.program.glob:
		begin = p.program.text
	case p.inner == nil && len(p.lead) > 0 && !p.lead[0].glob && strings.IndexByte(p.lead[0].text, ' ') < 0:
		begin += " " + p.lead[0].text
	}
	switch {
	case !printable(begin):
		return "*", ""
	case isGlob(begin) || !printable(p.source):
		return begin, ""
	}
	_, words, _ := strings.Cut(p.source, " ")
	if _, part := afterProgram(p.key, words); part != "" {
		condition = startPart + part[:min(len(part), conditionBytes)]
	}
	return begin, condition + p.spellings()
}

func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// spellings returns all spellings of the first option that a command must have: letters, and
// names after dashes. It returns "" if the spellings are not known, for example if an operand can
// mean the option.
func (p *Pattern) spellings() string {
	if p.inner != nil || len(p.groups) == 0 {
		return ""
	}
	need := bits.TrailingZeros64(p.groups[0].all)
	if p.groups[0].instead != 0 || need >= len(p.needs) || p.needs[need].whole {
		return ""
	}
	name := p.needs[need].name
	letters, names := "", ""
	add := func(word string) {
		if len(word) == 1 {
			letters += word
		} else {
			names += startName + word[:min(len(word), conditionBytes)]
		}
	}
	add(name)
	for _, row := range p.rows {
		if row.implied != "" || row.style&dashed != 0 {
			return ""
		}
		for list := row.flags; list != ""; {
			var flag string
			flag, list, _ = strings.Cut(list, " ")
			if word, of, _ := strings.Cut(flag, "="); among(of, name) {
				add(word)
			}
		}
	}
	return startOptions + letters + names
}

// has reports whether one of the arguments may be an option with one of the spellings.
func (c *Command) has(spellings string) bool {
	letters, names, _ := strings.Cut(spellings, startName) // a name is never empty
	for i := range c.Args {
		a := &c.Args[i]
		switch {
		case !a.Literal:
			return true
		case len(a.Text) < 2 || a.Text[0] != '-':
			continue
		case a.Text[1] != '-' && strings.ContainsAny(a.Text, letters):
			return true
		}
		word, _, _ := strings.Cut(strings.TrimLeft(a.Text, "-"), "=")
		if len(word) == 1 && strings.Contains(letters, word) {
			return true // --n is treated as -n
		}
		for rest := names; rest != "" && word != ""; {
			var name string
			if name, rest, _ = strings.Cut(rest, startName); strings.HasPrefix(name, word[:min(len(word), conditionBytes)]) {
				return true
			}
		}
	}
	return false
}

// Begins returns an index of many lists of patterns. With the index, a script is compared only with
// the lists that have patterns for its programs. The index is a text with one sorted line for each
// beginning of a pattern, lines with globs first. A line contains the beginning, a tab, and one
// byte for each list with such a pattern. Conditions can follow, each with the bytes of the lists
// that apply only if the condition holds. There can be at most MaxLists lists.
func Begins(lists [][]*Pattern) string {
	var begins []string
	of := map[string]map[string]string{}
	for i, patterns := range lists {
		letter := string([]byte{firstList + byte(i)})
		for _, p := range patterns {
			begin, condition := p.begin()
			if of[begin] == nil {
				begins, of[begin] = append(begins, begin), map[string]string{}
			}
			if near := of[begin][condition]; !strings.HasSuffix(near, letter) {
				of[begin][condition] = near + letter
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
		b.WriteString(begin + "\t" + of[begin][""])
		for _, condition := range slices.Sorted(maps.Keys(of[begin])) {
			part, options, _ := strings.Cut(condition, startOptions)
			var near []byte
			for _, letter := range []byte(of[begin][condition]) {
				anyway := part != "" && options != "" && strings.IndexByte(of[begin][startOptions+options], letter) >= 0
				if !anyway && strings.IndexByte(of[begin][""], letter) < 0 {
					near = append(near, letter)
				}
			}
			switch {
			case near == nil:
			case part != "":
				b.WriteString(part + string(near)) // without the options: this text alone is rare enough
			default:
				b.WriteString(condition + string(near))
			}
		}
		b.WriteByte('\n')
	}
	if globs.Len()+plain.Len() == 0 {
		return ""
	}
	return globs.String() + endGlobs + plain.String()
}

// MaxLists is the maximum number of lists in an index from [Begins].
const MaxLists = 128

const (
	firstList = 0x80 // the byte of the first list
	endGlobs  = "\x00"

	// Conditions. They hold only the first bytes of a text or a name, which are enough to
	// distinguish most of them.
	conditionBytes = 5
	startPart      = "\x01" // literal in an argument
	startOptions   = "\x02" // letters of an option
	startName      = "--"   // a name of an option
)

func isGlob(begin string) bool { return begin == "" || strings.ContainsAny(begin, `*?[\/`) }

// Near calls near for each list that may have a pattern that matches a command of the script.
// If every list may match, it returns true and may omit the calls. The index must come from
// [Begins].
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
			(&Command{}).eachList(line[at+1:], near) // the empty command: lines with globs have no conditions
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
				break // a longer program name
			}
			if word == "" || c.may(word) {
				c.eachList(lists, near)
			}
		}
	}
	return false
}

// lineOf returns the offset of the first line that does not sort before key.
func lineOf(lines, key string) int {
	low, high := 0, len(lines) // both are the start of a line
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

// eachList calls near for the lists of a line that have no condition, or one that holds for the
// command.
func (c *Command) eachList(lists string, near func(list int)) {
	holds := true
	for i := 0; i < len(lists); i++ {
		if lists[i] >= firstList {
			if holds {
				near(int(lists[i] - firstList))
			}
			continue
		}
		end := i
		for end < len(lists) && lists[end] < firstList {
			end++
		}
		part, options, optional := strings.Cut(lists[i:end], startOptions)
		holds = c.holds(strings.TrimPrefix(part, startPart)) && (!optional || c.has(options))
		i = end - 1
	}
}

// begins reports whether a command of the script may begin this way. It returns false only if no
// command can.
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

// MayMatch reports whether a pattern that is not compiled yet may match a command of the script.
// It returns false only if no command can match. It analyzes plain patterns only and returns true
// for others.
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
	sub, part := afterProgram(program, rest)
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

// afterProgram reads the words of a plain pattern after its program. It returns the subcommand,
// and a text that one of the arguments must contain. Either is "" if it is not certain.
func afterProgram(program, words string) (sub, part string) {
	switch row := rowOf(program); {
	case row == nil || row.wraps():
	case row.style&flat != 0:
		part = lastPart(words)
	default:
		if sub, _, _ = strings.Cut(words, " "); plainWord(sub) {
			sub = row.canonical(sub)
		} else {
			sub = ""
		}
		if row.style&typed == 0 && strings.Contains(words[strings.LastIndexByte(words, ' ')+1:], ".") {
			part = lastPart(words) // not the name of a subcommand, which may have aliases
		}
	}
	return sub, part
}

// mayRun reports whether a command of the script may run the program.
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

// lastPart returns a literal from the last word of a pattern that every matching word contains,
// or "" if none is known.
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

// holds reports whether one of the arguments may contain part.
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
