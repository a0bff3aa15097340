package expr

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// A kind is the kind of a value, as known before a run.
type kind uint8

const (
	unknown kind = iota
	null
	boolean
	integer
	float
	text
	list
	object
)

func (k kind) String() string {
	return [...]string{"anything", "nil", "true or false", "a whole number", "a number", "text", "a list", "an object"}[k]
}

// A typ is the type of a value.
type typ struct {
	kind  kind
	elem  *typ // element type of a list, or nil
	texts bool // the list is a []string
}

// typeOf returns the type of a value. The only lists it supports are []string.
func typeOf(v any) typ {
	switch v.(type) {
	case bool:
		return typ{kind: boolean}
	case int:
		return typ{kind: integer}
	case float64:
		return typ{kind: float}
	case string:
		return typ{kind: text}
	case []string:
		return typ{kind: list, elem: &typ{kind: text}, texts: true}
	case map[string]any:
		return typ{kind: object}
	}
	return typ{}
}

func listOf(elem typ) typ { return typ{kind: list, elem: &elem} }

func (t typ) element() typ {
	if t.elem == nil {
		return typ{}
	}
	return *t.elem
}

// is reports whether a value may be of one of the kinds.
func (t typ) is(kinds ...kind) bool {
	return t.kind == unknown || slices.Contains(kinds, t.kind)
}

func (t typ) number() bool { return t.kind == integer || t.kind == float }

// same reports whether two types are known and equal.
func (t typ) same(u typ) bool {
	return t.kind != unknown && t.kind != null && t.kind == u.kind && t.texts == u.texts
}

// comparable reports whether values of two types may be equal.
func (t typ) comparable(u typ) bool {
	return t.is(null, u.kind) || u.is(null) || t.number() && u.number()
}

// name returns the name of a value's type, for messages.
func name(v any) string {
	switch v.(type) {
	case nil:
		return null.String()
	case []any:
		return list.String()
	}
	return typeOf(v).kind.String()
}

func (m *machine) truth(at int, v any) bool {
	b, ok := v.(bool)
	if !ok {
		m.failf(at, "want true or false, got %s", name(v))
	}
	return b
}

func (m *machine) text(at int, v any) string {
	s, ok := v.(string)
	if !ok {
		m.failf(at, "want text, got %s", name(v))
	}
	return s
}

// whole returns a number without its fraction.
func (m *machine) whole(at int, v any) int {
	if i, ok := v.(int); ok {
		return i
	}
	f, ok := v.(float64)
	if !ok {
		m.failf(at, "want a number, got %s", name(v))
	}
	return int(f)
}

func toFloat(v any) (f float64, ok bool) {
	if i, ok := v.(int); ok {
		return float64(i), true
	}
	f, ok = v.(float64)
	return f, ok
}

// size returns the number of elements of a list.
func size(v any) (n int, ok bool) {
	switch v := v.(type) {
	case []string:
		return len(v), true
	case []any:
		return len(v), true
	}
	return 0, false
}

func (m *machine) size(at int, v any) int {
	n, ok := size(v)
	if !ok {
		m.failf(at, "want a list, got %s", name(v))
	}
	return n
}

// element returns an element of a list.
func element(v any, i int) any {
	if v, ok := v.([]string); ok {
		return v[i]
	}
	return v.([]any)[i]
}

// member returns a member of an object or an element of a list; a negative index counts from the
// end. A missing member of an object is nil, a missing element of a list is an error.
func (m *machine) member(at int, v, key any) any {
	if v, ok := v.(map[string]any); ok {
		return v[m.key(at, key)]
	}
	n, ok := size(v)
	if !ok {
		hint := ""
		if v == nil {
			hint = "; use ?. instead of . to get nil"
		}
		m.failf(at, "%s has no member %v%s", name(v), key, hint)
	}
	i := m.whole(at, key)
	if i < 0 {
		i += n
	}
	if i < 0 || i >= n {
		m.failf(at, "no element %v in a list of %d", key, n)
	}
	return element(v, i)
}

// key returns the key of an object. nil is treated as "".
func (m *machine) key(at int, v any) string {
	if v == nil {
		return ""
	}
	return m.text(at, v)
}

