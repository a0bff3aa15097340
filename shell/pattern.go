package shell

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

// An Answer is the result of matching a pattern.
type Answer uint8

const (
	// No means that the commands that were found do not match, for any values of their
	// computed words.
	No Answer = iota
	// Unknown means that the result depends on computed words.
	Unknown
	// Yes means that the pattern matches.
	Yes
)

// String returns "no", "unknown" or "yes".
func (a Answer) String() string {
	switch a {
	case No:
		return "no"
	case Unknown:
		return "unknown"
	case Yes:
		return "yes"
	}
	return fmt.Sprintf("Answer(%d)", a)
}

// A Pattern describes commands: "git push --force". Compile makes one. It is safe for concurrent
// use.
//
// The first word is the program. It is compared with the last element of the command's path. If
// it has a slash or an @ ("npx rimraf@5"), it is compared with the whole path; otherwise a
// version after the name is ignored. Letter case is ignored in the program, because macOS and
// Windows ignore it.
//
// The words up to the first option are the subcommand. The first operands of the command must be
// these words, so "git push" matches "git -C x push" and not "git stash push". The table knows
// how many words the subcommands of a program have: one for git, two for npm or kubectl, none for
// rm, chmod, dd. Further words of the pattern must appear among the operands after the subcommand
// in the same order, with any other operands before, between and after them: "chmod 777" matches
// "chmod -R 777 dir", "git push main" matches "git push origin main". An operand after an option
// that the table does not know may be that option's argument; the pattern matches if either
// reading does.
//
// Options are a set that must be present anywhere before a "--": -rf is -r -f, -fr and, for a
// program that is known to treat them alike, --recursive --force. If the pattern gives an option
// an argument ("curl -X DELETE", "--grace-period=0"), the command must have the same argument.
// --force matches --force=true and, for git, the GNU tools and others that allow it, the
// abbreviation --forc; it does not match --force-with-lease or --force=false. The + of "git push
// origin +main" is --force. A file of "git checkout" is --pathspec-from-file, if it cannot be a
// revision or comes after "--".
//
// Each letter after one dash is an option, unless one of them takes an argument, which is then
// the rest of the word. The table knows these options for its programs (curl -ofile). For other
// programs a digit or a sign begins an argument (-j8) and a letter does not. For a program that
// is not in the table, -delete may be one option or six.
//
// In every word "*" matches any text, "?" one character, and [a-z] one character of a set. Quotes
// and backslashes make these characters literal.
//
// A pattern for a wrapper ("sudo rm -rf") matches the command after that wrapper, with any number
// of wrappers between them.
type Pattern struct {
	source   string
	program  term
	spelling term   // the program as in the source
	key      string // the program in one letter case; "" for a glob
	rows     []*program
	lead     []term // words of the subcommand
	free     []term // other operands
	needs    []need
	groups   []group  // sets of needs, all of which must be satisfied
	inner    *Pattern // pattern of the command that the wrapper runs
}

// A need is one option that a pattern requires.
type need struct {
	name  string // canonical
	whole bool   // name is a whole word such as -delete, dashes removed
	short bool   // name is a letter without a long form
	arg   *term
}

// A group is satisfied if all needs in the set all are met, or one of the set instead. Each is a
// bit set of indexes in Pattern.needs.
type group struct{ all, instead uint64 }

// most is the maximum number of options and leading words in a pattern.
const most = 60

// Compile parses a pattern. The error names the problem and suggests a correction.
func Compile(pattern string) (*Pattern, error) {
	terms, err := split(pattern)
	if err != nil {
		return nil, fmt.Errorf("command pattern %q: %w", pattern, err)
	}
	p, err := compile(terms)
	if err != nil {
		return nil, fmt.Errorf("command pattern %q: %w", pattern, err)
	}
	p.source = pattern
	return p, nil
}

// String returns the source that was given to Compile.
func (p *Pattern) String() string { return p.source }

// Program returns the first word of the pattern, for Gate.May. It returns "" if the word is a
// glob.
func (p *Pattern) Program() string { return p.key }

// example ends the errors of Compile.
const example = `, as in "git push --force"`

