package policy_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	type events map[string]struct {
		ev   *grapnel.Event
		want bool
	}
	mcp := fixture.Tool(grapnel.ToolBefore, "mcp_lab_echo", grapnel.ClassMCP, nil)
	mcp.Tool.MCP = &grapnel.MCP{Server: "lab", Tool: "echo"}
	fetch := func(url string) *grapnel.Event {
		return fixture.Tool(grapnel.ToolBefore, "WebFetch", grapnel.ClassFetch, map[string]any{"url": url})
	}
	inSub := fixture.Shell("ls")
	inSub.Session.Subagent = &grapnel.Subagent{Type: "reviewer"}
	for rule, events := range map[string]events{
		"match: {tool: shell}": {"class": {fixture.Shell("ls"), true}, "other": {fixture.Write("a"), false}},
		"match: {tool: Bash}":  {"name": {fixture.Shell("ls"), true}},
		"match: {tool: [write, edit]}": {
			"one of": {fixture.Write("a"), true}, "none of": {fixture.Shell("ls"), false},
		},
		"match: {tool: 'mcp__lab__*'}": {"canonical": {mcp, true}, "no": {fixture.Shell("ls"), false}},
		"match: {tool: '/^B.s/'}":      {"regexp": {fixture.Shell("ls"), true}, "no": {fixture.Write("a"), false}},
		"match: {mcp: lab}":            {"server": {mcp, true}, "no server": {fixture.Shell("ls"), false}},
		"match: {command: git push --force}": {
			"plain":     {fixture.Shell("git push --force origin main"), true},
			"wrapped":   {fixture.Shell("cd x && sudo bash -c 'git -C . push -f'"), true},
			"mentioned": {fixture.Shell("git commit -m 'git push --force'"), false},
			"no shell":  {fixture.Write("a"), false},
		},
		"match: {command: rm -rf}\n    except: {command: [rm -rf node_modules]}": {
			"excepted":           {fixture.Shell("rm -rf node_modules"), false},
			"other":              {fixture.Shell("rm -rf /"), true},
			"one of two":         {fixture.Shell("rm -rf node_modules && rm -rf src"), true},
			"one of two names":   {fixture.Shell("rm -rf node_modules src"), true},
			"computed name":      {fixture.Shell("rm -rf node_modules $X"), true},
			"excepted, not only": {fixture.Shell("rm -rf node_modules; ls"), false},
		},
		"match: {shell: unknown}": {"computed": {fixture.Shell("$x -rf /"), true}, "clear": {fixture.Shell("ls"), false}},
		"match: {path: 'deploy/prod/**'}": {
			"relative": {fixture.Write("deploy/prod/a.yaml"), true}, "absolute": {fixture.Write("/home/dev/project/deploy/prod/x/y"), true},
			"dots": {fixture.Write("src/../deploy/prod/a"), true}, "elsewhere": {fixture.Write("deploy/staging/a"), false}, "other root": {fixture.Write("/tmp/deploy/prod/a"), false},
			"redirected to": {fixture.Shell("echo x > deploy/prod/a"), true}, "the directory": {fixture.Write("deploy/prod"), true},
			"patched":             {fixture.Shell("apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: deploy/prod/a\n+x\n*** End Patch\nEOF"), true},
			"patched from beside": {fixture.Shell("cd src && apply_patch <<EOF\n*** Begin Patch\n*** Delete File: ../deploy/prod/a\n*** End Patch\nEOF"), true},
			"patched by a word":   {fixture.Shell("apply_patch '*** Begin Patch\n*** Update File: deploy/prod/a\n@@\n-x\n+y\n*** End Patch'"), true},
			"moved by a patch":    {fixture.Shell("applypatch <<'EOF'\n*** Begin Patch\n*** Update File: a\n*** Move to: deploy/prod/a\n*** End Patch\nEOF"), true},
			"a diff":              {fixture.Shell("git -C . apply <<'EOF'\n--- a/deploy/prod/a\n+++ b/deploy/prod/a\n@@ -1 +1 @@\n-x\n+y\nEOF"), true},
			"another diff":        {fixture.Shell("patch -p1 <<'EOF'\n--- a/src/a\n+++ b/src/a\n@@ -1 +1 @@\n-x\n+y\nEOF"), false},
			"a patch mentioned":   {fixture.Shell("cat <<'EOF'\n*** Begin Patch\n*** Add File: deploy/prod/a\n+x\n*** End Patch\nEOF"), false},
		},
		"match: {path: '**/.env'}": {"inside": {fixture.Write("a/.env"), true}, "outside": {fixture.Write("/etc/.env"), true}, "no": {fixture.Write("a/.environment"), false}},
		"match: {path: /etc/**}":   {"absolute": {fixture.Write("/etc/passwd"), true}, "by dots": {fixture.Write("../../../etc/passwd"), true}, "no": {fixture.Write("etc/passwd"), false}},
		"match: {tool: write, path: 'a/**'}\n    except: {path: a/b.md}": {"all keys": {fixture.Write("a/c"), true}, "excepted": {fixture.Write("a/b.md"), false}, "other tool": {fixture.Shell("echo > a/c"), false}},
		"match: {url: 'https://*.example.com/*'}":                        {"yes": {fetch("https://a.example.com/x/y"), true}, "no": {fetch("https://example.org/"), false}},
		"match: {host: '*.internal'}":                                    {"yes": {fetch("http://db.INTERNAL:5432/x"), true}, "no": {fetch("http://internal.example.com"), false}, "in the path": {fetch("http://x.com/a.internal"), false}},
		"match: {content: sk-live}":                                      {"yes": {fixture.Write("a"), true}, "no": {fixture.Shell("echo sk-live"), false}},
		"match: {command: psql}\n    except: {text: shop_test}": {
			"excepted": {fixture.Shell("psql shop_test -c 'drop table a'"), false}, "not excepted": {fixture.Shell("psql shop"), true},
			"a description": {fixture.Tool(grapnel.ToolBefore, "Bash", grapnel.ClassShell, map[string]any{"command": "psql shop", "description": "psql shop_test"}), true},
		},
		"match: {code: drop_all}": {
			"an option": {fixture.Shell("python3 -c 'db.drop_all()'"), true}, "a here-document": {fixture.Shell("python3 - <<'E'\ndb.drop_all()\nE"), true}, "a pipe": {fixture.Shell("echo 'db.drop_all()' | python3"), true},
			"no code": {fixture.Shell("echo drop_all"), false}, "other code": {fixture.Shell("python3 -c 'print(1)'"), false},
		},
		"match: {code: drop_all}\n    except: {code: ':memory:'}": {
			"excepted":   {fixture.Shell("python3 -c 'connect(\":memory:\").drop_all()'"), false},
			"one of two": {fixture.Shell("python3 -c 'connect(\":memory:\").drop_all()'; python3 -c 'db.drop_all()'"), true},
		},
		"match: {text: sk-live}":                                       {"content": {fixture.Write("a"), true}, "command": {fixture.Shell("echo sk-live"), true}, "no": {fixture.Shell("ls"), false}},
		"match: {text: '/sk-[a-z]+/'}":                                 {"yes": {fixture.Write("a"), true}, "no": {fixture.Shell("echo sk-1"), false}},
		"match: {agent: claude}":                                       {"alias": {fixture.Shell("ls"), true}},
		"match: {agent: [gemini-cli]}":                                 {"other": {fixture.Shell("ls"), false}},
		"match: {mode: default}":                                       {"yes": {fixture.Shell("ls"), true}},
		"match: {subagent: reviewer}":                                  {"yes": {inSub, true}, "no": {fixture.Shell("ls"), false}},
		"match: {subagent: '*'}":                                       {"yes": {inSub, true}, "main agent": {fixture.Shell("ls"), false}},
		"match: {mcp: '*'}":                                            {"own tool": {fixture.Shell("ls"), false}},
		"match: {not: {subagent: '*'}}":                                {"no": {inSub, false}, "main agent": {fixture.Shell("ls"), true}},
		"match: {agent: my-agent}":                                     {"other": {fixture.Shell("ls"), false}},
		"match: {tool: shell, not: {command: ls}}":                     {"negated": {fixture.Shell("ls -la"), false}, "other": {fixture.Shell("pwd"), true}},
		"match: {tool: shell, not: {agent: claude}}":                   {"negated": {fixture.Shell("pwd"), false}},
		"match: {tool: shell}\n    except: {command: ls}":              {"all excepted": {fixture.Shell("ls; ls -la"), false}, "one is not": {fixture.Shell("ls; pwd"), true}},
		"when: tool.command contains 'secret'":                         {"yes": {fixture.Shell("cat secret"), true}, "no": {fixture.Shell("ls"), false}, "no command": {fixture.Write("a"), false}},
		"when: tool.input.file_path == 'a' and session.mode != 'plan'": {"yes": {fixture.Write("a"), true}, "no": {fixture.Write("b"), false}},
		"when: tool.output == '' and len(tool.input) == 1 and tool['input'].command == 'ls'": {"decoded late": {fixture.Shell("ls"), true}, "no": {fixture.Shell("pwd"), false}},
		"when: tool.input.nothing == nil and tool?.input?.command startsWith 'l'":            {"absent and optional": {fixture.Shell("ls"), true}},
		`when: "any(tool.commands, # matches '^l')"`:                                         {"loop": {fixture.Shell("ls"), true}},
	} {
		e := fixture.Engine(t, "/etc/p.yaml", "version: 1\nhooks:\n  - name: x\n    on: tool.before\n    block: hit\n    "+rule+"\n")
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
	e := fixture.Engine(t, "/etc/p.yaml", "version: 1\nhooks:\n  - name: x\n    on: tool.before\n    match: {command: [git status, ls]}\n    allow: true\n")
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
		if v := e.Fire(context.Background(), fixture.Shell(line)); v.Decision != want {
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
		e := fixture.Engine(t, file, "version: 1\nhooks:\n  - {name: a, on: prompt.before, context: one}\n  - {name: b, on: prompt.before, context: {file: rules.md}}\n  - {name: c, on: prompt.before, context: {file: gone.md}}\n")
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
		e := fixture.Engine(t, file, "version: 1\nhooks:\n  - name: a\n    on: [prompt.before, tool.before]\n    replace: [{pattern: 'sk-([a-z]+)', with: 'sk-*$1*'}, {pattern: hello, with: bye}]\n")
		if v := e.Fire(context.Background(), prompt("key sk-abc")); string(v.Changes[grapnel.FieldPrompt]) != `"key sk-*abc*"` {
			t.Errorf("changes = %s", v.Changes)
		}
		v := e.Fire(context.Background(), fixture.Write("a<b>.txt"))
		if got := v.Event.Tool.Content; got != "bye sk-*live*" {
			t.Errorf("content = %q", got)
		}
		if v := e.Fire(context.Background(), fixture.Shell("ls")); len(v.Changes) != 0 {
			t.Errorf("changes = %s, want none", v.Changes)
		}
	})
	t.Run("replace, only some fields", func(t *testing.T) {
		t.Parallel()
		e := fixture.Engine(t, file, "version: 1\nhooks:\n  - {name: a, on: tool.before, fields: tool.content, replace: [{pattern: a, with: b}]}\n")
		v := e.Fire(context.Background(), fixture.Tool(grapnel.ToolBefore, "Write", grapnel.ClassWrite, map[string]any{"file_path": "a", "content": "a"}))
		if got := string(v.Changes[grapnel.FieldInput]); got != `{"content":"b","file_path":"a"}` {
			t.Errorf("changes = %s", got)
		}
	})
	t.Run("set", func(t *testing.T) {
		t.Parallel()
		e := fixture.Engine(t, file, "version: 1\nhooks:\n  - {name: a, on: tool.before, match: {command: make}, set: {tool.command: make -n}}\n")
		if v := e.Fire(context.Background(), fixture.Shell("make all")); v.Event.Tool.Commands[0] != "make -n" {
			t.Errorf("commands = %q", v.Event.Tool.Commands)
		}
	})
	t.Run("observe", func(t *testing.T) {
		t.Parallel()
		e := fixture.Engine(t, file, "version: 1\nhooks:\n  - {name: a, on: tool.before, mode: observe, block: true}\n")
		if v := e.Fire(context.Background(), fixture.Shell("ls")); v.Decision != grapnel.None {
			t.Errorf("decision = %v, want none", v.Decision)
		}
	})
	t.Run("rules see what rewrites left", func(t *testing.T) {
		t.Parallel()
		e := fixture.Engine(t, file, "version: 1\nhooks:\n  - {name: a, on: tool.before, match: {command: rm}, block: no}\n  - {name: b, on: tool.before, set: {tool.command: rm x}}\n")
		if v := e.Fire(context.Background(), fixture.Shell("ls")); v.Decision != grapnel.Block {
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
	e := fixture.Engine(t, filepath.Join(root, "p.yaml"), "version: 1\nhooks:\n  - {name: a, on: tool.before, match: {path: 'deploy/prod/**'}, block: no}\n")
	for _, path := range []string{"link/a.yaml", "link/../prod/a", "dangling", filepath.Join(root, "link/x/y/z")} {
		ev := fixture.Write(path)
		ev.Session.CWD, ev.Session.Root = root, ""
		if v := e.Fire(context.Background(), ev); v.Decision != grapnel.Block {
			t.Errorf("path %q reaches deploy/prod and is not blocked", path)
		}
	}
	// From a subdirectory, the root is still the project's root.
	if err := os.Mkdir(filepath.Join(root, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	ev := fixture.Write("prod/a.yaml")
	ev.Session.CWD, ev.Session.Root = filepath.Join(root, "deploy"), ""
	if v := e.Fire(context.Background(), ev); v.Decision != grapnel.Block {
		t.Error("after cd deploy, prod/a.yaml is not blocked")
	}
}
