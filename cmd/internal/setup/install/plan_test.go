package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	tokenA = "aaaaaaaaaaaaaaaaaaaaaaaaaa"
	tokenB = "bbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func agentNamed(t testing.TB, name string) Agent {
	t.Helper()
	a, err := lookup(slices.Concat(Agents(), ownRows), name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// newest is a version of an agent that knows all events.
const newest = "9999"

// wanted returns a small installation.
func wanted(t testing.TB, agent string, events ...string) Wanted {
	t.Helper()
	a := agentNamed(t, agent)
	return Wanted{
		Agent: a, File: "settings.json", Dir: "/s/" + pluginDir(a, ""),
		Hook:   Hook{Program: "/opt/grapnel-hook", ID: tokenA},
		Events: events, Timeout: time.Minute,
	}
}

// Golden files: the settings after an installation, and the diff.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var w Wanted
			var before []byte
			for line := range strings.Lines(string(ar.Comment)) {
				key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
				switch key {
				case "agent":
					w = wanted(t, value)
				case "events":
					if w.Events = strings.Fields(value); value == "default" {
						if w.Events, _, err = w.Agent.choose(nil, newest); err != nil {
							t.Fatal(err)
						}
					}
				case "fail-closed":
					w.FailClosed = true
				}
			}
			for _, f := range ar.Files {
				if f.Name == "before.json" {
					before = f.Data
				}
			}
			w.Current = before
			c := mustPlan(t, w)
			notes := strings.Join(c.Notes, "\n")
			if notes != "" {
				notes += "\n"
			}
			if *update {
				out := &txtar.Archive{Comment: ar.Comment}
				if before != nil {
					out.Files = append(out.Files, txtar.File{Name: "before.json", Data: before})
				}
				out.Files = append(out.Files,
					txtar.File{Name: "after.json", Data: c.After},
					txtar.File{Name: "diff", Data: []byte(c.Diff)},
					txtar.File{Name: "notes", Data: []byte(notes)})
				if err := os.WriteFile(file, txtar.Format(out), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			got := map[string]string{"before.json": string(before), "after.json": string(c.After), "diff": c.Diff, "notes": notes}
			for _, f := range ar.Files {
				if diff := cmp.Diff(string(f.Data), got[f.Name]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", f.Name, diff)
				}
			}
			if !json.Valid(c.After) && !w.Agent.Setup.Comments {
				t.Errorf("not JSON: %s", c.After)
			}
		})
	}
}

