package shell

import "strings"

// quoted reads the string that begins at i: its value, where it ends, and whether
// it is all literal.
func (c *codeScan) quoted(i int) (string, int, bool) {
	t, q := c.text, c.text[i]
	if strings.HasPrefix(t[i:], strings.Repeat(string(q), 3)) && c.language == "python" {
		end := strings.Index(t[i+3:], strings.Repeat(string(q), 3))
		if end < 0 {
			return t[i+3:], len(t), false
		}
		text := t[i+3 : i+3+end]
		return text, i + 6 + end, strings.IndexByte(text, hole) < 0 && !c.formatted(i)
	}
	whole := !c.formatted(i)
	var b strings.Builder
	raw := i > 0 && (t[i-1] == 'r' || t[i-1] == 'R') && c.language == "python" || q == '\'' && c.isAny("perl ruby php")
	for j := i + 1; j < len(t); j++ {
		switch {
		case t[j] == q:
			text := b.String()
			if strings.IndexByte(text, '\\') >= 0 && !raw {
				text = decodeANSI(text)
			}
			if q != '\'' && c.isAny("perl php") && strings.ContainsAny(text, "$") || q != '\'' && c.language == "perl" && strings.Contains(text, "@{") ||
				q != '\'' && c.language == "ruby" && strings.Contains(text, "#{") || q == '`' && c.language == "node" && strings.Contains(text, "${") {
				whole = false
			}
			return text, j + 1, whole && strings.IndexByte(text, hole) < 0
		case t[j] == '\\' && j+1 < len(t):
			if t[j+1] == '\n' {
				j++
				continue
			}
			if q != '\'' || !c.isAny("perl ruby php") || t[j+1] != '\'' && t[j+1] != '\\' {
				b.WriteByte(t[j])
			}
			j++
			b.WriteByte(t[j])
		default:
			b.WriteByte(t[j])
		}
	}
	return b.String(), i + 1, false // not closed: an apostrophe in a comment
}

// formatted reports an f-string of Python with something in it.
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

// delimited reads q{...}, q(...) and their kin.
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

// An argument of a call.
type argument struct {
	text    string
	literal bool
	list    []argument // of a list
	isList  bool
	key     string // NAME=value, name: value
	source  string
}

// arguments reads what a call is given, from behind its parenthesis, or from behind
// its name where a language needs none.
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

// argument reads up to a comma or what closes the call.
func (c *codeScan) argument(i int, shut byte, depth int) (argument, int) {
	t := c.text
	var a argument
	begin, pieces, other := i, 0, false
	for i < len(t) {
		switch b := t[i]; {
		case b == ' ' || b == '\t' || b == '\r' || b == '\n' && shut != 0:
			i++
		case b == ',' || b == shut || shut == 0 && (b == '\n' || b == ';' || b == '}' || b == ')' || b == '|' || b == '&'):
			a.source = strings.TrimSpace(t[begin:i])
			a.literal = pieces > 0 && !other
			return a, i
		case b == '\'' || b == '"' || b == '`' && c.language == "node":
			text, next, whole := c.quoted(i)
			c.literal(text)
			if !whole {
				other = true
			}
			a.text += text
			pieces++
			i = max(next, i+1)
		case (b == '[' || b == '(' || b == '{') && depth < 8:
			closing := byte(')')
			if b != '(' {
				closing = b + 2
			}
			inner, next := c.arguments(i+1, closing, depth+1)
			if pieces == 0 && !other && b != '{' {
				a.isList, a.list = true, inner
			} else {
				other = true
			}
			if next <= i {
				next = i + 1
			}
			i = min(next+1, len(t))
		case b == '+' || b == '.' && pieces > 0 && c.isAny("perl php") || b == '&' && c.language == "applescript":
			i++
		case (b == '=' || b == ':') && pieces == 0 && a.key == "" && i+1 < len(t) && t[i+1] != '=':
			a.key = strings.Trim(strings.TrimSpace(t[begin:i]), ":=> ")
			other = false
			i++
			if i < len(t) && t[i] == '>' {
				i++
			}
		case nameByte(b):
			from := i
			for i < len(t) && nameByte(t[i]) {
				i++
			}
			word := t[from:i]
			switch {
			case i < len(t) && (t[i] == '\'' || t[i] == '"') && strings.Trim(word, "rbfuRBFU") == "": // a prefix
			case i < len(t) && (t[i] == '=' || t[i] == ':') && a.key == "" && pieces == 0:
			case word == "qw" && c.language == "perl" && pieces == 0:
				if text, next, ok := c.delimited(i); ok {
					a.isList = true
					for field := range strings.FieldsSeq(text) {
						a.list = append(a.list, argument{text: field, literal: true, source: field})
					}
					i = next
					continue
				}
				other = true
			case has("q qq", word) && c.isAny("perl ruby"):
				if text, next, ok := c.delimited(i); ok {
					a.text += text
					pieces++
					i = next
					continue
				}
				other = true
			case word == "quoted" || word == "form" || word == "of":
				other = true
			default:
				other = true
			}
		default:
			other = true
			i++
		}
	}
	a.source = strings.TrimSpace(t[begin:i])
	a.literal = pieces > 0 && !other
	return a, i
}