// noProgram returns the error for a program that ends in a slash.
func noProgram(text string) error {
	if len(text) > 2 && text[0] == '/' {
		return fmt.Errorf("%s is no program: a command pattern has words and no regular expressions%s", text, example)
	}
	return fmt.Errorf("the program %s is a directory: write the program first%s", text, example)
}

func compile(terms []term) (*Pattern, error) {
	switch {
	case len(terms) == 0:
		return nil, errors.New("it is empty: write the program first" + example)
	case strings.HasPrefix(terms[0].text, "-") && len(terms[0].text) > 1:
		return nil, fmt.Errorf("it begins with the option %s: write the program before its options%s", terms[0].text, example)
	case terms[0].text == "":
		return nil, errors.New("the program is an empty word: write the program first" + example)
	case strings.HasPrefix(terms[0].text, "$"):
		return nil, fmt.Errorf(`the program %s is a variable: a computed program is reported as unknown, match "shell: unknown"`, terms[0].text)
	case isAssignment(terms[0].text):
		return nil, fmt.Errorf("it begins with the assignment %s: assignments are not part of a command, write the program first%s", terms[0].text, example)
	case len(terms) > most:
		return nil, fmt.Errorf("it has %d words, more than %d", len(terms), most)
	}
	p := &Pattern{program: terms[0], spelling: terms[0]}
	p.program.text = foldCase(p.program.text)
	p.program.clean = foldCase(p.program.clean)
	if !p.program.glob {
		p.key = foldCase(programName(p.program.text))
		if p.key == "" {
			return nil, noProgram(p.program.text)
		}
	}
	row := rowOf(p.key)
	if row == nil {
		row = anyProgram
	}
	args := make([]Word, len(terms)-1)
	for i, t := range terms[1:] {
		args[i] = Word{Text: t.text, Literal: true}
	}
	p.rows = row.path(args)
	words := 0
	for _, r := range p.rows {
		if r.words > 0 {
			words = int(r.words)
		}
	}
	s := scanner{rows: p.rows, args: args}
	skip, options := int(row.skip), false
	for s.scan() {
		t := terms[1+s.at]
		switch {
		case s.kind == option:
			options = options || s.operands > 0
			p.require(&s, t, terms[1:])
		case row.wraps() && skip > 0 && (t.glob || t.text != "" && t.text[0] >= '0' && t.text[0] <= '9'):
			skip-- // the 5 of "timeout 5 rm"; it may also be left out
			p.free = append(p.free, t)
		case row.wraps() && row.style&assigns != 0 && strings.Contains(t.text, "="):
			p.free = append(p.free, t)
		case row.wraps():
			inner, err := compile(terms[1+s.at:])
			if err != nil {
				return nil, fmt.Errorf("after %s: %w", p.program.text, err)
			}
			p.inner = inner
			return p, p.tooMany()
		case row.style&flat != 0 || options || words > 0 && len(p.lead) >= words:
			p.free = append(p.free, t)
		default:
			if !t.glob {
				t.text = row.canonical(t.text)
			}
			p.lead = append(p.lead, t)
		}
	}
	return p, p.tooMany()
}

func (p *Pattern) tooMany() error {
	if len(p.needs) > most {
		return fmt.Errorf("it has %d options, more than %d", len(p.needs), most)
	}
	return nil
}

// wraps reports whether the operands of a program are another command.
func (p *program) wraps() bool {
	return p.runs == runsCommand || p.runs == runsEnv || p.runs == runsXargs || p.runs == runsParallel
}

// path returns the row of a program and the rows of the subcommands among args.
func (p *program) path(args []Word) []*program {
	rows := []*program{p}
	s := scanner{rows: rows, args: args}
	for p.branches() && s.scan() {
		if s.kind == operand {
			p = p.branch(s.word.Text)
			rows = append(rows, p)
			s.rows = rows
		}
	}
	return rows
}