// Files in typical and unusual formats. The test installs twice into each file, and then
// uninstalls.
var oddFiles = map[string]struct {
	agent string // empty: both
	text  string
}{
	"empty object":               {text: `{}`},
	"empty object, line end":     {text: "{}\n"},
	"empty object, space":        {text: "{ }"},
	"empty object, lines":        {text: "{\n\n}\n\n"},
	"empty object, CRLF":         {text: "{\r\n}\r\n"},
	"white space around":         {text: " \n\t{}\r\n \n"},
	"minified":                   {text: `{"a":1,"b":[1,2],"c":{"d":null}}`},
	"one line with spaces":       {text: `{ "a": 1, "b": [ 1, 2 ] }`},
	"two spaces":                 {text: "{\n  \"a\": 1\n}\n"},
	"no line end at the end":     {text: "{\n  \"a\": 1\n}"},
	"four spaces":                {text: "{\n    \"a\": {\n        \"b\": 1\n    }\n}\n"},
	"tabs":                       {text: "{\n\t\"a\": {\n\t\t\"b\": 1\n\t}\n}\n"},
	"CRLF":                       {text: "{\r\n  \"a\": 1\r\n}\r\n"},
	"mixed line ends":            {text: "{\r\n  \"a\": 1,\n  \"b\": 2\r\n}\n"},
	"no indentation":             {text: "{\n\"a\": 1,\n\"b\": 2\n}\n"},
	"space before colons":        {text: "{\n  \"a\" : 1 ,\n  \"b\" :2\n}\n"},
	"commas first":               {text: "{ \"a\": 1\n, \"b\": 2\n, \"c\": 3\n}\n"},
	"closing brace on line":      {text: "{\n  \"a\": 1,\n  \"b\": 2}"},
	"opening brace on line":      {text: "{\"a\": 1,\n \"b\": 2\n}"},
	"blank lines":                {text: "{\n\n  \"a\": 1,\n\n\n  \"b\": 2\n\n}\n"},
	"trailing spaces":            {text: "{  \n  \"a\": 1  ,  \n  \"b\": 2  \n}  \n"},
	"everything on its line":     {text: "{\n\"a\"\n:\n1\n,\n\"b\"\n:\n[\n]\n}\n"},
	"hooks empty":                {text: "{\n  \"hooks\": {}\n}\n"},
	"hooks empty with space":     {text: "{\n  \"hooks\": {  },\n  \"a\": 1\n}\n"},
	"hooks empty with lines":     {text: "{\n  \"hooks\": {\n  },\n  \"a\": 1\n}\n"},
	"hooks minified":             {text: `{"hooks":{}}`},
	"hooks first":                {text: "{\n  \"hooks\": {\n    \"SessionEnd\": []\n  },\n  \"a\": 1\n}\n"},
	"event empty":                {text: "{\n  \"hooks\": {\n    \"SessionStart\": []\n  }\n}\n"},
	"event empty with space":     {text: "{\n  \"hooks\": {\n    \"SessionStart\": [ ],\n    \"SessionEnd\": [\n    ]\n  }\n}\n"},
	"entries of others":          {text: "{\n  \"hooks\": {\n    \"SessionStart\": [\n      {\n        \"hooks\": [\n          {\n            \"type\": \"command\",\n            \"command\": \"other\"\n          }\n        ]\n      }\n    ]\n  }\n}\n"},
	"entries of others, flat":    {text: "{\n  \"hooks\": {\n    \"SessionStart\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"other\"}]}]\n  }\n}\n"},
	"groups without handlers":    {text: `{"hooks":{"SessionStart":[{"hooks":[]},{"matcher":"x"},{},3,null]}}`},
	"unknown event":              {text: "{\n  \"hooks\": {\n    \"NoSuchEvent\": [],\n    \"other\": {\"x\": 1}\n  }\n}\n"},
	"escaped keys":               {text: "{\n  \"\\u0068ooks\": {\n    \"Session\\u0053tart\": []\n  }\n}\n"},
	"odd strings":                {text: "{\"{\": \"}\", \"//\": \"/*\", \"\\\"\": \"\\\\\", \"é\": \"\u2028\"}"},
	"invalid UTF-8 in a string":  {text: "{\"a\": \"\xff\xfe\"}"},
	"numbers kept as written":    {text: `{"a": 1.0E+2, "b": -0, "c": 12345678901234567890123}`},
	"duplicate keys elsewhere":   {text: `{"a": 1, "a": 2, "hooks": {"SessionStart": [{"x": 1, "x": 2}]}}`},
	"nearly ours":                {text: `{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"grapnel-hook"},{"command":"echo /x/grapnel-hook --id a"},{"command":"/x/grapnel-hooks --id a"},{"command":7},{"url":"grapnel-hook --id a"}]}]}}`},
	"comments":                   {agent: "gemini", text: "// head\n{\n  // first\n  \"a\": 1, // one\n  /* two */ \"b\": 2 // end\n  // last\n}\n// tail\n"},
	"comment at the end":         {agent: "gemini", text: "{} // no line end"},
	"comment in empty object":    {agent: "gemini", text: "{ /* nothing */ }"},
	"line comment in empty":      {agent: "gemini", text: "{ // nothing\n}"},
	"line comment before brace":  {agent: "gemini", text: "{\"a\": 1 // one\n}"},
	"line comment, CRLF":         {agent: "gemini", text: "{\"a\": 1 // one\r\n}\r\n"},
	"comment in hooks":           {agent: "gemini", text: "{\n  \"hooks\": { // mine\n    // nothing yet\n  }\n}\n"},
	"comment in event":           {agent: "gemini", text: "{\n  \"hooks\": {\n    \"SessionStart\": [ /* a */ ], // b\n    \"SessionEnd\": [ // c\n    ]\n  }\n}\n"},
	"comment behind entry":       {agent: "gemini", text: "{\"hooks\": {\"SessionStart\": [{\"hooks\": []} // x\n]}}"},
	"comment between name":       {agent: "gemini", text: "{\"a\" /* b */ : /* c */ 1 /* d */ , /* e */ \"f\": 2 /* g */ }"},
	"comment that looks like us": {agent: "gemini", text: "{ /* \"hooks\": {\"command\": \"/x/grapnel-hook --id a\"} */ }"},
	"switches of old versions":   {agent: "gemini", text: `{"hooks": {"enabled": true, "disabled": ["x"], "SessionStart": []}}`},
}

