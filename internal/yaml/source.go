package yaml

// Source is a document and how it is written: for whoever writes it anew.
type Source struct {
	Root     *Node
	Text     string    // the document without a byte order mark, its lines ended by \n
	Comments []Comment // in the order of the text

	values map[*Node]Written
}

// Comment is one that stands at Text[Start:End], from its # to the end of its line.
type Comment struct{ Start, End int }

// Written says where a value stands: at Text[Start:End]. Of a mapping or a list without
// brackets Start is that of its first key or dash, and End may lie behind blank lines
// and comments.
type Written struct {
	Start, End int
	Anchor     string // its name, which stands before Start
	Dash       int    // of an item of a list without brackets: where the dash before it stands
	Indent     int    // of text behind | or >: by how many spaces
}

// ParseSource reads one document as Parse does, and keeps how it is written. An alias
// is a copy of what it stands for.
func ParseSource(data []byte) (*Source, error) {
	s := &Source{values: map[*Node]Written{}}
	var err error
	if s.Root, err = parse(data, s); err != nil {
		return nil, err
	}
	s.Text = text(data)
	return s, nil
}

// Written returns where a value stands. A Null that is not written is empty, where it
// would stand.
func (s *Source) Written(n *Node) Written { return s.values[n] }

// What follows is called by the reader, whose Source is nil where nobody asks.

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

// comment notes a comment, once: the reader may pass it twice.
func (s *Source) comment(start, end int) {
	if s != nil && (len(s.Comments) == 0 || s.Comments[len(s.Comments)-1].Start < start) {
		s.Comments = append(s.Comments, Comment{start, end})
	}
}