// require adds the current option of s to the pattern.
func (p *Pattern) require(s *scanner, t term, terms []term) {
	add := func(n need) uint64 {
		p.needs = append(p.needs, n)
		return 1 << min(len(p.needs)-1, most)
	}
	if s.short && !s.row().known() && letters(t.text[1:]) && len(t.text) > 2 {
		// -abc of a program without a row: three options, or one option such as -delete.
		g := group{instead: add(need{name: t.text[1:], whole: true})}
		for i := range len(t.text) - 1 {
			g.all |= add(need{name: t.text[i+1 : i+2], short: true})
		}
		s.cluster = ""
		p.groups = append(p.groups, g)
		return
	}
	var arg *term
	switch {
	case !s.valued:
	case s.next-1 > s.at: // the argument is a separate word
		arg = &terms[s.next-1]
	default:
		arg = &term{text: s.value.Text, glob: t.glob, clean: shortest(s.value.Text)}
	}
	names := s.names()
	if names == "" {
		g := group{all: add(need{name: s.name, short: s.short, arg: arg})}
		p.groups = append(p.groups, g)
		return
	}
	for names != "" {
		var name string
		name, names, _ = strings.Cut(names, "+")
		p.groups = append(p.groups, group{all: add(need{name: name, arg: arg})})
	}
}

func letters(s string) bool {
	for i := range len(s) {
		if !letter(s[i]) && s[i] != '-' {
			return false
		}
	}
	return true
}

// known reports whether the table has a row for the program.
func (p *program) known() bool {
	return p != anyProgram && p != anySubcommand && p != anyShortens
}

// names returns the canonical names of the current option, joined with "+". It returns "" if the
// option has no other names.
func (s *scanner) names() string {
	if names := get(s.row().flags, s.name); names != "" {
		return names
	}
	if s.rows[0].style&global != 0 {
		return get(s.rows[0].flags, s.name)
	}
	return ""
}

// canonical returns the first name of the subcommand at position j.
func (p *Pattern) canonical(j int, word string) string {
	if name := p.rows[min(j, len(p.rows)-1)].canonical(word); name != word {
		return name
	}
	return p.rows[0].canonical(word)
}

// Match reports whether a command of the script matches, and which one. It considers only the
// commands in s.Commands: a script with a non-empty Unknown may run others too. The command is
// nil for No; for Unknown it is the first that may match.
func (p *Pattern) Match(s *Script) (Answer, *Command) {
	best, which := No, (*Command)(nil)
	for i := range s.Commands {
		c := &s.Commands[i]
		if p.inner == nil && c.key != p.key && !c.computed && p.key != "" {
			continue
		}
		if a := p.MatchCommand(s, i); a > best {
			best, which = a, c
			if best == Yes {
				break
			}
		}
	}
	return best, which
}

// MatchCommand reports whether s.Commands[i] matches.
func (p *Pattern) MatchCommand(s *Script, i int) Answer {
	c := &s.Commands[i]
	if p.inner == nil {
		a := p.judge(c)
		if a == No && c.computed {
			a = p.behind(c)
		}
		return a
	}
	best := No
	if a := p.inner.MatchCommand(s, i); a != No {
		for j := c.parent; j >= 0; j = s.Commands[j].parent {
			best = max(best, min(a, p.judge(&s.Commands[j])))
		}
	}
	if best == No && c.computed && (c.program.many() || p.inner.behind(c) != No) {
		best = Unknown // the computed program may be the wrapper
	}
	return best
}

// MatchWhole reports whether s.Commands[i] matches one of the patterns, for patterns that except
// commands from another rule. If the patterns name operands, the command must have no others: "rm -rf dist" does
// not allow src in "rm -rf dist src"; together with "rm -rf src" it does. Anything may follow a
// subcommand: "git push" allows "git push origin main". "git clean --dry-run" does not allow a
// command that also has --no-dry-run.
func MatchWhole(patterns []*Pattern, s *Script, i int) Answer {
	best := No
	for _, p := range patterns {
		if a := p.MatchCommand(s, i); a > best && p.only(patterns, s, i) {
			best = a
		}
	}
	return best
}

// only reports whether a command that matches p has nothing that MatchWhole excludes.
func (p *Pattern) only(patterns []*Pattern, s *Script, i int) bool {
	return !p.last().takenBack(&s.Commands[i]) && p.whole(patterns, s, i)
}

