package install

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// Adding and removing are exact opposites. What is added to a list that holds
// something is only inserted: a comma right behind the last item, and the new
// items behind the comments that follow it. What is removed is taken out with
// the white space before it and one comma. White space that a first item
// replaces, in an empty list, is kept in installation.Made. So nobody has to remember
// offsets, and edits elsewhere in the file do not matter.

// A splice replaces cut bytes at an offset by text.
type splice struct {
	at, cut int
	text    string
}

// apply returns data with all splices done. They must not overlap; those at the
// same offset are done in the order given.
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

// A style is how a file is written.
type style struct {
	newline string
	unit    string // one step of indentation
	colon   string // between key and value
	comma   string // between items on one line
}

// styleOf finds the style of a document. What it does not show is filled in as
// JSON.stringify(x, null, 2) would write it, because both agents do.
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

// unit finds one step of indentation in the container or in the first part of
// it that shows one.
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

// indentAt is the white space that the line of the offset begins with.
func (d *document) indentAt(offset int) string {
	line := d.data[bytes.LastIndexByte(d.data[:offset], '\n')+1 : offset]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// ownLine reports whether only white space stands before the offset on its
// line, and which.
func (d *document) ownLine(offset int) (indent string, ok bool) {
	start := offset // not back to the line's start: a file may be one long line
	for start > 0 && (d.data[start-1] == ' ' || d.data[start-1] == '\t') {
		start--
	}
	if start == 0 || d.data[start-1] != '\n' {
		return "", false
	}
	return string(d.data[start:offset]), true
}

// A layout says how new items of a container are written.
type layout struct {
	style
	lines  bool   // each item on a line of its own; else all on one line
	indent string // of those lines
	flat   bool   // an item that is a container itself stays on one line
}

// nested is the layout of a container that is an item of l.
func (l layout) nested() layout {
	return layout{style: l.style, lines: l.lines && !l.flat, indent: l.indent + l.unit}
}

// before is the white space in front of an item.
func (l layout) before(first bool) string {
	switch {
	case l.lines:
		return l.newline + l.indent
	case first:
		return ""
	}
	return strings.TrimPrefix(l.comma, ",")
}

// layoutOf follows what the container shows, then what stands around it.
func (d *document) layoutOf(c *container, s style, parent *layout) layout {
	l := layout{style: s}
	for _, it := range c.items { // the last one counts
		if indent, own := d.ownLine(it.start); own {
			l.lines, l.indent = true, indent
		}
	}
	switch {
	case len(c.items) > 0:
		// The settings themselves say nothing about how a list of hooks looks.
		sub := newContainer(c.items[len(c.items)-1].value)
		l.flat = parent != nil && sub != nil && len(sub.items) > 0 && !bytes.ContainsRune(d.data[sub.open:sub.close], '\n')
	case parent == nil: // {} alone shows nothing
		l.lines, l.indent = true, d.indentAt(c.open)+s.unit
	default:
		l = parent.nested()
	}
	return l
}

// insert returns the splices that put values behind the last item of c. gap is
// the white space that they replace if c is empty.
func (d *document) insert(c *container, l layout, values []field) (splices []splice, gap string) {
	from := c.open + 1
	if n := len(c.items); n > 0 {
		from = c.items[n-1].end()
		splices = append(splices, splice{at: from, text: ","})
	}
	tail := d.data[from:c.close]
	n, line := afterComments(tail)
	if line && !l.lines {
		// On the same line we would be part of the comment.
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

// remove returns the splices that take the chosen items out of c. gap is what
// insert returned when the list was empty before; nil if that is not known.
func (d *document) remove(c *container, drop func(i int) bool, gap *string) []splice {
	var splices []splice
	var risky []int // splices that begin right behind a line comment
	kept := -1      // the last item that stays
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
		// A comma goes with the item before it, and also when all behind it go.
		if it.comma >= 0 && (drop(i) || i == kept) {
			splices = append(splices, splice{at: it.comma, cut: 1})
		}
	}
	if kept < 0 && len(c.items) > 0 {
		// The list is empty now. Comments in it stay, and then its white space.
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
		// Without the line end that closes it, the comment would swallow what
		// comes next.
		if s := &splices[i]; !d.lineEnds(s.at+s.cut, splices[i+1:]) {
			keep := bytes.IndexByte(d.data[s.at:], '\n') + 1
			s.at, s.cut = s.at+keep, s.cut-keep
		}
	}
	return splices
}

// lineEnds reports whether the line ends at the offset, or after spaces, once
// the splices behind it are done.
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

// A field is a value to be written, with its key if it is a member.
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
