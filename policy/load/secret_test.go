package load_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/internal/seam"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// The tokens are assembled here, so that scanners of repositories do not report them.
var (
	ghToken  = "gh" + "p_x7KbQ2mPz9RtVw4LnY6cJd8FsHa3Ge5Ubx2k"
	npmToken = "np" + "m_x7KbQ2mPz9RtVw4LnY6cJd8FsHa3Ge5Ubx2k"
	ownKey   = "acme_" + "k3y9x8w7v6u5t4s3r2q1"
)

// firePayload fires a payload of Claude Code at a policy.
func firePayload(t *testing.T, e *grapnel.Engine, payload map[string]any) grapnel.Verdict {
	t.Helper()
	raw, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := dialect.ClaudeCode().Read(dialect.Input{Payload: raw})
	if err != nil {
		t.Fatal(err)
	}
	return e.Fire(context.Background(), ev)
}

func bash(line string) map[string]any {
	return map[string]any{"hook_event_name": "PreToolUse", "session_id": "s", "cwd": "/tmp", "tool_name": "Bash", "tool_input": map[string]any{"command": line}}
}

func wrote(path, content string) map[string]any {
	return map[string]any{"hook_event_name": "PreToolUse", "session_id": "s", "cwd": "/tmp", "tool_name": "Write", "tool_input": map[string]any{"file_path": path, "content": content}}
}

func printedBy(output string) map[string]any {
	return map[string]any{"hook_event_name": "PostToolUse", "session_id": "s", "cwd": "/tmp", "tool_name": "Bash", "tool_input": map[string]any{"command": "x"}, "tool_response": map[string]any{"stdout": output, "stderr": "", "interrupted": false}}
}

func TestSecretMatch(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		hook    string
		payload map[string]any
		want    grapnel.Decision
	}{
		"any":                     {"match: {secret: true}", bash("curl -H 'X: " + ghToken + "' x"), grapnel.Block},
		"none":                    {"match: {secret: true}", bash("curl -H 'X: ghp_xxxx' x"), grapnel.None},
		"by id":                   {"match: {secret: github-token}", bash("echo " + ghToken), grapnel.Block},
		"by another id":           {"match: {secret: [npm-token, aws-*]}", bash("echo " + ghToken), grapnel.None},
		"by glob":                 {"match: {secret: [github-*]}", bash("echo " + ghToken), grapnel.Block},
		"in a file":               {"match: {tool: write, secret: true}", wrote("a.go", "const k = \""+ghToken+"\"\n"), grapnel.Block},
		"in an escape":            {"match: {secret: true}", bash("echo \"\u0067hp_" + ghToken[4:] + "\""), grapnel.Block},
		"with a tool":             {"match: {tool: read, secret: true}", bash("echo " + ghToken), grapnel.None},
		"not":                     {"match: {tool: shell, not: {secret: true}}", bash("echo " + ghToken), grapnel.None},
		"not, without":            {"match: {tool: shell, not: {secret: true}}", bash("echo hello"), grapnel.Block},
		"except":                  {"match: {secret: true}, except: {secret: npm-token}", bash("echo " + npmToken), grapnel.None},
		"except, and another one": {"match: {secret: true}, except: {secret: npm-token}", bash("echo " + npmToken + " " + ghToken), grapnel.Block},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.Engine(t, "p.yaml", "version: 1\nhooks:\n  - {name: h, on: tool.before, "+tt.hook+", block: no}\n")
			v := firePayload(t, e, tt.payload)
			if v.Decision != tt.want {
				t.Errorf("%v, want %v", v.Decision, tt.want)
			}
			if all, _ := json.Marshal(v.Reasons); strings.Contains(string(all), ghToken) {
				t.Errorf("the reasons say the secret: %s", all)
			}
		})
	}
}

