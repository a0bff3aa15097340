package expr

import "slices"

// A Part is an expression, or an operand of its operators and, or and not.
type Part struct {
	Source string
	At     int    // offset of its first byte in the whole expression
	Op     string // and, or, not: the operator that joins Parts; empty = a condition
	Parts  []Part // two or more operands of and and or, one operand of not
}

// Parts splits an expression that compiles. Brackets around a part are not included. The
// operators and, or and not inside a call, a list, an if or a conditional are not split.
func Parts(source string) (p Part, err error) {
	defer catch(&err)
	l := lexer{source: source}
	var s splitter
	for l.next(); l.tok.kind != end; l.next() {
		s.tokens, s.ends = append(s.tokens, l.tok), append(s.ends, l.pos)
	}
	s.source = source
	if len(s.tokens) == 0 {
		l.unexpected()
	}
	return s.part(0, len(s.tokens)), nil
}

type splitter struct {
	source string
	tokens []token
	ends   []int // end offsets of the tokens
}

// part splits the tokens from i up to j.
func (s *splitter) part(i, j int) Part {
	for s.tokens[i].is("(") && s.closes(i) == j-1 && j-i > 2 {
		i, j = i+1, j-1
	}
	p := Part{Source: s.source[s.tokens[i].at:s.ends[j-1]], At: s.tokens[i].at}
	if s.find(i, j, "let", "if", "?", ";", "|") != nil { // these bind weaker than and, or and not
		return p
	}
	for _, op := range [][]string{{"or", "||"}, {"and", "&&"}} {
		if at := s.find(i, j, op...); at != nil {
			p.Op = op[0]
			for _, k := range append(at, j) {
				p.Parts = append(p.Parts, s.part(i, k))
				i = k + 1
			}
			return p
		}
	}
	if (s.tokens[i].is("not") || s.tokens[i].is("!")) && j-i > 3 && s.tokens[i+1].is("(") && s.closes(i+1) == j-1 {
		p.Op, p.Parts = "not", []Part{s.part(i+1, j)}
	}
	return p
}

// find returns the positions of any of the operators outside brackets.
func (s *splitter) find(i, j int, operators ...string) (at []int) {
	for ; i < j; i++ {
		switch tok := s.tokens[i]; {
		case tok.kind != operator:
		case tok.text == "(" || tok.text == "[" || tok.text == "{":
			i = s.closes(i)
		case slices.Contains(operators, tok.text):
			at = append(at, i)
		}
	}
	return at
}

// closes returns the position of the bracket that closes the one at i.
func (s *splitter) closes(i int) int {
	depth := 0
	for ; i < len(s.tokens); i++ {
		if s.tokens[i].kind != operator {
			continue
		}
		switch s.tokens[i].text {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return i
}

// Names returns the names that the program uses, as indexes of the names that Compile got.
func (p *Program) Names() []int { return slices.Clone(p.names) }
