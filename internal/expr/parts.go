package expr

import "slices"

// A Part is an expression, or one of those that and, or and not make it of.
type Part struct {
	Source string
	At     int    // the byte of the whole expression where it begins
	Op     string // and, or, not: what joins Parts; empty = it is a condition
	Parts  []Part // two or more of and and or, one of not
}

// Parts divides an expression that compiles. Brackets around a part do not belong to it. What
// and, or and not do inside of a call, a list, an if or a ternary is left whole.
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
	ends   []int // where each ends
}

// part divides the tokens from i up to j.
func (s *splitter) part(i, j int) Part {
	for s.tokens[i].is("(") && s.closes(i) == j-1 && j-i > 2 {
		i, j = i+1, j-1
	}
	p := Part{Source: s.source[s.tokens[i].at:s.ends[j-1]], At: s.tokens[i].at}
	if s.find(i, j, "let", "if", "?", ";", "|") != nil { // they bind weaker than all that is divided
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

// find lists where one of the operators stands outside of brackets.
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

// closes is where the bracket is closed that opens at i.
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

// Names lists what the program speaks of, as indices of the names that Compile was given.
func (p *Program) Names() []int { return slices.Clone(p.names) }