// takenBack reports whether a command has an option of the pattern but may also negate it:
// --dry-run --no-dry-run, --dry-run=none, --dry-run="$x". The program decides which of two such
// options applies, so the package cannot know.
func (p *Pattern) takenBack(c *Command) bool {
	words := scanner{rows: p.rows, args: c.Args}
	for words.scan() {
		if words.kind != option {
			continue
		}
		off := "false no off"
		value := &words.value
		if words.valued {
			off = "false no off 0 none f without disable"
		} else if words.next < len(c.Args) {
			value = &c.Args[words.next] // npm publish --dry-run false
		}
		taken := words.valued && !value.Literal || has(off, foldCase(value.Text))
		no, negated := strings.CutPrefix(words.name, "no-")
		for i := range p.needs {
			if n := &p.needs[i]; n.arg == nil && (taken && words.is(n) || negated && strings.HasPrefix(n.name, no)) {
				return true
			}
		}
	}
	return false
}

// whole reports whether every operand of a command that matches p is named by p, or by another
// matching pattern in patterns.
func (p *Pattern) whole(patterns []*Pattern, s *Script, i int) bool {
	last := p.last()
	// For a program that is not in the table the subcommand cannot be distinguished from the
	// operands.
	if len(last.free) == 0 && (len(last.lead) == 0 || last.rows[0].known()) {
		return true
	}
	named := slices.Clone(last.free)
	for _, other := range patterns {
		if other != p && other.inner == nil && len(other.lead) == len(last.lead) && other.MatchCommand(s, i) == Yes && !other.takenBack(&s.Commands[i]) {
			named = append(named, other.free...)
		}
	}
	words := scanner{rows: last.rows, args: s.Commands[i].Args}
	for leading := len(last.lead); words.scan(); {
		switch {
		case words.kind == option:
		case leading > 0:
			leading--
		default:
			is := No
			for i := range named {
				is = max(is, named[i].answer(words.word))
			}
			if is != Yes {
				return false
			}
		}
	}
	return true
}

// last returns the pattern of the command after all wrappers.
func (p *Pattern) last() *Pattern {
	for p.inner != nil {
		p = p.inner
	}
	return p
}

// behind reports whether the command would match if its computed program were a wrapper: the rm
// of "$x" rm -rf /. It returns Unknown or No.
func (p *Pattern) behind(c *Command) Answer {
	const enough = 64
	for i, a := range c.Args {
		in := Command{Path: a.Text, Args: c.Args[i+1:], program: a, computed: !a.Literal}
		if a.Literal {
			if in.key = foldCase(programName(a.Text)); p.key != "" && in.key != p.key {
				continue
			}
		}
		if i >= enough || p.judge(&in) != No {
			return Unknown
		}
	}
	return No
}

// named reports whether the program of a command is the program of the pattern.
func (p *Pattern) named(c *Command) Answer {
	if c.computed {
		return Unknown
	}
	switch {
	case strings.ContainsAny(p.program.text, "/@"):
		if p.program.match(foldCase(c.Path)) {
			return Yes
		}
		if !c.program.Literal && (p.program.glob || c.key == p.key) {
			return Unknown // "$VENV/bin/python"
		}
	case p.program.glob:
		if glob(p.program.text, c.key) {
			return Yes
		}
	case c.key == p.key:
		return Yes
	}
	return No
}

// asks reports whether the pattern matches requests for help.
func (p *Pattern) asks() bool {
	for i := range p.needs {
		if n := p.needs[i].name; n == "help" || n == "version" || n == "h" {
			return true
		}
	}
	return len(p.free) > 0 && p.free[len(p.free)-1].text == "help"
}

// judge matches one command, without its wrappers.
func (p *Pattern) judge(c *Command) Answer {
	named := p.named(c)
	if named == No || c.help && !p.asks() {
		return No
	}
	m := match{Pattern: p, scanner: scanner{rows: p.rows, args: c.Args}, sure: 1, maybe: 1}
	if c.computed && c.program.many() {
		m.fill() // $x may be "git push --force" all by itself
	}
	for m.scan() {
		m.options()
		switch {
		case m.kind == operand:
			m.operandFound()
		case m.kind == open && !m.word.many():
			m.others()
			m.sure &= m.found()
			m.maybe |= m.maybe << 1 & (m.found()<<1 - 1)
		case m.kind == open:
			m.others()
			m.sure &= m.found()
			m.fill()
		case m.value.many():
			m.sure &= m.found()
			m.fill()
		}
		if m.maybe == 0 {
			return No
		}
	}
	return min(named, m.result())
}

