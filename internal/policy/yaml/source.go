package yaml

// A Source is a document with the positions of its values and comments, for programs that edit
// it.
type Source struct {
	Root     *Node
	Text     string    // the document without a byte order mark, with "\n" at the end of every line
	Comments []Comment // in the order of the text

	values map[*Node]Written
}

// A Comment is the comment in Text[Start:End], from its "#" to the end of its line.
type Comment struct{ Start, End int }

// Written is the position of a value: Text[Start:End]. For a mapping or a list without brackets,
// Start is its first key or dash, and End may be after blank lines and comments.
type Written struct {
	Start, End int
	Anchor     string // name of the anchor, which is before Start
	Dash       int    // offset of the dash before an item of a list without brackets
	Indent     int    // number of spaces that indent text after | or >
}

// ParseSource reads one document like Parse, and also returns the positions of its values. An
// alias is a copy of the value of its anchor.
func ParseSource(data []byte) (*Source, error) {
	s := &Source{values: map[*Node]Written{}}
	var err error
	if s.Root, err = parse(data, s); err != nil {
		return nil, err
	}
	s.Text = text(data)
	return s, nil
}

// Written returns the position of a value. For a Null without text it is empty, at the place
// where the value would be.
func (s *Source) Written(n *Node) Written { return s.values[n] }

// The reader calls the following methods. Its Source is nil if the caller does not need it.

func (s *Source) note(n *Node, change func(*Written)) {
	if s != nil {
		w := s.values[n]
		change(&w)
		s.values[n] = w
	}
}

func (s *Source) wrote(n *Node, start, end int) {
	s.note(n, func(w *Written) { w.Start, w.End = start, end })
}

func (s *Source) item(n *Node, dash int) {
	s.note(n, func(w *Written) { w.Dash = dash })
}

func (s *Source) indent(n *Node, spaces int) {
	s.note(n, func(w *Written) { w.Indent = spaces })
}

func (s *Source) anchor(n *Node, name string) {
	s.note(n, func(w *Written) { w.Anchor = name })
}

func (s *Source) same(key, n *Node) {
	if s != nil {
		s.values[key] = s.values[n]
	}
}

// comment records a comment once: the reader may pass it twice.
func (s *Source) comment(start, end int) {
	if s != nil && (len(s.Comments) == 0 || s.Comments[len(s.Comments)-1].Start < start) {
		s.Comments = append(s.Comments, Comment{start, end})
	}
}
