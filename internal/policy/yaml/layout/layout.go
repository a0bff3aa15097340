// Package layout formats a YAML file: two spaces, short lists in one line, no unnecessary quotes,
// comments and blank lines at their values. It never changes the meaning of a file and loses no
// comment:
//
//	out, err := layout.Format(data, map[string][]string{"hooks[]": {"name", "on"}})
//
// It does not wrap text, and it sorts only the keys for which the caller gives an order.
package layout

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
)

// Width is the maximum number of characters in a line before a value in brackets is split. A
// longer text stays on one line.
const Width = 140

// ErrMarkers is the error for a file with more than one "---" before its value.
var ErrMarkers = errors.New("the formatter does not support lines such as --- and ...: delete them")

// errMeaning is the error for a bug in this package. Format then returns no output.
var errMeaning = errors.New("formatting it would change its meaning or lose a comment")

// Format formats a file. The keys of mappings get the order that is given for their path. Other
// keys keep their order, at the position of "*" or after the given keys. A path consists of keys
// and, for the items of a list, []: "hooks[].match". A file with one value in brackets, such as
// JSON, is not changed. Formatting a formatted file does not change it.
//
// The error is a *yaml.Error if the file is not YAML.
func Format(data []byte, order map[string][]string) ([]byte, error) {
	src, err := yaml.ParseSource(data)
	if err != nil {
		return nil, err
	}
	if src.Root.Kind != yaml.Null && src.Root.Kind != yaml.Map && src.Root.Kind != yaml.List {
		return nil, errors.New("it is neither a mapping nor a list, so there is nothing to format")
	}
	p := &printer{src: src, order: order, comments: src.Comments}
	root := src.Written(src.Root)
	if p.bracketed(src.Root) {
		return data, nil
	}
	if err := p.document(root.Start); err != nil {
		return nil, err
	}
	out := []byte(p.text())
	if again, err := yaml.ParseSource(out); err != nil || !same(src.Root, again.Root) || !slices.Equal(texts(src), texts(again)) {
		return nil, errMeaning
	}
	return out, nil
}

// same reports whether two files have the same meaning. The order of keys is ignored.
func same(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.Text == b.Text && slices.EqualFunc(a.Items, b.Items, same) &&
		slices.EqualFunc(sorted(a.Pairs), sorted(b.Pairs), func(a, b yaml.Pair) bool {
			return a.Key.Text == b.Key.Text && same(a.Value, b.Value)
		})
}

func sorted(pairs []yaml.Pair) []yaml.Pair {
	return slices.SortedFunc(slices.Values(pairs), func(a, b yaml.Pair) int { return cmp.Compare(a.Key.Text, b.Key.Text) })
}

// texts returns the comments of a file, sorted.
func texts(s *yaml.Source) []string {
	var list []string
	for _, c := range s.Comments {
		list = append(list, strings.TrimRight(s.Text[c.Start:c.End], " \t"))
	}
	slices.Sort(list)
	return list
}

// A block is a mapping or a list over several lines, with its comments.
type block struct {
	list    bool
	entries []entry
	foot    []comment // after the last entry
}

type entry struct {
	at         int       // its start: the dash, the key, or the key's anchor
	head       []comment // in the lines before it
	blank      bool      // a blank line is before it
	key, value *yaml.Node
	tail       comment // at the end of its first line; no text = no comment
	body       *block  // the value, if it is a block
}

type comment struct {
	text  string
	blank bool // a blank line is before it
	col   int  // column of a comment at the end of a line
}

// A printer assigns the comments of a file to entries, from left to right, and then writes line
// after line.
type printer struct {
	src      *yaml.Source
	order    map[string][]string
	comments []yaml.Comment // comments that are not assigned yet
	lines    []line
	kept     bool // the last line is part of a text that keeps its blank lines; another blank line would become part of the text
	unended  int  // number of lines if the last has no line end, which would be part of a text
}

type line struct {
	text string
	tail comment
}

// document formats the whole file. Its value begins at start.
func (p *printer) document(start int) error {
	marker := false
	if p.src.Root.Kind == yaml.Null {
		start = len(p.src.Text)
	}
	at := 0
	for c := range strings.SplitSeq(p.src.Text[:start], "\n") {
		switch word, _, _ := strings.Cut(strings.TrimSpace(c), "#"); {
		case strings.TrimSpace(word) == "":
		case word == "---" && strings.HasPrefix(c, "---") && !marker && p.noComment(at):
			marker = true
		default:
			return ErrMarkers
		}
		at += len(c) + 1
	}
	if i := strings.LastIndex("\n"+p.src.Text, "\n..."); i >= start || strings.LastIndex("\n"+p.src.Text, "\n---") > start {
		return ErrMarkers // it may also be text, but that is rare
	}
	root := &block{}
	if p.src.Root.Kind != yaml.Null {
		root = p.build(p.src.Root, len(p.src.Text))
	}
	root.foot = append(root.foot, p.take(len(p.src.Text)+1)...)
	if marker {
		p.lines = append(p.lines, line{text: "---"})
	}
	p.block(root, 0, "")
	return nil
}

// noComment reports whether no comment is left before an offset.
func (p *printer) noComment(at int) bool { return len(p.comments) == 0 || p.comments[0].Start >= at }

// bracketed reports whether a list or a mapping is written in brackets.
func (p *printer) bracketed(n *yaml.Node) bool {
	w := p.src.Written(n)
	return (n.Kind == yaml.List || n.Kind == yaml.Map) && !p.alias(n) && strings.IndexByte("[{", p.src.Text[w.Start]) >= 0
}