// slice returns a part of a list, or of the bytes of a text.
func (m *machine) slice(at int, v any, from, to *node) any {
	s, isText := v.(string)
	n := len(s)
	if !isText {
		n = m.size(at, v)
	}
	edge := func(e *node, none int) int {
		if e == nil {
			return none
		}
		i := m.whole(at, e.eval(m))
		if i < 0 {
			i += n
		}
		return max(0, min(i, n))
	}
	b := edge(to, n)
	a := min(edge(from, 0), b)
	switch v := v.(type) {
	case []string:
		return v[a:b]
	case []any:
		return v[a:b]
	}
	return s[a:b]
}

// equal compares two values. Numbers are compared by value; values of different types are never
// equal.
func (m *machine) equal(at int, a, b any) bool {
	m.spend(at, 1, costNode)
	switch x := a.(type) {
	case nil:
		return b == nil
	case bool:
		return b == x
	case int:
		if y, ok := b.(int); ok {
			return x == y
		}
	case string:
		y, ok := b.(string)
		m.spend(at, min(len(x), len(y)), 1)
		return ok && x == y
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for key, v := range x {
			if w, ok := y[key]; !ok || !m.equal(at, v, w) {
				return false
			}
		}
		return true
	}
	if n, ok := size(a); ok {
		if k, ok := size(b); !ok || k != n {
			return false
		}
		for i := range n {
			if !m.equal(at, element(a, i), element(b, i)) {
				return false
			}
		}
		return true
	}
	x, isNumber := toFloat(a)
	y, ok := toFloat(b)
	return isNumber && ok && x == y
}

// in reports whether a list has an element, or an object has a key.
func (m *machine) in(at int, v, of any) bool {
	switch of := of.(type) {
	case nil:
		return false
	case map[string]any:
		_, has := of[m.key(at, v)]
		return has
	}
	for i := range m.size(at, of) {
		if m.equal(at, element(of, i), v) {
			return true
		}
	}
	return false
}

// compare orders two numbers or two texts.
func (m *machine) compare(op token, a, b any) bool {
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			m.spend(op.at, min(len(x), len(y)), 1)
			return ordered(op.text, x, y)
		}
	}
	if x, ok := a.(int); ok {
		if y, ok := b.(int); ok {
			return ordered(op.text, x, y)
		}
	}
	x, y := m.numbers(op, a, b)
	return ordered(op.text, x, y)
}

func ordered[T cmp.Ordered](op string, a, b T) bool {
	switch op {
	case "<":
		return a < b
	case "<=":
		return a <= b
	case ">":
		return a > b
	default:
		return a >= b
	}
}

// numbers checks that two values are numbers and returns them.
func (m *machine) numbers(op token, a, b any) (x, y float64) {
	x, okX := toFloat(a)
	y, okY := toFloat(b)
	if !okX || !okY {
		m.failf(op.at, "%s does not work with %s and %s", op.text, name(a), name(b))
	}
	return x, y
}

// calculate computes with two numbers. Whole numbers give a whole number if possible.
func (m *machine) calculate(op token, a, b any) any {
	i, okI := a.(int)
	j, okJ := b.(int)
	if okI && okJ {
		switch op.text {
		case "+":
			return i + j
		case "-":
			return i - j
		case "*":
			return i * j
		case "%":
			if j == 0 {
				m.failf(op.at, "%% by 0")
			}
			return i % j
		}
	}
	x, y := m.numbers(op, a, b)
	switch op.text {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "/":
		return x / y
	case "%":
		m.failf(op.at, "%% wants whole numbers: int(a) %% int(b)")
	}
	return math.Pow(x, y)
}

// add adds numbers and joins texts.
func (m *machine) add(op token, a, b any) any {
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			m.spend(op.at, len(x)+len(y), costMade)
			return x + y
		}
	}
	return m.calculate(op, a, b)
}

// span returns the whole numbers between from and to, both included.
func (m *machine) span(op token, from, to int) []any {
	if to < from {
		return []any{}
	}
	if float64(to)-float64(from) >= maxWork/costElement { // the difference may overflow an int
		m.failf(op.at, "too many numbers from %d to %d", from, to)
	}
	numbers := make([]any, to-from+1)
	m.spend(op.at, len(numbers), costElement)
	for i := range numbers {
		numbers[i] = from + i
	}
	return numbers
}

// has implements contains, startsWith and endsWith. They are false for nil.
func (m *machine) has(op token, a, b any) bool {
	if a == nil || b == nil {
		return false
	}
	x, y := m.text(op.at, a), m.text(op.at, b)
	switch op.text {
	case "startsWith":
		return strings.HasPrefix(x, y)
	case "endsWith":
		return strings.HasSuffix(x, y)
	}
	m.spend(op.at, len(x), 1)
	return strings.Contains(x, y)
}
