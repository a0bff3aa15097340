package expr

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// functions lists the functions of the language.
var functions = []string{
	"len", "lower", "upper", "trim", "int", "float", "string", "any", "all", "none", "one", "filter", "map", "count", "keys", "values", "get",
}

// call parses the rest of a call. args holds the first argument if it comes before the function:
// a | f(b).
func (p *parser) call(tok token, args []*node) *node {
	p.count(tok.at)
	if !slices.Contains(functions, tok.text) {
		p.failf(tok.at, "unknown function %s, use one of %s", tok.text, strings.Join(functions, ", "))
	}
	p.expect("(")
	switch tok.text {
	case "any", "all", "none", "one", "filter", "map", "count":
		return p.each(tok, args)
	}
	args = append(args, p.items(")")...)
	least, most := 1, 1
	switch tok.text {
	case "get":
		least, most = 2, 2
	case "trim":
		most = 2
	}
	if len(args) < least || len(args) > most {
		p.failf(tok.at, "%s does not take %d arguments", tok.text, len(args))
	}
	t, call := p.function(tok, args)
	return &node{typ: t, at: tok.at, eval: call}
}

func (p *parser) function(tok token, args []*node) (typ, eval) {
	at, a := tok.at, args[0]
	takes := func(kinds ...kind) {
		if !a.is(kinds...) {
			p.failf(a.at, "%s does not take %s", tok.text, a.kind)
		}
	}
	switch tok.text {
	case "len":
		takes(text, list, object)
		return typ{kind: integer}, func(m *machine) any { return m.length(at, a.eval(m)) }
	case "lower", "upper":
		takes(text)
		change := strings.ToLower
		if tok.text == "upper" {
			change = strings.ToUpper
		}
		return typ{kind: text}, func(m *machine) any {
			s := m.text(at, a.eval(m))
			m.spend(at, len(s), costMade)
			return change(s)
		}
	case "trim":
		takes(text)
		if len(args) == 1 {
			return typ{kind: text}, func(m *machine) any { return strings.TrimSpace(m.text(at, a.eval(m))) }
		}
		p.want(args[1], text, "trim")
		return typ{kind: text}, func(m *machine) any {
			s, cut := m.text(at, a.eval(m)), m.text(at, args[1].eval(m))
			m.spend(at, len(s), 1+len(cut))
			return strings.Trim(s, cut)
		}
	case "int":
		takes(integer, float, text)
		return typ{kind: integer}, func(m *machine) any {
			v := a.eval(m)
			s, ok := v.(string)
			if !ok {
				return m.whole(at, v)
			}
			i, err := strconv.Atoi(s)
			if err != nil {
				m.failf(at, "int: %q is not a whole number", s)
			}
			return i
		}
	case "float":
		takes(integer, float, text)
		return typ{kind: float}, func(m *machine) any {
			v := a.eval(m)
			f, ok := toFloat(v)
			if !ok {
				var err error
				if f, err = strconv.ParseFloat(m.text(at, v), 64); err != nil {
					m.failf(at, "float: %q is not a number", v)
				}
			}
			return f
		}
	case "string":
		return typ{kind: text}, func(m *machine) any {
			s := fmt.Sprint(a.eval(m))
			m.spend(at, len(s), costMade)
			return s
		}
	case "keys", "values":
		takes(object)
		return typ{kind: list}, func(m *machine) any { return m.members(tok, a.eval(m)) }
	default: // get
		return p.get(at, a, args[1])
	}
}

// get returns a member that may be missing, also from a list and from nil.
func (p *parser) get(at int, of, key *node) (typ, eval) {
	return p.memberType(at, of, key), func(m *machine) any {
		v, k := of.eval(m), key.eval(m)
		switch v.(type) {
		case nil, bool, int, float64:
			return nil
		}
		if n, ok := size(v); ok {
			if i := m.whole(at, k); i < -n || i >= n {
				return nil
			}
		}
		return m.member(at, v, k)
	}
}

// length returns the number of characters of a text, elements of a list, or keys of an object.
func (m *machine) length(at int, v any) int {
	switch v := v.(type) {
	case string:
		m.spend(at, len(v), 1)
		return utf8.RuneCountInString(v)
	case map[string]any:
		return len(v)
	}
	n, ok := size(v)
	if !ok {
		m.failf(at, "len does not take %s", name(v))
	}
	return n
}

// members returns the sorted keys of an object, or the values in the order of the sorted keys.
func (m *machine) members(tok token, v any) []any {
	of, ok := v.(map[string]any)
	if !ok {
		m.failf(tok.at, "%s does not take %s", tok.text, name(v))
	}
	m.spend(tok.at, len(of), costElement)
	made := make([]any, 0, len(of))
	for _, key := range slices.Sorted(maps.Keys(of)) {
		if tok.text == "keys" {
			made = append(made, key)
		} else {
			made = append(made, of[key])
		}
	}
	return made
}

// each parses the rest of a function over the elements of a list: any(list, # > 1), any(list, {#
// > 1}).
func (p *parser) each(tok token, args []*node) *node {
	piped := len(args) > 0
	if !piped {
		args = append(args, p.expression(0))
	}
	of := args[0]
	p.want(of, list, tok.text)
	item := &node{typ: of.element(), at: tok.at, eval: func(m *machine) any { return m.item }}
	before := p.nodes
	if tok.text != "count" || !p.tok.is(")") {
		if !piped {
			p.expect(",")
		}
		item = p.condition(tok, of.element())
		p.accept(",")
	}
	p.expect(")")
	if item.kind == null || tok.text != "map" && !item.is(boolean) {
		p.failf(item.at, "%s does not work with %s for each element", tok.text, item.kind)
	}
	cost := (p.nodes - before + 1) * costNode
	n := &node{typ: typ{kind: boolean}, at: tok.at, eval: func(m *machine) any { return m.each(tok, of.eval(m), item.eval, cost) }}
	switch tok.text {
	case "count":
		n.kind = integer
	case "filter":
		n.typ = listOf(of.element())
	case "map":
		n.typ = listOf(item.typ)
	}
	return n
}

// condition parses the condition for each element.
func (p *parser) condition(tok token, element typ) *node {
	if p.loop != nil {
		p.failf(tok.at, "a loop inside a loop is not allowed: it could run for very long")
	}
	p.count(tok.at)
	p.loop = &loop{item: element, hasIndex: tok.text == "map"}
	defer func() { p.loop = nil }()
	if p.tok.is("{") {
		return p.block()
	}
	return p.expression(0)
}

// each runs a function over the elements of a list.
func (m *machine) each(tok token, of any, item eval, cost int) any {
	defer func(item any, index int) { m.item, m.index = item, index }(m.item, m.index)
	matching := 0
	made := []any{}
	for i := range m.size(tok.at, of) {
		m.spend(tok.at, 1, cost)
		m.item, m.index = element(of, i), i
		v := item(m)
		if tok.text == "map" {
			m.spend(tok.at, 1, costElement)
			made = append(made, v)
			continue
		}
		if !m.truth(tok.at, v) {
			if tok.text == "all" {
				return false
			}
			continue
		}
		matching++
		switch tok.text {
		case "any":
			return true
		case "none":
			return false
		case "filter":
			m.spend(tok.at, 1, costElement)
			made = append(made, element(of, i))
		}
	}
	switch tok.text {
	case "any":
		return false
	case "all", "none":
		return true
	case "one":
		return matching == 1
	case "count":
		return matching
	default:
		return made
	}
}
