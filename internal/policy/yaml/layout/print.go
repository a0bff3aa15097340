package layout

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
)

// text joins the lines. A column that several comments share stays the same; other comments follow
// their line after one blank.
func (p *printer) text() string {
	columns := map[int]int{}
	for _, l := range p.lines {
		if l.tail.text != "" && utf8.RuneCountInString(l.text) < l.tail.col {
			columns[l.tail.col]++
		}
	}
	var b strings.Builder
	for _, l := range p.lines {
		b.WriteString(l.text)
		if l.tail.text != "" {
			gap := l.tail.col - utf8.RuneCountInString(l.text)
			if columns[l.tail.col] < 2 {
				gap = 1
			}
			b.WriteString(strings.Repeat(" ", max(1, gap)) + l.tail.text)
		}
		b.WriteByte('\n')
	}
	if p.unended == len(p.lines) && p.unended > 0 {
		return strings.TrimSuffix(b.String(), "\n")
	}
	return b.String()
}

func (p *printer) emit(indent int, text string) {
	if text != "" {
		text = strings.Repeat(" ", indent) + text
	}
	p.lines = append(p.lines, line{text: text})
	p.kept = false
}

// gap adds a blank line if wanted, unless the block has no line yet or the blank line would
// become part of a text.
func (p *printer) gap(wanted bool, first int) {
	if wanted && len(p.lines) > first && !p.kept {
		p.emit(0, "")
	}
}

func (p *printer) comment(c comment, indent, first int) {
	p.gap(c.blank, first)
	p.emit(indent, c.text)
}

func (p *printer) block(b *block, indent int, path string) {
	first := len(p.lines)
	if rank := p.order[path]; len(rank) > 0 && !b.list && !p.named(b) {
		slices.SortStableFunc(b.entries, func(x, y entry) int { return place(rank, x) - place(rank, y) })
	}
	for i := range b.entries {
		e := &b.entries[i]
		below := path + "[]"
		if e.key != nil {
			below = strings.TrimPrefix(path+"."+e.key.Text, ".")
		}
		p.expand(e, indent)
		p.pull(e, indent, below)
		for _, c := range e.head {
			p.comment(c, indent, first)
		}
		p.gap(e.blank, first)
		p.entry(e, indent, below)
	}
	for _, c := range b.foot {
		p.comment(c, indent, first)
	}
}

func place(rank []string, e entry) int {
	for _, word := range []string{e.key.Text, "*"} {
		if i := slices.Index(rank, word); i >= 0 {
			return i
		}
	}
	return len(rank)
}

// named reports whether a block contains an anchor or an alias, so that its order must not
// change.
func (p *printer) named(b *block) bool {
	return slices.ContainsFunc(b.entries, func(e entry) bool {
		return e.key != nil && p.naming(e.key) || p.naming(e.value)
	})
}

func (p *printer) naming(n *yaml.Node) bool {
	return p.src.Written(n).Anchor != "" || p.alias(n) || slices.ContainsFunc(n.Items, p.naming) ||
		slices.ContainsFunc(n.Pairs, func(pair yaml.Pair) bool { return p.naming(pair.Key) || p.naming(pair.Value) })
}

// expand converts a value in brackets that does not fit into the line to a block.
func (p *printer) expand(e *entry, indent int) {
	if e.body != nil || !p.bracketed(e.value) || p.fits(e, indent) || p.fillable(e.value) {
		return
	}
	e.body = p.build(e.value, 0)
	if e.key == nil {
		e.push()
	}
}

// pull moves the comments before the first entry of an item to before the item, because comments
// cannot be between the dash and the entry.
func (p *printer) pull(e *entry, indent int, path string) {
	b := e.body
	if e.key != nil || b == nil || p.src.Written(e.value).Anchor != "" {
		return
	}
	if rank := p.order[path]; len(rank) > 0 && !b.list && !p.named(b) {
		slices.SortStableFunc(b.entries, func(x, y entry) int { return place(rank, x) - place(rank, y) })
	}
	first := &b.entries[0]
	p.expand(first, indent+2)
	p.pull(first, indent+2, path+"[]")
	e.head = append(e.head, first.head...)
	first.head, first.blank = nil, false
}

// label returns the text before a value: the key or the dash, and the anchor.
func (p *printer) label(e *entry) string {
	label := "-"
	if e.key != nil {
		label = p.anchor(e.key) + p.scalar(e.key, false) + ":"
		if p.alias(e.key) {
			label = p.scalar(e.key, false) + " :"
		}
	}
	return strings.TrimRight(label+" "+p.anchor(e.value), " ")
}

