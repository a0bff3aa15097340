package yaml

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// resolve returns the kind and the value of text without quotes.
func resolve(text string) (Kind, string) {
	switch text {
	case "null", "Null", "NULL", "~":
		return Null, ""
	case "true", "True", "TRUE":
		return Bool, "true"
	case "false", "False", "FALSE":
		return Bool, "false"
	}
	if number(text) {
		return Number, text
	}
	return String, text
}

// number reports whether text is a number: a decimal number that fits into 64 bits, a number in
// another base with the prefix 0x, 0o, 0 or 0b, or a fraction. Underscores may group digits.
func number(text string) bool {
	if text == "" || strings.IndexByte("0123456789+-.", text[0]) < 0 {
		return false
	}
	digits, negative := text, false
	if c := text[0]; c == '+' || c == '-' {
		digits, negative = text[1:], c == '-'
	}
	if digits = strings.ReplaceAll(digits, "_", ""); digits == "" || digits[0] == '+' || digits[0] == '-' {
		return false
	}
	base := 10
	switch dots := strings.Count(digits, "."); {
	case dots > 1:
		return false
	case strings.HasPrefix(digits, "0x"):
		digits, base = digits[2:], 16
	case strings.HasPrefix(digits, "0o"):
		digits, base = digits[2:], 8
	case strings.HasPrefix(digits, "0b"):
		digits, base = digits[2:], 2
	case dots == 1:
		_, err := strconv.ParseFloat(digits, 64)
		return err == nil
	case digits[0] == '0' && len(digits) > 1:
		base = 8
	}
	v, err := strconv.ParseUint(digits, base, 64)
	return err == nil && (!negative || v <= 1<<63)
}

// fold appends the replacement of the line ends between two words: a space, or the empty lines.
func fold(b []byte, ends int) []byte {
	if ends == 1 {
		return append(b, ' ')
	}
	return newlines(b, ends-1)
}

func newlines(b []byte, n int) []byte {
	for ; n > 0; n-- {
		b = append(b, '\n')
	}
	return b
}

// plain reads text without quotes, which continues in lines that are indented deeper than the
// column parent.
func (r *reader) plain(parent int) string {
	text := r.plainLine()
	var b []byte
	for {
		end, ends, line := r.i, 0, 0
		for c := r.peek(0); blank(c) || c == '\n'; c = r.peek(0) {
			r.i++
			if c == '\n' {
				ends, line = ends+1, r.i
			}
		}
		more := ends > 0 && !r.end() && r.peek(0) != '#'
		if more && r.brackets == 0 {
			more = r.i-line > parent && strings.IndexByte(r.s[line:r.i], '\t') < 0
		}
		if more && r.dash() {
			r.fail(r.i, "this line would be part of the text above it: put the text in quotes, or indent the list below its key")
		}
		next := ""
		if more {
			next = r.plainLine()
		}
		if next == "" {
			r.i = end
			break
		}
		if b == nil {
			b = append(b, text...)
		}
		b = append(fold(b, ends), next...)
	}
	if b != nil {
		return string(b)
	}
	return text
}

// plainLine reads the text without quotes in one line.
func (r *reader) plainLine() string {
	start, end := r.i, r.i
	for ; r.i < len(r.s); r.i++ {
		c := r.s[r.i]
		if c == '\n' || c == ':' && r.bare(r.peek(1)) || c == '#' && r.i > start && blank(r.s[r.i-1]) || r.brackets > 0 && flow(c) {
			break
		}
		if !blank(c) {
			end = r.i + 1
		}
	}
	r.i = end
	return r.s[start:end]
}

// quoted reads text in quotes.
func (r *reader) quoted(parent int) string {
	start, quote := r.i, r.s[r.i]
	var b []byte
	kept := 0 // blanks before this offset are not at the end of a line
	for r.i++; ; {
		switch c := r.peek(0); {
		case c == 0:
			r.fail(start, "the quote that starts here is not closed: write %c at the end of the text", quote)
		case c == quote && quote == '\'' && r.peek(1) == '\'':
			b = append(b, '\'')
			r.i += 2
		case c == quote:
			r.i++
			return string(b)
		case c == '\n':
			for len(b) > kept && blank(b[len(b)-1]) {
				b = b[:len(b)-1]
			}
			b = fold(b, r.ends(start, parent))
			kept = len(b)
		case c == '\\' && quote == '"' && r.peek(1) == '\n':
			r.i++
			b = newlines(b, r.ends(start, parent)-1)
			kept = len(b)
		case c == '\\' && quote == '"':
			b = r.escape(b)
			kept = len(b)
		default:
			b = append(b, c)
			r.i++
		}
	}
}

// ends skips line ends in quoted text, and the blanks at the beginning of the following line. It
// returns the number of line ends.
func (r *reader) ends(start, parent int) int {
	n, line := 0, 0
	for c := r.peek(0); blank(c) || c == '\n'; c = r.peek(0) {
		r.i++
		if c == '\n' {
			n, line = n+1, r.i
			if r.marker() {
				r.fail(start, "the quote that starts here is not closed: write %c at the end of the text", r.s[start])
			}
		}
	}
	spaces := line
	for spaces < r.i && r.s[spaces] == ' ' {
		spaces++
	}
	if r.brackets == 0 && spaces-line <= parent && r.i < len(r.s) {
		r.fail(start, "the quote that starts here is not closed on its line, and the next line is not indented deeper than its key")
	}
	return n
}