// A match is the state of matching a pattern against the words of a command. It follows two
// readings at once: sure assumes that computed words never help the match, maybe that they always
// do. Bit j of a reading is set if the first j words of the subcommand were found with nothing
// else between them.
type match struct {
	*Pattern
	scanner

	sure, maybe         uint64
	freeSure, freeMaybe int    // other operands found, in order
	seen, perhaps       uint64 // needs that are met, and needs that may be met
}

// found returns the bit of a reading for the complete subcommand.
func (m *match) found() uint64 { return 1 << len(m.lead) }

// fill assumes that a computed word contains everything that is still missing.
func (m *match) fill() {
	m.maybe |= m.found()<<1 - m.maybe&-m.maybe
	m.freeMaybe = len(m.free)
	if !m.done {
		m.perhaps = ^uint64(0)
	}
}

// options records the needs that the current word meets.
func (m *match) options() {
	for n := range m.needs {
		var a Answer
		switch m.kind {
		case option:
			a = m.answer(&m.needs[n])
		case operand:
			a = m.implies(m.needs[n].name)
		case open:
			if a = Unknown; m.done {
				a = m.implies(m.needs[n].name)
			}
		}
		switch a {
		case Yes:
			m.seen |= 1 << n
		case Unknown:
			m.perhaps |= 1 << n
		case No:
		}
	}
}

// operandFound advances both readings over an operand.
func (m *match) operandFound() {
	m.others()
	sure, maybe := m.sure&m.found(), m.maybe&m.found()
	for rest := m.maybe &^ m.found(); rest != 0; rest &= rest - 1 {
		j := bits.TrailingZeros64(rest)
		here := uint64(1) << j
		a := m.leads(j, m.word)
		if a != No {
			maybe |= here << 1
		}
		if a == Yes {
			sure |= m.sure & here << 1
		}
		if m.loose { // the operand may be the argument of the option before it
			maybe |= here
			sure |= m.sure & here
		}
	}
	m.sure, m.maybe = sure, maybe
}

// others compares the current word with the operands of the pattern after the subcommand.
func (m *match) others() {
	if m.sure&m.found() != 0 && m.freeSure < len(m.free) && m.free[m.freeSure].answer(m.word) == Yes {
		m.freeSure++
	}
	if m.maybe&m.found() != 0 && m.freeMaybe < len(m.free) && m.free[m.freeMaybe].answer(m.word) != No {
		m.freeMaybe++
	}
}

func (m *match) result() Answer {
	switch {
	case m.sure&m.found() != 0 && m.freeSure == len(m.free) && m.satisfied(m.seen):
		return Yes
	case m.maybe&m.found() != 0 && m.freeMaybe == len(m.free) && m.satisfied(m.seen|m.perhaps):
		return Unknown
	}
	return No
}

func (p *Pattern) satisfied(seen uint64) bool {
	for _, g := range p.groups {
		if seen&g.all != g.all && seen&g.instead == 0 {
			return false
		}
	}
	return true
}

// leads compares an operand with the pattern's j-th leading word.
func (p *Pattern) leads(j int, w Word) Answer {
	if w.Literal {
		w.Text = p.canonical(j, w.Text)
	}
	return p.lead[j].answer(w)
}

// implied returns the option that the current operand means: the + of "git push origin +main" is
// --force. It returns "" if the operand means none.
func (s *scanner) implied() string {
	list, text := s.row().implied, s.certain()
	if name := get(list, text[:min(1, len(text))]); name != "" {
		return name
	}
	if s.done || s.word.noRevision() {
		return get(list, "/")
	}
	return ""
}

// implies reports whether an operand means an option.
func (s *scanner) implies(name string) Answer {
	r := s.row()
	if r.implied == "" || s.kind == operand && s.operands < len(s.rows) || !valueOf(r.implied, name) {
		return No
	}
	switch text := s.certain(); {
	case s.implied() == name:
		return Yes
	case text == "" && !s.word.Literal || s.word.many():
		return Unknown
	}
	return No
}

// answer compares the current option with one that the pattern requires.
func (s *scanner) answer(n *need) Answer {
	if !s.is(n) {
		return No
	}
	v := s.value
	switch {
	case n.arg == nil:
		if !s.short && s.valued && v.Literal && v.Text == "false" {
			return No // --force=false
		}
		return Yes
	case s.valued:
	case s.hang && s.next < len(s.args):
		v = s.args[s.next]
	default:
		return No
	}
	if c := v.c; c != nil && !s.short && strings.HasPrefix(c.head, "-") {
		// The value is the end of the word: --message="$x".
		_, head, _ := strings.Cut(c.head, "=")
		v.c = &computed{head: head, many: c.many}
	}
	return n.arg.answer(v)
}

