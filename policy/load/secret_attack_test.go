package load

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
)

// TestAllowedPaths: a file in which secrets are allowed does not allow them in other files of
// the call. The cleaned path decides.
func TestAllowedPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "r.toml"), []byte("[allowlist]\npaths = ['(^|/)testdata/']\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "p.yaml")
	p, errs := policy.Parse(file, []byte("version: 1\nsecrets: {rules: r.toml}\nhooks:\n  - {name: x, on: tool.before, match: {secret: true}, block: no}\n"))
	if errs == nil {
		errs = ReadRules(p, file)
	}
	if errs != nil {
		t.Fatal(errs)
	}
	specs, err := policy.Build(p, grapnel.Source{Name: file, File: file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := grapnel.New(specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		paths []string
		want  grapnel.Decision
	}{
		{[]string{"/w/testdata/a.txt"}, grapnel.None},
		{[]string{"/w/testdata/a.txt", "/w/testdata/b.txt"}, grapnel.None},
		{[]string{"/w/testdata/a.txt", "/w/main.go"}, grapnel.Block},
		{[]string{"/w/testdata/../main.go"}, grapnel.Block},
		{[]string{"/w/x/../testdata/a.txt"}, grapnel.None},
		{nil, grapnel.Block},
	} {
		input, _ := json.Marshal(map[string]string{"content": "ghp_0123456789abcdefghijklmnopqrstuvwxyz"})
		ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Write", Input: input}}
		for _, path := range tt.paths {
			ev.Tool.Paths = append(ev.Tool.Paths, grapnel.Path{Path: path, Use: grapnel.UseWrite})
		}
		if v := e.Fire(context.Background(), ev); v.Decision != tt.want {
			t.Errorf("%v: %v, want %v", tt.paths, v.Decision, tt.want)
		}
	}
}

// TestRuleFileShapes reads typical rule files of gitleaks.
func TestRuleFileShapes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		file  string
		rules int
		errs  string
		notes string
	}{
		"composite": {`
title = "x"
[[rules]]
id = "primary"
regex = '''password="([^"]+)"'''
keywords = ["password"]
  [[rules.required]]
  id = "username"
  withinLines = 5
[[rules]]
id = "username"
regex = '''username="([^"]+)"'''
keywords = ["username"]
skipReport = true
`, 1, "", `"required" of the rule "primary" is ignored`},
		"old singular": {`
[extend]
useDefault = true
path = "base.toml"
[allowlist]
paths = [
  '''(^|/)go\.sum$''',  # a comment
  "testdata/.*",
]
regexes = ['''219-09-9999''', '''(9[0-9]{2}|666)-\d{2}-\d{4}''']
commits = [ "commit-A" ]
[[rules]]
id = "a"
description = """
two
lines"""
regex = "a_[a-z]{3}"
secretGroup = 0
entropy = 3.5
tags = ["x", "y"]
keywords = ["A_"]
[rules.allowlist]
regexes = ['''a_b''']
stopwords = [
  "client",
]
`, 1, "", `"path" of extend is ignored`},
		"lists for rules": {`
[[allowlists]]
description = "x"
targetRules = ["a", "github-pat"]
condition = "AND"
regexTarget = "line"
paths = ['''x\.go$''']
regexes = ['''x''']
[[rules]]
id = "a"
regex = '''(?i)[\w.-]{0,50}?(?:adafruit)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9_-]{32})(?:[\x60'"\s;]|\\[nr]|$)'''
keywords = ["adafruit"]
[[rules]]
id = "pkcs12-file"
path = '''(?i)(?:^|\/)[^\/]+\.p(?:12|fx)$'''
`, 2, "", ""},
		"everything is allowed": {"[allowlist]\nregexes = ['''.*''']\n", 0, "empty text", ""},
		"inline":                {"rules = [{id = \"a\", regex = 'abc', keywords = ['abc']}, {id = 'b', path = 'x$'}]\n", 2, "", ""},
		"crlf":                  {"[[rules]]\r\nid = \"a\"\r\nregex = '''abc'''\r\nkeywords = [\r\n 'abc'\r\n]\r\n", 1, "", ""},
		"a mark of its bytes":   {"\ufeff[[rules]]\nid = \"a\"\nregex = '''abc'''\nkeywords = ['abc']\n", 1, "", ""},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "r.toml"), []byte(tt.file), 0o600); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "p.yaml")
		p, errs := policy.Parse(file, []byte("version: 1\nsecrets: {rules: r.toml}\n"))
		if errs == nil {
			errs = ReadRules(p, file)
		}
		var messages, notes []string
		for _, err := range errs {
			messages = append(messages, err.Error())
		}
		for _, n := range p.Secrets.Notes {
			notes = append(notes, n.Error())
		}
		if (tt.errs == "") != (len(errs) == 0) || !strings.Contains(strings.Join(messages, "\n"), tt.errs) {
			t.Errorf("%s: errors %q, want %q", name, messages, tt.errs)
		}
		if !strings.Contains(strings.Join(notes, "\n"), tt.notes) {
			t.Errorf("%s: notes %q, want %q", name, notes, tt.notes)
		}
		if len(errs) == 0 && len(p.Secrets.Rules) != tt.rules {
			t.Errorf("%s: %d rules, want %d", name, len(p.Secrets.Rules), tt.rules)
		}
	}
}