func TestOddFiles(t *testing.T) {
	t.Parallel()
	for name, tt := range oddFiles {
		for _, a := range testAgents(dialect.ShapeGroups) {
			if tt.agent != "" && !slices.Contains(a.Aliases, tt.agent) {
				continue
			}
			t.Run(a.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				w := wanted(t, a.Name)
				w.Events, _, _ = a.choose(nil, newest)
				w.Current = []byte(tt.text)
				one := mustPlan(t, w)
				if !one.Changed() || one.Diff == "" {
					t.Fatalf("nothing changes in %q", tt.text)
				}
				onlyAdds(t, w.Current, one.After)
				in, err := a.Inspect("settings.json", one.After)
				if err != nil {
					t.Fatalf("%v in\n%s", err, one.After)
				}
				var got []string
				for _, e := range in.Entries {
					got = append(got, e.Event)
				}
				slices.Sort(got)
				if want := slices.Sorted(slices.Values(w.Events)); !slices.Equal(got, want) {
					t.Errorf("entries for %v, want %v in\n%s", got, want, one.After)
				}

				w.Current, w.Made = one.After, &one.Made
				if c := mustPlan(t, w); c.Changed() {
					t.Errorf("installing twice changes\n%s", c.Diff)
				}
				w.Hook.ID, w.Timeout = tokenB, time.Second
				two := mustPlan(t, w)
				if bytes.Contains(two.After, []byte(tokenA)) || bytes.Count(two.After, []byte(tokenB)) != len(w.Events) {
					t.Errorf("another token left\n%s", two.After)
				}
				for _, c := range []*Change{one, two} {
					back, err := PlanRemove(a, "settings.json", c.After, &c.Made)
					if err != nil {
						t.Fatal(err)
					}
					if string(back.After) != tt.text {
						t.Errorf("uninstalled\n%q, want\n%q, installed\n%q", back.After, tt.text, c.After)
					}
				}
			})
		}
	}
}

// Files that did not exist or were empty are restored.
func TestNoFile(t *testing.T) {
	t.Parallel()
	for name, before := range map[string][]byte{
		"no file": nil, "empty": {}, "line end": []byte("\n"), "spaces": []byte("  \r\n\t"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := wanted(t, "claude", "PreToolUse", "Stop")
			w.Current = before
			c := mustPlan(t, w)
			nl := "\n"
			if bytes.Contains(before, []byte("\r\n")) {
				nl = "\r\n"
			}
			if !strings.HasSuffix(string(c.After), "}"+nl) || c.Made.File != (before == nil) {
				t.Errorf("made %q, memory %+v", c.After, c.Made)
			}
			back, err := PlanRemove(w.Agent, w.File, c.After, &c.Made)
			if err != nil {
				t.Fatal(err)
			}
			if (back.After == nil) != (before == nil) || string(back.After) != string(before) {
				t.Errorf("after removal: %q, want %q", back.After, before)
			}

			// If the user has added a member, the file stays, even if Grapnel created it.
			edited := bytes.Replace(c.After, []byte("{"+nl), []byte("{"+nl+"  \"model\": \"x\","+nl), 1)
			back, err = PlanRemove(w.Agent, w.File, edited, &c.Made)
			if err != nil {
				t.Fatal(err)
			}
			if want := "{" + nl + "  \"model\": \"x\"" + nl + "}" + nl; string(back.After) != want {
				t.Errorf("after removal from an edited file: %q, want %q", back.After, want)
			}
		})
	}
}

