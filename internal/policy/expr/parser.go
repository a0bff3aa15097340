package expr

import (
	"slices"
	"unicode/utf8"
)

// A node is a part of an expression, ready to run.
type node struct {
	typ
	at   int // offset in the source
	eval eval

	fixed  bool   // the result is the same in every run
	value  any    // the result, if it is fixed
	object string // the name of this part, if that name has members

	// open evaluates the node without ending an optional chain: in a?.b.c, if a is nil, it
	// returns skipped, so that .c is skipped too.
	open eval
}

// skipped is the value of an optional chain that ended early.
type skipped struct{}

// A parser compiles a program in one pass.
type parser struct {
	lexer
	names   []Name
	program *Program
	nodes   int
	vars    []variable // variables in scope
	loop    *loop      // the loop of the condition that is parsed, or nil
}

type variable struct {
	name string
	typ
	slot int
}

type loop struct {
	item     typ
	hasIndex bool // #index is allowed
}

// count limits the size of an expression.
func (p *parser) count(at int) {
	if p.nodes++; p.nodes > maxNodes {
		p.failf(at, "the expression has more than %d parts", maxNodes)
	}
}

// want checks the type of a part.
func (p *parser) want(n *node, k kind, what string) {
	if !n.is(k) {
		p.failf(n.at, "%s wants %s, got %s", what, k, n.kind)
	}
}

