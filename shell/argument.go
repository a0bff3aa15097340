package shell

import "strings"

// quoted reads the string literal that begins at i. It returns the value, the position after the
// literal, and whether the whole value is known.
func (c *codeScan) quoted(i int) (string, int, bool) {
	t, q := c.text, c.text[i]
	if triple := strings.Repeat(string(q), 3); c.language == "python" && strings.HasPrefix(t[i:], triple) {
		text, _, closed := strings.Cut(t[i+3:], triple)
		return text, min(i+6+len(text), len(t)), closed && strings.IndexByte(text, hole) < 0 && !c.formatted(i)
	}
	single := q == '\'' && c.isAny("perl ruby php") // only \' and \\ are escapes
	raw := i > 0 && (t[i-1] == 'r' || t[i-1] == 'R') && c.language == "python"
	var b strings.Builder
	for j := i + 1; j < len(t); j++ {
		switch {
		case t[j] == q:
			text := b.String()
			if !raw && !single {
				text = decodeANSI(text)
			}
			return text, j + 1, !c.formatted(i) && !c.interpolated(q, text) && strings.IndexByte(text, hole) < 0
		case t[j] == '\\' && j+1 < len(t):
			j++
			if t[j] == '\n' {
				continue
			}
			if !single || t[j] != '\'' && t[j] != '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(t[j])
		default:
			b.WriteByte(t[j])
		}
	}
	return b.String(), i + 1, false // not closed: an apostrophe in a comment
}

// interpolated reports whether a string in quotes q contains a variable or an expression.
func (c *codeScan) interpolated(q byte, text string) bool {
	switch {
	case q == '\'':
		return false
	case c.language == "perl":
		return strings.Contains(text, "$") || strings.Contains(text, "@{")
	case c.language == "php":
		return strings.Contains(text, "$")
	case c.language == "ruby":
		return strings.Contains(text, "#{")
	}
	return q == '`' && c.language == "node" && strings.Contains(text, "${")
}

// formatted reports whether the string at i is a Python f-string with a replacement field.
func (c *codeScan) formatted(i int) bool {
	if c.language != "python" {
		return false
	}
	for j := i - 1; j >= 0 && j >= i-2; j-- {
		switch c.text[j] {
		case 'f', 'F':
			end := strings.IndexByte(c.text[i+1:], c.text[i])
			return end < 0 || strings.IndexByte(c.text[i+1:i+1+end], '{') >= 0
		case 'r', 'R', 'b', 'B', 'u':
		default:
			return false
		}
	}
	return false
}

// delimited reads the operand of q, qq, qw, qx or %x at i, with any delimiter: {...}, (...),
// |...|. It returns the text, the position after it, and false if it is not closed.
func (c *codeScan) delimited(i int) (string, int, bool) {
	t := c.text
	if i >= len(t) || nameByte(t[i]) || t[i] <= ' ' || t[i] == ',' || t[i] == ';' || t[i] == '=' || t[i] == ')' {
		return "", i, false
	}
	open, shut := t[i], t[i]
	switch open {
	case '(':
		shut = ')'
	case '[', '{', '<':
		shut = open + 2
	}
	depth := 0
	for j := i + 1; j < len(t); j++ {
		switch {
		case t[j] == '\\':
			j++
		case t[j] == shut && depth == 0:
			return t[i+1 : j], j + 1, true
		case t[j] == shut:
			depth--
		case t[j] == open:
			depth++
		}
	}
	return "", i, false
}

// An argument is one argument of a call.
type argument struct {
	text    string
	literal bool
	list    []argument // the elements of a list
	isList  bool
	key     string // NAME=value, name: value
	source  string
}

// arguments reads the arguments of a call. Position i is after the opening parenthesis, or after
// the function name in a language that needs no parenthesis; shut is then 0.
func (c *codeScan) arguments(i int, shut byte, depth int) ([]argument, int) {
	var list []argument
	for i < len(c.text) && len(list) < 64 {
		var a argument
		a, i = c.argument(i, shut, depth)
		if a.source != "" || a.isList {
			list = append(list, a)
		}
		if i >= len(c.text) || c.text[i] != ',' {
			break
		}
		i++
	}
	return list, i
}

// argument reads one argument, up to a comma or the end of the call.
func (c *codeScan) argument(i int, shut byte, depth int) (argument, int) {
	s := argumentScan{codeScan: c, begin: i}
	for i < len(c.text) && c.text[i] != ',' && c.text[i] != shut && (shut != 0 || strings.IndexByte("\n;})|&", c.text[i]) < 0) {
		i = s.piece(i, depth)
	}
	s.a.source = strings.TrimSpace(c.text[s.begin:i])
	s.a.literal = s.texts > 0 && !s.other
	return s.a, i
}

// An argumentScan reads one argument. Its methods return the position at which reading continues.
type argumentScan struct {
	*codeScan

	a     argument
	begin int
	texts int  // strings read so far
	other bool // the argument has parts that are not strings
}

// add appends a string to the argument.
func (s *argumentScan) add(text string) {
	s.a.text += text
	s.texts++
}

func (s *argumentScan) piece(i, depth int) int {
	t := s.text
	switch b := t[i]; {
	case b == ' ' || b == '\t' || b == '\r' || b == '\n':
		return i + 1
	case b == '\'' || b == '"' || b == '`' && s.language == "node":
		text, next, whole := s.quoted(i)
		s.literal(text)
		s.other = s.other || !whole
		s.add(text)
		return max(next, i+1)
	case (b == '[' || b == '(' || b == '{') && depth < 8:
		return s.bracket(i, depth)
	case b == '+' || b == '.' && s.texts > 0 && s.isAny("perl php") || b == '&' && s.language == "applescript":
		return i + 1
	case (b == '=' || b == ':') && s.texts == 0 && s.a.key == "" && i+1 < len(t) && t[i+1] != '=':
		s.a.key = strings.Trim(strings.TrimSpace(t[s.begin:i]), ":=> ")
		s.other = false
		if t[i+1] == '>' {
			i++
		}
		return i + 1
	case nameByte(b):
		return s.identifier(i)
	}
	s.other = true
	return i + 1
}

// bracket reads a list, or another expression in brackets.
func (s *argumentScan) bracket(i, depth int) int {
	closing := byte(')')
	if b := s.text[i]; b != '(' {
		closing = b + 2
	}
	inner, next := s.arguments(i+1, closing, depth+1)
	if s.texts == 0 && !s.other && closing != '}' {
		s.a.isList, s.a.list = true, inner
	} else {
		s.other = true
	}
	return min(max(next, i+1)+1, len(s.text))
}

// identifier reads a name: the prefix of a string, a key, or a quoting operator.
func (s *argumentScan) identifier(i int) int {
	t, from, next := s.text, i, byte(0)
	for i < len(t) && nameByte(t[i]) {
		i++
	}
	if i < len(t) {
		next = t[i]
	}
	word := t[from:i]
	switch {
	case (next == '\'' || next == '"') && strings.Trim(word, "rbfuRBFU") == "",
		(next == '=' || next == ':') && s.a.key == "" && s.texts == 0:
		return i
	case word == "qw" && s.language == "perl" && s.texts == 0:
		if text, end, ok := s.delimited(i); ok {
			s.a.isList = true
			for field := range strings.FieldsSeq(text) {
				s.a.list = append(s.a.list, argument{text: field, literal: true, source: field})
			}
			return end
		}
	case has("q qq", word) && s.isAny("perl ruby"):
		if text, end, ok := s.delimited(i); ok {
			s.add(text)
			return end
		}
	}
	s.other = true
	return i
}
