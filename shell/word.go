package shell

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// A Word is one word of a command with quotes, backslashes, $'...' and braces resolved. Globs and
// a leading tilde are unchanged.
type Word struct {
	// Text is the word's value if Literal. Otherwise it is the word as written, without its
	// quotes: "$HOME"/bin and ${HOME}/bin are both $HOME/bin.
	Text string
	// Literal is false for a word with a computed piece: a variable, a command substitution,
	// arithmetic, text inserted by xargs or find.
	Literal bool

	glob bool      // the word has an unquoted glob
	c    *computed // nil if Literal
}

// computed holds the known parts of a word that is not literal.
type computed struct {
	head    string  // literal text the word begins with
	tail    string  // literal text at the end of the word, after its last slash
	code    string  // the word with holes for its computed pieces
	many    bool    // it may become any number of words
	operand bool    // it is certainly not an option
	init    bool    // it is the output of a tool that sets up a shell
	feed    *string // the output of the command in <(...), if known
	glob    string  // a glob for the values of the word, if known
	origin  string  // Text with the origins of its variables in place of their names, see origin.go
}

// code returns the text of a word with holes for its computed pieces.
func (w Word) code() string {
	if w.c != nil {
		return w.c.code
	}
	return w.Text
}

// many reports whether a word may expand to any number of words.
func (w Word) many() bool { return w.c != nil && w.c.many }

// filled returns a word with computed pieces from the command's input.
func (w *walker) filled(text, mark, show string, many, operand bool) Word {
	head, _, _ := strings.Cut(text, mark)
	tail := ""
	if i := strings.LastIndex(text, mark); i >= 0 {
		tail = text[i+len(mark):]
		tail = tail[max(strings.LastIndexByte(tail, '/'), 0):]
		if !strings.HasPrefix(tail, "/") {
			tail = ""
		}
	}
	code := strings.ReplaceAll(text, mark, w.hole(show))
	return Word{Text: text, c: &computed{head: head, tail: tail, code: code, many: many, operand: operand}}
}

// Limits for expanding the braces of one word. Beyond them the word is computed.
const (
	maxBraced = 4 << 10 // bytes of the word
	maxBraces = 256     // steps
)

// words resolves a word of a command and appends the result to out. A word with braces gives
// several words.
func (w *walker) words(at *place, wd *syntax.Word, out []Word) []Word {
	if word, ok := plain(wd); ok {
		return append(out, word)
	}
	f := w.fold(at, wd.Parts)
	if f.blank {
		return out
	}
	if w.subst > 0 && !f.computed {
		if f.split {
			return f.pieces(out)
		}
		if len(f.text) == 0 && f.vanishes {
			return out
		}
	}
	if !f.braces {
		word := f.word()
		if word.c != nil && len(w.lists) > 0 {
			word.c.glob = cmp.Or(word.c.glob, w.listedBy(wd))
		}
		return append(out, word)
	}
	if f.computed {
		f.many = true
		return append(out, f.word())
	}
	steps := maxBraces
	list, ok := []string(nil), len(f.text) <= maxBraced
	if ok {
		list, ok = expandBraces(nil, f.text, f.mask, 0, &steps)
	}
	if !ok {
		text := string(f.text)
		head := text[:strings.IndexByte(text, '{')]
		return append(out, Word{Text: text, c: &computed{head: head, code: w.hole(text), many: true}})
	}
	for _, text := range list {
		out = append(out, Word{Text: text, Literal: true, glob: f.glob})
	}
	return out
}

// word resolves a word that the shell does not split.
func (w *walker) word(at *place, wd *syntax.Word) Word {
	if word, ok := plain(wd); ok {
		return word
	}
	f := w.fold(at, wd.Parts)
	return f.word()
}

