package match

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/expr"
	"github.com/grapnel-dev/grapnel/internal/wording"
)

// MaxWhen is the maximum length of a `when:` expression in bytes.
const MaxWhen = 4096

// The keys that contain expressions.
const (
	KeyWhen  = "when"
	KeySum   = "sum"
	KeyBody  = "body"  // of a `notify:`
	KeyTitle = "title" // of a `notify:`
	KeyText  = "text"  // of a `notify:`
)

// whenNames lists the variables of expressions. All of them always have a value, so that an
// expression about a missing part of an event is false instead of an error.
var whenNames = []whenName{
	{"kind", func(f *Facts, _ *grapnel.Verdict) any { return string(f.Event.Kind) }},
	{"agent", func(f *Facts, _ *grapnel.Verdict) any { return f.Event.Agent.Name }},
	{"cause", func(f *Facts, _ *grapnel.Verdict) any { return f.Event.Cause }},
	{"prompt", func(f *Facts, _ *grapnel.Verdict) any { return OrZero(f.Event.Prompt).Text }},
	{"message", func(f *Facts, _ *grapnel.Verdict) any { return OrZero(f.Event.Message).Content }},
	{"sender", func(f *Facts, _ *grapnel.Verdict) any {
		return cmp.Or(OrZero(f.Event.Message).Sender, f.Event.Session.User)
	}},

	{"tool.id", func(f *Facts, _ *grapnel.Verdict) any { return OrZero(f.Event.Tool).ID }},
	{"tool.name", func(f *Facts, _ *grapnel.Verdict) any { return OrZero(f.Event.Tool).Name }},
	{"tool.class", func(f *Facts, _ *grapnel.Verdict) any { return string(OrZero(f.Event.Tool).Class) }},
	{"tool.command", func(f *Facts, _ *grapnel.Verdict) any { return firstOf(OrZero(f.Event.Tool).Commands) }},
	{"tool.commands", func(f *Facts, _ *grapnel.Verdict) any { return listOf(OrZero(f.Event.Tool).Commands) }},
	{"tool.path", func(f *Facts, _ *grapnel.Verdict) any { return firstOf(toolPaths(f.Event)) }},
	{"tool.paths", func(f *Facts, _ *grapnel.Verdict) any { return listOf(toolPaths(f.Event)) }},
	{"tool.url", func(f *Facts, _ *grapnel.Verdict) any { return firstOf(OrZero(f.Event.Tool).URLs) }},
	{"tool.urls", func(f *Facts, _ *grapnel.Verdict) any { return listOf(OrZero(f.Event.Tool).URLs) }},
	{"tool.content", func(f *Facts, _ *grapnel.Verdict) any { return OrZero(f.Event.Tool).Content }},
	{"tool.failed", func(f *Facts, _ *grapnel.Verdict) any { return f.Failed() }},
	{"tool.server", func(f *Facts, _ *grapnel.Verdict) any { return OrZero(OrZero(f.Event.Tool).MCP).Server }},

	{"session.id", func(f *Facts, _ *grapnel.Verdict) any { return f.Event.Session.ID }},
	{"session.cwd", func(f *Facts, _ *grapnel.Verdict) any { return f.Event.Session.CWD }},
	{"session.root", func(f *Facts, _ *grapnel.Verdict) any { return f.Event.Session.Root }},
	{"session.model", func(f *Facts, _ *grapnel.Verdict) any { return f.Event.Session.Model }},
	{"session.mode", func(f *Facts, _ *grapnel.Verdict) any { return f.Event.Session.Mode }},
	{"session.turn", func(f *Facts, _ *grapnel.Verdict) any { return f.Event.Session.Turn }},
	{"session.user", func(f *Facts, _ *grapnel.Verdict) any { return f.Event.Session.User }},
	{"session.channel", func(f *Facts, _ *grapnel.Verdict) any { return f.Event.Session.Channel }},
	{"session.thread", func(f *Facts, _ *grapnel.Verdict) any { return f.Event.Session.Thread }},
	{"session.job", func(f *Facts, _ *grapnel.Verdict) any { return f.Event.Session.Job }},
	{"session.subagent", func(f *Facts, _ *grapnel.Verdict) any { return OrZero(f.Event.Session.Subagent).Type }},

	{"verdict.decision", func(_ *Facts, v *grapnel.Verdict) any { return OrZero(v).Decision.String() }},
	{"verdict.reason", func(_ *Facts, v *grapnel.Verdict) any { return OrZero(v).Reason() }},

	{toolInput, func(f *Facts, _ *grapnel.Verdict) any { return f.input() }},
	{toolOutput, func(f *Facts, _ *grapnel.Verdict) any { return f.output() }},
}

type whenName struct {
	name string
	of   func(*Facts, *grapnel.Verdict) any // called only when the expression is evaluated
}

const (
	toolInput  = "tool.input"
	toolOutput = "tool.output"
)

// whenObjects lists the prefixes of variable names with a dot. An expression that uses one as an
// object, such as keys(tool), gets the members that are cheap to compute.
var whenObjects = []string{"tool", "session", "verdict"}

