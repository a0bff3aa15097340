package policy

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"

	"github.com/grapnel-dev/grapnel"
)

// MaxWhen is the length in bytes of the longest `when:` expression.
const MaxWhen = 4096

// whenFunctions are the functions an expression may call. Those that take a
// predicate loop; see whenTree.
var whenFunctions = []string{"len", "lower", "upper", "trim", "int", "float", "string", "any", "all", "none", "one", "filter", "map", "count", "keys", "values", "get"}

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
	{"tool.failed", func(f *facts, _ *grapnel.Verdict) any { return part(f.ev.Tool).Failed }},
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

	// Calls, so that an input of megabytes is decoded only when an expression comes as
	// far as to look at it.
	{toolInput, func(f *facts, _ *grapnel.Verdict) any { return f.input }},
	{toolOutput, func(f *facts, _ *grapnel.Verdict) any { return f.output }},
}

type whenName struct {
	name string
	of   func(*facts, *grapnel.Verdict) any // nil = an object: the map of its members
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

// whenEnv gives values to names of whenNames and whenObjects.
func whenEnv(env map[string]any, names []whenName, f *facts, v *grapnel.Verdict) {
	for _, n := range names {
		if n.of != nil {
			env[n.name] = n.of(f, v)
			continue
		}
		object := map[string]any{}
		for _, m := range whenNames {
			if key, ok := strings.CutPrefix(m.name, n.name+"."); ok && m.name != toolInput && m.name != toolOutput {
				object[key] = m.of(f, v)
			}
		}
		env[n.name] = object
	}
}

// whenTypes is an environment with everything in it, from which types are known.
var whenTypes = sync.OnceValue(func() map[string]any {
	env := map[string]any{}
	whenEnv(env, allWhenNames(), &facts{ev: &grapnel.Event{}}, nil)
	return env
})

func allWhenNames() []whenName {
	names := slices.Clone(whenNames)
	for _, object := range whenObjects {
		names = append(names, whenName{name: object})
	}
	return names
}

// compileWhen compiles an expression that gives true or false, and says which names
// it speaks of.
func compileWhen(source string) (*vm.Program, []whenName, error) {
	if len(source) > MaxWhen {
		return nil, nil, fmt.Errorf("the expression has %d bytes, more than %d", len(source), MaxWhen)
	}
	tree := &whenTree{used: map[string]int{}}
	options := []expr.Option{
		expr.Env(whenTypes()), expr.AsBool(), expr.DisableAllBuiltins(), expr.MaxNodes(1000), expr.Patch(tree),
	}
	for _, name := range whenFunctions {
		options = append(options, expr.EnableBuiltin(name))
	}
	program, err := expr.Compile(source, options...)
	if err != nil {
		return nil, nil, fmt.Errorf("when: %w", err)
	}
	if tree.unknown != "" {
		var known []string
		for _, n := range whenNames {
			known = append(known, n.name)
		}
		err := fmt.Errorf("when: unknown name %s", tree.unknown)
		if hint := didYouMean(tree.unknown, known); hint != "" {
			err = fmt.Errorf("%w (%s)", err, hint)
		}
		return nil, nil, err
	}
	if tree.nested {
		return nil, nil, fmt.Errorf("when: a loop inside a loop is not allowed: nothing else bounds how long it runs")
	}
	names := allWhenNames()
	if tree.used["$env"] == 0 {
		names = slices.DeleteFunc(names, func(n whenName) bool { return tree.used[n.name] == 0 })
	}
	return program, names, nil
}

// whenTree looks at an expression before it is compiled. It is one visitor and not
// one for each purpose, since the library checks all types again before each.
type whenTree struct {
	nested  bool           // there is a loop inside a loop
	unknown string         // a member that no object has; to the library it is nil
	used    map[string]int // how often it speaks of a name
}

// Visit is called for every node, inner ones first.
func (t *whenTree) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.PredicateNode:
		// The library has a memory limit but none on time, and three nested loops over
		// one large input run for seconds.
		inner := &findPredicate{}
		body := n.Node
		ast.Walk(&body, inner)
		t.nested = t.nested || inner.found
	case *ast.IdentifierNode:
		t.used[n.Value]++
	case *ast.MemberNode:
		of, isName := n.Node.(*ast.IdentifierNode)
		field, isField := n.Property.(*ast.StringNode)
		if isName && isField {
			t.flatten(node, of.Value, field.Value)
		}
	}
}