// plain returns a word that needs no resolving, which is the common case.
func plain(wd *syntax.Word) (Word, bool) {
	if len(wd.Parts) != 1 {
		return Word{}, false
	}
	switch p := wd.Parts[0].(type) {
	case *syntax.Lit:
		glob := false
		for i := 0; i < len(p.Value); i++ {
			switch p.Value[i] {
			case '\\', '{', hole, returnByte:
				return Word{}, false
			case '*', '?':
				glob = true
			case '[':
				glob = glob || len(p.Value) > 1 // a single bracket is the command [
			}
		}
		return Word{Text: p.Value, Literal: true, glob: glob}, true
	case *syntax.SglQuoted:
		if !p.Dollar && !marked(p.Value) {
			return Word{Text: p.Value, Literal: true}, true
		}
	case *syntax.DblQuoted:
		if len(p.Parts) == 0 {
			return Word{Literal: true}, true
		}
		if l, ok := p.Parts[0].(*syntax.Lit); ok && len(p.Parts) == 1 && !marked(l.Value) && strings.IndexByte(l.Value, '\\') < 0 {
			return Word{Text: l.Value, Literal: true}, true
		}
	}
	return Word{}, false
}

// marked reports whether s contains bytes that represent something else.
func marked(s string) bool {
	return strings.IndexByte(s, hole) >= 0 || strings.IndexByte(s, returnByte) >= 0
}

// folded is a word while it is resolved.
type folded struct {
	text, code []byte
	mask       []byte // for each byte of text: 1 if it is not quoted, 2 if it is an unquoted value to split
	head       int    // bytes of text before the first computed piece
	last       int    // bytes of text up to the end of the last computed piece
	computed   bool
	many       bool
	braces     bool // the word has an unquoted brace
	glob       bool // the word has an unquoted glob
	blank      bool // the word was only a carriage return at the end of the line
	split      bool // an unquoted value in it has blanks, see mask 2
	vanishes   bool // if it is empty, the shell drops it
	init       bool
	name       bool // it begins with the output of a harmless tool, so it is not an option
	feed       *string
	origins    []string // pairs: a variable as written, its origin
}

// pieces splits a word at the blanks in its values and appends the result to out.
func (f *folded) pieces(out []Word) []Word {
	from := 0
	for i := 0; i <= len(f.text); i++ {
		if i < len(f.text) && f.mask[i] != 2 {
			continue
		}
		if i > from {
			out = append(out, Word{Text: string(f.text[from:i]), Literal: true, glob: f.glob})
		}
		from = i + 1
	}
	return out
}

func (f *folded) compute(head int) {
	if !f.computed {
		f.computed, f.head = true, head
	}
	f.last = len(f.text)
}

func (f *folded) word() Word {
	if !f.computed {
		return Word{Text: string(f.text), Literal: true, glob: f.glob}
	}
	text := string(f.text)
	tail := text[f.last:]
	if i := strings.LastIndexByte(tail, '/'); i >= 0 {
		tail = tail[i:]
	} else {
		tail = ""
	}
	return Word{Text: text, c: &computed{head: text[:f.head], tail: tail, code: string(f.code), many: f.many, operand: f.name, init: f.init, feed: f.feed, origin: f.replaced(text)}}
}

type quoting byte

const (
	unquoted quoting = iota
	doubleQuoted
	document // the body of a here-document
	verbatim // its body if the delimiter is quoted
)

func (w *walker) fold(at *place, parts []syntax.WordPart) folded {
	f := folded{text: w.buf[:0], mask: w.mask[:0]}
	w.buf, w.mask = nil, nil // a substitution may use fold too
	w.foldParts(&f, at, parts, unquoted)
	w.work += len(f.text)
	w.buf, w.mask = f.text, f.mask // reuse the larger buffers
	if n := len(f.text); n > 0 && f.text[n-1] == '\r' && f.mask[n-1] == 1 {
		// The line ends in CRLF. A shell makes the CR a part of the last word, and then nothing
		// in the line works. If agents write such lines, their shell ignores the CR.
		f.text, f.mask, f.last = f.text[:n-1], f.mask[:n-1], min(f.last, n-1)
		f.blank = n == 1
	}
	return f
}