// The agent itself rewrites the file like JSON.stringify.
func TestReformattedProperty(t *testing.T) {
	t.Parallel()
	stringify := func(data []byte) []byte {
		var b bytes.Buffer
		if err := json.Indent(&b, bytes.TrimSpace(data), "", "  "); err != nil {
			t.Fatalf("%v in %q", err, data)
		}
		return b.Bytes()
	}
	rapid.Check(t, func(t *rapid.T) {
		w := writer{T: t, agent: testAgents(dialect.ShapeGroups)[0], style: 2}
		original := []byte(w.document())
		wanted := drawWanted(w, "wanted")
		wanted.Current = original
		c := mustPlan(t, wanted)
		back, err := PlanRemove(w.agent, "settings.json", stringify(c.After), &c.Made)
		if err != nil {
			t.Fatal(err)
		}
		got, want := back.After, stringify(original)
		if len(c.Made.Gaps) > 0 { // the white space of an empty list is restored
			got = stringify(got)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("uninstalled\n%s\ngot\n%s\nwant\n%s", stringify(c.After), got, want)
		}
	})
}

func TestRefused(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`[`, maxDepth) + strings.Repeat(`]`, maxDepth)
	tests := map[string]struct {
		agent      string // empty: both
		text, want string
	}{
		"not JSON":                {"", "{\n  \"a\": x\n}", `settings.json:2:8: not valid JSON: invalid literal`},
		"cut off":                 {"", "{\n  \"a\": [1,\n", `settings.json:3:1: not valid JSON: `},
		"open string":             {"", "{\"a\": \"b}", `settings.json:`},
		"two values":              {"", "{}\n{}", `settings.json:2:1: not valid JSON: invalid character '{' after top-level value`},
		"root is a list":          {"", "\n  []", `settings.json:2:3: the settings are not an object`},
		"root is null":            {"", "null", `settings.json:1:1: the settings are not an object`},
		"hooks is a list":         {"", "{\"hooks\": []}", `settings.json:1:11: "hooks" is not an object`},
		"hooks is null":           {"", "{\n\"hooks\":\nnull}", `settings.json:3:1: "hooks" is not an object`},
		"event is an object":      {"", `{"hooks": {"SessionStart": {}}}`, `settings.json:1:28: the hooks of SessionStart are not a list`},
		"hooks twice":             {"", "{\"hooks\": {},\n \"hooks\": {}}", `settings.json:2:2: the key "hooks" is defined twice; merge the two`},
		"hooks twice, escaped":    {"", "{\"hooks\": {},\n \"\\u0068ooks\": {}}", `settings.json:2:2: the key "hooks" is defined twice`},
		"event twice":             {"", `{"hooks": {"SessionEnd": [], "SessionEnd": []}}`, `settings.json:1:30: the event "SessionEnd" is defined twice`},
		"comma at the end":        {"", "{\"a\": 1,\n}", `settings.json:1:8: a comma after the last item`},
		"comma in a list":         {"", "{\"a\": [1 , ]}", `settings.json:1:10: a comma after the last item`},
		"single quotes":           {"", "{'a': 1}", `settings.json:1:2: not valid JSON: `},
		"control character":       {"", "{\"a\": \"sk-secret\x01\"}", `settings.json:1:7: not valid JSON: invalid literal; `},
		"byte order mark":         {"", "\xef\xbb\xbf{}", `settings.json:1:1: the file starts with a byte order mark`},
		"UTF-16":                  {"", "\xff\xfe{\x00}\x00", `settings.json:1:1: the file is UTF-16`},
		"too deep":                {"", `{"a":` + deep + `}`, `settings.json:1:505: values are nested more than 500 deep`},
		"far too deep":            {"", strings.Repeat(`{"a":[`, 1<<20), `nested more than 500 deep`},
		"too large":               {"", `{"a":"` + strings.Repeat("x", maxSize) + `"}`, `settings.json: larger than 8 MiB`},
		"comment for Claude":      {"claude", "{\n  \"a\": 1 // one\n}", `settings.json:2:10: a comment: Claude Code reads plain JSON and ignores the whole file; remove the comment`},
		"block comment":           {"claude", "/* x */{}", `settings.json:1:1: a comment`},
		"comment that stays open": {"gemini", "{} /* x", `settings.json:1:4: not valid JSON: `},
	}
	for name, tt := range tests {
		for _, a := range testAgents(dialect.ShapeGroups) {
			if tt.agent != "" && !slices.Contains(a.Aliases, tt.agent) {
				continue
			}
			t.Run(a.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				w := wanted(t, a.Name, "SessionStart", "SessionEnd")
				w.Current = []byte(tt.text)
				c, err := Plan(w)
				var fe *FileError
				if err == nil || !strings.Contains(err.Error(), tt.want) || !errors.As(err, &fe) {
					t.Fatalf("Plan = %+v, %v, want a FileError with %q", c, err, tt.want)
				}
				if fe.Hint == "" {
					t.Errorf("%v: no way out", err)
				}
				if strings.Contains(err.Error(), "sk-secret") {
					t.Errorf("%v repeats a value of the file", err)
				}
				if _, err := PlanRemove(a, w.File, w.Current, nil); err == nil {
					t.Error("PlanRemove accepts what Plan refuses")
				}
			})
		}
	}
}

