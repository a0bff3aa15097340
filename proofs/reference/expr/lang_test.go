package expr_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	lang "github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"

	"github.com/grapnel-dev/grapnel/internal/policy/expr"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// The reference language, of which Grapnel's language is a subset, in the form in which Grapnel
// used it before: an environment of flat names, only Grapnel's functions, no nested loops.

var names = []expr.Name{
	{Name: "kind", Like: ""},
	{Name: "prompt", Like: ""},
	{Name: "turn", Like: 1},
	{Name: "ratio", Like: 1.5},
	{Name: "tool.name", Like: ""},
	{Name: "tool.failed", Like: true},
	{Name: "tool.commands", Like: []string{}},
	{Name: "tool.paths", Like: []string{}},
	{Name: "tool.input"},
	{Name: "tool", Like: map[string]any{}},
}

var functions = []string{"len", "lower", "upper", "trim", "int", "float", "string", "any", "all", "none", "one", "filter", "map", "count", "keys", "values", "get"}

func event(kind, prompt string, turn int, ratio float64, tool string, failed bool, commands, paths []string, input any) map[string]any {
	return map[string]any{
		"kind": kind, "prompt": prompt, "turn": turn, "ratio": ratio, "tool.name": tool, "tool.failed": failed, "tool.commands": commands, "tool.paths": paths, "tool.input": input,
		"tool": map[string]any{"name": tool, "failed": failed, "commands": commands, "paths": paths},
	}
}

// events are the events for which expressions are evaluated.
var events = []map[string]any{
	event("", "", 0, 0, "", false, []string{}, []string{}, map[string]any{}),
	event("tool.before", "a", 1, 1.5, "Bash", false, []string{"ls", "rm -rf /"}, []string{"a", "b/c.go"}, map[string]any{
		"text": "abc", "n": 1.0, "x": 2.5, "yes": true, "no": false, "null": nil, "list": []any{"a", "ls", 1.0}, "flags": []any{true, false},
		"one": map[string]any{"k": "v"}, "objects": []any{map[string]any{"a": 1.0, "b": "x"}, map[string]any{"a": 2.0}},
	}),
	event("x", "Grüße, \u20ac 5\nno", -3, -0.5, "Write", true, []string{"a"}, []string{}, map[string]any{
		"text": "", "n": "12", "list": []any{}, "one": map[string]any{}, "objects": []any{1.0}, "flags": []any{"x"},
	}),
	event("12", "b", 7, 12, "mcp__a__b", true, []string{"", "b"}, []string{"b", "a", "b"}, []any{"a", 1.0, nil, []any{true}}),
	event("y", "a.c", 2, 2, "x", false, []string{"ls"}, []string{"x"}, nil),
}

type reference struct{ program *vm.Program }

func compileReference(source string, optimize bool) (*reference, error) {
	env := map[string]any{}
	for _, n := range names {
		env[n.Name] = n.Like
	}
	env["tool.input"] = func() any { return nil }
	tree := &tree{}
	options := []lang.Option{lang.Env(env), lang.AsBool(), lang.DisableAllBuiltins(), lang.MaxNodes(1000), lang.Patch(tree), lang.Optimize(optimize)}
	for _, name := range functions {
		options = append(options, lang.EnableBuiltin(name))
	}
	program, err := lang.Compile(source, options...)
	if err == nil {
		err = tree.err
	}
	return &reference{program}, err
}

func (r *reference) run(event map[string]any) (any, error) {
	env := maps.Clone(event)
	env["tool.input"] = func() any { return event["tool.input"] }
	return lang.Run(r.program, env)
}

// tree replaces tool.name by one name, and rejects nested loops.
type tree struct{ err error }

func (t *tree) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.PredicateNode:
		body := n.Node
		ast.Walk(&body, inner{t})
	case *ast.MemberNode:
		of, isName := n.Node.(*ast.IdentifierNode)
		field, isField := n.Property.(*ast.StringNode)
		if !isName || !isField || of.Value != "tool" {
			return
		}
		name := "tool." + field.Value
		if !slices.ContainsFunc(names, func(n expr.Name) bool { return n.Name == name }) {
			t.err = fmt.Errorf("unknown name %s", name)
			return
		}
		var flat ast.Node = &ast.IdentifierNode{Value: name}
		if name == "tool.input" {
			flat = &ast.CallNode{Callee: flat}
		}
		ast.Patch(node, flat)
	}
}

type inner struct{ t *tree }

func (i inner) Visit(node *ast.Node) {
	if _, ok := (*node).(*ast.PredicateNode); ok {
		i.t.err = errors.New("a loop inside a loop")
	}
}