// escape reads an escape sequence and appends its value.
func (r *reader) escape(b []byte) []byte {
	const from, to = "0abt\tnvfre \"/\\", "\x00\a\b\t\t\n\v\f\r\x1b \"/\\"
	start, c := r.i, r.peek(1)
	r.i += 2
	if i := strings.IndexByte(from, c); i >= 0 {
		return append(b, to[i])
	}
	switch c {
	case 'N':
		return append(b, "\u0085"...)
	case '_':
		return append(b, "\u00a0"...)
	case 'L':
		return append(b, "\u2028"...)
	case 'P':
		return append(b, "\u2029"...)
	case 'x':
		return utf8.AppendRune(b, r.hex(start, 2))
	case 'u':
		v := r.hex(start, 4)
		if utf16.IsSurrogate(v) && r.peek(0) == '\\' && r.peek(1) == 'u' { // JSON writes such characters as a surrogate pair
			r.i += 2
			v = utf16.DecodeRune(v, r.hex(start, 4))
			if v == utf8.RuneError {
				v = -1
			}
		}
		return utf8.AppendRune(b, r.valid(start, v))
	case 'U':
		return utf8.AppendRune(b, r.valid(start, r.hex(start, 8)))
	}
	_, size := utf8.DecodeRuneInString(r.s[min(start+1, len(r.s)):])
	r.fail(start, "%s is not a valid escape: write \\\\ for a backslash, or put the text in single quotes", r.s[start:min(start+1+size, len(r.s))])
	return nil
}

func (r *reader) valid(start int, v rune) rune {
	if !utf8.ValidRune(v) {
		r.fail(start, "this escape is not a Unicode character")
	}
	return v
}

func (r *reader) hex(start, digits int) rune {
	end := min(r.i+digits, len(r.s))
	v, err := strconv.ParseUint(r.s[r.i:end], 16, 32)
	if err != nil || end-r.i < digits {
		r.fail(start, "%s needs %d hexadecimal digits", r.s[start:start+2], digits)
	}
	r.i = end
	return rune(min(v, utf8.MaxRune+1))
}

// block reads text after | or >. It is indented deeper than the column parent.
func (r *reader) block(parent, depth int) *Node {
	header := r.i
	n := r.add(String, header, depth)
	folded := r.peek(0) == '>'
	indent, chomp := r.blockHeader()
	switch {
	case indent > 0 && parent < 0: // the indent counts from column -1 in the specification, from 0 in most libraries
		r.fail(header, "a document that contains only a text needs no digit after | and >: delete it")
	case indent > 0:
		indent += parent
	default:
		indent = r.indentation(parent)
	}
	r.source.indent(n, indent)
	var b []byte
	ends, deep, text := 0, false, false
	for r.i < len(r.s) {
		r.i++ // the end of the previous line
		line, end := r.i, r.i
		for end-line < indent && end < len(r.s) && r.s[end] == ' ' {
			end++
		}
		if end >= len(r.s) || r.s[end] == '\n' { // an empty line
			if r.i = end; end < len(r.s) {
				ends++
			}
			continue
		}
		if end-line < indent || indent == 0 && r.marker() {
			r.i = line - 1
			break
		}
		r.i = end
		r.toEnd()
		was := deep
		deep = blank(r.s[end])
		if folded && text && !was && !deep {
			b = fold(b, ends)
		} else {
			b = newlines(b, ends)
		}
		b = append(b, r.s[end:r.i]...)
		text, ends = true, 0
		if r.i < len(r.s) {
			ends = 1
		}
	}
	switch {
	case chomp == '+':
		b = newlines(b, ends)
	case chomp == 0 && text:
		b = newlines(b, min(ends, 1))
	}
	n.Text = string(b)
	return n
}

// blockHeader reads the line with | or >, and returns the digit and the sign after the indicator,
// or zeros.
func (r *reader) blockHeader() (indent int, chomp byte) {
	for r.i++; ; r.i++ {
		switch c := r.peek(0); {
		case (c == '-' || c == '+') && chomp == 0:
			chomp = c
		case '1' <= c && c <= '9' && indent == 0:
			indent = int(c - '0')
		default:
			r.rest("| or > (with an optional -, + or digit)")
			return indent, chomp
		}
	}
}

// indentation returns the indentation of the first line with text in a block.
func (r *reader) indentation(parent int) int {
	longest, at := 0, 0
	for i := r.i; i < len(r.s); {
		i++
		line := i
		for i < len(r.s) && r.s[i] == ' ' {
			i++
		}
		if i < len(r.s) && r.s[i] != '\n' {
			switch {
			case i-line <= parent:
				return parent + 1
			case longest > i-line:
				r.fail(at, "this empty line has more spaces than the text below it: delete them, or write the indentation of the text, as in |2")
			}
			return i - line
		}
		if i-line > longest {
			longest, at = i-line, line
		}
	}
	return max(parent+1, longest)
}