func TestWantedIsChecked(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		agent  string
		change func(*Wanted)
		want   string
	}{
		"unknown event":     {"claude", func(w *Wanted) { w.Events = []string{"pre_tool_use"} }, `Claude Code has no event "pre_tool_use" (did you mean "PreToolUse"?)`},
		"foreign event":     {"gemini", func(w *Wanted) { w.Events = []string{"PreToolUse"} }, `Gemini CLI has no event "PreToolUse"`},
		"WorktreeCreate":    {"claude", func(w *Wanted) { w.Events = []string{"WorktreeCreate"} }, `WorktreeCreate is not installed for Claude Code: an entry replaces the agent's own git work`},
		"no timeout":        {"claude", func(w *Wanted) { w.Timeout = 0 }, "timeout must be more than 0"},
		"relative program":  {"claude", func(w *Wanted) { w.Hook.Program = "bin/grapnel-hook" }, "must be an absolute path"},
		"other program":     {"claude", func(w *Wanted) { w.Hook.Program = "/bin/grapnel" }, "must be called grapnel-hook"},
		"relative root":     {"claude", func(w *Wanted) { w.Hook.Root = "r" }, "--root must be an absolute path"},
		"line end in path":  {"claude", func(w *Wanted) { w.Hook.Program = "/a\nb/grapnel-hook" }, "characters that a settings file cannot contain"},
		"no UTF-8 in path":  {"claude", func(w *Wanted) { w.Hook.Program = "/a\xff/grapnel-hook" }, "characters that a settings file cannot contain"},
		"dollar for Gemini": {"gemini", func(w *Wanted) { w.Hook.Program = "/a$HOME/grapnel-hook" }, "replaces $ in its settings"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := wanted(t, tt.agent, "SessionStart")
			tt.change(&w)
			c, err := Plan(w)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, ErrUsage) {
				t.Errorf("Plan = %+v, %v, want a usage error with %q", c, err, tt.want)
			}
		})
	}
}