// ask runs a compiled expression of package expr.
func ask(p *expr.Program, event map[string]any) (any, error) {
	return p.Run(func(name int) any { return event[names[name].Name] })
}

// differ describes how the two languages disagree about an expression, or returns "". With its
// optimizer, the reference sometimes gives another result than without it, for example for 1 in
// ["a"]. Package expr then follows the documentation of the language.
func differ(source string) string {
	own, err := expr.Compile(source, expr.Truth, names)
	ref, refErr := compileReference(source, true)
	plain, plainErr := compileReference(source, false)
	if (err == nil) != (refErr == nil) && (err == nil) != (plainErr == nil) {
		// The reference assumes that (a ? "x" : tool.input) is a text, and that all elements of
		// [tool.input.a, nil] are nil.
		unsound := strings.Contains(source, "?") || strings.Contains(source, "else") || strings.Contains(source, "nil")
		if excused(err, fmt.Sprint(refErr)) || err == nil && unsound && !syntaxError(source) {
			return ""
		}
		return fmt.Sprintf("compiled: %v, want %v", err, refErr)
	}
	if err != nil {
		return ""
	}
	for i, event := range events {
		got, err := ask(own, event)
		matches := func(r *reference, compileErr error) (bool, string) {
			if compileErr != nil {
				return false, compileErr.Error()
			}
			want, wantErr := r.run(event)
			return (err == nil) == (wantErr == nil) && (err != nil || got == want), fmt.Sprint(want, wantErr)
		}
		if same, want := matches(ref, refErr); !same {
			// The reference treats an empty list of integers as different from an empty list of
			// texts.
			if same, _ := matches(plain, plainErr); !same && !excused(err, want) && !strings.Contains(source, "..") {
				return fmt.Sprintf("event %d: %v %v, want %s", i, got, err, want)
			}
		}
	}
	return ""
}

// excuses are words in the messages of the two languages that explain a disagreement. Each has
// examples in different.
var excuses = []struct{ ours, theirs, why string }{
	{ours: "want a list, got an object", why: "loops are over lists"},
	{ours: "want a list, got text", why: "loops are over lists"},
	{ours: "`in` does not work with text", why: "theirs fails when it gets there"},
	{ours: "text has no member", why: "a text has no elements"},
	{ours: "methods are not supported", why: "theirs fails when it gets there"},
	{theirs: "interface conversion: interface {} is", why: "a type that a value did not keep to, as that of nil: it is no text, and that is all"},
}

// syntaxError reports whether the reference cannot parse an expression, independent of types.
func syntaxError(source string) bool {
	_, err := parser.Parse(source)
	return err != nil
}

func excused(err error, theirs string) bool {
	if wrong, ok := errors.AsType[*expr.Error](err); ok && slices.Contains(functions, wrong.Unknown) {
		return true // a function is not a value
	}
	for _, e := range excuses {
		if e.ours != "" && err != nil && strings.Contains(err.Error(), e.ours) || e.theirs != "" && strings.Contains(theirs, e.theirs) {
			return true
		}
	}
	return false
}

