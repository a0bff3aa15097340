package policy

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/expr"
)

// MaxWhen is the length in bytes of the longest `when:` expression.
const MaxWhen = 4096

// The keys that hold expressions.
const (
	keyWhen = "when"
	keySum  = "sum"
)

// whenNames is what an expression can speak of. Everything is always there, so that
// an expression over a part that this event lacks is false instead of an error.
var whenNames = []whenName{
	{"kind", func(f *facts, _ *grapnel.Verdict) any { return string(f.ev.Kind) }},
	{"agent", func(f *facts, _ *grapnel.Verdict) any { return f.ev.Agent.Name }},
	{"cause", func(f *facts, _ *grapnel.Verdict) any { return f.ev.Cause }},
	{"prompt", func(f *facts, _ *grapnel.Verdict) any { return part(f.ev.Prompt).Text }},
	{"message", func(f *facts, _ *grapnel.Verdict) any { return part(f.ev.Message).Content }},

	{"tool.id", func(f *facts, _ *grapnel.Verdict) any { return part(f.ev.Tool).ID }},
	{"tool.name", func(f *facts, _ *grapnel.Verdict) any { return part(f.ev.Tool).Name }},
	{"tool.class", func(f *facts, _ *grapnel.Verdict) any { return string(part(f.ev.Tool).Class) }},
	{"tool.command", func(f *facts, _ *grapnel.Verdict) any { return firstOf(part(f.ev.Tool).Commands) }},
	{"tool.commands", func(f *facts, _ *grapnel.Verdict) any { return listOf(part(f.ev.Tool).Commands) }},
	{"tool.path", func(f *facts, _ *grapnel.Verdict) any { return firstOf(toolPaths(f.ev)) }},
	{"tool.paths", func(f *facts, _ *grapnel.Verdict) any { return listOf(toolPaths(f.ev)) }},
	{"tool.url", func(f *facts, _ *grapnel.Verdict) any { return firstOf(part(f.ev.Tool).URLs) }},
	{"tool.urls", func(f *facts, _ *grapnel.Verdict) any { return listOf(part(f.ev.Tool).URLs) }},
	{"tool.content", func(f *facts, _ *grapnel.Verdict) any { return part(f.ev.Tool).Content }},
	{"tool.failed", func(f *facts, _ *grapnel.Verdict) any { return f.failed() }},
	{"tool.server", func(f *facts, _ *grapnel.Verdict) any { return part(part(f.ev.Tool).MCP).Server }},

	{"session.id", func(f *facts, _ *grapnel.Verdict) any { return f.ev.Session.ID }},
	{"session.cwd", func(f *facts, _ *grapnel.Verdict) any { return f.ev.Session.CWD }},
	{"session.root", func(f *facts, _ *grapnel.Verdict) any { return f.ev.Session.Root }},
	{"session.model", func(f *facts, _ *grapnel.Verdict) any { return f.ev.Session.Model }},
	{"session.mode", func(f *facts, _ *grapnel.Verdict) any { return f.ev.Session.Mode }},
	{"session.turn", func(f *facts, _ *grapnel.Verdict) any { return f.ev.Session.Turn }},
	{"session.user", func(f *facts, _ *grapnel.Verdict) any { return f.ev.Session.User }},
	{"session.channel", func(f *facts, _ *grapnel.Verdict) any { return f.ev.Session.Channel }},
	{"session.subagent", func(f *facts, _ *grapnel.Verdict) any { return part(f.ev.Session.Subagent).Type }},

	{"verdict.decision", func(_ *facts, v *grapnel.Verdict) any { return part(v).Decision.String() }},
	{"verdict.reason", func(_ *facts, v *grapnel.Verdict) any { return part(v).Reason() }},

	{toolInput, func(f *facts, _ *grapnel.Verdict) any { return f.input() }},
	{toolOutput, func(f *facts, _ *grapnel.Verdict) any { return f.output() }},
}

type whenName struct {
	name string
	of   func(*facts, *grapnel.Verdict) any // called when an expression comes so far, not before
}

const (
	toolInput  = "tool.input"
	toolOutput = "tool.output"
)

// whenObjects are the beginnings of names with a dot. An expression that speaks of
// one as a whole, as in keys(tool), sees what is cheap to make of its members.
var whenObjects = []string{"tool", "session", "verdict"}

func part[T any](p *T) *T {
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

// listOf is never nil, which an expression could tell from an empty list.
func listOf(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func toolPaths(ev *grapnel.Event) []string {
	var paths []string
	for _, p := range part(ev.Tool).Paths {
		paths = append(paths, p.Path)
	}
	return paths
}

// whenValue is the value of a name in whenLanguage.
func whenValue(name int, f *facts, v *grapnel.Verdict) any {
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

// whenLanguage is whenNames and behind them whenObjects. Their types are those of an
// event with nothing in it.
var whenLanguage = sync.OnceValue(func() []expr.Name {
	nothing := &facts{ev: &grapnel.Event{}}
	var names []expr.Name
	for _, n := range whenNames {
		name := expr.Name{Name: n.name}
		if n.name != toolInput { // it may be anything
			name.Like = n.of(nothing, nil)
		}
		names = append(names, name)
	}
	for _, object := range whenObjects {
		names = append(names, expr.Name{Name: object, Like: map[string]any{}})
	}
	return names
})

// An expression is the text of a `when:` or of a `sum:`, compiled at first use.
type expression struct {
	key     string // which of them
	source  string
	once    sync.Once
	program *expr.Program
	err     error
}

// compileExpression compiles one, which gives true or false or, in a `sum:`, a
// number.
func compileExpression(key, source string) (*expr.Program, error) {
	if len(source) > MaxWhen {
		return nil, fmt.Errorf("%s: the expression has %d bytes, more than %d", key, len(source), MaxWhen)
	}
	result := expr.Truth
	if key == keySum {
		result = expr.Number
	}
	program, err := expr.Compile(source, result, whenLanguage())
	if err == nil {
		return program, nil
	}
	if wrong, ok := errors.AsType[*expr.Error](err); ok && wrong.Unknown != "" {
		var known []string
		for _, n := range whenNames {
			known = append(known, n.name)
		}
		if hint := didYouMean(wrong.Unknown, known); hint != "" {
			wrong.Text += " (" + hint + ")"
		}
	}
	return nil, fmt.Errorf("%s: %w", key, err)
}

// when is a `when:`.
type when struct {
	expression
	first *whenName // has to be text, if it is not nil; else the expression is false
	text  string
}

// newWhen looks for a gate in the expression. Most are about one kind of event or
// one mode of work and begin with it, and to compile one takes a program that answers
// a single event longer than to judge all other rules.
func newWhen(source string) *when {
	w := &when{expression: expression{key: keyWhen, source: source}}
	// What binds weaker than && makes the first of its operands no condition for all.
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

func (w *when) holds(f *facts, v *grapnel.Verdict) (bool, error) {
	if w.first != nil {
		if text, ok := w.first.of(f, v).(string); ok && text != w.text {
			return false, nil
		}
	}
	out, err := w.run(f, v)
	holds, _ := out.(bool)
	return holds, err
}

// run gives the expression's value: a bool, or a float64 for a `sum:`.
func (e *expression) run(f *facts, v *grapnel.Verdict) (any, error) {
	e.once.Do(func() { e.program, e.err = compileExpression(e.key, e.source) })
	if e.err != nil {
		return nil, e.err
	}
	out, err := e.program.Run(func(name int) any { return whenValue(name, f, v) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.key, err)
	}
	return out, nil
}