// Typical changes of Grapnel's entries by users and other programs.
func TestEntriesInTheWild(t *testing.T) {
	t.Parallel()
	const ours = `{"type": "command", "command": "/opt/grapnel-hook --id ` + tokenA + `", "timeout": 60}`
	stop := func(groups string) string { return `{"hooks": {"Stop": [` + groups + `]}}` }
	tests := map[string]struct {
		before, installed, removed string
		made                       *installation.Made
		note                       string
	}{
		"as it should be": {
			before:    stop(`{"hooks": [` + ours + `]}`),
			installed: stop(`{"hooks": [` + ours + `]}`),
			removed:   `{}`,
		},
		"as it should be, in lists of the user": {
			before:    stop(`{"hooks": [` + ours + `]}`),
			installed: stop(`{"hooks": [` + ours + `]}`),
			made:      &installation.Made{Gaps: map[string]string{"hooks/Stop": "\n"}},
			removed:   "{\"hooks\": {\"Stop\": [\n]}}",
		},
		"keys in another order and form": {
			before:    stop(`{"hooks": [{"timeout":60,"command":"/opt/grapnel\u002dhook --id ` + tokenA + `","type":"command"}]}`),
			installed: stop(`{"hooks": [{"timeout":60,"command":"/opt/grapnel\u002dhook --id ` + tokenA + `","type":"command"}]}`),
			removed:   `{}`,
		},
		"another program, token and timeout": {
			before:    stop(`{"hooks": [{"type": "command", "command": "'/home/a b/grapnel-hook' --id ` + tokenB + `", "timeout": 5}]}`),
			installed: stop(`{"hooks": [` + ours + `]}`),
			removed:   `{}`,
		},
		"made harmless": {
			before:    stop(`{"hooks": [{"type": "command", "command": "/opt/grapnel-hook --id ` + tokenA + `", "timeout": 60, "async": true}]}`),
			installed: stop(`{"hooks": [` + ours + `]}`),
			removed:   `{}`,
		},
		"form without a shell": {
			before:    stop(`{"hooks": [{"type": "command", "command": "/my tools/grapnel-hook", "args": ["--root", "/r"]}]}`),
			installed: stop(`{"hooks": [` + ours + `]}`),
			removed:   `{}`,
		},
		"beside a foreign one in its group": {
			before:    stop(`{"matcher": "x", "hooks": [{"command": "a"}, ` + ours + `, {"command": "b"}]}`),
			installed: stop(`{"matcher": "x", "hooks": [{"command": "a"}, ` + ours + `, {"command": "b"}]}`),
			removed:   stop(`{"matcher": "x", "hooks": [{"command": "a"}, {"command": "b"}]}`),
			note:      `settings.json:1: Grapnel's entry for Stop has the matcher "x"`,
		},
		"alone behind a matcher": {
			before:    stop(`{"matcher": "x", "hooks": [` + ours + `]}, {"hooks": []}`),
			installed: stop(`{"matcher": "x", "hooks": [` + ours + `]}, {"hooks": []}`),
			removed:   stop(`{"matcher": "x", "hooks": []}, {"hooks": []}`),
			note:      `has the matcher "x"`,
		},
		"twice": {
			before:    stop(`{"hooks": [` + ours + `]}, {"hooks": [{"command": "a"}]}, {"hooks": [{"command": "/x/grapnel-hook --root /y"}]}`),
			installed: stop(`{"hooks": [` + ours + `]}, {"hooks": [{"command": "a"}]}`),
			removed:   stop(` {"hooks": [{"command": "a"}]}`), // its space is not Grapnel's
		},
		"twice, once behind a matcher": {
			before:    stop(`{"matcher": "x", "hooks": [` + ours + `]}, {"hooks": [` + ours + `]}`),
			installed: stop(`{"matcher": "x", "hooks": []}, {"hooks": [` + ours + `]}`),
			removed:   stop(`{"matcher": "x", "hooks": []}`),
		},
		"for an event that is not wanted": {
			before:    `{"hooks": {"Stop": [{"hooks": [` + ours + `]}], "SessionEnd": [{"hooks": [` + ours + `]}], "New": [{"hooks": [` + ours + `]}]}}`,
			installed: `{"hooks": {"Stop": [{"hooks": [` + ours + `]}]}}`,
			removed:   `{}`,
		},
		"group with a key of the user": {
			before:    stop(`{"hooks": [` + ours + `], "note": "mine"}`),
			installed: stop(`{"hooks": [` + ours + `], "note": "mine"}`),
			removed:   stop(`{"hooks": [], "note": "mine"}`),
		},
		"memory of another time": {
			before:    `{"hooks": {"Stop": []}}`,
			installed: stop(`{"hooks": [` + ours + `]}`),
			made:      &installation.Made{File: true, Hooks: true, Events: []string{"Stop"}},
			removed:   `{"hooks": {"Stop": []}}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := wanted(t, "claude", "Stop")
			w.Current, w.Made = []byte(tt.before), tt.made
			c := mustPlan(t, w)
			if string(c.After) != tt.installed {
				t.Errorf("installed into\n%s\ngot  %s\nwant %s", tt.before, c.After, tt.installed)
			}
			if got := strings.Join(c.Notes, "\n"); tt.note == "" && got != "" || !strings.Contains(got, tt.note) {
				t.Errorf("notes %q, want %q", got, tt.note)
			}
			back, err := PlanRemove(w.Agent, w.File, c.After, &c.Made)
			if err != nil || string(back.After) != tt.removed {
				t.Errorf("removed: %v\ngot  %s\nwant %s", err, back.After, tt.removed)
			}
			if !slices.Contains(back.Events, "Stop") {
				t.Errorf("removed from %v, want Stop", back.Events)
			}
		})
	}
}

// An entry that the user adds after Grapnel's entries stays, in its format.
func TestAddedBehindUs(t *testing.T) {
	t.Parallel()
	w := wanted(t, "claude", "Stop")
	w.Current = []byte("{\n  \"a\": 1\n}\n")
	c := mustPlan(t, w)
	edited := strings.TrimSuffix(string(c.After), "\n}\n") + ",\n  \"b\":   2\n}\n"
	back, err := PlanRemove(w.Agent, w.File, []byte(edited), &c.Made)
	if want := "{\n  \"a\": 1,\n  \"b\":   2\n}\n"; err != nil || string(back.After) != want {
		t.Errorf("removed: %v, got %q, want %q", err, back.After, want)
	}
}

func TestRemoveNothing(t *testing.T) {
	t.Parallel()
	a := agentNamed(t, "claude")
	for _, text := range []string{"", "{}", `{"hooks": {}}`, `{"hooks": {"Stop": [], "SessionEnd": [{"hooks": []}]}}`} {
		// An old record must not cause a deletion.
		made := &installation.Made{File: true, Hooks: true, Events: []string{"Stop"}, Gaps: map[string]string{"": " "}}
		c, err := PlanRemove(a, "settings.json", []byte(text), made)
		if err != nil || c.Changed() || c.Diff != "" || c.Events != nil {
			t.Errorf("PlanRemove(%q) = %+v, %v, want no change", text, c, err)
		}
	}
	if c, err := PlanRemove(a, "settings.json", nil, nil); err != nil || c.Changed() {
		t.Errorf("PlanRemove without a file = %+v, %v, want no change", c, err)
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		agent, text string
		want        []string
	}{
		"nothing":         {"claude", `{"disableAllHooks": false, "allowManagedHooksOnly": "true", "env": {"PATH": "/bin"}}`, nil},
		"all off":         {"claude", "{\n\"disableAllHooks\": true}", []string{"settings.json:2: disableAllHooks is true"}},
		"managed only":    {"claude", `{"allowManagedHooksOnly": true}`, []string{"settings.json:1: allowManagedHooksOnly is true"}},
		"env":             {"claude", `{"env": {"LD_PRELOAD": "/x.so", "BASH_ENV": "x"}}`, []string{"env.LD_PRELOAD is set", "env.BASH_ENV is set"}},
		"blank":           {"claude", ``, nil},
		"Gemini, nothing": {"gemini", `{"hooksConfig": {"enabled": true, "disabled": ["x"]}, "hooks": {"disabled": []}}`, nil},
		"Gemini, off":     {"gemini", `{"hooksConfig": {"enabled": false}}`, []string{"settings.json:1: hooksConfig.enabled is false"}},
		"Gemini, old":     {"gemini", `{"hooks": {"enabled": false}, "tools": {"enableHooks": false}}`, []string{"hooks.enabled is false", "tools.enableHooks is false"}},
		"Gemini, by name": {"gemini", `{"hooksConfig": {"disabled": ["x", "grapnel"]}}`, []string{"hooksConfig.disabled names the hook of Grapnel"}},
		"Gemini, by command": {
			"gemini", `{"hooks": {"disabled": ["/opt/grapnel-hook gemini-cli BeforeTool --id ` + tokenA + `"]}}`,
			[]string{"hooks.disabled names the hook of Grapnel"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, err := agentNamed(t, tt.agent).Inspect("settings.json", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if len(in.Notes) != len(tt.want) {
				t.Fatalf("notes %q, want %q", in.Notes, tt.want)
			}
			for i, want := range tt.want {
				if !strings.Contains(in.Notes[i], want) {
					t.Errorf("note %q, want %q", in.Notes[i], want)
				}
			}
		})
	}
}

// A file of named hooks: an agent that ignores the whole file after one mistake gets no entries
// into such a file, and a lost record does not keep an entry in it.
func TestNamedHooks(t *testing.T) {
	t.Parallel()
	w := wanted(t, "agy", "PreToolUse", "Stop")
	for text, want := range map[string]string{
		`{"enabled": true}`:                            `settings.json:1:13: "enabled" is not an object`,
		`{"grapnel": []}`:                              `"grapnel" is not an object`,
		`{"a": {}, "a": {}}`:                           `the key "a" is defined twice`,
		`{"theirs": {"PreToolUse": {"command": "x"}}}`: `the hooks of PreToolUse are not a list`,
		"{\"theirs\": {} // mine\n}":                   `Antigravity CLI reads plain JSON and ignores the whole file`,
		`{"theirs": {"Stop": [], "Stop": []}}`:         `the event "Stop" is defined twice`,
	} {
		w.Current = []byte(text)
		var fe *FileError
		if _, err := Plan(w); !errors.As(err, &fe) || !strings.Contains(err.Error(), want) {
			t.Errorf("Plan(%s): %v, want a FileError with %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"grapnel": {"enabled": false}}`:                               `grapnel.enabled is false, which keeps`,
		`{"theirs": {"Stop": [{"hooks": [{"command": "x"}]}]}}`:         `this hook has hooks inside, so Antigravity CLI ignores the whole file`,
		`{"theirs": {"PreToolUse": [{"hooks": [{"type": "prompt"}]}]}}`: `this hook has no command`,
		`{"theirs": {"Unknown": [{"command": 1}]}}`:                     ``,
		`{"theirs": {"stop": [{"command": "x"}]}}`:                      ``,
	} {
		w.Current = []byte(text)
		c := mustPlan(t, w)
		if notes := strings.Join(c.Notes, "\n"); !strings.Contains(notes, want) || want == "" && notes != "" {
			t.Errorf("notes about %s: %q, want %q", text, notes, want)
		}
		back, err := PlanRemove(w.Agent, w.File, c.After, nil)
		if now := string(back.After); err != nil || now != text && !strings.HasPrefix(text, `{"grapnel"`) || strings.Contains(now, "grapnel-hook") {
			t.Errorf("without a record %s becomes %s, %v", text, now, err)
		}
	}
}

func TestInspectEntries(t *testing.T) {
	t.Parallel()
	in, err := agentNamed(t, "gemini").Inspect("settings.json", []byte(`{"hooks": {"BeforeTool": [{"hooks": [
		{"command": "'/my tools/grapnel-hook' gemini-cli BeforeTool --root '/the root'"}, {"command": "x"}]}],
		"Other": [{"hooks": [{"command": "/opt/grapnel-hook --id `+tokenA+`"}]}]}} // end`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Entry{
		{Event: "BeforeTool", Command: "'/my tools/grapnel-hook' gemini-cli BeforeTool --root '/the root'", Program: "/my tools/grapnel-hook", Root: "/the root"},
		{Event: "Other", Command: "/opt/grapnel-hook --id " + tokenA, Program: "/opt/grapnel-hook", ID: tokenA},
	}
	if diff := cmp.Diff(want, in.Entries); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}