func (w *walker) foldParts(f *folded, at *place, parts []syntax.WordPart, q quoting) {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			w.foldLit(f, p.Value, q)
		case *syntax.SglQuoted:
			if p.Dollar {
				w.foldRaw(f, decodeANSI(p.Value), 0)
			} else {
				w.foldRaw(f, p.Value, 0)
			}
		case *syntax.DblQuoted:
			w.foldParts(f, at, p.Parts, doubleQuoted)
		case *syntax.ExtGlob:
			f.glob = true
			w.foldRaw(f, w.source(at, p), 0)
		case *syntax.ParamExp:
			w.foldParam(f, at, p, q)
		case *syntax.CmdSubst:
			w.foldSubst(f, at, p, q, len(parts) == 1)
		case *syntax.ProcSubst:
			w.foldProcSubst(f, at, p, len(parts) == 1)
		default: // arithmetic: always one number
			w.foldComputed(f, w.source(at, p), false)
		}
	}
}

func (w *walker) foldParam(f *folded, at *place, p *syntax.ParamExp, q quoting) {
	if w.subst > 0 {
		if value, ok := w.expandParam(p, at, q); ok && w.spendWords(value) {
			w.foldValue(f, value, q)
			return
		}
	}
	show := w.source(at, p)
	if p.Param != nil && (p.Short || show == "${"+p.Param.Value+"}") {
		show = "$" + p.Param.Value
	}
	if p.Param != nil && w.origins[p.Param.Value] != "" {
		f.origins = append(f.origins, show, w.origins[p.Param.Value])
	}
	w.foldComputed(f, show, paramMany(p, q))
}

// foldSubst adds a command substitution. wholeWord reports that it is the whole word.
func (w *walker) foldSubst(f *folded, at *place, p *syntax.CmdSubst, q quoting, wholeWord bool) {
	if w.subst > 0 {
		if text, ok := w.eval(p.Stmts, at, ""); ok && w.spend(len(text)) {
			w.used = true
			w.foldValue(f, []string{strings.TrimRight(text, "\n")}, q)
			return
		}
	}
	f.init = wholeWord && w.initTool(p.Stmts, at)
	show := w.source(at, p)
	easy := tame(show)
	f.name = f.name || easy && len(f.text) == 0
	w.foldComputed(f, show, q == unquoted && !easy)
}

// foldProcSubst adds the name of the pipe that the shell inserts: /dev/fd/63.
func (w *walker) foldProcSubst(f *folded, at *place, p *syntax.ProcSubst, wholeWord bool) {
	if p.Op == syntax.CmdIn {
		if text, ok := w.eval(p.Stmts, at, ""); ok {
			f.feed = &text
		}
	}
	show := w.source(at, p)
	f.init = p.Op == syntax.CmdIn && wholeWord && !strings.ContainsAny(show[2:], "($`") && w.initTool(p.Stmts, at)
	w.foldComputed(f, show, false)
}

// foldValue adds the value of a computed piece.
func (w *walker) foldValue(f *folded, words []string, q quoting) {
	f.vanishes = q == unquoted
	for i, word := range words {
		if i > 0 {
			f.text, f.mask, f.split = append(f.text, ' '), append(f.mask, 2), true
			if f.computed {
				f.code = append(f.code, ' ')
			}
		}
		for j := 0; j < len(word); j++ {
			mask := byte(0)
			if q == unquoted {
				switch word[j] {
				case ' ', '\t', '\n':
					mask, f.split = 2, true
				case '*', '?', '[':
					f.glob = true
				}
			}
			w.foldByte(f, word[j], mask)
		}
	}
}

// paramMany reports whether a parameter may expand to any number of words.
func paramMany(p *syntax.ParamExp, q quoting) bool {
	if q >= document || p.Length {
		return false
	}
	if q == unquoted {
		if p.Short && p.Param != nil {
			switch p.Param.Value {
			case "#", "?", "$", "!", "-": // numbers and letters only
				return false
			}
		}
		return true
	}
	if p.Names == syntax.NamesPrefixWords || p.Param != nil && p.Param.Value == "@" || p.NestedParam != nil || p.Excl {
		return true // "$@", "${!name@}"; ${!name} may refer to "name[@]"
	}
	if idx, ok := p.Index.(*syntax.Word); ok && idx.Lit() == "@" {
		return true
	}
	return p.Exp != nil && p.Exp.Word != nil && partsMany(p.Exp.Word.Parts) // "${x:-$@}"
}