// OrZero returns p, or a pointer to a zero value if p is nil.
func OrZero[T any](p *T) *T {
	if p == nil {
		return new(T)
	}
	return p
}

func firstOf(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// listOf returns an empty list instead of nil, because expressions could distinguish them.
func listOf(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func toolPaths(ev *grapnel.Event) []string {
	var paths []string
	for _, p := range OrZero(ev.Tool).Paths {
		paths = append(paths, p.Path)
	}
	return paths
}

// whenValue returns the value of a variable, by its index in whenLanguage.
func whenValue(name int, f *Facts, v *grapnel.Verdict) any {
	if name < len(whenNames) {
		return whenNames[name].of(f, v)
	}
	object := map[string]any{}
	for _, n := range whenNames {
		key, ok := strings.CutPrefix(n.name, whenObjects[name-len(whenNames)]+".")
		if ok && n.name != toolInput && n.name != toolOutput {
			object[key] = n.of(f, v)
		}
	}
	return object
}

// whenLanguage returns whenNames followed by whenObjects. The types of the variables come from an
// empty event.
var whenLanguage = sync.OnceValue(func() []expr.Name {
	nothing := &Facts{Event: &grapnel.Event{}}
	var names []expr.Name
	for _, n := range whenNames {
		name := expr.Name{Name: n.name}
		if n.name != toolInput { // it can have any type
			name.Like = n.of(nothing, nil)
		}
		names = append(names, name)
	}
	for _, object := range whenObjects {
		names = append(names, expr.Name{Name: object, Like: map[string]any{}})
	}
	return names
})

// An Expression is the text of a `when:` or `sum:` key, compiled at first use.
type Expression struct {
	Key     string // KeyWhen or KeySum
	Source  string
	once    sync.Once
	program *expr.Program
	err     error
}

// CompileExpression compiles the expression of a key. It returns a bool for `when:`, a number for
// `sum:`, any value for `body:`, and a text for `title:` and `text:`.
func CompileExpression(key, source string) (*expr.Program, error) {
	if len(source) > MaxWhen {
		return nil, fmt.Errorf("%s: the expression has %d bytes, more than %d", key, len(source), MaxWhen)
	}
	result, names := expr.Truth, whenLanguage()
	switch key {
	case KeySum:
		result = expr.Number
	case KeyBody:
		result, names = expr.Any, sentLanguage()
	case KeyTitle, KeyText:
		result, names = expr.Text, sentLanguage()
	}
	program, err := expr.Compile(source, result, names)
	if err == nil {
		return program, nil
	}
	if wrong, ok := errors.AsType[*expr.Error](err); ok && wrong.Unknown != "" {
		var known []string
		for _, n := range names {
			known = append(known, n.Name)
		}
		if hint := wording.Nearest(wrong.Unknown, known); hint != "" {
			wrong.Text += " (" + hint + ")"
		}
	}
	return nil, fmt.Errorf("%s: %w", key, err)
}

// when is a compiled `when:` key.
type when struct {
	Expression
	first *whenName // if not nil, this variable must be equal to text; otherwise the expression is false
	text  string
}

// newWhen looks for a leading comparison in the expression. Most expressions begin with a test of
// the kind of event or the mode. In a program that answers a single event, compiling the expression
// takes longer than evaluating all other rules, so this test avoids it.
func newWhen(source string) *when {
	w := &when{Expression: Expression{Key: KeyWhen, Source: source}}
	// With operators of lower precedence than &&, the first comparison is not a condition for the
	// whole expression.
	if strings.ContainsAny(source, "|?;\\`") || strings.Contains(source, "or") || strings.Contains(source, "if") {
		return w
	}
	name, rest, _ := strings.Cut(source, "==")
	i := 0
	for i < len(whenNames) && whenNames[i].name != strings.TrimSpace(name) {
		i++
	}
	rest = strings.TrimSpace(rest)
	if i == len(whenNames) || rest == "" || rest[0] != '"' && rest[0] != '\'' {
		return w
	}
	text, rest, ok := strings.Cut(rest[1:], rest[:1])
	rest = strings.TrimSpace(rest)
	if ok && (rest == "" || strings.HasPrefix(rest, "&&") || strings.HasPrefix(rest, "and ")) {
		w.first, w.text = &whenNames[i], text
	}
	return w
}

func (w *when) holds(f *Facts, v *grapnel.Verdict) (bool, error) {
	if w.first != nil {
		if text, ok := w.first.of(f, v).(string); ok && text != w.text {
			return false, nil
		}
	}
	out, err := w.Run(f, v)
	holds, _ := out.(bool)
	return holds, err
}

// Run returns the value of the expression: a bool, or a float64 for `sum:`.
func (e *Expression) Run(f *Facts, v *grapnel.Verdict) (any, error) {
	e.once.Do(func() { e.program, e.err = CompileExpression(e.Key, e.Source) })
	if e.err != nil {
		return nil, e.err
	}
	out, err := e.program.Run(func(name int) any { return whenValue(name, f, v) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Key, err)
	}
	return out, nil
}
