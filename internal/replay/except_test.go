package replay_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/replay"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// except makes an exception of the hook with the name "a".
func except(t *testing.T, content, command string) (changed, hunk string, err error) {
	t.Helper()
	p, errs := policy.Parse("p.yaml", []byte(content))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for i := range p.Hooks {
		if p.Hooks[i].Name == "a" {
			out, hunk, err := replay.Except("p.yaml", []byte(content), &p.Hooks[i], command)
			return string(out), hunk, err
		}
	}
	t.Fatal("no hook a")
	return "", "", nil
}

const (
	blockHook = "version: 1\nhooks:\n  - name: b\n    on: tool.before\n    ask: B?\n  # the second\n  - name: a\n    on: tool.before\n    match: {command: make}\n    ask: Sure? # yes\nuse: [secrets]\n"
	flowHook  = "version: 1\nhooks:\n  - {name: a, on: tool.before, match: {command: make}, ask: Sure?}\n  - {name: b, on: tool.before, ask: B?}\n"
)

func TestExcept(t *testing.T) {
	t.Parallel()
	when := `tool.command not in ["make all"]`
	for name, tt := range map[string]struct{ content, want string }{
		"block":        {blockHook, strings.Replace(blockHook, "    ask: Sure", "    when: "+when+"\n    ask: Sure", 1)},
		"flow":         {flowHook, strings.Replace(flowHook, "Sure?}", "Sure?, when: '"+when+"'}", 1)},
		"CRLF":         {strings.ReplaceAll(blockHook, "\n", "\r\n"), strings.ReplaceAll(strings.Replace(blockHook, "    ask: Sure", "    when: "+when+"\n    ask: Sure", 1), "\n", "\r\n")},
		"BOM":          {"\uFEFF" + strings.Replace(flowHook, "Sure?}", `Sure?, when: 'tool.command not in ["ls"]'}`, 1), "\uFEFF" + strings.Replace(flowHook, "Sure?}", `Sure?, when: 'tool.command not in ["ls", "make all"]'}`, 1)},
		"extends":      {strings.Replace(blockHook, "    ask: Sure", "    when: tool.command not in [\"ls\"] # harmless\n    ask: Sure", 1), strings.Replace(blockHook, "    ask: Sure", "    when: 'tool.command not in [\"ls\", \"make all\"]' # harmless\n    ask: Sure", 1)},
		"first key":    {strings.Replace(blockHook, "  - name: a\n", "  - when: 'tool.command not in [\"ls\"]'\n    name: a\n", 1), strings.Replace(blockHook, "  - name: a\n", "  - when: 'tool.command not in [\"ls\", \"make all\"]'\n    name: a\n", 1)},
		"flow extends": {strings.Replace(flowHook, "Sure?}", `Sure?, when: "tool.command not in [\"ls\"]"}`, 1), strings.Replace(flowHook, "Sure?}", `Sure?, when: 'tool.command not in ["ls", "make all"]'}`, 1)},
		"no last line": {strings.TrimSuffix(strings.Replace(blockHook, "use: [secrets]\n", "", 1), "\n"), strings.TrimSuffix(strings.Replace(strings.Replace(blockHook, "use: [secrets]\n", "", 1), "    ask: Sure", "    when: "+when+"\n    ask: Sure", 1), "\n")},
	} {
		got, hunk, err := except(t, tt.content, "make all")
		if err != nil || got != tt.want || !strings.Contains(hunk, `"make all"`) {
			t.Errorf("%s: %v, hunk\n%s\ngot\n%s\nwant\n%s", name, err, hunk, got, tt.want)
		}
	}
}