// same are expressions about which the two languages must agree.
var same = []string{
	// Values.
	`true`, `false`, `nil`, `1`, `"a"`, `tool.failed`, `tool.input.yes`, `tool.input.nothing`, `tool.input.text`, `tool.input`, `tool`, `kind`, ``, ` `, `// x`, `true // x`, `/* a */ true /**/`, `true /*`,
	`"a" == 'a'`, "`a` == 'a'", "`a``b` == 'a`b'", `"a\n\t\\\"" == 'a'`, `"\x41" == "A"`, `"\u00e9" == "é"`, `"\U0001F600" == "😀"`, `"\101" == "A"`, `"\xff" == "ÿ"`, `"\'" == "a"`, `"\q" == ""`, `"a`, "'a\nb' == ''", "`a\nb` == prompt", `"é" == "é"`,
	`1 == 1.0`, `010 == 10`, `0x1F == 31`, `0b11 == 3`, `0o17 == 15`, `1_000 == 1000`, `1e3 == 1000`, `1. == 1`, `.5 == 0.5`, `1.5e-1 < 1`, `0x == 1`, `1e == 1`, `1a == 1`, `0b2 == 1`, `9223372036854775807 > 0`, `9223372036854775808 > 0`, `1e400 > 0`, `0b1e1 == 1`, `1__0 == 10`, `0xe+1 == 15`, `1.a`,
	`[1, 2,] == [1, 2]`, `[,] == []`, `[1 2] == []`, `[] == tool.commands`, `[1, "a", nil, true][1] == "a"`, `{a: 1}.a == 1`, `{"a": 1, b: 2,}["b"] == 2`, `{("a" + "b"): 1}.ab == 1`, `{1: 2}["1"] == 2`, `{a: 1, a: 2}.a == 1`, `{in: 1}.a == 1`, `{,}.a`, `{(turn): 1} == {}`, `{a: 1, b: {c: [1]}}.b.c[0] == 1`, `{} == {}`,
	// Arithmetic.
	`1 + 2 * 3 == 7`, `(1 + 2) * 3 == 9`, `2 ** 3 ** 2 == 512`, `2 ^ 3 == 8`, `-2 ** 2 == -4`, `7 / 2 == 3.5`, `7 % 3 == 1`, `-7 % 3 == -1`, `turn % 2 == 1`, `turn % turn == 0`, `5 % 0 == 0`, `1 / 0 > 1`, `ratio % 2 == 0`, `tool.input.n % 2 == 1`, `9223372036854775807 + 1 < 0`, `1 + 1.5 == 2.5`, `turn + ratio > 1`, `turn * 2 - 1 == 1`, `- turn == -1`, `+turn == 1`, `-kind`, `+"a" == "a"`, `+tool.input.text == "abc"`, `-tool.input.n == -1`, `"a" + "b" == "ab"`, `"a" + 1 == ""`, `kind + tool.input.text != ""`, `tool.input.n + 1 == 2`, `tool.input.x - 0.5 == 2`, `nil + 1`, `1 - "a"`, `int(tool.input.n) % 2 == 1`,
	`1 < 2`, `"a" < "b"`, `1 < "a"`, `1 < turn < 3`, `1 <= turn <= 1 <= 2`, `turn > 0 == true`, `0 < ratio < "a"`, `tool.input.n < 2`, `tool.input.text >= "abc"`, `tool.input.text < 1`, `nil < 1`, `tool.failed < true`, `0/0 == 0/0`,
	// Logic.
	`true && false || true`, `not true`, `!true`, `!!tool.failed`, `not tool.failed and true`, `! kind`, `not tool.name contains "a"`, `not (tool.name contains "a")`, `true and tool.input.nothing`, `true && tool.input.text`, `tool.input.text && true`, `tool.input.nothing || true`, `false || tool.input.yes`, `kind && true`, `true or kind`, `!tool.input.nothing`, `nil or true`, `true & true`, `true | false`,
	`tool.failed ? true : false`, `tool.failed ? 1 : "a"`, `(tool.failed ? 1 : "a") == 1`, `kind ? true : false`, `tool.failed ?: true`, `tool.input.yes ? true : tool.input.no`, `true ? false : true ? 1 : 2`, `tool.input.nothing ? true : true`, `if tool.failed { true } else { false }`, `if turn > 5 { true } else if turn > 0 { kind == "x" } else { false }`, `if true { true }`, `if true { true } else { false } && true`, `(tool.failed ? tool.commands : ["a"])[0] == "a"`, `(tool.failed ? [1] : ["a"])[0] == "a"`, `(true ? nil : nil) == nil`, `true ?.5 == 1 : false`,
	`1 ?? 2 == 1`, `(tool.input.nothing ?? 2) == 2`, `nil ?? true`, `tool.input.yes ?? false`, `tool.input.nothing ?? kind == "x"`, `turn + tool.input.nothing ?? 3 == 4`, `(tool.input.nothing ?? tool.input.null ?? "z") == "z"`, `kind ?? 1 | len() > 1`, `(kind ?? nil) == kind`, `(prompt ?? 1) == "a"`, `tool.input.a ?? 1 not in [1]`,
	// Comparison.
	`kind == "x"`, `kind != "x"`, `kind == 1`, `kind == nil`, `turn == 1.0`, `tool.input.n == 1`, `tool.input.n == "1"`, `tool.input.list == ["a", "ls", 1]`, `tool.commands == ["ls", "rm -rf /"]`, `tool.commands == tool.paths`, `tool.input.one == {"k": "v"}`, `tool.input == {}`, `tool == {}`, `tool.input.null == nil`, `nil == nil`, `tool.input.objects[0] == tool.input.one`, `tool.failed == true == false`, `[1] == ["a"]`, `[1] == "a"`, `tool.commands == kind`, `{} == []`,
	`kind in ["x", "y"]`, `kind not in ["x", "y"]`, `kind in []`, `turn in 1..3`, `turn in [1, 2.0]`, `ratio in [1, 1.5]`, `kind in [1]`, `"ls" in tool.commands`, `1 in tool.commands`, `tool.input.text in tool.commands`, `tool.input.n in [1, 2]`, `tool.input.text in ["abc", 1]`, `"text" in tool.input`, `kind in tool.input`, `"name" in tool`, `1 in tool`, `tool.input.n in tool.input.one`, `"k" in tool.input.one`, `nil in tool.commands`, `nil in tool.input.list`, `tool.input.nothing in tool.input.one`, `"a" in tool.input.nothing`, `"a" in nil`, `kind in "abc"`, `"a" in tool.input.text`, `tool.input.n in ["a", "b"]`, `tool.input.nothing in ["", "b"]`, `turn in [1, 2, 3]`, `tool.input.list in [[]]`, `tool.input.nothing not in ["a"]`, `kind not == "x"`, `kind not  in ["x"]`, `not kind in ["x"]`,
	`kind contains "o"`, `kind startsWith "tool" and kind endsWith "before"`, `kind not contains "o"`, `kind not startsWith ""`, `tool.input.text contains "b"`, `tool.input.n contains "b"`, `tool.input.nothing contains "b"`, `kind contains tool.input.nothing`, `kind contains nil`, `kind contains 1`, `tool.commands contains "ls"`, `tool.input.list contains "ls"`,
	`kind matches "^t.*e$"`, `kind not matches "^t"`, `kind matches "("`, `kind matches tool.input.text`, `kind matches tool.name`, `kind matches "(" + ")"`, `kind matches "(" + ""`, `tool.input.text matches "b"`, `tool.input.n matches "b"`, `tool.input.nothing matches "b"`, `kind matches 1`, `kind matches ("t")`, `kind matches "(?=a)"`, `prompt matches "(?i)GR"`, `tool.input.n matches tool.input.nothing`,
	// Members.
	`tool.nothing`, `tool["name"] == "Bash"`, `tool["na" + "me"] == "Bash"`, `tool?.name == "Bash"`, `(tool).name == "x"`, `tool["nothing"] == nil`, `tool["no" + "thing"] == nil`, `tool[1] == nil`, `let t = tool; t.name == "Bash" && t.nothing == nil`, `tool.name.length`, `tool.input.one.k == "v"`, `tool.input.one.k.z == "v"`, `tool.input?.one?.k == "v"`, `tool.input?.nothing?.k == "v"`, `tool.input?.nothing.k == nil`, `tool.input.nothing.k == nil`, `tool.input.nothing?.k == nil`, `tool.input.nothing?.a.b.c == nil`, `(tool.input.nothing?.a).b == nil`, `tool.input.nothing?.a["b"] == nil`, `tool.input.nothing?.["a"] == nil`, `tool.input.nothing?.["a"].b == nil`, `tool.input.nothing?.[0][1] == nil`, `tool.input?.list[0] == "a"`, `tool.input?.list?.[0] == "a"`, `tool.input["list"][-1] == 1`, `tool.input.list[5] == 1`, `tool.input.list["a"] == 1`, `tool.input.list[tool.input.n] == "ls"`, `tool.input.list[1.5] == 1`, `tool.commands[0] == "ls"`, `tool.commands[-1] == "ls"`, `tool.commands[9] == "ls"`, `tool.commands["a"] == 1`, `tool.commands.a == 1`, `tool.input.one[tool.input.text] == nil`, `tool.input.one[tool.input.nothing] == nil`, `tool.input.one[1] == nil`, `kind.a == 1`, `kind[0] == "a"`, `turn.a`, `nil.a`, `tool.input.in == 1`, `tool.input.not == nil`, `tool.input.true == nil`, `tool.input."a"`, `tool.input.`, `tool.input..a`, `tool.input.1`, `unknown == 1`, `unknown.a`, `tool.commands?.a`, `tool.input.flags[0]`, `tool.input[0] == "a"`, `tool.input[3][0]`,
	`kind[0:1] == "x"`, `kind[:1] == "x"`, `kind[1:] == ""`, `kind[:] == kind`, `kind[-1:] == "e"`, `kind[5:1] == ""`, `prompt[:3] == "Gr\u00fc"`, `prompt[0:100] == prompt`, `tool.commands[1:] == []`, `tool.commands[:1][0] == "ls"`, `tool.input.list[1:2] == ["ls"]`, `tool.input.text[1:] == "bc"`, `tool.input.n[1:] == ""`, `tool.input.nothing[1:] == nil`, `turn[1:]`, `tool.input.text[1.5:] == "bc"`, `kind["a":]`, `kind[1.0:]`, `tool.commands[tool.input.n:] == []`, `[1, 2, 3][1:2] == [2]`, `tool.input.nothing?.a[1:] == nil`,
	// Functions.
	`len(kind) == 1`, `len(prompt) == 12`, `len(tool.commands) > 1`, `len(tool.input) > 3`, `len(tool) == 4`, `len(tool.input.text) == 3`, `len(tool.input.n) == 1`, `len(tool.input.nothing) == 0`, `len(nil) == 0`, `len(1) == 1`, `len() == 1`, `len("a", "b") == 1`, `len("a",) == 1`, `len("é") == 1`,
	`lower(tool.name) == "bash"`, `upper(prompt) == "A"`, `lower(1) == ""`, `lower(nil) == ""`, `lower(tool.input.n) == "12"`, `lower(tool.input.nothing) == ""`, `trim(" a ") == "a"`, `trim("xax", "x") == "a"`, `trim("a", 1) == "a"`, `trim() == ""`, `trim("a", "b", "c") == ""`,
	`int("12") == 12`, `int(1.9) == 1`, `int(kind) == 12`, `int(tool.input.n) == 12`, `int(true) == 1`, `int(nil) == 1`, `int(tool.input.yes) == 1`, `int(tool.input.nothing) == 1`, `float("1.5") == 1.5`, `float(1) == 1`, `float(kind) == 12`, `float(tool.input.list) == 1`, `int("1.5") == 1`,
	`string(1) == "1"`, `string(1.0) == "1"`, `string(1e21) == "1e+21"`, `string(nil) == "<nil>"`, `string(true) == "true"`, `string([1, "a"]) == "[1 a]"`, `string(tool.input.one) == "map[k:v]"`, `string(tool.commands) == "[ls rm -rf /]"`, `string(1..3) == "[1 2 3]"`, `string(tool.input) contains "abc"`,
	`keys({a: 1}) == ["a"]`, `values({a: 1}) == [1]`, `keys(tool.input.one) == ["k"]`, `len(keys(tool)) == 4`, `keys(tool.commands) == []`, `keys(tool.input.list) == []`, `keys(tool.input.nothing) == []`, `values(tool.input.one)[0] == "v"`, `"name" in keys(tool)`,
	`get(tool.input, "text") == "abc"`, `get(tool.input.nothing, "text") == nil`, `get(tool.commands, 9) == nil`, `get(tool.commands, "a") == nil`, `get(tool.input.list, 0) == "a"`, `get(tool, "name") == "Bash"`, `get(tool, "nothing") == nil`, `get(kind, 0) == nil`, `get(turn, 0) == nil`, `get(tool.input) == nil`, `get(tool.input.one, 1) == nil`, `get(tool.input.one, nil) == nil`, `get(tool.input.list, tool.input.nothing) == nil`,
	`trimPrefix("a", "a") == ""`, `foo()`, `kind()`, `tool.name()`, `now() == 1`, `toJSON(tool)`, `split("a", "b") == []`,
	// Loops.
	`any(tool.commands, # == "ls")`, `all(tool.commands, len(#) > 0)`, `none(tool.commands, # startsWith "rm")`, `one(tool.commands, # == "ls")`, `count(tool.commands, # != "") == 2`, `filter(tool.commands, # != "ls") == ["rm -rf /"]`, `map(tool.commands, len(#)) == [2, 8]`, `map(tool.commands, #index) == [0, 1]`, `any(tool.commands, #index == 0)`, `any(tool.commands, # index == 0)`, `map(tool.commands, # index)[0] == 0`, `map(tool.commands, #in tool.paths)`, `any(tool.commands, {# == "ls"})`, `any(tool.commands, # in tool.paths)`, `any(tool.input.objects, .a == 1)`, `any(tool.input.objects, #.a == 1)`, `any(tool.input.objects, .a?.b == 1)`, `any(tool.input.objects, #["b"] == "x")`, `filter(tool.input.objects, .a > 1)[0].a == 2`, `count(tool.input.flags) == 1`, `count(tool.input.flags,) == 1`, `any(tool.commands, # == "ls",)`, `any(tool.commands)`, `any(tool.commands, #)`, `any(tool.input.list, #)`, `any(tool.input.flags, #)`, `all([], false)`, `any([], tool.input.nothing)`, `any(tool.input.nothing, true)`, `any(kind, true)`, `any(turn, true)`, `any(tool, true)`, `any(nil, true)`, `map(tool.commands, nil) == []`, `any(tool.commands, nil)`, `any(1..3, # == turn)`, `len(1..1000) == 1000`, `len(1..10000000) == 1`, `len(3..1) == 0`, `len(ratio..2) == 1`, `len(tool.input.n..2) == 2`, `1..3 == [1, 2, 3]`, `1.0..2 == []`, `# == 1`, `.a == 1`, `#`, `any(tool.commands, any(tool.paths, true))`, `any(filter(tool.commands, # != ""), # == "ls")`, `any(tool.commands, count(tool.input.flags) > 0 && # == "ls")`, `any(map(tool.commands, {a: #}), .a == "ls")`, `any(tool.commands, ##)`, `map(tool.commands, #acc)`, `any(tool.commands, let x = #; x == "ls")`, `all(tool.commands, { let x = len(#); x > 0 })`, `any(tool.commands, #[0:1] == "l")`, `any(tool.commands, tool.commands[0] == #)`, `map(tool.input.list, #) == tool.input.list`, `map(1..3, # * 2)[1] == 4`, `filter(tool.input.objects, true)[0].b == "x"`, `filter(1..3, # > 1) == [2, 3]`, `len(filter(tool.commands, # != "")) > 1`,
	`tool.name | lower() == "bash"`, `tool.name | lower() | len() == 4`, `tool.commands | filter(# != "") | len() > 1`, `tool.commands | any(# == "ls")`, `tool.commands | count()`, `"a" | lower`, `"a" | 1`, `tool.input | get("text") == "abc"`, `" a" + "b " | trim() == "ab"`, `tool.commands | map(len(#)) == [2]`, `"a" | foo()`, `tool.failed ? "a" : "B" | lower() == "b"`, `"a" | lower().x`, `tool.commands | filter(true)[0] == ""`,
	// Names.
	`let x = 1; x == 1`, `let x = tool.input.n; let y = x; y == 1`, `let x = 1; let x = 2; true`, `let kind = 1; true`, `let tool = 1; true`, `let len = 1; true`, `let x = x; true`, `let x = 1`, `let x 1; true`, `(let x = 1; x) == 1`, `let x = "a"; x == 1`, `let a = kind == "x"; !a`, `let x = any(tool.commands, # == "ls"); x && x`, `(let x = 1; x == 1) && (let x = 2; x == 2)`, `let x = (let y = 1; y); y == 1`, `let x = nil; x == nil`, `let x = nil; x.a == nil`, `1 + let x = 1; x`, `let 1 = 1; true`, `let foo = 1; foo(1)`,
	// Brackets and mistakes.
	`(((true)))`, `(true`, `true)`, `()`, `true false`, `true,`, `== 1`, `1 ==`, `1 == == 1`, `a.b.c(`, `[1`, `{a: 1`, `{a}`, `@`, `a @ b`, `"a" "b"`, `true ?`, `true ? 1`, `true ? 1 :`, `!`, `not`, `-`, `in`, `1 in`, `..`, `1..`, `tool.commands[`, `tool.commands[0`, `any(`, `any(tool.commands,`, `any(tool.commands, #`, `else`, `if`, `let`, `?.a`, `??`, `true = false`, `kind ="x"`, `kind === "x"`, `kind <> "x"`, `kind & kind`, `~1`, `\`, `kind == "x" kind`,
}

func TestSameAsTheLanguage(t *testing.T) {
	t.Parallel()
	for _, source := range same {
		if how := differ(source); how != "" {
			t.Errorf("%s: %s", source, how)
		}
	}
}

// different are expressions about which the two languages disagree on purpose.
var different = []struct{ source, ours, theirs, why string }{
	{`$env.kind == "x"`, "refused", "false", "write kind"},
	{`::len(kind) == 0`, "refused", "true", "write len(kind)"},
	{`b"" == b""`, "refused", "true", "bytes are not in events"},
	{`find(["b"], true) == "b"`, "refused", "true", "only documented functions: get(filter(list, ...), 0), or any"},
	{`findIndex(["b"], true) == 0`, "refused", "true", "as above"},
	{`findLast(["b"], true) == "b"`, "refused", "true", "as above"},
	{`findLastIndex(["b"], true) == 0`, "refused", "true", "as above"},
	{`sum([1]) == 1`, "refused", "true", "as above"},
	{`reduce([1, 2], # + #acc) == 3`, "refused", "true", "as above"},
	{`len(groupBy([1], #)) == 1`, "refused", "true", "as above"},
	{`sortBy([2, 1], #)[0] == 1`, "refused", "true", "as above"},
	{`1; true`, "refused", "true", "what is before the ; has no effect"},
	{`true;`, "refused", "true", "as above"},
	{`any(tool.commands, {1; true})`, "refused", "false", "as above"},
	{`"\u{41}" == "A"`, "refused", "true", "write the letter, or \\u0041"},
	{`"\ud800" == ""`, "refused", "false", "half a character"},
	{`"\r" == '` + "\r" + `'`, "true", "false", "a carriage return stays one"},
	{`len == nil`, "refused", "true", "a function is no value"},
	{`tool.input.text()`, "refused", "fails", "methods are not supported; a load error instead of a failure"},
	{`tool.input.nothing in "abc"`, "refused", "fails", "write contains"},
	{`tool.input.nothing[foo:]`, "refused", "fails", "foo is unknown"},
	{`({a: "abc"}.a)[0] == 97`, "fails", "true", "as above"},
	{`get({a: "abc"}.a, 0) == 97`, "fails", "true", "as above"},
	{`any({a: "abc"}.a, # == 97)`, "fails", "true", "as above"},
	{`any({a: {}}.a, true)`, "fails", "false", "loops are over lists"},
	{`get(tool.commands, 9) == "ls"`, "false", "fails", "nil is no text, and that is all"},
	{`(tool.failed ? "a" : nil) == "a"`, "false", "fails", "as above"},
	{`{a: 1} == {a: 1.0}`, "true", "false", "numbers are compared as numbers, also inside of objects"},
	{`let x = let y = 1; y; x == 1`, "true", "refused", "the first ; that can end a let does"},
	{`1..0 == tool.commands`, "true", "false", "empty lists are equal"},
	{`keys({b: 1, a: 2}) == ["a", "b"]`, "true", "any", "keys and values come in the order of the keys"},
	{`len(-9223372036854775807..9223372036854775807) == 0`, "fails", "true", "they are too many"},
	{`(tool.failed ? "a" : tool.input) + 1 == 1`, "fails", "refused", "the type is not known before"},
	{`[nil, tool.input.nothing, nil][0].b == 1`, "fails", "refused", "as above"},
}

// TestDifferent checks the list of differences: each is a real difference and is described
// correctly.
func TestDifferent(t *testing.T) {
	t.Parallel()
	answer := func(run func(map[string]any) (any, error), err error) string {
		if err != nil {
			return "refused"
		}
		out, err := run(events[0])
		if err != nil {
			return "fails"
		}
		return fmt.Sprint(out)
	}
	for _, d := range different {
		own, err := expr.Compile(d.source, expr.Truth, names)
		if got := answer(func(ev map[string]any) (any, error) { return ask(own, ev) }, err); got != d.ours {
			t.Errorf("%s: ours %s (%v), want %s", d.source, got, err, d.ours)
		}
		ref, err := compileReference(d.source, true)
		if got := answer(func(ev map[string]any) (any, error) { return ref.run(ev) }, err); got != d.theirs && d.theirs != "any" {
			t.Errorf("%s: theirs %s (%v), want %s", d.source, got, err, d.theirs)
		}
		if d.ours == d.theirs {
			t.Errorf("%s: no difference, both %s", d.source, d.ours)
		}
	}
}

// grammar generates expressions: for each type of value, forms in which %b is a Boolean, %t a
// text, %n a number, %l a list, %o an object, %v anything and %e the use of an element.
var grammar = map[byte][]string{
	'b': {
		"true", "false", "tool.failed", "%t == %t", "%t != %t", "%n == %n", "%n < %n", "%n >= %n", "%t <= %t", "%n < %n <= %n", "%v == %v", "%v != %v", "%l == %l", "tool.input.one == %o", "%o != {}",
		"(%b && %b)", "(%b or %b)", "%b and %b || %b", "!(%b)", "not (%b)", "not %b", "(%b ? %b : %b)", "%v ?? %b", "%b == %b", "if %b {%b} else {%b}", "(let x = %v; %b)",
		"%t contains %t", "%t not startsWith %t", "%t endsWith %t", "%t matches %t", "%t matches '^[a-z]+$'", "%t in %l", "%v not in %l", "%v in %o", "%n in 1..3", "%t in ['a', 'ls', 'x']", "%v in [1, 'a']", "%n in [1, 2]",
		"any(%l, %e)", "all(%l, %e)", "none(%l, {%e})", "one(%l, %e,)", "%l | any(%e)", "%v",
	},
	'e': {"#", "# == %v", "# == %t", "# contains %t", "len(#) > %n", "# in %l", ".a == %n", "#.a > 1", "#?.b == nil", "%b", "(# ?? 'a') != %t", "# matches %t", "string(#) == %t"},
	't': {
		"kind", "prompt", "tool.name", "'a'", "\"ls\"", "`x`", "''", "'\\u20ac'", "tool.input.text", "tool.input?.one?.k", "lower(%t)", "upper(%t)", "trim(%t)", "trim(%t, %t)", "string(%n)", "string(%b)", "%t + %t", "%t[0:1]", "%t[:2]", "%t[-1:]",
		"(%b ? %t : %t)", "(%v ?? %t)", "tool.commands[%n]", "%l[%n]", "%t | lower()", "tool['name']", "x",
	},
	'n': {
		"0", "1", "2", "-1", "1.5", "0x10", "1_0", "turn", "ratio", "len(%t)", "len(%l)", "len(%o)", "count(%l, %e)", "int(%v)", "float(%v)", "int(%t)", "(%n + %n)", "%n - %n", "%n * %n", "(%n / %n)", "%n % %n", "2 ** %n", "-%n", "+%n", "tool.input.n", "tool.input.x", "(%b ? %n : %n)", "%v ?? %n",
	},
	'l': {
		"tool.commands", "tool.paths", "tool.input.list", "tool.input.flags", "tool.input.objects", "[]", "[%v, %v]", "[%t, %t,]", "['a', 'b']", "[1, 2.0]", "1..3", "%n..%n", "filter(%l, %e)", "map(%l, #index)", "map(%l, %v)", "map(%l, len(#))", "keys(tool.input.one)", "values(tool.input.one)", "%l[1:]", "%l[:-1]", "%l[0:turn]", "(%b ? %l : %l)", "%l | filter(%e)",
	},
	'o': {"tool.input", "tool.input.one", "tool.input.objects[0]", "{}", "{a: %t}", "{'a': %b, b: %n}", "tool", "(%b ? %o : %o)"},
	'v': {
		"nil", "%b", "%t", "%n", "%l", "%o", "tool.input", "tool.input.nothing", "tool.input.null", "tool.input?.nothing?.a", "tool.input.nothing.a", "tool.input.nothing?.a.b", "(tool.input.nothing?.a).b", "tool.input.nothing?.a['b']", "tool.input.nothing?.[0]", "%o.k", "%o?.a", "%o[%t]", "%v[%n]", "get(%o, %t)", "get(%l, %n)", "get(%v, %v)", "x", "unknown", "tool.nothing",
	},
}

// drawn draws an expression of a type. One in forty has another type.
func drawn(t *rapid.T, sort byte, depth int) string {
	if rapid.IntRange(0, 40).Draw(t, "slip") == 0 {
		sort = rapid.SampledFrom([]byte("btnlov")).Draw(t, "sort")
	}
	forms := grammar[sort]
	if depth == 0 {
		forms = slices.DeleteFunc(slices.Clone(forms), func(form string) bool { return strings.Contains(form, "%") })
	}
	form := rapid.SampledFrom(forms).Draw(t, "form")
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(form, "%")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		if strings.HasPrefix(after, " ") {
			b.WriteByte('%')
			form = after
			continue
		}
		b.WriteString(drawn(t, after[0], depth-1))
		form = after[1:]
	}
}

