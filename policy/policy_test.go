package policy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

func source(file string) grapnel.Source { return grapnel.Source{Name: file, File: file} }

// noCommand replaces programs in tests that do not need them.
func noCommand(policyfile.Command) grapnel.Hook {
	return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return grapnel.Outcome{}, nil })
}

func engine(t testing.TB, file, text string) *grapnel.Engine {
	t.Helper()
	p, errs := policy.Parse(file, []byte(text))
	if len(errs) > 0 {
		t.Fatalf("Parse(%s): %v", text, errs)
	}
	if err := checkSchema(t, text); err != nil {
		t.Errorf("Parse accepts a policy and the schema does not: %v\n%s", err, text)
	}
	// The engine runs the policy as decoded from a snapshot.
	var data bytes.Buffer
	enc := json.NewEncoder(&data)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		t.Fatal(err)
	}
	var again policyfile.Policy
	if err := json.Unmarshal(data.Bytes(), &again); err != nil {
		t.Fatal(err)
	}
	specs, err := policy.Build(&again, source(file), noCommand)
	if err != nil {
		t.Fatal(err)
	}
	e, err := grapnel.New(specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func tool(kind grapnel.Kind, name string, class grapnel.Class, input map[string]any) *grapnel.Event {
	raw, _ := json.Marshal(input)
	ev := &grapnel.Event{
		Kind: kind, Agent: grapnel.Agent{Name: "claude-code"}, Session: grapnel.Session{ID: "s", CWD: "/home/dev/project", Root: "/home/dev/project", Mode: "default"},
		Tool: &grapnel.Tool{Name: name, Class: class, Input: raw, Facts: []grapnel.Fact{
			{Field: grapnel.FieldCommand, At: "/command"},
			{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite},
			{Field: grapnel.FieldContent, At: "/content"},
			{Field: grapnel.FieldURL, At: "/url"},
		}},
	}
	ev.Tool.Derive()
	return ev
}

func sh(line string) *grapnel.Event {
	return tool(grapnel.ToolBefore, "Bash", grapnel.ClassShell, map[string]any{"command": line})
}

func write(path string) *grapnel.Event {
	return tool(grapnel.ToolBefore, "Write", grapnel.ClassWrite, map[string]any{"file_path": path, "content": "hello sk-live"})
}

func TestMatch(t *testing.T) {
	t.Parallel()
	type events map[string]struct {
		ev   *grapnel.Event
		want bool
	}
	mcp := tool(grapnel.ToolBefore, "mcp_lab_echo", grapnel.ClassMCP, nil)
	mcp.Tool.MCP = &grapnel.MCP{Server: "lab", Tool: "echo"}
	fetch := func(url string) *grapnel.Event {
		return tool(grapnel.ToolBefore, "WebFetch", grapnel.ClassFetch, map[string]any{"url": url})
	}
	inSub := sh("ls")
	inSub.Session.Subagent = &grapnel.Subagent{Type: "reviewer"}
	for rule, events := range map[string]events{
		"match: {tool: shell}": {"class": {sh("ls"), true}, "other": {write("a"), false}},
		"match: {tool: Bash}":  {"name": {sh("ls"), true}},
		"match: {tool: [write, edit]}": {
			"one of": {write("a"), true}, "none of": {sh("ls"), false},
		},
		"match: {tool: 'mcp__lab__*'}": {"canonical": {mcp, true}, "no": {sh("ls"), false}},
		"match: {tool: '/^B.s/'}":      {"regexp": {sh("ls"), true}, "no": {write("a"), false}},
		"match: {mcp: lab}":            {"server": {mcp, true}, "no server": {sh("ls"), false}},
		"match: {command: git push --force}": {
			"plain":     {sh("git push --force origin main"), true},
			"wrapped":   {sh("cd x && sudo bash -c 'git -C . push -f'"), true},
			"mentioned": {sh("git commit -m 'git push --force'"), false},
			"no shell":  {write("a"), false},
		},
		"match: {command: rm -rf}\n    except: {command: [rm -rf node_modules]}": {
			"excepted":           {sh("rm -rf node_modules"), false},
			"other":              {sh("rm -rf /"), true},
			"one of two":         {sh("rm -rf node_modules && rm -rf src"), true},
			"one of two names":   {sh("rm -rf node_modules src"), true},
			"computed name":      {sh("rm -rf node_modules $X"), true},
			"excepted, not only": {sh("rm -rf node_modules; ls"), false},
		},
		"match: {shell: unknown}": {"computed": {sh("$x -rf /"), true}, "clear": {sh("ls"), false}},
		"match: {path: 'deploy/prod/**'}": {
			"relative": {write("deploy/prod/a.yaml"), true}, "absolute": {write("/home/dev/project/deploy/prod/x/y"), true},
			"dots": {write("src/../deploy/prod/a"), true}, "elsewhere": {write("deploy/staging/a"), false}, "other root": {write("/tmp/deploy/prod/a"), false},
			"redirected to": {sh("echo x > deploy/prod/a"), true}, "the directory": {write("deploy/prod"), true},
			"patched":             {sh("apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: deploy/prod/a\n+x\n*** End Patch\nEOF"), true},
			"patched from beside": {sh("cd src && apply_patch <<EOF\n*** Begin Patch\n*** Delete File: ../deploy/prod/a\n*** End Patch\nEOF"), true},
			"patched by a word":   {sh("apply_patch '*** Begin Patch\n*** Update File: deploy/prod/a\n@@\n-x\n+y\n*** End Patch'"), true},
			"moved by a patch":    {sh("applypatch <<'EOF'\n*** Begin Patch\n*** Update File: a\n*** Move to: deploy/prod/a\n*** End Patch\nEOF"), true},
			"a diff":              {sh("git -C . apply <<'EOF'\n--- a/deploy/prod/a\n+++ b/deploy/prod/a\n@@ -1 +1 @@\n-x\n+y\nEOF"), true},
			"another diff":        {sh("patch -p1 <<'EOF'\n--- a/src/a\n+++ b/src/a\n@@ -1 +1 @@\n-x\n+y\nEOF"), false},
			"a patch mentioned":   {sh("cat <<'EOF'\n*** Begin Patch\n*** Add File: deploy/prod/a\n+x\n*** End Patch\nEOF"), false},
		},
		"match: {path: '**/.env'}": {"inside": {write("a/.env"), true}, "outside": {write("/etc/.env"), true}, "no": {write("a/.environment"), false}},
		"match: {path: /etc/**}":   {"absolute": {write("/etc/passwd"), true}, "by dots": {write("../../../etc/passwd"), true}, "no": {write("etc/passwd"), false}},
		"match: {tool: write, path: 'a/**'}\n    except: {path: a/b.md}": {"all keys": {write("a/c"), true}, "excepted": {write("a/b.md"), false}, "other tool": {sh("echo > a/c"), false}},
		"match: {url: 'https://*.example.com/*'}":                        {"yes": {fetch("https://a.example.com/x/y"), true}, "no": {fetch("https://example.org/"), false}},
		"match: {host: '*.internal'}":                                    {"yes": {fetch("http://db.INTERNAL:5432/x"), true}, "no": {fetch("http://internal.example.com"), false}, "in the path": {fetch("http://x.com/a.internal"), false}},
		"match: {content: sk-live}":                                      {"yes": {write("a"), true}, "no": {sh("echo sk-live"), false}},
		"match: {command: psql}\n    except: {text: shop_test}": {
			"excepted": {sh("psql shop_test -c 'drop table a'"), false}, "not excepted": {sh("psql shop"), true},
			"a description": {tool(grapnel.ToolBefore, "Bash", grapnel.ClassShell, map[string]any{"command": "psql shop", "description": "psql shop_test"}), true},
		},
		"match: {code: drop_all}": {
			"an option": {sh("python3 -c 'db.drop_all()'"), true}, "a here-document": {sh("python3 - <<'E'\ndb.drop_all()\nE"), true}, "a pipe": {sh("echo 'db.drop_all()' | python3"), true},
			"no code": {sh("echo drop_all"), false}, "other code": {sh("python3 -c 'print(1)'"), false},
		},
		"match: {code: drop_all}\n    except: {code: ':memory:'}": {
			"excepted":   {sh("python3 -c 'connect(\":memory:\").drop_all()'"), false},
			"one of two": {sh("python3 -c 'connect(\":memory:\").drop_all()'; python3 -c 'db.drop_all()'"), true},
		},
		"match: {text: sk-live}":                                       {"content": {write("a"), true}, "command": {sh("echo sk-live"), true}, "no": {sh("ls"), false}},
		"match: {text: '/sk-[a-z]+/'}":                                 {"yes": {write("a"), true}, "no": {sh("echo sk-1"), false}},
		"match: {agent: claude}":                                       {"alias": {sh("ls"), true}},
		"match: {agent: [gemini-cli]}":                                 {"other": {sh("ls"), false}},
		"match: {mode: default}":                                       {"yes": {sh("ls"), true}},
		"match: {subagent: reviewer}":                                  {"yes": {inSub, true}, "no": {sh("ls"), false}},
		"match: {subagent: '*'}":                                       {"yes": {inSub, true}, "main agent": {sh("ls"), false}},
		"match: {mcp: '*'}":                                            {"own tool": {sh("ls"), false}},
		"match: {not: {subagent: '*'}}":                                {"no": {inSub, false}, "main agent": {sh("ls"), true}},
		"match: {agent: my-agent}":                                     {"other": {sh("ls"), false}},
		"match: {tool: shell, not: {command: ls}}":                     {"negated": {sh("ls -la"), false}, "other": {sh("pwd"), true}},
		"match: {tool: shell, not: {agent: claude}}":                   {"negated": {sh("pwd"), false}},
		"match: {tool: shell}\n    except: {command: ls}":              {"all excepted": {sh("ls; ls -la"), false}, "one is not": {sh("ls; pwd"), true}},
		"when: tool.command contains 'secret'":                         {"yes": {sh("cat secret"), true}, "no": {sh("ls"), false}, "no command": {write("a"), false}},
		"when: tool.input.file_path == 'a' and session.mode != 'plan'": {"yes": {write("a"), true}, "no": {write("b"), false}},
		"when: tool.output == '' and len(tool.input) == 1 and tool['input'].command == 'ls'": {"decoded late": {sh("ls"), true}, "no": {sh("pwd"), false}},
		"when: tool.input.nothing == nil and tool?.input?.command startsWith 'l'":            {"absent and optional": {sh("ls"), true}},
		`when: "any(tool.commands, # matches '^l')"`:                                         {"loop": {sh("ls"), true}},
	} {
		e := engine(t, "/etc/p.yaml", "version: 1\nhooks:\n  - name: x\n    on: tool.before\n    block: hit\n    "+rule+"\n")
		for name, tt := range events {
			t.Run(rule+"/"+name, func(t *testing.T) {
				t.Parallel()
				v := e.Fire(context.Background(), tt.ev)
				if got := v.Decision == grapnel.Block; got != tt.want {
					t.Errorf("%s on %s: block = %v, want %v (%s)", rule, tt.ev.Tool.Input, got, tt.want, v.Reason())
				}
			})
		}
	}
}

// One harmless command does not allow the other commands of a line.
func TestAllowWantsEverythingToFit(t *testing.T) {
	t.Parallel()
	e := engine(t, "/etc/p.yaml", "version: 1\nhooks:\n  - name: x\n    on: tool.before\n    match: {command: [git status, ls]}\n    allow: true\n")
	for line, want := range map[string]grapnel.Decision{
		"git status":               grapnel.Allow,
		"git status; ls":           grapnel.Allow,
		"git status; rm -rf /":     grapnel.None,
		"git status > /etc/passwd": grapnel.None,
		"git status $(rm x)":       grapnel.None,
		"sudo git status":          grapnel.None,
		"$x; ls":                   grapnel.None,
		"git status | sh":          grapnel.None,
	} {
		if v := e.Fire(context.Background(), sh(line)); v.Decision != want {
			t.Errorf("%q: %v, want %v", line, v.Decision, want)
		}
	}
}

func TestActions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rules.md"), []byte("be kind"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "p.yaml")
	prompt := func(text string) *grapnel.Event {
		return &grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: text}}
	}
	t.Run("context", func(t *testing.T) {
		t.Parallel()
		e := engine(t, file, "version: 1\nhooks:\n  - {name: a, on: prompt.before, context: one}\n  - {name: b, on: prompt.before, context: {file: rules.md}}\n  - {name: c, on: prompt.before, context: {file: gone.md}}\n")
		v := e.Fire(context.Background(), prompt("hi"))
		if got := strings.Join(v.Context, "|"); got != "one|be kind" || v.Decision != grapnel.None {
			t.Errorf("context = %q, %v, want one|be kind and no decision", got, v.Decision)
		}
		if len(v.Messages) != 1 || !strings.Contains(v.Messages[0], "gone.md") {
			t.Errorf("messages = %q, want the missing file named", v.Messages)
		}
	})
	t.Run("replace", func(t *testing.T) {
		t.Parallel()
		e := engine(t, file, "version: 1\nhooks:\n  - name: a\n    on: [prompt.before, tool.before]\n    replace: [{pattern: 'sk-([a-z]+)', with: 'sk-*$1*'}, {pattern: hello, with: bye}]\n")
		if v := e.Fire(context.Background(), prompt("key sk-abc")); string(v.Changes[grapnel.FieldPrompt]) != `"key sk-*abc*"` {
			t.Errorf("changes = %s", v.Changes)
		}
		v := e.Fire(context.Background(), write("a<b>.txt"))
		if got := v.Event.Tool.Content; got != "bye sk-*live*" {
			t.Errorf("content = %q", got)
		}
		if v := e.Fire(context.Background(), sh("ls")); len(v.Changes) != 0 {
			t.Errorf("changes = %s, want none", v.Changes)
		}
	})
	t.Run("replace, only some fields", func(t *testing.T) {
		t.Parallel()
		e := engine(t, file, "version: 1\nhooks:\n  - {name: a, on: tool.before, fields: tool.content, replace: [{pattern: a, with: b}]}\n")
		v := e.Fire(context.Background(), tool(grapnel.ToolBefore, "Write", grapnel.ClassWrite, map[string]any{"file_path": "a", "content": "a"}))
		if got := string(v.Changes[grapnel.FieldInput]); got != `{"content":"b","file_path":"a"}` {
			t.Errorf("changes = %s", got)
		}
	})
	t.Run("set", func(t *testing.T) {
		t.Parallel()
		e := engine(t, file, "version: 1\nhooks:\n  - {name: a, on: tool.before, match: {command: make}, set: {tool.command: make -n}}\n")
		if v := e.Fire(context.Background(), sh("make all")); v.Event.Tool.Commands[0] != "make -n" {
			t.Errorf("commands = %q", v.Event.Tool.Commands)
		}
	})
	t.Run("observe", func(t *testing.T) {
		t.Parallel()
		e := engine(t, file, "version: 1\nhooks:\n  - {name: a, on: tool.before, mode: observe, block: true}\n")
		if v := e.Fire(context.Background(), sh("ls")); v.Decision != grapnel.None {
			t.Errorf("decision = %v, want none", v.Decision)
		}
	})
	t.Run("rules see what rewrites left", func(t *testing.T) {
		t.Parallel()
		e := engine(t, file, "version: 1\nhooks:\n  - {name: a, on: tool.before, match: {command: rm}, block: no}\n  - {name: b, on: tool.before, set: {tool.command: rm x}}\n")
		if v := e.Fire(context.Background(), sh("ls")); v.Decision != grapnel.Block {
			t.Errorf("decision = %v, want block: a rewrite made it an rm", v.Decision)
		}
	})
}