func TestExceptRefuses(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range replay.MaxExcept {
		many = append(many, strconv.Quote("make "+strconv.Itoa(i)))
	}
	with := func(when string) string {
		return strings.Replace(blockHook, "    ask: Sure", "    when: "+when+"\n    ask: Sure", 1)
	}
	for name, tt := range map[string]struct{ content, want string }{
		"no question":       {strings.Replace(blockHook, "ask: Sure", "run: Sure", 1), "it does not ask or block"},
		"another condition": {with(`session.mode == "plan"`), "another condition, `when: session.mode"},
		"a longer one":      {with(`tool.command not in ["ls"] and tool.failed`), "another condition"},
		"raw quotes":        {with("tool.command not in [`ls`]"), "another condition"},
		"the same":          {with(`tool.command not in ["make all"]`), "already"},
		"too many":          {with("tool.command not in [" + strings.Join(many, ", ") + "]"), "20 exceptions"},
		"lines in braces":   {strings.Replace(flowHook, ", ask: Sure", ",\n     ask: Sure", 1), "layout"},
		"all on one line":   {"version: 1\nhooks: [{name: a, on: tool.before, ask: A?}, {name: b, on: tool.before, ask: B?}]\n", "not a valid policy"},
		"a folded value":    {with("|\n      tool.command not in [\"ls\"]"), "layout"},
	} {
		if got, _, err := except(t, tt.content, "make all"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q\n%s", name, err, tt.want, got)
		}
	}
}

// Enforce changes one word, and keeps the modes that hooks and packs have themselves.
func TestEnforce(t *testing.T) {
	t.Parallel()
	const rest = "use: [secrets, {pack: destructive, mode: observe}]\nhooks:\n  - {name: a, on: tool.before, ask: A?}\n  - {name: b, on: tool.before, mode: observe, ask: B?}\n"
	for name, tt := range map[string]struct{ content, want, err string }{
		"braces":   {"version: 1\ndefaults: {mode: observe} # at first\n" + rest, "version: 1\ndefaults: {mode: enforce} # at first\n" + rest, ""},
		"lines":    {"\uFEFFversion: 1\ndefaults:\n  timeout: 5s\n  mode: 'observe'\n" + rest, "\uFEFFversion: 1\ndefaults:\n  timeout: 5s\n  mode: enforce\n" + rest, ""},
		"no mode":  {"version: 1\ndefaults: {timeout: 5s}\n" + rest, "", "it has no `defaults: {mode: observe}`"},
		"nothing":  {"version: 1\n" + rest, "", "it has no `defaults: {mode: observe}`"},
		"enforced": {"version: 1\ndefaults: {mode: enforce}\n", "", "it has no `defaults: {mode: observe}`"},
		"broken":   {"version: 1\ndefaults: {mode: observe\n", "", "is not closed"},
		"invalid":  {"version: 1\ndefaults: {mode: observe}\nhooks: 1\n", "", "must be a list"},
		"CRLF":     {"version: 1\r\ndefaults: {mode: observe}\r\n", "", "layout"},
	} {
		got, hunk, err := replay.Enforce("p.yaml", []byte(tt.content))
		if string(got) != tt.want || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) || err == nil && !strings.Contains(hunk, "enforce") {
			t.Errorf("%s: %v, hunk\n%s\ngot\n%s", name, err, hunk, got)
		}
	}
}

// The text of a command stays exact, whatever it contains, also when more commands follow it.
func TestExceptExactText(t *testing.T) {
	t.Parallel()
	commands := []string{
		`echo "it's" 'x' \n`, "a: b", "x #c", "cat <<E\n\t'\"\nE", "- [x]", "{a}, *b &c !d |e >f %g @h `i`", "ü 日本 \u202e\u200b\U0001F600\U000e0041",
		"\x00\x1b[31m\x7f", "tab\t", "${HOME} $$", strings.Repeat("'", 9), "'] or true or tool.command in ['", `"] or true or tool.command in ["`, "\u0085\u2028\uFEFF\uFFFD", " lead and trail ",
	}
	for _, base := range []string{blockHook, flowHook} {
		content := base
		for _, command := range commands {
			next, _, err := except(t, content, command)
			if err != nil {
				t.Fatalf("%q: %v", command, err)
			}
			content = next
		}
		p, _ := policy.Parse("p.yaml", []byte(content))
		i := slices.IndexFunc(p.Hooks, func(h policyfile.Hook) bool { return h.Name == "a" })
		rest := strings.TrimPrefix(p.Hooks[i].When, "tool.command not in [")
		for _, command := range commands {
			var ok bool
			if rest, ok = strings.CutPrefix(strings.TrimPrefix(rest, ", "), strconv.Quote(command)); !ok {
				t.Fatalf("%q is not next in %s", command, rest)
			}
		}
		if rest != "]" {
			t.Errorf("the rest is %q", rest)
		}
	}
}
