package policy

import (
	"fmt"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"

	"github.com/grapnel-dev/grapnel"
)

// MaxWhen is the length in bytes of the longest `when:` expression.
const MaxWhen = 4096

// whenFunctions are the functions an expression may call. Those that take a
// predicate loop; see noNestedLoops.
var whenFunctions = []string{"len", "lower", "upper", "trim", "int", "float", "string", "any", "all", "none", "one", "filter", "map", "count", "keys", "values", "get"}

// compileWhen compiles an expression over whenEnv that gives true or false.
func compileWhen(source string) (*vm.Program, error) {
	if len(source) > MaxWhen {
		return nil, fmt.Errorf("the expression has %d bytes, more than %d", len(source), MaxWhen)
	}
	loops := &noNestedLoops{}
	options := []expr.Option{expr.Env(whenEnv(&grapnel.Event{}, nil)), expr.AsBool(), expr.DisableAllBuiltins(), expr.Patch(loops), expr.Patch(lateInput{}), expr.MaxNodes(1000)}
	for _, name := range whenFunctions {
		options = append(options, expr.EnableBuiltin(name))
	}
	program, err := expr.Compile(source, options...)
	if err != nil {
		return nil, fmt.Errorf("when: %w", err)
	}
	if loops.nested {
		return nil, fmt.Errorf("when: a loop inside a loop is not allowed: nothing else bounds how long it runs")
	}
	return program, nil
}

// noNestedLoops finds predicates inside predicates: the library has a memory limit
// but none on time, and three nested loops over one large input run for seconds.
type noNestedLoops struct{ nested bool }

// Visit is called for every node, inner ones first.
func (v *noNestedLoops) Visit(node *ast.Node) {
	if p, ok := (*node).(*ast.PredicateNode); ok {
		inner := &findPredicate{}
		body := p.Node
		ast.Walk(&body, inner)
		v.nested = v.nested || inner.found
	}
}

// lateInput makes tool.input and tool.output calls, so that an input of megabytes is
// decoded only when an expression comes as far as to look at it.
type lateInput struct{}

// Visit is called for every node.
func (lateInput) Visit(node *ast.Node) {
	m, ok := (*node).(*ast.MemberNode)
	if !ok {
		return
	}
	of, isName := m.Node.(*ast.IdentifierNode)
	field, isField := m.Property.(*ast.StringNode)
	if isName && isField && of.Value == "tool" && lateFields[field.Value] != "" {
		ast.Patch(node, &ast.CallNode{Callee: &ast.IdentifierNode{Value: lateFields[field.Value]}})
	}
}

// lateFields are the functions that stand for what is costly to decode.
var lateFields = map[string]string{"input": "toolInput", "output": "toolOutput"}

type findPredicate struct{ found bool }

// Visit is called for every node.
func (v *findPredicate) Visit(node *ast.Node) {
	if _, ok := (*node).(*ast.PredicateNode); ok {
		v.found = true
	}
}

// whenEnv is what an expression can speak of. Everything is always there, so that
// an expression over a part that this event lacks is false instead of an error.
func whenEnv(ev *grapnel.Event, v *grapnel.Verdict) map[string]any {
	tool := map[string]any{
		"id": "", "name": "", "class": "", "command": "", "path": "", "url": "", "content": "", "failed": false, "server": "",
		"commands": []string{}, "paths": []string{}, "urls": []string{},
	}
	if t := ev.Tool; t != nil {
		tool["id"], tool["name"], tool["class"] = t.ID, t.Name, string(t.Class)
		tool["content"], tool["failed"] = t.Content, t.Failed
		if t.MCP != nil {
			tool["server"] = t.MCP.Server
		}
		if len(t.Commands) > 0 {
			tool["command"], tool["commands"] = t.Commands[0], t.Commands
		}
		if len(t.Paths) > 0 {
			paths := make([]string, len(t.Paths))
			for i, p := range t.Paths {
				paths[i] = p.Path
			}
			tool["path"], tool["paths"] = paths[0], paths
		}
		if len(t.URLs) > 0 {
			tool["url"], tool["urls"] = t.URLs[0], t.URLs
		}
	}
	prompt, message := "", ""
	if ev.Prompt != nil {
		prompt = ev.Prompt.Text
	}
	if ev.Message != nil {
		message = ev.Message.Content
	}
	subagent := ""
	if ev.Session.Subagent != nil {
		subagent = ev.Session.Subagent.Type
	}
	decision, reason := "none", ""
	if v != nil {
		decision, reason = v.Decision.String(), v.Reason()
	}
	return map[string]any{
		"kind": string(ev.Kind), "agent": ev.Agent.Name, "cause": ev.Cause, "prompt": prompt, "message": message, "tool": tool,
		"session": map[string]any{
			"id": ev.Session.ID, "cwd": ev.Session.CWD, "root": ev.Session.Root, "model": ev.Session.Model, "mode": ev.Session.Mode,
			"turn": ev.Session.Turn, "user": ev.Session.User, "channel": ev.Session.Channel, "subagent": subagent,
		},
		"verdict": map[string]any{"decision": decision, "reason": reason},
		"toolInput": sync.OnceValue(func() any {
			if input, ok := ev.Value(grapnel.FieldInput); ok {
				return input
			}
			return map[string]any{}
		}),
		"toolOutput": func() string {
			output, _ := ev.Get(grapnel.FieldOutput)
			return string(output)
		},
	}
}

// when is one expression, compiled at first use.
type when struct {
	source  string
	once    sync.Once
	program *vm.Program
	err     error
}

func (w *when) holds(env map[string]any) (bool, error) {
	w.once.Do(func() { w.program, w.err = compileWhen(w.source) })
	if w.err != nil {
		return false, w.err
	}
	out, err := expr.Run(w.program, env)
	if err != nil {
		return false, fmt.Errorf("when: %w", err)
	}
	holds, ok := out.(bool)
	if !ok {
		return false, fmt.Errorf("when: %s gives %T, want true or false", w.source, out)
	}
	return holds, nil
}