func (p *parser) accept(operator string) bool {
	if !p.tok.is(operator) {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(operator string) {
	if !p.accept(operator) {
		p.unexpected()
	}
}

// word expects a name and returns its token.
func (p *parser) word() token {
	tok := p.tok
	if tok.kind != word {
		p.unexpected()
	}
	p.next()
	return tok
}

// The precedence of operators.
const (
	bindsPipe     = 0
	bindsCompare  = 20
	bindsNot      = 50
	bindsSign     = 90
	bindsPower    = 100
	bindsCoalesce = 500
)

// binds returns the precedence of a binary operator, or -1.
func binds(t token) int {
	if t.kind != operator {
		return -1
	}
	switch t.text {
	case "|":
		return bindsPipe
	case "or", "||":
		return 10
	case "and", "&&":
		return 15
	case "==", "!=", "<", ">", "<=", ">=", "in", "matches", "contains", "startsWith", "endsWith":
		return bindsCompare
	case "..":
		return 25
	case "+", "-":
		return 30
	case "*", "/", "%":
		return 60
	case "**", "^":
		return bindsPower
	case "??":
		return bindsCoalesce
	}
	return -1
}

// expression parses operands and the operators between them with at least the precedence least.
func (p *parser) expression(least int) *node {
	if least == 0 && p.accept("let") {
		return p.let()
	}
	if least == 0 && p.accept("if") {
		return p.branch()
	}
	left := p.operand()
	before := ""
	for {
		here := p.lexer
		negate := p.accept("not")
		op := p.tok
		strength := binds(op)
		if negate && (strength != bindsCompare || !isOperator(op.text)) {
			p.unexpected()
		}
		if strength < least {
			p.lexer = here
			break
		}
		p.next()
		switch {
		case strength == bindsPipe:
			left = p.call(p.word(), []*node{left})
		case before == "??" && op.text != "??":
			p.failf(op.at, "?? next to %s needs brackets around one of them", op.text)
		case op.text[0] == '<' || op.text[0] == '>':
			left = p.comparison(op, left)
		case strength == bindsPower: // right-associative
			left = p.binary(op, left, p.expression(strength))
		default:
			left = p.binary(op, left, p.expression(strength+1))
		}
		if negate {
			left = p.not(op.at, left)
		}
		before = op.text
	}
	if least == 0 {
		left = p.ternary(left)
	}
	return left
}

// comparison parses the rest of a comparison, which may be a chain: a < b <= c.
func (p *parser) comparison(op token, left *node) *node {
	right := p.expression(bindsCompare + 1)
	all := p.binary(op, left, right)
	for p.tok.kind == operator && (p.tok.text[0] == '<' || p.tok.text[0] == '>') {
		op, left = p.tok, right
		p.next()
		right = p.expression(bindsCompare + 1)
		all = p.binary(token{operator, "&&", op.at}, all, p.binary(op, left, right))
	}
	return all
}

// let parses name = value; and the expression that uses the name.
func (p *parser) let() *node {
	tok := p.word()
	if _, taken := p.find(tok.text); taken || slices.Contains(functions, tok.text) || p.variable(tok.text) != nil {
		p.failf(tok.at, "%s already exists; use another name", tok.text)
	}
	p.count(tok.at)
	p.expect("=")
	value := p.expression(0)
	p.expect(";")
	slot := p.program.vars
	p.program.vars++
	p.vars = append(p.vars, variable{tok.text, value.typ, slot})
	body := p.expression(0)
	p.vars = p.vars[:len(p.vars)-1]
	return &node{typ: body.typ, at: body.at, eval: func(m *machine) any {
		m.vars[slot] = value.eval(m)
		return body.eval(m)
	}}
}

// branch parses the rest of if c { a } else { b }.
func (p *parser) branch() *node {
	cond := p.expression(0)
	yes := p.block()
	p.expect("else")
	if p.accept("if") {
		return p.choice(cond, yes, p.branch())
	}
	return p.choice(cond, yes, p.block())
}

func (p *parser) block() *node {
	p.expect("{")
	n := p.expression(0)
	p.expect("}")
	return n
}

// ternary parses the rest of a conditional, if there is one: ? a : b, or ?: b.
func (p *parser) ternary(cond *node) *node {
	for p.accept("?") {
		yes := cond
		if !p.tok.is(":") {
			yes = p.expression(0)
		}
		p.expect(":")
		cond = p.choice(cond, yes, p.expression(0))
	}
	return cond
}

func (p *parser) choice(cond, yes, no *node) *node {
	p.count(cond.at)
	p.want(cond, boolean, "a condition")
	n := &node{at: cond.at, eval: func(m *machine) any {
		if m.truth(cond.at, cond.eval(m)) {
			return yes.eval(m)
		}
		return no.eval(m)
	}}
	switch {
	case yes.kind == null:
		n.typ = no.typ
	case no.kind == null:
		n.typ = yes.typ
	case yes.same(no.typ):
		n.typ = yes.typ
		if !yes.element().same(no.element()) {
			n.elem = nil
		}
	}
	return n
}

// operand parses a value with its prefixes and suffixes.
func (p *parser) operand() *node {
	tok := p.tok
	p.count(tok.at)
	switch {
	case p.accept("not"), p.accept("!"):
		return p.not(tok.at, p.expression(bindsNot))
	case p.accept("-"), p.accept("+"):
		return p.sign(tok, p.expression(bindsSign))
	case p.accept("("):
		n := p.expression(0)
		p.expect(")")
		return p.members(n)
	case p.loop != nil && (p.tok.is("#") || p.tok.is(".")):
		return p.members(p.item())
	case p.accept("["):
		return p.members(p.list(tok))
	case p.accept("{"):
		return p.members(p.object(tok))
	}
	switch tok.kind {
	case number:
		return p.constant(p.numberOf(tok))
	case quotation:
		return p.members(p.constant(tok.text))
	case word:
		switch tok.text {
		case "true", "false":
			return p.constant(tok.text == "true")
		case "nil":
			return p.constant(nil)
		}
		p.next()
		if p.tok.is("(") {
			return p.members(p.call(tok, nil))
		}
		return p.members(p.named(tok))
	case operator, end:
	}
	p.unexpected()
	return nil
}

// constant returns the node of the current token, with the value v.
func (p *parser) constant(v any) *node {
	at := p.tok.at
	p.next()
	if v == nil {
		return fixed(at, typ{kind: null}, nil)
	}
	return fixed(at, typeOf(v), v)
}

func fixed(at int, t typ, v any) *node {
	return &node{typ: t, at: at, fixed: true, value: v, eval: func(*machine) any { return v }}
}

func (p *parser) not(at int, n *node) *node {
	p.want(n, boolean, "not")
	return &node{typ: typ{kind: boolean}, at: at, eval: func(m *machine) any { return !m.truth(at, n.eval(m)) }}
}

func (p *parser) sign(op token, n *node) *node {
	if !n.is(integer, float) {
		p.want(n, float, op.text)
	}
	signed := &node{typ: n.typ, at: op.at, eval: n.eval}
	if op.text == "-" {
		signed.eval = func(m *machine) any {
			switch v := n.eval(m).(type) {
			case int:
				return -v
			case float64:
				return -v
			default:
				m.failf(op.at, "- wants a number, got %s", name(v))
				return nil
			}
		}
	}
	return signed
}

// find looks up a name of the caller.
func (p *parser) find(name string) (i int, ok bool) {
	i = slices.IndexFunc(p.names, func(n Name) bool { return n.Name == name })
	return i, i >= 0
}

func (p *parser) variable(name string) *variable {
	for i := range p.vars {
		if p.vars[i].name == name {
			return &p.vars[i]
		}
	}
	return nil
}

// named returns the node of a name: a variable or a name of the caller.
func (p *parser) named(tok token) *node {
	if v := p.variable(tok.text); v != nil {
		slot := v.slot
		return &node{typ: v.typ, at: tok.at, eval: func(m *machine) any { return m.vars[slot] }}
	}
	return p.global(tok.at, tok.text)
}

// global returns the node of a name of the caller.
func (p *parser) global(at int, name string) *node {
	i, ok := p.find(name)
	if !ok {
		err := failure(p.source, at, "unknown name %s", name)
		err.Unknown = name
		panic(err)
	}
	slot := slices.Index(p.program.names, i)
	if slot < 0 {
		slot = len(p.program.names)
		p.program.names = append(p.program.names, i)
	}
	n := &node{typ: typeOf(p.names[i].Like), at: at, eval: func(m *machine) any { return m.name(slot) }}
	if n.kind == object {
		n.object = name
	}
	return n
}

// item parses # or #index. In .name the # is implied.
func (p *parser) item() *node {
	at := p.tok.at
	if !p.accept("#") || p.tok.kind != word {
		return &node{typ: p.loop.item, at: at, eval: func(m *machine) any { return m.item }}
	}
	if name := p.word(); name.text != "index" || !p.loop.hasIndex {
		p.failf(at, "#%s is not available here, only #, and #index inside map", name.text)
	}
	return &node{typ: typ{kind: integer}, at: at, eval: func(m *machine) any { return m.index }}
}

// list parses the rest of [a, b].
func (p *parser) list(tok token) *node {
	items := p.items("]")
	// The element type comes from the last element only, as in github.com/expr-lang/expr.
	t := typ{kind: list}
	if len(items) > 0 && !slices.ContainsFunc(items, func(item *node) bool { return item.kind != items[0].kind }) {
		t.elem = &items[len(items)-1].typ
	}
	if !slices.ContainsFunc(items, func(item *node) bool { return !item.fixed }) {
		values := make([]any, len(items))
		for i, item := range items {
			values[i] = item.value
		}
		return fixed(tok.at, t, values)
	}
	return &node{typ: t, at: tok.at, eval: func(m *machine) any {
		m.spend(tok.at, len(items), costElement)
		values := make([]any, len(items))
		for i, item := range items {
			values[i] = item.eval(m)
		}
		return values
	}}
}

// items parses expressions up to a closing bracket. A comma may follow the last one.
func (p *parser) items(bracket string) []*node {
	var items []*node
	for !p.accept(bracket) {
		if len(items) > 0 {
			p.expect(",")
			if p.accept(bracket) {
				break
			}
		}
		items = append(items, p.expression(0))
	}
	return items
}

// object parses the rest of {a: 1, "b": 2, ("c" + d): 3}. If a key is repeated, its first value
// applies.
func (p *parser) object(tok token) *node {
	type pair struct{ key, value *node }
	var pairs []pair
	for !p.accept("}") {
		if len(pairs) > 0 {
			p.expect(",")
			if p.accept("}") {
				break
			}
		}
		var one pair
		switch p.tok.kind {
		case word, number, quotation:
			one.key = p.constant(p.tok.text)
		default:
			if !p.tok.is("(") {
				p.unexpected()
			}
			one.key = p.expression(0)
		}
		p.expect(":")
		one.value = p.expression(0)
		pairs = append(pairs, one)
	}
	return &node{typ: typ{kind: object}, at: tok.at, eval: func(m *machine) any {
		m.spend(tok.at, len(pairs), costElement)
		values := make(map[string]any, len(pairs))
		for _, one := range pairs {
			key, value := m.text(one.key.at, one.key.eval(m)), one.value.eval(m)
			if _, exists := values[key]; !exists {
				values[key] = value
			}
		}
		return values
	}}
}

// members parses the suffixes of a value: .name, ?.name, [index], [from:to].
func (p *parser) members(n *node) *node {
	for {
		at := p.tok.at
		optional := p.accept("?.")
		switch {
		case optional && !p.tok.is("["), !optional && p.accept("."):
			p.count(at)
			tok := p.tok
			if r, _ := utf8.DecodeRuneInString(tok.text); tok.kind != word && (tok.kind != operator || !alphanumeric(r)) {
				p.unexpected()
			}
			key := p.constant(tok.text)
			if p.tok.is("(") {
				p.failf(tok.at, "methods are not supported: write %s(value)", tok.text)
			}
			n = p.member(at, n, key, optional, true)
		case p.accept("["):
			p.count(at)
			n = p.index(at, n, optional)
		default:
			return n
		}
	}
}

// index parses the rest of [i] or [from:to].
func (p *parser) index(at int, n *node, optional bool) *node {
	var from, to *node
	if !p.tok.is(":") {
		from = p.expression(0)
		if p.accept("]") {
			return p.member(at, n, from, optional, false)
		}
	}
	p.expect(":")
	if !p.tok.is("]") {
		to = p.expression(0)
	}
	p.expect("]")
	if !n.is(text, list) {
		p.failf(at, "[:] wants text or a list, got %s", n.kind)
	}
	for _, edge := range []*node{from, to} {
		if edge != nil && n.kind != unknown {
			p.want(edge, integer, "[:]")
		}
	}
	return &node{typ: n.typ, at: at, eval: func(m *machine) any { return m.slice(at, n.eval(m), from, to) }}
}

// member returns the node of a member of an object or an element of a list. A dot continues an
// optional chain, also one in brackets; [ starts a new one.
func (p *parser) member(at int, of, key *node, optional, dot bool) *node {
	if field, ok := key.value.(string); ok && of.object != "" {
		return p.global(of.at, of.object+"."+field)
	}
	n := &node{typ: p.memberType(at, of, key), at: at}
	from, chain := of.eval, optional
	if dot && of.open != nil {
		from, chain = of.open, true
	}
	n.eval = func(m *machine) any {
		v := from(m)
		if v == nil && optional {
			return skipped{}
		}
		if v == (skipped{}) {
			return v
		}
		return m.member(at, v, key.eval(m))
	}
	if chain {
		open := n.eval
		n.open, n.eval = open, func(m *machine) any {
			v := open(m)
			if v == (skipped{}) {
				return nil
			}
			return v
		}
	}
	return n
}

// memberType returns the known type of a member. It rejects members that cannot exist.
func (p *parser) memberType(at int, of, key *node) typ {
	switch of.kind {
	case unknown:
		return typ{}
	case object:
		p.want(key, text, "a key")
		return typ{}
	case list:
		p.want(key, integer, "an index")
		return of.element()
	default:
		p.failf(at, "%s has no members", of.kind)
		return typ{}
	}
}