// fits reports whether a value in brackets fits into one line.
func (p *printer) fits(e *entry, indent int) bool {
	text, ok := p.brackets(e.value)
	return ok && (len(e.value.Items)+len(e.value.Pairs) == 0 || indent+utf8.RuneCountInString(p.label(e)+" "+text) <= Width)
}

// entry writes a key or a dash with its value and comments.
func (p *printer) entry(e *entry, indent int, path string) {
	label := p.label(e)
	if e.body == nil {
		p.inline(e, indent, label)
		return
	}
	if label == "-" {
		at := len(p.lines)
		p.block(e.body, indent+2, path)
		p.lines[at].text = strings.Repeat(" ", indent) + "- " + strings.TrimLeft(p.lines[at].text, " ")
		return
	}
	p.emit(indent, label)
	p.lines[len(p.lines)-1].tail = e.tail
	p.block(e.body, indent+2, path)
}

// inline writes an entry with a value that begins on the line of its key or dash.
func (p *printer) inline(e *entry, indent int, label string) {
	n := e.value
	w := p.src.Written(n)
	first := len(p.lines)
	written := p.src.Text[w.Start:w.End]
	switch {
	case p.bracketed(n) && p.fits(e, indent):
		text, _ := p.brackets(n)
		p.emit(indent, label+" "+text)
	case p.bracketed(n):
		p.emit(indent, label+" [")
		for _, row := range p.rows(n, indent+2) {
			p.emit(indent+2, row)
		}
		p.emit(indent, "]")
		first = len(p.lines) - 1
	case written != "" && (written[0] == '|' || written[0] == '>'):
		p.blockText(w, indent, label)
	case strings.Contains(written, "\n"):
		for i, l := range strings.Split(written, "\n") {
			if trimmed := strings.TrimRight(l, " \t"); written[0] != '"' || !strings.HasSuffix(trimmed, `\`) { // an escaped blank must be kept
				l = trimmed
			}
			if i == 0 {
				p.emit(indent, label+" "+l)
			} else {
				p.emit(indent+2, strings.TrimLeft(l, " \t"))
			}
		}
		first = len(p.lines) - 1
	default:
		p.emit(indent, strings.TrimRight(label+" "+p.scalar(n, false), " "))
	}
	p.lines[first].tail = e.tail
}

// blockText writes text after | or >, indented by two spaces.
func (p *printer) blockText(w yaml.Written, indent int, label string) {
	header, rest, _ := strings.Cut(p.src.Text[w.Start:w.End], "\n")
	header, _, _ = strings.Cut(header, " ")
	header, _, _ = strings.Cut(header, "\t")
	if i := strings.IndexAny(header, "123456789"); i >= 0 {
		header = header[:i] + "2" + header[i+1:]
	}
	p.emit(indent, label+" "+header)
	ends := w.End == len(p.src.Text)
	if rest != "" {
		lines := strings.Split(rest, "\n")
		if ends && strings.HasSuffix(rest, "\n") {
			lines = lines[:len(lines)-1] // the text after the last line end is not a line
		}
		for _, l := range lines {
			p.emit(indent+2, l[min(w.Indent, len(l)):])
		}
	}
	if ends && !strings.HasSuffix(p.src.Text, "\n") && !strings.Contains(header, "-") {
		p.unended = len(p.lines) // a line end would be part of the text
	}
	if p.kept = strings.Contains(header, "+"); p.kept {
		return
	}
	for p.lines[len(p.lines)-1].text == "" {
		p.lines = p.lines[:len(p.lines)-1]
	}
}

// anchor returns the anchor of a value followed by a space, or "".
func (p *printer) anchor(n *yaml.Node) string {
	if name := p.src.Written(n).Anchor; name != "" {
		return "&" + name + " "
	}
	return ""
}

// brackets returns a list or a mapping in brackets as one line; ok is false if a text in it spans
// several lines.
func (p *printer) brackets(n *yaml.Node) (text string, ok bool) {
	var parts []string
	ok = true
	add := func(n *yaml.Node) string {
		if p.blocky(n) { // a: b in a list
			key, value := p.anchor(n.Pairs[0].Key)+p.scalar(n.Pairs[0].Key, true), ""
			if value, ok = p.flow(n.Pairs[0].Value, ok); value != "" {
				key += ": " + value
			}
			return "{" + key + "}"
		}
		var text string
		text, ok = p.flow(n, ok)
		return text
	}
	for _, item := range n.Items {
		parts = append(parts, add(item))
	}
	for _, pair := range n.Pairs {
		key := p.anchor(pair.Key) + p.scalar(pair.Key, true)
		value := add(pair.Value)
		switch w := p.src.Written(pair.Value); {
		case w.Start == w.End && w.Anchor == "" && value == "":
		case p.alias(pair.Key):
			key += " : " + value
		default:
			key += ": " + value
		}
		parts = append(parts, key)
	}
	if n.Kind == yaml.List {
		return "[" + strings.Join(parts, ", ") + "]", ok
	}
	return "{" + strings.Join(parts, ", ") + "}", ok
}

// flow returns the text of a value inside brackets. The second result is false if ok is false or
// the value needs more than one line.
func (p *printer) flow(n *yaml.Node, ok bool) (string, bool) {
	text := ""
	if p.bracketed(n) {
		var fits bool
		text, fits = p.brackets(n)
		ok = ok && fits
	} else {
		text = p.scalar(n, true)
		ok = ok && !strings.Contains(text, "\n")
	}
	return strings.TrimRight(p.anchor(n)+text, " "), ok
}

// fillable reports whether a list that is too long stays in brackets, over several lines. That is
// the case for a list of words; a few long texts are easier to read one per line.
func (p *printer) fillable(n *yaml.Node) bool {
	return n.Kind == yaml.List && !slices.ContainsFunc(n.Items, func(item *yaml.Node) bool {
		text, ok := p.flow(item, true)
		return !ok || len(item.Items)+len(item.Pairs) > 0 && !p.alias(item) || utf8.RuneCountInString(text) > Width/2
	})
}

// rows returns the items of a list in their original lines. If one of these is too long, it uses
// as few lines as possible.
func (p *printer) rows(n *yaml.Node, indent int) []string {
	fill := func(broken func(i, width int) bool) (rows []string) {
		for i, item := range n.Items {
			text, _ := p.flow(item, true)
			text += ","
			if i > 0 && !broken(i, indent+utf8.RuneCountInString(rows[len(rows)-1]+" "+text)) {
				rows[len(rows)-1] += " " + text
			} else {
				rows = append(rows, text)
			}
		}
		return rows
	}
	rows := fill(func(i, _ int) bool {
		return strings.Contains(p.src.Text[p.src.Written(n.Items[i-1]).End:p.src.Written(n.Items[i]).Start], "\n")
	})
	if slices.ContainsFunc(rows, func(row string) bool { return indent+utf8.RuneCountInString(row) > Width }) {
		rows = fill(func(_, width int) bool { return width > Width })
	}
	return rows
}

// scalar returns a text, a number or another scalar, or an alias.
func (p *printer) scalar(n *yaml.Node, flow bool) string {
	w := p.src.Written(n)
	text := p.src.Text[w.Start:w.End]
	switch {
	case text == "" || text[0] != '"' && text[0] != '\'' || strings.Contains(text, "\n"):
		return text
	case p.plainText(n) && (!flow || !strings.ContainsAny(n.Text, ",:")):
		return n.Text
	case strings.ContainsFunc(n.Text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return text // with its original escapes
	case text[0] == '"' && strings.Contains(n.Text, `"`) && !strings.Contains(n.Text, "'"):
		return "'" + n.Text + "'"
	case text[0] == '\'' && strings.Contains(n.Text, "'") && !strings.ContainsAny(n.Text, `"\`):
		return `"` + n.Text + `"`
	}
	return text
}

// notText lists words that some YAML libraries do not read as text.
var notText = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

// duration matches one or more numbers with units.
var duration = regexp.MustCompile(`^(\d+(\.\d+)?(ms|s|m|h))+$`)

// plainText reports whether a text needs no quotes, for a YAML library or for a reader: it
// consists of words, or is a duration. Patterns keep their quotes.
func (p *printer) plainText(n *yaml.Node) bool {
	text := n.Text
	if duration.MatchString(text) {
		return true
	}
	first, _ := utf8.DecodeRuneInString(text)
	if !unicode.IsLetter(first) || slices.Contains(notText, strings.ToLower(text)) || strings.TrimSpace(text) != text ||
		strings.Contains(text, ": ") || strings.HasSuffix(text, ":") {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(" _-.,;:!?()'\"&%+=", r)
	})
}