func partsMany(parts []syntax.WordPart) bool {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.ParamExp:
			if paramMany(p, doubleQuoted) {
				return true
			}
		case *syntax.DblQuoted:
			if partsMany(p.Parts) {
				return true
			}
		}
	}
	return false
}

// foldLit adds text with backslashes, which have the meaning that q gives them.
func (w *walker) foldLit(f *folded, s string, q quoting) {
	for i := 0; i < len(s); i++ {
		b := s[i]
		switch {
		case b == '\\' && i+1 < len(s) && (q == unquoted || escapable(s[i+1], q)):
			i++
			w.foldByte(f, s[i], 0)
		case b == hole:
			i += w.foldHole(f, s[i:]) - 1
		case b == '{' && q == unquoted:
			f.braces = true
			w.foldByte(f, b, 1)
		case q == unquoted:
			f.glob = f.glob || b == '*' || b == '?' || b == '['
			w.foldByte(f, b, 1)
		default:
			w.foldByte(f, b, 0)
		}
	}
}

func escapable(b byte, q quoting) bool {
	switch b {
	case '$', '`', '\\':
		return q != verbatim
	case '"':
		return q == doubleQuoted
	}
	return false
}

// foldRaw adds text in which backslashes are ordinary characters.
func (w *walker) foldRaw(f *folded, s string, mask byte) {
	for i := 0; i < len(s); i++ {
		if s[i] == hole {
			i += w.foldHole(f, s[i:]) - 1
			continue
		}
		w.foldByte(f, s[i], mask)
	}
}

func (w *walker) foldByte(f *folded, b, mask byte) {
	if b == returnByte {
		b = '\r'
	}
	f.text = append(f.text, b)
	f.mask = append(f.mask, mask)
	if f.computed {
		f.code = append(f.code, b)
	}
}

// foldHole adds the computed piece at the beginning of s and returns its length.
func (w *walker) foldHole(f *folded, s string) int {
	show, n := w.holeAt(s)
	w.begin(f)
	f.code = append(f.code, s[:n]...)
	w.show(f, show)
	f.many = true // its value may close any quotes around it
	return n
}

func (w *walker) foldComputed(f *folded, show string, many bool) {
	w.begin(f)
	f.code = append(f.code, w.hole(show)...)
	w.show(f, show)
	f.many = f.many || many
}

func (w *walker) begin(f *folded) {
	if !f.computed {
		f.code = append(f.code, f.text...)
		f.compute(len(f.text))
	}
}

func (w *walker) show(f *folded, show string) {
	f.text = append(f.text, show...)
	for range len(show) {
		f.mask = append(f.mask, 0)
	}
	f.last = len(f.text)
}

// holeAt reads the hole at the beginning of s. It returns the source of the computed piece and
// the length of the hole.
func (w *walker) holeAt(s string) (string, int) {
	end := strings.IndexByte(s[1:], hole)
	if end < 0 {
		return "\uFFFD", 1
	}
	n, err := strconv.Atoi(s[1 : 1+end])
	if err != nil || n < 0 || n >= len(w.holes) {
		return "\uFFFD", 1
	}
	return w.holes[n], end + 2
}

// decode returns text in readable form: holes replaced by their source.
func (w *walker) decode(s string) string {
	if !marked(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case hole:
			show, n := w.holeAt(s[i:])
			b.WriteString(show)
			i += n - 1
		case returnByte:
			b.WriteByte('\r')
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// source returns the text of a node.
func (w *walker) source(at *place, n syntax.Node) string {
	from, to := n.Pos().Offset(), n.End().Offset()
	if from >= to || to > uint(len(at.src)) || !w.spend(int(to-from)) {
		return "$(...)"
	}
	return w.decode(at.src[from:to])
}

// decodeANSI reads the inside of $'...'.
func decodeANSI(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b = append(b, s[i])
			continue
		}
		i++
		c := s[i]
		if k := strings.IndexByte(ansiLetters, c); k >= 0 {
			b = append(b, ansiValues[k])
			continue
		}
		v, n := ansiValue(s[i:])
		switch {
		case n == 0:
			b = append(b, '\\', c)
			continue
		case v == 0:
			return string(b) // a NUL ends the quoted text
		case c == 'u' || c == 'U':
			b = utf8.AppendRune(b, rune(v)) // an invalid rune becomes U+FFFD
		default:
			b = append(b, byte(v)) // at most two digits
		}
		i += n - 1
	}
	return string(b)
}