func (p *printer) alias(n *yaml.Node) bool {
	w := p.src.Written(n)
	return w.End > w.Start && p.src.Text[w.Start] == '*'
}

// blocky reports whether a value is a list or a mapping without brackets.
func (p *printer) blocky(n *yaml.Node) bool {
	return (n.Kind == yaml.List || n.Kind == yaml.Map) && !p.alias(n) && !p.bracketed(n)
}

// begin returns the start of a value, or of the anchor before it.
func (p *printer) begin(n *yaml.Node) int {
	w := p.src.Written(n)
	if w.Anchor != "" {
		return strings.LastIndex(p.src.Text[:w.Start], "&"+w.Anchor)
	}
	return w.Start
}

// take removes and returns the comments before an offset.
func (p *printer) take(before int) []comment {
	var list []comment
	for len(p.comments) > 0 && p.comments[0].Start < before {
		list = append(list, p.pop())
	}
	return list
}

func (p *printer) pop() comment {
	c := p.comments[0]
	p.comments = p.comments[1:]
	return comment{
		text:  strings.TrimRight(p.src.Text[c.Start:c.End], " \t"),
		blank: p.blankBefore(c.Start),
		col:   utf8.RuneCountInString(p.src.Text[p.lineOf(c.Start):c.Start]),
	}
}

// behind removes and returns the comment at the end of the line of an offset, if it begins before
// limit.
func (p *printer) behind(at, limit int) comment {
	if len(p.comments) == 0 || p.comments[0].Start >= limit || p.comments[0].Start < at || strings.Contains(p.src.Text[at:p.comments[0].Start], "\n") {
		return comment{}
	}
	return p.pop()
}

func (p *printer) lineOf(at int) int { return strings.LastIndexByte(p.src.Text[:at], '\n') + 1 }

// blankBefore reports whether the text at an offset is the first in its line, with a blank line
// before it.
func (p *printer) blankBefore(at int) bool {
	start := p.lineOf(at)
	if start == 0 || strings.Trim(p.src.Text[start:at], " \t") != "" {
		return false
	}
	return strings.Trim(p.src.Text[p.lineOf(start-1):start-1], " \t") == ""
}

// build assigns the comments in and after a list or a mapping. limit is the start of the next
// value that is not part of it.
func (p *printer) build(n *yaml.Node, limit int) *block {
	w := p.src.Written(n)
	inBrackets := p.bracketed(n)
	b := &block{list: n.Kind == yaml.List}
	for _, item := range n.Items {
		at := p.src.Written(item).Dash
		if inBrackets {
			at = p.begin(item)
		}
		b.entries = append(b.entries, entry{at: at, value: item})
	}
	for _, pair := range n.Pairs {
		b.entries = append(b.entries, entry{at: p.begin(pair.Key), key: pair.Key, value: pair.Value})
	}
	if inBrackets {
		limit = w.End - 1
	}
	for i := range b.entries {
		next := limit
		if i+1 < len(b.entries) {
			next = b.entries[i+1].at
		}
		p.fill(&b.entries[i], next)
	}
	if inBrackets {
		b.foot = p.take(limit)
		return b
	}
	col := b.entries[0].at - p.lineOf(b.entries[0].at)
	if limit < len(p.src.Text) && col == limit-p.lineOf(limit) {
		col++ // after a list at the column of its key, a comment at that column is for the next key
	}
	for len(p.comments) > 0 && p.comments[0].Start < limit && p.comments[0].Start-p.lineOf(p.comments[0].Start) >= col {
		b.foot = append(b.foot, p.pop())
	}
	return b
}

// fill assigns the comments before, in and after an entry.
func (p *printer) fill(e *entry, next int) {
	e.head, e.blank = p.take(e.at), p.blankBefore(e.at)
	w := p.src.Written(e.value)
	behindKey := e.at + 1 // after the dash
	if e.key != nil {
		behindKey = p.src.Written(e.key).End
	}
	if e.tail = p.behind(behindKey, w.Start); e.key == nil && p.blocky(e.value) {
		e.push()
	}
	if p.blocky(e.value) {
		e.body = p.build(e.value, next)
		return
	}
	if list := p.take(w.Start); len(list) > 0 {
		e.push()
		e.head = append(e.head, list...)
	}
	if len(p.comments) > 0 && p.comments[0].Start < w.End && p.bracketed(e.value) {
		if opened := p.behind(w.Start+1, p.inside(e.value)); opened.text != "" {
			e.push()
			e.tail = opened
		}
		if e.body = p.build(e.value, next); len(e.body.entries) == 0 {
			if len(e.body.foot) > 0 {
				e.push()
			}
			e.head = append(e.head, e.body.foot...)
			e.body = nil
		}
	}
	end := w.End
	if len(p.comments) > 0 && p.comments[0].Start < w.End { // after | or >
		end = w.Start
	}
	if tail := p.behind(end, next); tail.text != "" {
		e.push()
		e.tail = tail
	}
	if e.key == nil && e.body != nil {
		e.push()
	}
}

// inside returns the start of the first value in brackets.
func (p *printer) inside(n *yaml.Node) int {
	switch {
	case len(n.Items) > 0:
		return p.begin(n.Items[0])
	case len(n.Pairs) > 0:
		return p.begin(n.Pairs[0].Key)
	}
	return p.src.Written(n).End
}

// push moves the comment at the end of the line to a separate line.
func (e *entry) push() {
	if e.tail.text != "" {
		e.head = append(e.head, comment{text: e.tail.text})
		e.tail = comment{}
	}
}