// flatten makes one name of tool.name, so that nothing has to be made of an event but
// what an expression speaks of.
func (t *whenTree) flatten(node *ast.Node, object, field string) {
	name := object + "." + field
	if !slices.ContainsFunc(whenNames, func(n whenName) bool { return n.name == name }) {
		if slices.Contains(whenObjects, object) && t.unknown == "" {
			t.unknown = name
		}
		return
	}
	t.used[object]--
	t.used[name]++
	var flat ast.Node = &ast.IdentifierNode{Value: name}
	if name == toolInput || name == toolOutput {
		flat = &ast.CallNode{Callee: flat}
	}
	ast.Patch(node, flat)
}

type findPredicate struct{ found bool }

// Visit is called for every node.
func (v *findPredicate) Visit(node *ast.Node) {
	if _, ok := (*node).(*ast.PredicateNode); ok {
		v.found = true
	}
}

// when is one expression, compiled at first use.
type when struct {
	source  string
	first   *whenName // has to be text, if it is not nil; else the expression is false
	text    string
	once    sync.Once
	program *vm.Program
	names   []whenName
	err     error
}

// newWhen looks for a gate in the expression. Most are about one kind of event or
// one mode of work and begin with it, and to compile one takes a program that answers
// a single event longer than to judge all other rules.
func newWhen(source string) *when {
	w := &when{source: source}
	// What binds weaker than && makes the first of its operands no condition for all.
	if strings.ContainsAny(source, "|?;\\`") || strings.Contains(source, "or") || strings.Contains(source, "if") {
		return w
	}
	name, rest, _ := strings.Cut(source, "==")
	i := slices.IndexFunc(whenNames, func(n whenName) bool { return n.name == strings.TrimSpace(name) })
	rest = strings.TrimSpace(rest)
	if i < 0 || rest == "" || rest[0] != '"' && rest[0] != '\'' {
		return w
	}
	text, rest, ok := strings.Cut(rest[1:], rest[:1])
	rest = strings.TrimSpace(rest)
	if ok && (rest == "" || strings.HasPrefix(rest, "&&") || strings.HasPrefix(rest, "and ")) {
		w.first, w.text = &whenNames[i], text
	}
	return w
}

// whenRun is what a run of an expression needs. It is used again: making it costs
// more than most expressions.
type whenRun struct {
	machine vm.VM
	env     map[string]any
}

var whenRuns = sync.Pool{New: func() any { return &whenRun{env: map[string]any{}} }}

func (w *when) holds(f *facts, v *grapnel.Verdict) (bool, error) {
	if w.first != nil {
		if text, ok := w.first.of(f, v).(string); ok && text != w.text {
			return false, nil
		}
	}
	w.once.Do(func() { w.program, w.names, w.err = compileWhen(w.source) })
	if w.err != nil {
		return false, w.err
	}
	run, _ := whenRuns.Get().(*whenRun)
	defer func() {
		clear(run.env)
		whenRuns.Put(run)
	}()
	whenEnv(run.env, w.names, f, v)
	out, err := run.machine.Run(w.program, run.env)
	if err != nil {
		return false, fmt.Errorf("when: %w", err)
	}
	holds, ok := out.(bool)
	if !ok {
		return false, fmt.Errorf("when: %s gives %T, want true or false", w.source, out)
	}
	return holds, nil
}
