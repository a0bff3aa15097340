package policy_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/policy"
)

// beyondSchema lists the errors of parseErrors that a schema cannot detect: it does not check
// patterns, expressions, and the changes that an event permits.
var beyondSchema = []string{
	"twice", "block a notice", "ask too late", "allow where no prompt", "set what may not", "context where none",
	"after too long ago", "after the same of no call", "after, by two", "redact of all texts", "redact of no pattern", "pack that redacts", "records without a decision", "records without hooks", "records of no pattern", "pack with records",
	"forward with a password", "forward with a parameter", "forward with a token", "forward to no server", "forward with a space", "forward twice",
	"unknown agent", "bad glob", "bad path pattern", "bad regexp", "bad command", "advice that is no command", "advice without a decision", "bad when", "when no bool", "when unknown name", "when unknown member", "when nested loops",
	"sum no number", "sum unknown name", "limit too long", "limit too short", "limit a notice", "limit a stop", "limit asks too late",
	"places that meet", "place and whole", "set of no event", "fields of no event", "replace where no text", "pack with a program for context",
	"timeout of nothing", "replace of nothing", "pack used twice", "async with an opinion", "http async with an opinion", "command as a regexp", "block at the start", "use that allows a wrong pattern", "use that allows what it leaves", "pack that uses", "pack that runs", "pack with a worker", "pack with a file", "pack with defaults",
	"secret of no rule", "mask a notice", "pack with secrets", "secrets allow all", "secrets disable nothing",
	"expires without a zone", "expires on no day", "pack with a revision", "pack with groups",
	"pack with networks", "pack with ca", "pack with retention", "retention of a small size", "retention of a large size", "pack that loads", "load twice", "load of no pattern",
	"http with a user", "http with a space", "http with a key that is none", "http breaker that never closes", "http too slow", "pack with http",
	"notify with a user", "notify with a key that is none", "notify too slow", "notify later than that", "notify with two timeouts", "ntfy without a topic", "notify url and smtp", "notify text for a program", "body with a wrong expression", "body with an unknown name", "title that is no text", "body with too many parts", "pack with notify",
	"sandbox of a pattern", "sandbox of an unknown word", "sandbox that leaves the root", "sandbox of a user",
}

func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	for _, name := range beyondSchema {
		if _, ok := parseErrors[name]; !ok {
			t.Errorf("parseErrors has no %q", name)
		}
	}
	for name, tt := range parseErrors {
		if err := fixture.CheckSchema(t, tt.in); (err == nil) != slices.Contains(beyondSchema, name) {
			t.Errorf("%s: the schema says %v, and beyondSchema otherwise\n%s", name, err, tt.in)
		}
	}
}

// The parser handles exactly the keys in the schema.
func TestSchemaHasEveryKey(t *testing.T) {
	t.Parallel()
	type mapping struct {
		Properties map[string]map[string]any
	}
	var s struct {
		mapping
		Defs map[string]mapping `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(policy.Schema()), &s); err != nil {
		t.Fatal(err)
	}
	s.Defs[""] = s.mapping
	defs := map[string]string{ // name of the mapping in messages -> its definition
		"the policy": "", "pack": "packInfo", "use": "usedPack", "defaults": "defaults", "a hook": "hook",
		"match": "match", "secrets": "secrets", "context": "context", "replace": "replacement", "limit": "limit", "after": "after", "approve": "approve", "until": "until", "load": "loadFrom", "builtin": "builtin",
		"http": "http", "notify": "notify", "smtp": "smtp", "breaker": "breaker",
		"sandbox": "sandbox", "contain": "contain",
		"grants": "grant", "trust": "vouch",
		"redact":  "redact",
		"records": "records", "forward": "forward", "retention": "retention",
	}
	known := parserKeys(t)
	for what, keys := range known {
		def, ok := s.Defs[defs[what]]
		if !ok || defs[what] == "" && what != "the policy" {
			t.Errorf("the schema has no definition for %s", what)
			continue
		}
		if diff := cmp.Diff(keys, slices.Sorted(maps.Keys(def.Properties))); diff != "" {
			t.Errorf("%s: the keys differ (-parser +schema):\n%s", what, diff)
		}
		for key, words := range def.Properties {
			if words["description"] == nil && words["$ref"] == nil {
				t.Errorf("%s: the schema does not describe %q", what, key)
			}
		}
	}
	for what := range defs {
		if known[what] == nil {
			t.Errorf("the parser knows no keys of %s", what)
		}
	}
}

// parserKeys lists the keys of each mapping. It finds the calls of fileParser.mapping in the
// source, with the tables of keys that they name.
func parserKeys(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var trees []*ast.File
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		trees = append(trees, tree)
	}
	named := namedTables(t, trees)
	named["matchWords"], named["actionKeys"] = policy.MatchKeys(), policy.ActionNames()
	keys := map[string][]string{}
	for _, tree := range trees {
		ast.Inspect(tree, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || calledName(call) != "mapping" {
				return true
			}
			what := literal(t, call.Args[1])
			for _, table := range call.Args[2:] {
				var known []string
				switch table := table.(type) {
				case *ast.CompositeLit:
					known = tableKeys(t, table)
				case *ast.Ident:
					known = named[table.Name]
				case *ast.CallExpr:
					known = named[calledName(table)]
				}
				if len(known) == 0 {
					t.Fatalf("%s: the test cannot find a table of keys", what)
				}
				keys[what] = append(keys[what], known...)
			}
			slices.Sort(keys[what])
			return true
		})
	}
	return keys
}

// namedTables lists the keys of tables that a variable holds or a function returns, by the name
// of the variable or function.
func namedTables(t *testing.T, trees []*ast.File) map[string][]string {
	t.Helper()
	named := map[string][]string{}
	add := func(name string, e ast.Expr) {
		if table, ok := e.(*ast.CompositeLit); ok && isTable(table) {
			named[name] = tableKeys(t, table)
		}
	}
	for _, tree := range trees {
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if name, ok := n.Lhs[0].(*ast.Ident); ok && len(n.Rhs) == 1 {
					add(name.Name, n.Rhs[0])
				}
			case *ast.FuncDecl:
				if n.Body == nil {
					return true
				}
				for _, line := range n.Body.List {
					if ret, ok := line.(*ast.ReturnStmt); ok && len(ret.Results) == 1 {
						add(n.Name.Name, ret.Results[0])
					}
				}
			}
			return true
		})
	}
	return named
}

// isTable reports whether a literal is a []key.
func isTable(lit *ast.CompositeLit) bool {
	list, ok := lit.Type.(*ast.ArrayType)
	if !ok {
		return false
	}
	of, ok := list.Elt.(*ast.Ident)
	return ok && of.Name == "key"
}

func tableKeys(t *testing.T, table *ast.CompositeLit) (names []string) {
	t.Helper()
	for _, e := range table.Elts {
		names = append(names, literal(t, e.(*ast.CompositeLit).Elts[0]))
	}
	return names
}

// calledName returns the name of the called method.
func calledName(call *ast.CallExpr) string {
	if fn, ok := call.Fun.(*ast.SelectorExpr); ok {
		return fn.Sel.Name
	}
	return ""
}

func literal(t *testing.T, e ast.Expr) string {
	t.Helper()
	text, err := strconv.Unquote(e.(*ast.BasicLit).Value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The lists of names in the schema equal those in the code, without duplicates.
func TestSchemaNames(t *testing.T) {
	t.Parallel()
	var s struct {
		Defs map[string]struct{ Enum []string } `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(policy.Schema()), &s); err != nil {
		t.Fatal(err)
	}
	for def, some := range map[string][]string{
		"kind": {"tool.before", "session.end"}, "agentEvent": {"PreToolUse", "BeforeTool", "before_tool_call"}, "agentName": {"claude-code", "claude", "codex"},
		"language": {"gemini", "flyto"}, "field": {"tool.input", "tool.path"}, "format": {"ironclaw", "claude-code"},
	} {
		names := s.Defs[def].Enum
		for _, name := range some {
			if !slices.Contains(names, name) {
				t.Errorf("the list %q has no %s: %v", def, name, names)
			}
		}
		if once := slices.Compact(slices.Sorted(slices.Values(names))); len(once) != len(names) {
			t.Errorf("in the list %q some names stand twice: %v", def, names)
		}
	}
	if strings.Contains(policy.Schema(), `"$kind"`) || strings.Count(policy.Schema(), `["$`) > 0 {
		t.Error("a list of names was not filled in")
	}
}