// Letters after a backslash, and the characters that they mean.
const (
	ansiLetters = `abeEfnrtv\'"?`
	ansiValues  = "\a\b\x1b\x1b\f\n\r\t\v\\'\"?"
)

// ansiValue returns the value and the length of the escape sequence after a backslash. The length
// is 0 if the sequence is not valid.
func ansiValue(s string) (v uint32, n int) {
	switch {
	case s[0] >= '0' && s[0] <= '7':
		v, n = number(s, 8, 3)
		return v & 0xff, n
	case s[0] == 'x':
		v, n = number(s[1:], 16, 2)
	case s[0] == 'u':
		v, n = number(s[1:], 16, 4)
	case s[0] == 'U':
		v, n = number(s[1:], 16, 8)
	case s[0] != 'c' || len(s) == 1:
	case s[1] == '?':
		return 0x7f, 2
	case strings.HasPrefix(s[1:], `\\`): // \c\\ is one control character
		return '\\' & 0x1f, 3
	default:
		return uint32(s[1] & 0x1f), 2
	}
	if n > 0 {
		n++ // the letter
	}
	return v, n
}

// number reads up to limit digits and returns their value and count.
func number(s string, base uint32, limit int) (v uint32, n int) {
	for n < len(s) && n < limit {
		var d uint32
		switch c := s[n]; {
		case c >= '0' && c <= '9':
			d = uint32(c - '0')
		case c >= 'a' && c <= 'f':
			d = uint32(c-'a') + 10
		case c >= 'A' && c <= 'F':
			d = uint32(c-'A') + 10
		default:
			return v, n
		}
		if d >= base {
			return v, n
		}
		v, n = v*base+d, n+1
	}
	return v, n
}

// expandBraces appends the expansion of the braces in text from position at. It returns false for
// a range (1..5) and for more than the given number of steps.
func expandBraces(out []string, text, mask []byte, at int, steps *int) ([]string, bool) {
	if *steps--; *steps < 0 {
		return out, false
	}
	for i := at; i < len(text); i++ {
		if text[i] != '{' || mask[i] == 0 {
			continue
		}
		if *steps--; *steps < 0 {
			return out, false
		}
		end, commas, ranged := matchBrace(text, mask, i)
		if end < 0 || len(commas) == 0 && !ranged {
			continue
		}
		if len(commas) == 0 {
			return out, false
		}
		from := i + 1
		for _, to := range append(commas, end) {
			var ok bool
			t := slices.Concat(text[:i], text[from:to], text[end+1:])
			m := slices.Concat(mask[:i], mask[from:to], mask[end+1:])
			if out, ok = expandBraces(out, t, m, i, steps); !ok {
				return out, false
			}
			from = to + 1
		}
		return out, true
	}
	if len(text) > 0 {
		out = append(out, string(text))
	}
	return out, true
}

// matchBrace finds the closing brace for the one at i, the commas between its alternatives, and
// whether it has a range (1..5).
func matchBrace(text, mask []byte, i int) (end int, commas []int, ranged bool) {
	nested := 0
	for j := i + 1; j < len(text); j++ {
		if mask[j] == 0 {
			continue
		}
		switch text[j] {
		case '{':
			nested++
		case '}':
			if nested == 0 {
				return j, commas, ranged
			}
			nested--
		case ',':
			if nested == 0 {
				commas = append(commas, j)
			}
		case '.':
			ranged = ranged || nested == 0 && text[j-1] == '.' && mask[j-1] == 1
		}
	}
	return -1, nil, false
}
