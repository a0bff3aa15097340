// Package expr is the language of conditions: expressions over named values that
// are true or false, or a number. Compile one once, run it often:
//
//	p, err := expr.Compile(`kind == "tool.before" && len(tool.input) > 1`, expr.Truth, names)
//	holds, err := p.Run(func(name int) any { return values[name] })
//
// It is a part of the language of github.com/expr-lang/expr and means the same by
// it, which tests compare; what differs on purpose is a table there. Types are
// checked as far as they are known before a value is seen. There are no functions
// of the caller and no methods, so that the linker keeps none for it; no names are
// changed, only new ones given with let; and a run does a bounded amount of work.
package expr

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// maxNodes is how many operators, values and brackets an expression may have, which
// also bounds how deep one recurses.
const maxNodes = 1000

// A run does at most maxWork steps, each of about a nanosecond: four regular
// expressions over the largest event, or a million elements looked at or made. No
// loop stands inside a loop, but a text can be searched for each element of a list.
const (
	maxWork     = math.MaxUint32
	costNode    = 32   // of one evaluation inside a loop
	costElement = 4096 // of an element of a list that is made
	costMade    = 32   // of a byte of text that is made
	costMatch   = 32   // of a byte that a regular expression looks at
)

// maxPattern is the longest regular expression that comes from a value.
const maxPattern = 4096

// Name is what an expression may speak of. A name with a dot is a member of the
// name before the dot. Like is any value of its type: a string, a bool, an int, a
// float64, a []string, a map[string]any; nil if only the value will tell.
type Name struct {
	Name string
	Like any
}

// Result is what an expression gives.
type Result uint8

// The results.
const (
	Truth  Result = iota // a bool; nil counts as false
	Number               // a float64
)

// Program is a compiled expression. It is safe for concurrent use.
type Program struct {
	source string
	result Result
	names  []int // that it speaks of
	vars   int   // how many values have names given with let
	eval   eval
}

// Error says what is wrong with an expression, or why a run could not go on.
type Error struct {
	Line, Column int    // where, from 1
	Text         string // what
	Unknown      string // the name that is not known, if that is the reason
}

func (e *Error) Error() string {
	if e.Line > 1 {
		return fmt.Sprintf("%s, at line %d, column %d", e.Text, e.Line, e.Column)
	}
	return fmt.Sprintf("%s, at column %d", e.Text, e.Column)
}

// failure makes an error about what stands at a byte of the source.
func failure(source string, at int, format string, args ...any) *Error {
	before := source[:at]
	begin := strings.LastIndexByte(before, '\n') + 1
	return &Error{
		Line:   1 + strings.Count(before, "\n"),
		Column: 1 + utf8.RuneCountInString(before[begin:]),
		Text:   fmt.Sprintf(format, args...),
	}
}

// catch returns the Error that a parser or a machine gave up with.
func catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case *Error:
		*err = r
	default:
		panic(r)
	}
}

// Compile compiles an expression. The error is an *Error.
func Compile(source string, result Result, names []Name) (p *Program, err error) {
	defer catch(&err)
	c := &parser{lexer: lexer{source: source}, names: names, program: &Program{source: source, result: result}}
	c.next()
	n := c.expression(0)
	if c.tok.kind != end {
		c.unexpected()
	}
	if result == Truth {
		c.want(n, boolean, "the expression")
	} else if !n.number() {
		c.want(n, float, "the expression")
	}
	c.program.eval = n.eval
	return c.program, nil
}

// Run gives the result. It asks for the value of a name, by its index in the names
// that Compile was given, when it comes to it, and at most once. A value is what
// encoding/json decodes into an any, an int or a []string. The error is an *Error.
func (p *Program) Run(value func(name int) any) (result any, err error) {
	defer catch(&err)
	m := &machine{program: p, value: value, values: make([]known, len(p.names)), vars: make([]any, p.vars)}
	v := p.eval(m)
	if p.result == Truth {
		return v != nil && m.truth(0, v), nil
	}
	f, ok := toFloat(v)
	if !ok {
		m.failf(0, "want a number, got %s", name(v))
	}
	return f, nil
}

// eval is a part of a program.
type eval func(*machine) any

// machine is one run of a program.
type machine struct {
	program *Program
	value   func(name int) any
	values  []known // of program.names
	vars    []any
	item    any // # inside of a loop
	index   int // #index
	work    int64
}

type known struct {
	is    bool
	value any
}

func (m *machine) failf(at int, format string, args ...any) {
	panic(failure(m.program.source, at, format, args...))
}

// spend counts work before it is done.
func (m *machine) spend(at, n, cost int) {
	if m.work += int64(n) * int64(cost); m.work > maxWork {
		m.failf(at, "there is too much to look at")
	}
}

// name is the value of program.names[i].
func (m *machine) name(i int) any {
	v := &m.values[i]
	if !v.is {
		*v = known{true, m.value(m.program.names[i])}
	}
	return v.value
}
