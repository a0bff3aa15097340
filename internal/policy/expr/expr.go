// Package expr implements the language of conditions: expressions over named values that return a
// truth value, or another value. Compile an expression once and run it often:
//
//	p, err := expr.Compile(`kind == "tool.before" && len(tool.input) > 1`, expr.Truth, names)
//	holds, err := p.Run(func(name int) any { return values[name] })
//
// The language is a subset of github.com/expr-lang/expr with the same meaning. Tests in
// proofs/reference/expr compare the two, with a table of deliberate differences. Compile checks
// all types that are known before a run. Callers cannot add functions, and methods cannot be
// called, so the linker can drop unused methods. An expression cannot change a name; it can only
// define new names with let. The work of a run is limited.
package expr

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// maxNodes is the maximum number of operators, values and brackets in an expression. It also
// limits the depth of recursion.
const maxNodes = 1000

// A run does at most maxWork steps, each of about a nanosecond: enough for four regular
// expressions over the largest event, or for reading or making a million elements. Loops cannot
// be nested, but a text can be searched for each element of a list.
const (
	maxWork     = math.MaxUint32
	costNode    = 32   // for each evaluation inside a loop
	costElement = 4096 // for each element of a new list
	costMade    = 32   // for each byte of a new text
	costMatch   = 32   // for each byte that a regular expression reads
)

// maxPattern is the maximum length of a regular expression that comes from a value, in bytes.
const maxPattern = 4096

// A Name is a name that an expression may use. A name with a dot is a member of the name before
// the dot. Like is any value of its type: a string, a bool, an int, a float64, a []string, a
// map[string]any; nil if the type is known only at run time.
type Name struct {
	Name string
	Like any
}

// Result is the type of an expression's result.
type Result uint8

// The result types.
const (
	Truth  Result = iota // a bool; nil is treated as false
	Number               // a float64
	Text                 // a string; nil is treated as ""
	Any                  // nil, or a bool, int, float64, string, []string, []any or map[string]any
)

// Program is a compiled expression. It is safe for concurrent use.
type Program struct {
	source string
	result Result
	names  []int // indexes of the names that it uses
	vars   int   // number of values with names from let
	eval   eval
}

// Error is an error in an expression, or the reason why a run failed.
type Error struct {
	Line, Column int    // position, from 1
	Text         string // the message
	Unknown      string // the unknown name, if that is the cause
}

func (e *Error) Error() string {
	if e.Line > 1 {
		return fmt.Sprintf("%s, at line %d, column %d", e.Text, e.Line, e.Column)
	}
	return fmt.Sprintf("%s, at column %d", e.Text, e.Column)
}

// failure returns an error for the byte at offset at of the source.
func failure(source string, at int, format string, args ...any) *Error {
	before := source[:at]
	begin := strings.LastIndexByte(before, '\n') + 1
	return &Error{
		Line:   1 + strings.Count(before, "\n"),
		Column: 1 + utf8.RuneCountInString(before[begin:]),
		Text:   fmt.Sprintf(format, args...),
	}
}

// catch stores the Error with which a parser or a machine panicked.
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
	switch {
	case result == Truth:
		c.want(n, boolean, "the expression")
	case result == Text:
		c.want(n, text, "the expression")
	case result == Number && !n.number():
		c.want(n, float, "the expression")
	}
	c.program.eval = n.eval
	return c.program, nil
}

// Run evaluates the program and returns its result. It requests the value of a name, by its index
// in the names that Compile got, when it needs the value, and at most once. A value is an int, a
// []string, or a value that encoding/json decodes into an any. The error is an *Error.
func (p *Program) Run(value func(name int) any) (result any, err error) {
	defer catch(&err)
	m := &machine{program: p, value: value, values: make([]known, len(p.names)), vars: make([]any, p.vars)}
	v := p.eval(m)
	switch {
	case p.result == Any:
		return v, nil
	case p.result == Truth:
		return v != nil && m.truth(0, v), nil
	case p.result == Text && v == nil:
		return "", nil
	case p.result == Text:
		return m.text(0, v), nil
	}
	f, ok := toFloat(v)
	if !ok {
		m.failf(0, "want a number, got %s", name(v))
	}
	return f, nil
}

// eval evaluates a part of a program.
type eval func(*machine) any

// machine is one run of a program.
type machine struct {
	program *Program
	value   func(name int) any
	values  []known // of program.names
	vars    []any
	item    any // # inside a loop
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

// spend adds the cost of n operations to the work. Callers spend before they do the work.
func (m *machine) spend(at, n, cost int) {
	if m.work += int64(n) * int64(cost); m.work > maxWork {
		m.failf(at, "the expression needs too many steps")
	}
}

// name returns the value of program.names[i].
func (m *machine) name(i int) any {
	v := &m.values[i]
	if !v.is {
		*v = known{true, m.value(m.program.names[i])}
	}
	return v.value
}