// A key that an edit removes is not reported, because it only leaves the file.
func TestSecretReplaced(t *testing.T) {
	t.Parallel()
	e := fixture.Engine(t, filepath.Join(t.TempDir(), "p.yaml"), fixture.Rule("match: {secret: true}\nblock: x"))
	for _, tt := range []struct {
		tool  string
		input map[string]any
		want  grapnel.Decision
	}{
		{"Edit", map[string]any{"file_path": "a.js", "old_string": ghToken, "new_string": "x"}, grapnel.None},
		{"Edit", map[string]any{"file_path": "a.js", "old_string": "x", "new_string": ghToken}, grapnel.Block},
		{"Edit", map[string]any{"file_path": "a.js", "old_string": ghToken, "new_string": "old " + ghToken}, grapnel.Block},
		{"MultiEdit", map[string]any{"file_path": "a.js", "edits": []any{map[string]any{"old_string": ghToken, "new_string": "x"}}}, grapnel.None},
		{"MultiEdit", map[string]any{"file_path": "a.js", "edits": []any{map[string]any{"old_string": "x", "new_string": ghToken}}}, grapnel.Block},
		{"Write", map[string]any{"file_path": "a.js", "old_string": ghToken, "content": "x"}, grapnel.Block},
	} {
		v := firePayload(t, e, map[string]any{"hook_event_name": "PreToolUse", "session_id": "s", "cwd": "/tmp", "tool_name": tt.tool, "tool_input": tt.input})
		if v.Decision != tt.want {
			t.Errorf("%s %v: %v, want %v", tt.tool, tt.input, v.Decision, tt.want)
		}
	}
}

