package shell

import "strings"

// A scanner splits the words after a program into options and operands, the way the program
// itself would. Wrappers and patterns both use it.
type scanner struct {
	rows []*program // the program, then its subcommands
	args []Word
	late bool // options may follow operands, even if the row does not allow it
	next int  // index of the next word

	// The result of the last call of scan:
	kind     kind
	at       int    // index of its word
	word     Word   // the whole word
	name     string // option: one letter, or a long name without dashes
	short    bool   // option: a letter of a cluster such as -rf
	value    Word   // option: its argument, attached or the next word
	valued   bool
	loose    bool // operand: may be the argument of the option before it
	operands int  // operands read so far
	done     bool // only operands follow

	cluster string // remaining letters of the current word
	tail    Word   // the end of the cluster, if that is computed
	hang    bool   // the next operand is loose
	more    bool   // the current word continues with a computed piece
}

type kind byte

const (
	option kind = iota
	operand
	open // a computed word: an option, an operand, or any number of both
)

// row returns the row of the table for the current position.
func (s *scanner) row() *program { return s.rows[min(s.operands, len(s.rows)-1)] }

// takes reports whether an option takes an argument, and whether the table knows the option.
func (s *scanner) takes(name string) (arg, known bool) {
	arg, known = s.row().takes(name)
	if !known && s.rows[0].style&global != 0 {
		arg, known = s.rows[0].takes(name)
	}
	return arg, known
}

// scan finds the next option or operand.
func (s *scanner) scan() bool {
	if s.cluster != "" {
		s.letter()
		return true
	}
	if s.more { // -rf$X has -r and -f for any value of $X
		s.more, s.hang, s.kind = false, false, open
		return true
	}
	if s.next >= len(s.args) {
		return false
	}
	s.at, s.word = s.next, s.args[s.next]
	s.next++
	s.name, s.short, s.value, s.valued = "", false, Word{}, false
	s.loose, s.hang = s.hang, false

	if c := s.word.c; c != nil {
		switch {
		case !s.done && !c.operand && s.spelled(c.head):
			s.cluster, s.more = c.head[1:], true
			s.letter()
		case c.many && !c.operand:
			s.kind = open
		case s.done || c.operand || c.head != "" && c.head[0] != '-':
			s.found()
		case !s.computedOption(c.head):
			s.kind = open
		}
		return true
	}
	text := s.word.Text
	switch {
	case s.at == 0 && s.row().style&plus != 0 && strings.HasPrefix(text, "+"):
		return s.scan()
	case s.done || len(text) < 2 || text[0] != '-':
		s.found()
	case text == "--":
		s.done = true
		return s.scan()
	case s.row().style&anyCase != 0:
		s.long(foldCase(text[1:]))
	case text[1] == '-' || s.row().style&dashed != 0:
		s.long(strings.TrimLeft(text, "-"))
	default:
		s.cluster = text[1:]
		s.letter()
	}
	return true
}

// found records an operand.
func (s *scanner) found() {
	s.kind = operand
	s.operands++
	r := s.row()
	skip := int(r.skip)
	if r.style&settled != 0 {
		skip = 0
	}
	if s.late || r.style&early == 0 || s.operands < len(s.rows)+skip {
		return
	}
	// sudo accepts options after NAME=value, so such a word does not end them.
	s.done = r.style&assigns == 0 || strings.IndexByte(s.certain(), '=') < 0
}

// certain returns the known beginning of the word.
func (s *scanner) certain() string {
	if s.word.c != nil {
		return s.word.c.head
	}
	return s.word.Text
}

// long records an option with a long name.
func (s *scanner) long(text string) {
	s.kind = option
	name, value, ok := strings.Cut(text, "=")
	s.name = name
	if ok {
		s.value, s.valued = Word{Text: value, Literal: true}, true
		return
	}
	s.argument(s.takes(name))
}

// letter records the next letter of a cluster such as -rf or -ofile.
func (s *scanner) letter() {
	s.kind, s.short, s.value, s.valued = option, true, Word{}, false
	n := 1
	for n < len(s.cluster) && s.cluster[n]&0xc0 == 0x80 {
		n++ // the remaining bytes of a character that is not ASCII
	}
	rest := s.cluster[n:]
	s.name, s.cluster = s.cluster[:n], rest
	arg, known := s.takes(s.name)
	switch {
	case rest == "" && s.tail.c != nil:
		s.value, s.valued, s.tail = s.tail, true, Word{}
	case rest == "":
		s.argument(arg, known)
	case arg || has(s.row().attached, s.name) || rest[0] == '=' || !known && !letter(rest[0]):
		// The rest of the word is the letter's argument: -ofile, -j8, -i.bak, -q=2.
		s.value, s.valued, s.cluster = Word{Text: strings.TrimPrefix(rest, "="), Literal: true}, true, ""
		if s.tail.c != nil {
			s.value, s.tail = s.tail, Word{}
		}
	}
}

func letter(b byte) bool { return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' }

// argument reads the next word as the option's argument if the option takes one.
func (s *scanner) argument(arg, known bool) {
	switch {
	case arg && s.next < len(s.args):
		s.value, s.valued = s.args[s.next], true
		s.next++
	case !known:
		s.hang = true
	}
}

// spelled reports whether no letter of a word such as -rf$X takes the rest as its argument.
func (s *scanner) spelled(head string) bool {
	if len(head) < 2 || head[0] != '-' || !letters(head[1:]) || head[1] == '-' || s.row().style&dashed != 0 {
		return false
	}
	for i := 1; i < len(head); i++ {
		if arg, known := s.takes(head[i : i+1]); arg || !known || has(s.row().attached, head[i:i+1]) {
			return false
		}
	}
	return true
}

// computedOption reads a word that begins like an option and has a computed end, such as
// --message="$x" or -m"$x". It reports whether the option is certain.
func (s *scanner) computedOption(head string) bool {
	if strings.HasPrefix(head, "--") || s.row().style&dashed != 0 {
		name, _, ok := strings.Cut(strings.TrimLeft(head, "-"), "=")
		if ok {
			s.kind, s.name, s.value, s.valued = option, name, s.word, true
		}
		return ok
	}
	for i := 1; i < len(head); i++ {
		arg, _ := s.takes(head[i : i+1])
		if arg || has(s.row().attached, head[i:i+1]) {
			s.cluster, s.tail = head[1:i+1], s.word
			s.letter()
			return true
		}
	}
	return false
}
