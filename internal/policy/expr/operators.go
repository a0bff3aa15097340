package expr

import "regexp"

// binary returns the node of an operator with two operands.
func (p *parser) binary(op token, a, b *node) *node {
	p.count(op.at)
	n := &node{typ: typ{kind: boolean}, at: op.at}
	both := func(kinds ...kind) { // both operands must be of one of these kinds
		if !a.is(kinds...) || !b.is(kinds...) {
			p.failf(op.at, "%s does not work with %s and %s", op.text, a.kind, b.kind)
		}
	}
	switch op.text {
	case "and", "&&":
		both(boolean)
		n.eval = func(m *machine) any {
			if v := a.eval(m); !m.truth(op.at, v) {
				return v
			}
			return b.eval(m)
		}
	case "or", "||":
		both(boolean)
		n.eval = func(m *machine) any {
			if v := a.eval(m); m.truth(op.at, v) {
				return v
			}
			return b.eval(m)
		}
	case "==", "!=":
		if !a.comparable(b.typ) {
			both()
		}
		equal := op.text == "=="
		n.eval = func(m *machine) any { return m.equal(op.at, a.eval(m), b.eval(m)) == equal }
	case "<", ">", "<=", ">=":
		if a.kind == text || b.kind == text {
			both(text)
		}
		both(text, integer, float)
		n.eval = func(m *machine) any { return m.compare(op, a.eval(m), b.eval(m)) }
	case "in":
		p.in(op, a, b)
		n.eval = func(m *machine) any { return m.in(op.at, a.eval(m), b.eval(m)) }
	case "contains", "startsWith", "endsWith":
		both(text)
		n.eval = func(m *machine) any { return m.has(op, a.eval(m), b.eval(m)) }
	case "matches":
		both(text)
		n.eval = p.matches(op, a, b)
	case "??":
		switch {
		case a.kind == null:
			n.typ = b.typ
		case b.kind == null || b.same(a.typ):
			n.typ = a.typ
		default:
			n.typ = typ{}
		}
		n.eval = func(m *machine) any {
			if v := a.eval(m); v != nil {
				return v
			}
			return b.eval(m)
		}
	case "..":
		both(integer)
		n.typ = listOf(typ{kind: integer})
		n.eval = func(m *machine) any {
			return m.span(op, m.whole(op.at, a.eval(m)), m.whole(op.at, b.eval(m)))
		}
	case "+":
		if a.kind == text || b.kind == text {
			both(text)
		}
		both(text, integer, float)
		n.typ = sum(a, b)
		n.eval = func(m *machine) any { return m.add(op, a.eval(m), b.eval(m)) }
	default:
		both(integer, float)
		switch op.text {
		case "-", "*":
			n.typ = sum(a, b)
		case "%":
			both(integer)
			n.kind = integer
		default:
			n.kind = float
		}
		n.eval = func(m *machine) any { return m.calculate(op, a.eval(m), b.eval(m)) }
	}
	return n
}

// sum returns the type of the sum of two values.
func sum(a, b *node) typ {
	switch {
	case a.kind == unknown || b.kind == unknown:
		return typ{}
	case a.kind == b.kind:
		return a.typ
	}
	return typ{kind: float}
}

// in checks the operand types of the operator in.
func (p *parser) in(op token, a, b *node) {
	switch {
	case b.kind == object:
		p.want(a, text, "a key")
	case b.kind == list:
		if !a.comparable(b.element()) {
			p.failf(op.at, "%s cannot be in a list of %s", a.kind, b.element().kind)
		}
	case b.kind != unknown:
		hint := ""
		if b.kind == text {
			hint = "; write b contains a"
		}
		p.failf(op.at, "`in` does not work with %s%s", b.kind, hint)
	}
}

// matches compiles a literal pattern once. Any other pattern is compiled in each run.
func (p *parser) matches(op token, a, b *node) eval {
	var pattern *regexp.Regexp
	if source, ok := b.value.(string); ok {
		var err error
		if pattern, err = regexp.Compile(source); err != nil {
			p.failf(b.at, "%v", err)
		}
	}
	return func(m *machine) any {
		v, source, re := a.eval(m), b.eval(m), pattern
		if v == nil || source == nil {
			return false
		}
		if re == nil {
			re = m.pattern(op.at, source)
		}
		s := m.text(op.at, v)
		m.spend(op.at, len(s), costMatch)
		return re.MatchString(s)
	}
}

// pattern compiles the right operand of matches in this run.
func (m *machine) pattern(at int, v any) *regexp.Regexp {
	source := m.text(at, v)
	if len(source) > maxPattern {
		m.failf(at, "the pattern has %d bytes, more than %d", len(source), maxPattern)
	}
	m.spend(at, len(source), costElement)
	re, err := regexp.Compile(source)
	if err != nil {
		m.failf(at, "%v", err)
	}
	return re
}