func TestSameAsTheLanguageDrawn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		source := drawn(t, 'b', rapid.IntRange(1, 5).Draw(t, "depth"))
		if how := differ(source); how != "" {
			t.Errorf("%s: %s", source, how)
		}
	})
}

// unshared are words that only one of the two languages accepts; different has examples of all.
var unshared = []string{
	"$env", ";", "\\u", "\r", "b'", "b\"", "B'", "B\"", "find", "sum", "reduce", "groupBy", "sortBy", "keys", "values", "{", "::", "[",
}

// FuzzSameAsTheLanguage compares the two languages for any text, without objects and slices.
func FuzzSameAsTheLanguage(f *testing.F) {
	for _, source := range same {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		for _, word := range unshared {
			if strings.Contains(source, word) {
				t.Skip()
			}
		}
		if len(source) > 300 || !utf8.ValidString(source) {
			t.Skip()
		}
		if how := differ(source); how != "" {
			t.Errorf("%q: %s", source, how)
		}
	})
}

// FuzzCompile checks that each expression compiles and runs in a short time, without a panic, and
// that errors have a position.
func FuzzCompile(f *testing.F) {
	for _, source := range same {
		f.Add(source, "a")
	}
	for _, d := range different {
		f.Add(d.source, "b")
	}
	f.Add(strings.Repeat("(", 5000), "")
	f.Add(strings.Repeat("!", 5000)+"true", "")
	f.Add(`any(tool.input.many, kind matches # + "(x*)*y" or tool.input.many == map(tool.input.many, #))`, strings.Repeat("x", 1000))
	f.Add(`len(map(1..999999, string(tool.input))) > 0`, "x")
	f.Fuzz(func(t *testing.T, source, text string) {
		begin := time.Now()
		defer func() {
			if time.Since(begin) > await.Limit {
				t.Errorf("%q takes longer than %v", source, await.Limit)
			}
		}()
		for _, result := range []expr.Result{expr.Truth, expr.Number} {
			p, err := expr.Compile(source, result, names)
			if err == nil {
				many := make([]any, 1000)
				for i := range many {
					many[i] = text
				}
				_, err = ask(p, event(text, text, 1, 1, text, true, []string{text}, nil, map[string]any{"many": many, "text": text}))
			}
			if err == nil {
				continue
			}
			wrong, ok := errors.AsType[*expr.Error](err)
			if !ok || wrong.Line < 1 || wrong.Column < 1 || wrong.Line > 1+strings.Count(source, "\n") || wrong.Column > 1+len(source) {
				t.Errorf("%q: %v, want a place in it", source, err)
			}
		}
	})
}