// An editor shows the meaning and the syntax of each key of a hook or of `match:`, and every
// example works.
func TestSchemaExplainsKeys(t *testing.T) {
	t.Parallel()
	type property struct {
		Ref, Description string
		Type             any
		Examples         []json.RawMessage
	}
	var s struct {
		Properties map[string]property
		Defs       map[string]struct {
			property
			Properties map[string]property
		} `json:"$defs"`
	}
	text := strings.ReplaceAll(policy.Schema(), `"$ref"`, `"ref"`)
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	parses := func(what, key string, example json.RawMessage, file string) {
		if _, errs := policy.Parse("x.yaml", []byte(file)); len(errs) > 0 {
			t.Errorf("%s: the example %s of %q does not work: %v\n%s", what, example, key, errs, file)
		}
	}
	needless := map[string]bool{"failed": true, "shell": true} // their only words are obvious
	for _, what := range []string{"hook", "match"} {
		for key, p := range s.Defs[what].Properties {
			if p.Description == "" && s.Defs[strings.TrimPrefix(p.Ref, "#/$defs/")].Description == "" {
				t.Errorf("%s: nothing describes %q", what, key)
			}
			if len(p.Examples) == 0 && p.Type != "boolean" && !needless[key] {
				t.Errorf("%s: %q has no example", what, key)
			}
			for _, example := range p.Examples {
				pair := fmt.Sprintf("%s: %s", key, example)
				if what == "match" {
					parses(what, key, example, "version: 1\nhooks: [{name: x, on: [prompt.before, tool.before], block: no, match: {"+pair+"}}]")
					continue
				}
				hook := map[string]string{"name": "x", "on": "tool.before"}
				switch key {
				case "block", "ask", "contain", "limit", "run", "worker", "http", "notify", "builtin", "replace", "mask":
				case "allow":
					hook["on"] = "permission.before"
				case "context":
					hook["on"] = "session.start"
				case "set":
				case "approve":
					hook["ask"] = "ok?"
				case "fields":
					hook["on"], hook["replace"] = "tool.after", "[{pattern: a, with: b}]"
				case "speaks", "env", "sandbox", "on_error", "priority", "timeout", "message":
					hook["run"] = "x"
				default:
					hook["block"] = "no"
				}
				hook[key] = string(example)
				file := "version: 1\nhooks:\n  - grapnel: x\n"
				for k, v := range hook {
					file += fmt.Sprintf("    %s: %s\n", k, v)
				}
				parses(what, key, example, strings.Replace(file, "grapnel: x\n    ", "", 1))
			}
		}
	}
	for key, p := range s.Properties {
		for _, example := range p.Examples {
			file := fmt.Sprintf("version: 1\n%s: %s\n", key, example)
			if key != "hooks" {
				file += "hooks: []\n"
			}
			parses("the policy", key, example, file)
		}
	}
}
