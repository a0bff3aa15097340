package expr

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	end       tokenKind = iota
	word                // a name
	operator            // also a bracket or a keyword
	number              // 1, 1.5, 0x1f, 1_000
	quotation           // text, decoded
)

type token struct {
	kind tokenKind
	text string
	at   int // offset of the first byte
}

func (t token) is(operatorText string) bool { return t.kind == operator && t.text == operatorText }

// lexer splits a source into tokens. It is a value, so that a parser can save and restore its
// position.
type lexer struct {
	source string
	pos    int // offset after tok
	tok    token
}

func (l *lexer) failf(at int, format string, args ...any) {
	panic(failure(l.source, at, format, args...))
}

func (l *lexer) unexpected() {
	switch {
	case l.tok.kind == end:
		l.failf(l.tok.at, "the expression is incomplete")
	case l.tok.is(";"):
		l.failf(l.tok.at, "; can only end a let")
	case l.tok.is("#"):
		l.failf(l.tok.at, "# is an element, and is only allowed inside any, all, filter and similar functions")
	}
	l.failf(l.tok.at, "unexpected %q", l.tok.text)
}

// operators lists the operators with two characters.
var operators = []string{"==", "!=", "<=", ">=", "&&", "||", "..", "**", "??", "?."}

// next reads the next token.
func (l *lexer) next() {
	glued := l.tok.is("#") // #index is one name, #in too
	before := l.pos
	l.skip()
	rest := l.source[l.pos:]
	r, size := utf8.DecodeRuneInString(rest)
	switch {
	case rest == "":
		l.take(end, 0)
	case r == '"' || r == '\'':
		l.quotation(byte(r))
	case r == '`':
		l.rawQuotation()
	case digit(rest) || r == '.' && digit(rest[1:]):
		l.number()
	case alphanumeric(r):
		size := strings.IndexFunc(rest, func(r rune) bool { return !alphanumeric(r) })
		if size < 0 {
			size = len(rest)
		}
		kind := word
		if isOperator(rest[:size]) && (!glued || l.pos != before) {
			kind = operator
		}
		l.take(kind, size)
	default:
		for _, two := range operators {
			if strings.HasPrefix(rest, two) {
				size = 2
			}
		}
		if size == 1 && strings.IndexByte("()[]{}.,:;?!<>=+-*/%^|#", rest[0]) < 0 || size > 2 {
			l.failf(l.pos, "unexpected %q", r)
		}
		l.take(operator, size)
	}
}

// isOperator reports whether a word is an operator or a keyword.
func isOperator(word string) bool {
	switch word {
	case "not", "in", "or", "and", "matches", "contains", "startsWith", "endsWith", "let", "if", "else":
		return true
	}
	return false
}

func (l *lexer) take(kind tokenKind, size int) {
	l.tok = token{kind, l.source[l.pos : l.pos+size], l.pos}
	l.pos += size
}

func digit(s string) bool { return s != "" && '0' <= s[0] && s[0] <= '9' }

func alphanumeric(r rune) bool {
	return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// skip skips white space and comments.
func (l *lexer) skip() {
	for {
		l.pos = len(l.source) - len(strings.TrimLeftFunc(l.source[l.pos:], unicode.IsSpace))
		rest := l.source[l.pos:]
		switch {
		case strings.HasPrefix(rest, "//"):
			line, _, _ := strings.Cut(rest, "\n")
			l.pos += len(line)
		case strings.HasPrefix(rest, "/*"):
			comment, _, ok := strings.Cut(rest[2:], "*/")
			if !ok {
				l.failf(l.pos, "the comment does not end")
			}
			l.pos += len(comment) + 4
		default:
			return
		}
	}
}

// number reads a number; in 1..3 that is 1.
func (l *lexer) number() {
	rest, size := l.source[l.pos:], 0
	accept := func(chars string) bool {
		if size == len(rest) || strings.IndexByte(chars, rest[size]) < 0 {
			return false
		}
		size++
		return true
	}
	digits := "0123456789_"
	if accept("0") && accept("xX") {
		digits += "abcdefABCDEF"
	} else if size == 1 {
		accept("oObB")
	}
	for accept(digits) {
	}
	if !strings.HasPrefix(rest[size:], "..") && accept(".") {
		for accept(digits) {
		}
	}
	if accept("eE") {
		accept("+-")
		for accept(digits) {
		}
	}
	if r, more := utf8.DecodeRuneInString(rest[size:]); alphanumeric(r) {
		l.failf(l.pos, "%q is not a number", rest[:size+more])
	}
	l.take(number, size)
}

// numberOf returns the value of a number.
func (l *lexer) numberOf(tok token) any {
	text := strings.ToLower(strings.ReplaceAll(tok.text, "_", ""))
	base := 10 // a leading 0 does not mean octal: 010 is ten
	if len(text) > 1 && strings.IndexByte("xob", text[1]) >= 0 {
		base = 0
	}
	i, err := strconv.ParseInt(text, base, strconv.IntSize)
	if err == nil {
		return int(i)
	}
	if base == 10 && strings.ContainsAny(text, ".e") {
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f
		}
	}
	l.failf(tok.at, "%q is not a number, or is too large", tok.text)
	return nil
}

// quotation reads a quoted text and decodes it.
func (l *lexer) quotation(quote byte) {
	var text strings.Builder
	for rest := l.source[l.pos+1:]; ; {
		if rest == "" || rest[0] == '\n' {
			l.failf(l.pos, "the text does not end")
		}
		if rest[0] == quote {
			l.take(quotation, len(l.source)-len(rest)+1-l.pos)
			l.tok.text = text.String()
			return
		}
		r, _, after, err := strconv.UnquoteChar(rest, quote)
		if err != nil {
			l.failf(len(l.source)-len(rest), "valid escapes are \\n, \\t, \\\\, \\%c, \\u20ac and similar; between ` quotes, \\ has no special meaning", quote)
		}
		text.WriteRune(r)
		rest = after
	}
}

// rawQuotation reads a text in backquotes. Only the backquote is special: two of them are one.
func (l *lexer) rawQuotation() {
	text := ""
	for rest := l.source[l.pos+1:]; ; {
		part, after, ok := strings.Cut(rest, "`")
		if !ok {
			l.failf(l.pos, "the text does not end")
		}
		text += part
		if !strings.HasPrefix(after, "`") {
			l.take(quotation, len(l.source)-len(after)-l.pos)
			l.tok.text = text
			return
		}
		text += "`"
		rest = after[1:]
	}
}
