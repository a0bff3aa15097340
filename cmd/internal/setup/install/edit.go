package install

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// Adding and removing are exact opposites. Adding to a list that is not empty only inserts: a
// comma after the last item, and the new items after the comments that follow it. Removing
// deletes an item with the white space before it and one comma. The white space in an empty list
// that a first item replaces is stored in installation.Made. So no offsets are stored, and edits
// in other parts of the file do not matter.

// A splice replaces cut bytes at an offset by text.
type splice struct {
	at, cut int
	text    string
}

// apply returns data with all splices applied. They must not overlap; splices at the same offset
// are applied in the given order.
func apply(data []byte, splices []splice) []byte {
	slices.SortStableFunc(splices, func(a, b splice) int { return cmp.Compare(a.at, b.at) })
	var out []byte
	done := 0
	for _, s := range splices {
		out = append(out, data[done:s.at]...)
		out = append(out, s.text...)
		done = s.at + s.cut
	}
	return append(out, data[done:]...)
}

// A style describes the formatting of a file.
type style struct {
	newline string
	unit    string // one step of indentation
	colon   string // between key and value
	comma   string // between items on one line
}

// styleOf returns the style of a document. For anything that the document does not show, it uses
// the style of JSON.stringify(x, null, 2), as the agents do.
func styleOf(d *document) style {
	s := style{newline: "\n", unit: "  ", colon: ": ", comma: ", "}
	if i := bytes.IndexByte(d.data, '\n'); i > 0 && d.data[i-1] == '\r' {
		s.newline = "\r\n"
	}
	if d.root == nil || len(d.root.items) == 0 {
		return s
	}
	first := d.root.items[0]
	if bytes.HasSuffix(d.data[:first.value.StartOffset], []byte(":")) {
		s.colon, s.comma = ":", ","
	}
	if unit, ok := d.unit(d.root); ok {
		s.unit = unit
	}
	return s
}

// unit returns one step of indentation in the container, or in its first part that has indented
// lines.
func (d *document) unit(c *container) (unit string, ok bool) {
	outer := d.indentAt(c.open)
	for _, it := range c.items {
		if inner, own := d.ownLine(it.start); own {
			if step, deeper := strings.CutPrefix(inner, outer); deeper && step != "" {
				return step, true
			}
			unit, ok = "", true
		}
	}
	for _, it := range c.items {
		if sub := newContainer(it.value); sub != nil {
			if u, found := d.unit(sub); found && u != "" {
				return u, true
			}
		}
	}
	return unit, ok
}

// indentAt returns the indentation of the line that contains the offset.
func (d *document) indentAt(offset int) string {
	line := d.data[bytes.LastIndexByte(d.data[:offset], '\n')+1 : offset]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// ownLine reports whether only white space is before the offset on its line, and returns it.
func (d *document) ownLine(offset int) (indent string, ok bool) {
	start := offset // do not search for the start of the line: a file may be one long line
	for start > 0 && (d.data[start-1] == ' ' || d.data[start-1] == '\t') {
		start--
	}
	if start == 0 || d.data[start-1] != '\n' {
		return "", false
	}
	return string(d.data[start:offset]), true
}

// A layout describes how new items of a container are formatted.
type layout struct {
	style
	lines  bool   // each item on its own line; otherwise all on one line
	indent string // indentation of these lines
	flat   bool   // nested containers stay on one line
}

// nested returns the layout of a container that is an item of l.
func (l layout) nested() layout {
	return layout{style: l.style, lines: l.lines && !l.flat, indent: l.indent + l.unit}
}

// before returns the white space before an item.
func (l layout) before(first bool) string {
	switch {
	case l.lines:
		return l.newline + l.indent
	case first:
		return ""
	}
	return strings.TrimPrefix(l.comma, ",")
}

// layoutOf returns the layout that the container shows, or else its surroundings.
func (d *document) layoutOf(c *container, s style, parent *layout) layout {
	l := layout{style: s}
	for _, it := range c.items { // the last item wins
		if indent, own := d.ownLine(it.start); own {
			l.lines, l.indent = true, indent
		}
	}
	switch {
	case len(c.items) > 0:
		// The top-level object does not show how lists of hooks are formatted.
		sub := newContainer(c.items[len(c.items)-1].value)
		l.flat = parent != nil && sub != nil && len(sub.items) > 0 && !bytes.ContainsRune(d.data[sub.open:sub.close], '\n')
	case parent == nil: // an empty {} shows nothing
		l.lines, l.indent = true, d.indentAt(c.open)+s.unit
	default:
		l = parent.nested()
	}
	return l
}

// insert returns the splices that add values after the last item of c. gap is the white space
// that they replace if c is empty.
func (d *document) insert(c *container, l layout, values []field) (splices []splice, gap string) {
	from := c.open + 1
	if n := len(c.items); n > 0 {
		from = c.items[n-1].end()
		splices = append(splices, splice{at: from, text: ","})
	}
	tail := d.data[from:c.close]
	n, line := afterComments(tail)
	if line && !l.lines {
		// On the same line, the new text would become part of the comment.
		l.lines, l.indent, l.flat = true, d.indentAt(c.open)+l.unit, true
	}
	var b strings.Builder
	for i, f := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(l.before(i == 0 && len(c.items) == 0))
		f.write(&b, l)
	}
	s := splice{at: from + n, text: b.String()}
	if len(c.items) == 0 {
		gap = string(tail[n:])
		s.cut = len(gap)
		if l.lines {
			s.text += l.newline + strings.TrimSuffix(l.indent, l.unit)
		}
	}
	return append(splices, s), gap
}