// is compares only the names of the options, not their arguments.
func (s *scanner) is(n *need) bool {
	if n.whole {
		whole, _, _ := strings.Cut(s.word.Text[1:], "=")
		return s.short && whole == n.name
	}
	names := s.names()
	switch {
	case n.short:
		return s.short && names == "" && s.name == n.name
	case names != "":
		return among(names, n.name)
	case s.short:
		return false
	case s.name == n.name:
		return true
	}
	r := s.row()
	return r.style&shortens != 0 && s.name != "" && strings.HasPrefix(n.name, s.name) && !r.complete(s.name)
}

// among reports whether names, a list joined with "+", contains name.
func among(names, name string) bool {
	for names != "" {
		var n string
		if n, names, _ = strings.Cut(names, "+"); n == name {
			return true
		}
	}
	return false
}

// A Gate excludes programs that a line cannot run, without parsing the line. The zero Gate is the
// gate of an empty line.
type Gate struct {
	open bool   // the line may run any program
	line string // the line in lower case
}

// NewGate scans a line once and returns its gate.
func NewGate(line string) Gate {
	upper, there := false, uint32(0)
	fed := false
	for i := 0; i < len(line); i++ {
		b := line[i]
		if spells(b) {
			return Gate{open: true}
		}
		upper = upper || b >= 'A' && b <= 'Z'
		fed = fed || b == '|' || b == '<'
		there |= 1 << (b & 31)
	}
	if upper {
		line = strings.ToLower(line)
	}
	for i := range openers {
		o := &openers[i]
		if there>>(o.rare&31)&1 != 0 && there>>(o.other&31)&1 != 0 && (fed || !o.fed) && strings.Contains(line, o.name) {
			return Gate{open: true}
		}
	}
	return Gate{line: line}
}

// An opener is a word of lines that can run a program without containing its name. NewGate first
// checks for two of its bytes, the rarest.
type opener struct {
	name        string
	rare, other byte
	fed         bool // relevant only if the line has a pipe, a redirection or a here-document
}

var openers = [...]opener{
	// These take the names of programs from their input or from files.
	{"xargs", 'x', 'g', false},
	{"parallel", 'p', 'l', false},
	{"fd", 'f', 'd', false},
	// These programs can decode names of programs.
	{"base64", '6', '4', true},
	{"base32", '3', '2', true},
	{"basenc", 'b', 'c', true},
	{"xxd", 'x', 'd', true},
	{"openssl", 'p', 'l', true},
	{"rev", 'v', 'r', true},
	{"tr", 't', 'r', true},
	// These shells use other names for programs.
	{"powershell", 'w', 'p', false},
	{"pwsh", 'w', 'p', false},
	{"remove-item", 'v', '-', false},
	{"cmd ", 'm', 'd', false},
	{"cmd\t", 'm', 'd', false},
	{"cmd.exe", 'm', 'x', false},
	// Functions in code that delete or move files. An unquoted call can only be on standard
	// input.
	{"unlink", 'k', 'u', true},
	{"delete", 'd', 'l', true},
	{"remove", 'v', 'm', true},
	{"rename", 'm', 'r', true},
	{"move", 'v', 'm', true},
}

// May reports whether the line may run a program. The name is in lower case, as returned by
// Pattern.Program. May returns false only if the line cannot run the program: it does not contain
// the name and nothing that could spell the name differently. Callers skip Parse for such lines,
// because every pattern with this Program would answer No. For an empty program it returns true.
func (g Gate) May(program string) bool {
	return g.open || program == "" || strings.Contains(g.line, program)
}

// spells reports whether a line with the byte b can spell a word without containing its text:
// quotes, escapes, expansions, globs, characters that some file systems treat as letters, and
// bytes that the parser drops.
func spells(b byte) bool {
	switch b {
	case '\n', '\t':
		return false
	case '\'', '"', '\\', '$', '`', '{', '*', '?', '[', '(':
		return true
	}
	return b < ' ' || b >= utf8.RuneSelf
}
