package install

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/dialect"
)

func TestHooks(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("a", 26)
	for name, tt := range map[string]struct {
		setup      dialect.Setup
		file, text string
		want       []string // EVENT MATCHER COMMAND GROUP.INDEX
	}{
		"groups": {
			dialect.Setup{Shape: dialect.ShapeGroups},
			"settings.json",
			`{"hooks": {"Stop": [{"hooks": [{"type": "http", "url": "http://x"}]}], "PreToolUse": [
				{"matcher": "Bash", "hooks": [{"type": "command", "command": "a.sh"}, {"command": "b", "args": ["-c", "d e"]}]},
				{"hooks": [{"command": "/usr/bin/grapnel-hook --id ` + id + `"}]}], "Odd": 7}} // mine`,
			[]string{"PreToolUse Bash a.sh 0.0", "PreToolUse Bash b -c d e 0.1", "PreToolUse  ours " + id + " 1.0", "Stop  http://x 0.0"},
		},
		"flat, and comments cut out of strings": {
			dialect.Setup{Shape: dialect.ShapeFlat, Cuts: true},
			"hooks.json",
			`{"hooks": {"preToolUse": [{"command": "a" /* x */}, {"bash": "b"}, 3]}}`,
			[]string{"preToolUse  a 0.0", "preToolUse  b 1.0"},
		},
		"a list": {
			dialect.Setup{Shape: dialect.ShapeList},
			"hooks.json",
			`{"hooks": [{"trigger": "PreToolUse", "action": {"type": "command", "command": "x"}}]}`,
			[]string{"PreToolUse  x 0.0"},
		},
		"events at the top": {
			dialect.Setup{Shape: dialect.ShapeGroups, Over: []string{"hooks.json"}},
			"hooks.json",
			`{"Stop": [{"hooks": [{"command": "x"}]}]}`,
			[]string{"Stop  x 0.0"},
		},
		"named": {
			dialect.Setup{Shape: dialect.ShapeNamed},
			"hooks.json",
			`{"b": {"Stop": [{"command": "x"}]}, "a": {"PreToolUse": [{"matcher": "m", "hooks": [{"command": "y"}]}]}, "off": {"enabled": false, "Stop": [{"command": "z"}]}, "odd": 1}`,
			[]string{"PreToolUse m y 0.0", "Stop  x 0.0"},
		},
		"TOML": {
			dialect.Setup{Shape: dialect.ShapeGroups},
			"config.toml",
			"model = \"m\"\n[[hooks.Stop]]\nmatcher = \"m\"\n[[hooks.Stop.hooks]]\ncommand = \"x\"\n",
			[]string{"Stop m x 0.0"},
		},
		"plugins": {
			dialect.Setup{Shape: dialect.ShapePlugin},
			"openclaw.json",
			`{"plugins": {"entries": {"grapnel": {"enabled": true}, "off": {"enabled": false}, "other": {}}}, "plugin": ["file:///p.js", ["q", {}]]}`,
			[]string{"  file:///p.js 0.0", "  q 1.0", "  ours  2.0", "  other 3.0"},
		},
		"nothing": {dialect.Setup{Shape: dialect.ShapeGroups}, "settings.json", " \n", nil},
	} {
		tree, err := Settings(tt.file, []byte(tt.text), tt.setup.Cuts)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, f := range Hooks(&tt.setup, tree) {
			what := f.Command
			if f.Ours {
				what = "ours " + f.ID
			}
			got = append(got, f.Event+" "+f.Matcher+" "+what+" "+string(rune('0'+f.Group))+"."+string(rune('0'+f.Index)))
			if len(f.Digest()) != 64 {
				t.Errorf("%s: digest %q", name, f.Digest())
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// A fingerprint depends on the command and its options, not on the format of the file.
func TestDigest(t *testing.T) {
	t.Parallel()
	digest := func(text string) string {
		tree, err := Settings("s.json", []byte(text), false)
		if err != nil {
			t.Fatal(err)
		}
		return Hooks(&dialect.Setup{Shape: dialect.ShapeFlat}, tree)[0].Digest()
	}
	one := digest(`{"hooks":{"E":[{"command":"x","timeout":1}]}}`)
	if again := digest(`{ "hooks": {"E": [ {"timeout": 1, "command": "x"} ]}} // mine`); again != one {
		t.Errorf("the same entry written otherwise: %s, want %s", again, one)
	}
	for _, text := range []string{`{"hooks":{"E":[{"command":"x","timeout":2}]}}`, `{"hooks":{"E":[{"command":"y","timeout":1}]}}`, `{"hooks":{"F":[{"command":"x","timeout":1}]}}`} {
		if digest(text) == one {
			t.Errorf("%s has the fingerprint of another entry", text)
		}
	}
}

func TestSettingsRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		file, text string
		cuts       bool
	}{
		"broken":          {"a.json", `{"a": `, false},
		"a list":          {"a.json", `[]`, false},
		"deep":            {"a.json", strings.Repeat("[", 600), false},
		"huge":            {"a.json", strings.Repeat(" ", maxSize) + "{}", false},
		"TOML":            {"a.toml", `a = `, false},
		"an address cut":  {"a.json", "{\"hooks\": {\"E\": [{\"command\": \"curl http://x\"}]}}", true},
		"a comment open":  {"a.json", `{"a": "/*"}`, true},
		"several objects": {"a.json", `{} {}`, false},
	} {
		if tree, err := Settings(tt.file, []byte(tt.text), tt.cuts); err == nil || !strings.Contains(err.Error(), tt.file) {
			t.Errorf("%s: %v, %v, want an error that names the file", name, tree, err)
		}
	}
}

func TestScript(t *testing.T) {
	t.Parallel()
	expand := func(name string) string { return map[string]string{"HOME": "/h", "P": "/p q"}[name] }
	for line, want := range map[string]string{
		"/a/b.sh x":            "/a/b.sh",
		"A=1 ~/b.sh":           "/h/b.sh",
		`"$P/b.sh" x`:          "/p q/b.sh",
		"${P}/b.sh":            "/p q/b.sh",
		"bash -x ./b.sh":       "./b.sh",
		"/usr/bin/node '/x y'": "/x y",
		"bun run /a.ts":        "/a.ts",
		"bash -c 'rm x'":       "",
		"prettier --write":     "",
		"node":                 "",
		"":                     "",
	} {
		if got := Script(line, expand); got != want {
			t.Errorf("Script(%q) = %q, want %q", line, got, want)
		}
	}
}

func TestLayers(t *testing.T) {
	t.Parallel()
	a := Agent{Setup: &dialect.Setup{
		User: ".x/hooks.json", Project: ".x/hooks.json", MovedBy: "X_HOME", Moves: ".x", Over: []string{"more/hooks.json"},
		Off: []dialect.Switch{{Path: "off"}, {File: ".x/local.json", Path: "off"}, {File: ".x/local.json", Path: "other"}, {File: "/etc/x.json", Path: "off"}},
	}}
	got := a.Layers("/h", "/p", "/", func(name string) string { return map[string]string{"X_HOME": "/moved"}[name] })
	want := []Layer{
		{User, "", "/moved/hooks.json"},
		{User, "", "/moved/more/hooks.json"},
		{Project, "", "/p/.x/hooks.json"},
		{Project, "", "/p/.x/more/hooks.json"},
		{User, ".x/local.json", "/moved/local.json"},
		{Project, ".x/local.json", "/p/.x/local.json"},
		{Managed, "/etc/x.json", "/etc/x.json"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