// remove returns the splices that remove the chosen items from c. gap is the result of insert if
// the list was empty before; nil if unknown.
func (d *document) remove(c *container, drop func(i int) bool, gap *string) []splice {
	var splices []splice
	var risky []int // splices that begin directly after a line comment
	kept := -1      // index of the last item that stays
	for i := range c.items {
		if !drop(i) {
			kept = i
		}
	}
	for i, it := range c.items {
		if drop(i) {
			from := c.open + 1
			if i > 0 {
				from = c.items[i-1].comma + 1
			}
			n, line := afterComments(d.data[from:it.start])
			if from += n; line {
				risky = append(risky, len(splices))
			}
			splices = append(splices, splice{at: from, cut: it.end() - from})
		}
		// A comma is removed with the item before it, and also if all items after it are removed.
		if it.comma >= 0 && (drop(i) || i == kept) {
			splices = append(splices, splice{at: it.comma, cut: 1})
		}
	}
	if kept < 0 && len(c.items) > 0 {
		// The list is empty now. Comments stay in it, and so does the white space around them.
		last := c.items[len(c.items)-1].end()
		if n, _ := afterComments(d.data[last:c.close]); n == 0 {
			s := splice{at: last, cut: c.close - last}
			if gap != nil {
				s.text = *gap
			}
			splices = append(splices, s)
		}
	}
	for _, i := range risky {
		// Keep the newline that ends the comment, or the comment would include the following
		// text.
		if s := &splices[i]; !d.lineEnds(s.at+s.cut, splices[i+1:]) {
			keep := bytes.IndexByte(d.data[s.at:], '\n') + 1
			s.at, s.cut = s.at+keep, s.cut-keep
		}
	}
	return splices
}

// lineEnds reports whether only spaces follow the offset on its line after the splices are
// applied.
func (d *document) lineEnds(at int, splices []splice) bool {
	for at < len(d.data) {
		text := d.data[at : at+1]
		if len(splices) > 0 && splices[0].at == at {
			text = []byte(splices[0].text)
			at += splices[0].cut
			splices = splices[1:]
		} else {
			at++
		}
		if text = bytes.TrimLeft(text, " \t\r"); len(text) > 0 {
			return text[0] == '\n'
		}
	}
	return true
}

// A field is a value to write, with its key if it is a member.
type field struct {
	key   string
	value any // string, raw, []field for an object, list for an array
}

type list []field

// write writes the field as an item of a container with layout l.
func (f field) write(b *strings.Builder, l layout) {
	if f.key != "" {
		b.Write(hujson.String(f.key))
		b.WriteString(l.colon)
	}
	switch v := f.value.(type) {
	case string:
		b.Write(hujson.String(v))
	case raw:
		b.WriteString(string(v))
	case []field:
		writeItems(b, l, '{', v, '}')
	case list:
		writeItems(b, l, '[', v, ']')
	}
}

func writeItems(b *strings.Builder, l layout, opening byte, items []field, closing byte) {
	inner := l.nested()
	b.WriteByte(opening)
	for i, f := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(inner.before(i == 0))
		f.write(b, inner)
	}
	if inner.lines {
		b.WriteString(l.newline + l.indent)
	}
	b.WriteByte(closing)
}