func TestSecretExplain(t *testing.T) {
	t.Parallel()
	e := fixture.Engine(t, "p.yaml", "version: 1\nhooks:\n  - {name: h, on: tool.before, match: {secret: true}, block: no}\n")
	raw, _ := json.Marshal(wrote("a", ghToken+" "+npmToken))
	ev, err := dialect.ClaudeCode().Read(dialect.Input{Payload: raw})
	if err != nil {
		t.Fatal(err)
	}
	x, ok := e.Specs("")[0].Match.(seam.Explainer[grapnel.Event, grapnel.Verdict])
	if !ok {
		t.Fatal("the matcher explains nothing")
	}
	if got, want := x.Explain(ev, nil), "secret github-token, secret npm-token"; got != want {
		t.Errorf("Explain = %q, want %q", got, want)
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	const on = "on: [tool.before, tool.after], "
	for name, tt := range map[string]struct {
		hook    string
		payload map[string]any
		field   grapnel.Field
		want    string // "" = no change
	}{
		"output":         {"mask: true", printedBy("a\nTOKEN=" + npmToken + "\n"), grapnel.FieldOutput, `{"interrupted":false,"stderr":"","stdout":"a\nTOKEN=npm_***\n"}`},
		"input":          {"mask: true", bash("echo " + ghToken), grapnel.FieldInput, `{"command":"echo ghp_***"}`},
		"by id":          {"mask: [npm-*]", printedBy(ghToken + npmToken[:4] + " " + npmToken), grapnel.FieldOutput, `{"interrupted":false,"stderr":"","stdout":"` + ghToken + `npm_ npm_***"}`},
		"field":          {"mask: true, fields: [tool.content, tool.output]", wrote(ghToken, "k "+ghToken), grapnel.FieldInput, `{"content":"k ghp_***","file_path":"` + ghToken + `"}`},
		"nothing":        {"mask: true", printedBy("hello"), grapnel.FieldOutput, ""},
		"private key":    {"mask: private-key", printedBy("-----BEGIN " + "PRIVATE KEY-----\n" + strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQEF\n", 4) + "-----END " + "PRIVATE KEY-----\nbye"), grapnel.FieldOutput, `{"interrupted":false,"stderr":"","stdout":"-----BEGIN PRIVATE KEY-----***\nbye"}`},
		"in the address": {"mask: true", bash("psql postgres://app:Zx9kQ2mP7w@db.internal/x"), grapnel.FieldInput, `{"command":"psql postgres://app:***@db.internal/x"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.Engine(t, "p.yaml", "version: 1\nhooks:\n  - {name: h, "+on+tt.hook+"}\n")
			v := firePayload(t, e, tt.payload)
			got := ""
			if len(v.Changes) > 0 {
				raw, _ := v.Event.Get(tt.field)
				got = string(raw)
			}
			if got != tt.want {
				t.Errorf("%s is %s, want %s", tt.field, got, tt.want)
			}
		})
	}
}

// If an agent cannot change a text, masking it becomes a block, with the masked text as the
// reason. If the action has already happened, the model gets a message instead.
func TestMaskDegrades(t *testing.T) {
	t.Parallel()
	e := fixture.Engine(t, "p.yaml", "version: 1\nhooks:\n  - {name: h, on: [prompt.before, tool.before, tool.after], mask: true}\n")
	for name, tt := range map[string]struct {
		agent, payload string
		want           string // text in the reply
	}{
		"claude prompt": {"claude-code", `{"hook_event_name":"UserPromptSubmit","session_id":"s","cwd":"/tmp","prompt":"use TOKEN"}`, `"decision":"block"`},
		"claude input":  {"claude-code", `{"hook_event_name":"PreToolUse","session_id":"s","cwd":"/tmp","tool_name":"Bash","tool_input":{"command":"echo TOKEN"}}`, `"updatedInput":{"command":"echo ghp_***"}`},
		"codex output":  {"codex", `{"hook_event_name":"PostToolUse","session_id":"s","cwd":"/tmp","tool_name":"Bash","tool_input":{"command":"env"},"tool_response":"TOKEN"}`, `ghp_***`},
		"codex prompt":  {"codex", `{"hook_event_name":"UserPromptSubmit","session_id":"s","cwd":"/tmp","prompt":"use TOKEN"}`, `"decision":"block"`},
		"gemini output": {"gemini-cli", `{"hook_event_name":"AfterTool","session_id":"s","cwd":"/tmp","tool_name":"run_shell_command","tool_input":{"command":"env"},"tool_response":{"llmContent":"TOKEN"}}`, `ghp_***`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, ok := dialect.Find(tt.agent)
			if !ok {
				t.Fatal(tt.agent)
			}
			reply := dialect.Answer(context.Background(), e, d, dialect.Input{Payload: []byte(strings.ReplaceAll(tt.payload, "TOKEN", ghToken))})
			all := string(reply.Stdout) + string(reply.Stderr)
			if strings.Contains(all, ghToken) || !strings.Contains(all, tt.want) {
				t.Errorf("the reply is %s, want %s in it and not the secret", all, tt.want)
			}
		})
	}
}

const ownRules = `
title = "ours"
[extend]
useDefault = true

[[rules]]
id = "acme-key"
description = "a key of Acme"
regex = '''\b(acme_[a-z0-9]{20})\b'''
keywords = ["acme_"]
entropy = 2.5
[[rules.allowlists]]
stopwords = ["sample"]
regexes = ['''acme_0+''']

[[rules]]
id = "wallet"
path = '''(^|/)wallet\.dat$'''

[allowlist]
paths = ['''(^|/)fixtures/''']
`

func TestRuleFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, snaps := filepath.Join(dir, "grapnel.yaml"), filepath.Join(dir, "state")
	put(t, file, "version: 1\nsecrets: {rules: rules.toml}\nhooks:\n  - {name: h, on: tool.before, match: {secret: true}, block: no}\n")
	put(t, filepath.Join(dir, "rules.toml"), ownRules)
	for range 2 { // the second time from the snapshot
		set, e := loadFile(t, file, snaps, true)
		if set.Files[0].State != load.Valid {
			t.Fatalf("%+v", set.Files[0])
		}
		for _, tt := range []struct {
			payload map[string]any
			want    grapnel.Decision
		}{
			{bash("echo " + ownKey), grapnel.Block},
			{bash("echo acme_" + strings.Repeat("0", 20)), grapnel.None},
			{bash("echo acme_sample8w7v6u5t4s3r2"), grapnel.None},
			{bash("echo " + ghToken), grapnel.Block},
			{wrote("/tmp/wallet.dat", "x"), grapnel.Block},
			{wrote("/tmp/fixtures/a", ownKey), grapnel.None},
			{wrote("/tmp/fixtures/a", ghToken), grapnel.None},
			{wrote("/tmp/b", "hello"), grapnel.None},
		} {
			if v := firePayload(t, e, tt.payload); v.Decision != tt.want {
				t.Errorf("%v on %v, want %v", v.Decision, tt.payload["tool_input"], tt.want)
			}
		}
	}

	// Other rules are used immediately. Invalid ones are not used, and the former ones stay in
	// force.
	put(t, filepath.Join(dir, "rules.toml"), strings.ReplaceAll(ownRules, "acme", "umbra"))
	_, e := loadFile(t, file, snaps, true)
	if v := firePayload(t, e, bash("echo "+ownKey)); v.Decision != grapnel.None {
		t.Errorf("a rule that is gone says %v", v.Decision)
	}
	put(t, filepath.Join(dir, "rules.toml"), "[[rules]]\nid = \"x\"\nregex = '''(a'''\n")
	set, e := loadFile(t, file, snaps, true)
	if got := set.Files[0]; got.State != load.Broken || len(got.Errors) != 1 || !strings.Contains(got.Errors[0].Error(), "rules.toml:3:9: ") {
		t.Errorf("a broken file of rules makes %+v", got)
	}
	if v := firePayload(t, e, bash("echo "+strings.ReplaceAll(ownKey, "acme", "umbra"))); v.Decision != grapnel.Block {
		t.Errorf("the last valid rules say %v", v.Decision)
	}
	if err := os.Remove(filepath.Join(dir, "rules.toml")); err != nil {
		t.Fatal(err)
	}
	if set, _ := loadFile(t, file, snaps, true); set.Files[0].State != load.Broken || set.Files[0].Hooks != 1 {
		t.Errorf("without its rules it is %+v", set.Files[0])
	}
}

func TestRuleFileErrors(t *testing.T) {
	t.Parallel()
	const rule = "[[rules]]\nid = 'x'\n"
	for name, tt := range map[string]struct{ toml, want, note string }{
		"not TOML":         {"[[rules", "is not TOML", ""},
		"no id":            {"[[rules]]\nregex = 'a'\n", ":1:3: a rule has no id", ""},
		"nothing":          {rule, `the rule "x" has neither`, ""},
		"look behind":      {rule + "regex = '(?<=a)b'\n", ":3:9: ", ""},
		"matches all":      {rule + "regex = 'a*'\n", "matches the empty text", ""},
		"group":            {rule + "regex = '(a)'\nsecretGroup = 2\n", "secretGroup", ""},
		"twice":            {rule + "regex = 'a'\n" + rule + "regex = 'b'\n", "is listed twice", ""},
		"condition":        {rule + "regex = 'a'\n[[rules.allowlists]]\ncondition = 'XOR'\nstopwords = ['b']\n", "AND or OR", ""},
		"target":           {rule + "regex = 'a'\n[rules.allowlist]\nregexTarget = 'file'\nstopwords = ['b']\n", "regexTarget", ""},
		"bad allow":        {"[allowlist]\nregexes = ['(']\n", ":2:12: ", ""},
		"rules no tables":  {"rules = ['a']\n", "are tables", ""},
		"unknown key":      {rule + "regex = 'a'\nkeywords = ['a']\nverify = true\n", "", `"verify" of the rule "x" is ignored`},
		"no keywords":      {rule + "regex = 'a'\n", "", "has no keywords"},
		"commits":          {"[allowlist]\ncommits = ['a']\n", "", "commits"},
		"one of ours":      {"[[rules]]\nid = 'jwt'\n[[rules.allowlists]]\nstopwords = ['a']\n", "", ""},
		"without defaults": {"[extend]\nuseDefault = false\n", "", "own rules still apply"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "grapnel.yaml")
			p, errs := policy.Parse(file, []byte("version: 1\nsecrets: {rules: rules.toml}\n"))
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			put(t, filepath.Join(dir, "rules.toml"), tt.toml)
			errs = load.ReadRules(p, file)
			if tt.want == "" && len(errs) > 0 || tt.want != "" && (len(errs) == 0 || !strings.Contains(errs[0].Error(), tt.want)) {
				t.Errorf("%q gives %v, want %q", tt.toml, errs, tt.want)
			}
			if tt.note != "" && (len(p.Secrets.Notes) == 0 || !strings.Contains(p.Secrets.Notes[0].Error(), tt.note)) {
				t.Errorf("%q is noted as %v, want %q", tt.toml, p.Secrets.Notes, tt.note)
			}
		})
	}
}

// The exceptions of a file apply only to the file's own hooks.
func TestSecretsAreOfTheirFile(t *testing.T) {
	t.Parallel()
	const hook = "hooks:\n  - {name: h, on: tool.before, match: {secret: true}, block: "
	pack := shipped("keys", "version: 1\npack: {version: 1}\nhooks:\n  - {name: p, on: tool.before, match: {secret: true}, block: no}\n")
	for name, tt := range map[string]struct {
		secrets string
		want    string // hooks that report a secret
	}{
		"all":              {"", "user.yaml::h project.yaml::h project.yaml#keys::p"},
		"disabled":         {"secrets: {disable: 'github-*'}\n", "user.yaml::h"},
		"allowed":          {"secrets: {allow: " + ghToken + "}\n", "user.yaml::h"},
		"allowed by RE2":   {"secrets: {allow: '/^ghp_x7/'}\n", "user.yaml::h"},
		"another, allowed": {"secrets: {allow: " + npmToken + "}\n", "user.yaml::h project.yaml::h project.yaml#keys::p"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			user, mine := filepath.Join(dir, "user.yaml"), filepath.Join(dir, "project.yaml")
			put(t, user, "version: 1\n"+hook+"a}\n")
			put(t, mine, "version: 1\nuse: [keys]\n"+tt.secrets+hook+"b}\n")
			_, e := using(t, pack, "", user, mine)
			v := firePayload(t, e, bash("echo "+ghToken))
			for _, source := range []string{"user.yaml::h", "project.yaml::h", "project.yaml#keys::p"} {
				found := false
				for _, r := range v.Reasons {
					found = found || strings.HasSuffix(r.Hook, source)
				}
				if want := strings.Contains(" "+tt.want+" ", " "+source+" "); found != want {
					t.Errorf("%s says something: %v, want %v (%v)", source, found, want, v.Reasons)
				}
			}
		})
	}
}

// The rules of a project are those that were trusted.
func TestTrustedRules(t *testing.T) {
	t.Parallel()
	p := newProject(t, "version: 1\nsecrets: {rules: rules.toml}\nhooks:\n  - {name: h, on: tool.before, match: {secret: acme-key}, block: no}\n")
	p.put("rules.toml", ownRules)
	x := p.trust()
	if len(x.Pins) != 1 || filepath.Base(x.Pins[0].Path) != "rules.toml" {
		t.Fatalf("pinned: %+v", x.Pins)
	}
	check := func(want grapnel.Decision) {
		t.Helper()
		for range 2 {
			_, e := p.load()
			if v := firePayload(t, e, bash("echo "+ownKey)); v.Decision != want {
				t.Errorf("%v, want %v", v.Decision, want)
			}
		}
	}
	check(grapnel.Block)
	p.put("rules.toml", "[[rules]]\nid = 'acme-key'\nregex = 'nothing at all'\n")
	check(grapnel.Block) // the trusted content stays active
	p.trust()
	check(grapnel.None)

	p.put("grapnel.yaml", "version: 1\nsecrets: {rules: ../rules.toml}\n")
	if _, errs := load.Examine(p.file, p.dir, load.Packs{}); len(errs) == 0 || !strings.Contains(errs[0].Error(), "not in the project") {
		t.Errorf("rules of elsewhere give %v", errs)
	}
}