func TestPathsAreReal(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	prod := filepath.Join(root, "deploy", "prod")
	if err := os.MkdirAll(prod, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"link": prod, "dangling": filepath.Join(prod, "new.yaml")} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	e := engine(t, filepath.Join(root, "p.yaml"), "version: 1\nhooks:\n  - {name: a, on: tool.before, match: {path: 'deploy/prod/**'}, block: no}\n")
	for _, path := range []string{"link/a.yaml", "link/../prod/a", "dangling", filepath.Join(root, "link/x/y/z")} {
		ev := write(path)
		ev.Session.CWD, ev.Session.Root = root, ""
		if v := e.Fire(context.Background(), ev); v.Decision != grapnel.Block {
			t.Errorf("path %q reaches deploy/prod and is not blocked", path)
		}
	}
	// From a subdirectory, the root is still the project's root.
	if err := os.Mkdir(filepath.Join(root, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	ev := write("prod/a.yaml")
	ev.Session.CWD, ev.Session.Root = filepath.Join(root, "deploy"), ""
	if v := e.Fire(context.Background(), ev); v.Decision != grapnel.Block {
		t.Error("after cd deploy, prod/a.yaml is not blocked")
	}
}

func load(t *testing.T, file, snaps string, must bool) (policy.Set, *grapnel.Engine) {
	t.Helper()
	set := policy.Load(policy.Request{Files: []policy.File{{Path: file, Must: must}}, Snapshots: snaps, Command: noCommand})
	e, err := grapnel.New(set.Specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set, e
}

const blockAll = "version: 1\nhooks:\n  - {name: a, on: tool.before, match: {command: touch}, block: no touching}\n"

func TestLoadKeepsTheLastValidContent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, snaps := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "state")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(step string, state policy.State, line string, want grapnel.Decision, notice string) {
		t.Helper()
		set, e := load(t, file, snaps, false)
		if got := set.Files[0].State; got != state {
			t.Errorf("%s: state %s, want %s", step, got, state)
		}
		if v := e.Fire(context.Background(), sh(line)); v.Decision != want {
			t.Errorf("%s: %q is %v, want %v: %s", step, line, v.Decision, want, v.Reason())
		}
		v := e.Fire(context.Background(), &grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{}})
		if got := strings.Join(v.Messages, "\n"); notice == "" && got != "" || !strings.Contains(got, notice) {
			t.Errorf("%s: the person is told %q, want %q", step, got, notice)
		}
		if v.Decision != grapnel.None {
			t.Errorf("%s: the prompt is %v: prompts are never locked", step, v.Decision)
		}
	}
	check("no file", policy.Absent, "touch x", grapnel.None, "")
	put("version: 1\nhooks:\n  - {name: a, on: tool.before, blok: x}\n")
	check("broken from the start", policy.Broken, "ls", grapnel.Block, "p.yaml:3:32: unknown key")
	put(blockAll)
	check("valid", policy.Valid, "touch x", grapnel.Block, "")
	check("valid again, from the snapshot", policy.Valid, "touch x", grapnel.Block, "")
	check("valid lets others pass", policy.Valid, "ls", grapnel.None, "")
	put(blockAll + "  - oops\n")
	check("broken now", policy.Broken, "touch x", grapnel.Block, "last valid content stays active")
	check("broken now lets others pass", policy.Broken, "ls", grapnel.None, "p.yaml:4:")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	check("gone", policy.Gone, "touch x", grapnel.Block, "grapnel untrust")
	if forgot, err := policy.Forget(snaps, file); !forgot || err != nil {
		t.Fatalf("Forget = %v, %v", forgot, err)
	}
	check("forgotten", policy.Absent, "touch x", grapnel.None, "")
}

func TestLoadOfWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, file := range map[string]string{"a directory": dir, "named and absent": filepath.Join(dir, "none.yaml")} {
		set, e := load(t, file, "", true)
		if v := e.Fire(context.Background(), sh("ls")); v.Decision != grapnel.Block || set.Files[0].Errors == nil {
			t.Errorf("%s: %v, want a block: nobody knows what it forbids", name, v.Decision)
		}
	}
}

func TestLoadWithoutAPlaceForSnapshots(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, blocker := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "file")
	for name, text := range map[string]string{file: blockAll, blocker: ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, e := load(t, file, filepath.Join(blocker, "state"), false) // below a file, so it cannot be created
	if v := e.Fire(context.Background(), sh("touch x")); v.Decision != grapnel.Block {
		t.Errorf("%v, want block", v.Decision)
	}
}

func TestSnapshotsArePruned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, snaps := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "state")
	for i := range 40 {
		if err := os.WriteFile(file, []byte(blockAll+strings.Repeat("# more\n", i)), 0o600); err != nil {
			t.Fatal(err)
		}
		load(t, file, snaps, false)
	}
	if kept, _ := filepath.Glob(filepath.Join(snaps, "*.snap")); len(kept) > 32 {
		t.Errorf("%d snapshots are kept, want at most 32", len(kept))
	}
}
