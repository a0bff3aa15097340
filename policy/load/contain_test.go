package load_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/shell"
)

// containing returns an engine for hooks on a machine that can contain lines, unless err is set.
func containing(t *testing.T, hooks string, err error) *grapnel.Engine {
	t.Helper()
	const file = "/etc/grapnel.yaml"
	set := load.Policies(load.Request{
		Files:   []load.File{{Path: file, Scope: grapnel.ScopeUser}},
		Content: map[string][]byte{file: []byte("version: 1\nhooks:\n" + hooks)},
		Runners: policy.Runners{Contain: func(*policyfile.Sandbox, string) (string, error) { return "/opt/my tools/grapnel-hook", err }},
	})
	if len(set.Files[0].Errors) > 0 {
		t.Fatal(set.Files[0].Errors)
	}
	e, newErr := grapnel.New(set.Specs, nil)
	if newErr != nil {
		t.Fatal(newErr)
	}
	return e
}

const unknownLines = `
  - name: it's unknown
    on: tool.before
    match: {shell: unknown}
    contain: {write: [project, tmp], net: [80, 443], reason: "Can't read it."}
`

// wrapped is the line in the sandbox of unknownLines.
func wrapped(line string) string {
	return `'/opt/my tools/grapnel-hook' contain --read '{root}' --write '{root}' --write 'tmp' --net 80,443 --root '/home/dev/project'` +
		` --name 'it'\''s unknown' --reason 'Can'\''t read it.' -- ` + shell.Quote(line)
}

func TestContainChangesTheLine(t *testing.T) {
	t.Parallel()
	e := containing(t, unknownLines, nil)
	const line = `$TOOL 'a "b"' && echo $(cat x | $Y)` + "\n# second line"
	tests := map[string]struct{ line, want string }{
		"a line":                      {line, wrapped(line)},
		"a known line":                {"ls", "ls"},
		"a contained line":            {wrapped(line), wrapped(line)},
		"with another name":           {strings.Replace(wrapped("$X"), `unknown'`, `other'`, 1), strings.Replace(wrapped("$X"), `unknown'`, `other'`, 1)},
		"in a weaker sandbox":         {"'/opt/my tools/grapnel-hook' contain --write / --net any -- '$X'", wrapped("'/opt/my tools/grapnel-hook' contain --write / --net any -- '$X'")},
		"with a command after it":     {wrapped("$X") + "; $Y", wrapped(wrapped("$X") + "; $Y")},
		"with a flag after the name":  {strings.Replace(wrapped("$X"), " -- ", " --write / -- ", 1), wrapped(strings.Replace(wrapped("$X"), " -- ", " --write / -- ", 1))},
		"with code in its last quote": {wrapped("$X") + `"$(y)"`, wrapped(wrapped("$X") + `"$(y)"`)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := e.Fire(t.Context(), fixture.Shell(test.line))
			if v.Decision != grapnel.None || len(v.Reasons) > 0 {
				t.Errorf("decision %v, %v", v.Decision, v.Reasons)
			}
			if diff := cmp.Diff(test.want, v.Event.Tool.Commands[0]); diff != "" {
				t.Error(diff)
			}
			const told = `The hook "it's unknown" runs this command in a sandbox: reads the project, writes the project, tmp, TCP to port 80, 443. The command can also write to its TMPDIR. Can't read it.`
			if got := strings.Join(v.Context, "\n"); (got == told) != (test.line != test.want) {
				t.Errorf("context %q", got)
			}
			if changed := len(v.Changes) > 0; changed != (test.line != test.want) {
				t.Errorf("changes: %v", v.Changes)
			}
		})
	}
}

// Where a line cannot run in the sandbox, the hook asks.
func TestContainAsks(t *testing.T) {
	t.Parallel()
	const all = "\n  - {name: all, on: tool.before, contain: Careful.}\n"
	can := func(ev *grapnel.Event, can grapnel.Can) *grapnel.Event {
		can.Ask = true
		ev.Terms = &grapnel.Terms{Can: &can}
		return ev
	}
	input := []grapnel.Field{grapnel.FieldInput}
	tests := map[string]struct {
		err  error
		ev   *grapnel.Event
		want string
	}{
		"on this machine":          {errors.New("no Landlock"), fixture.Shell("ls"), "no Landlock."},
		"with this agent":          {nil, can(fixture.Shell("ls"), grapnel.Can{}), "the agent does not let a hook change its commands."},
		"only with an allow":       {nil, can(fixture.Shell("ls"), grapnel.Can{Change: input, Beside: grapnel.Allow}), "the agent does not let a hook change its commands."},
		"for another tool":         {nil, fixture.Write("x"), "only lines of a POSIX shell can run in it."},
		"for PowerShell":           {nil, fixture.Tool(grapnel.ToolBefore, "powershell", grapnel.ClassShell, map[string]any{"command": "ls"}), "only lines of a POSIX shell can run in it."},
		"for a shell tool without": {nil, fixture.Tool(grapnel.ToolBefore, "Bash", grapnel.ClassShell, map[string]any{"id": "1"}), "only shell lines can run in it."},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := containing(t, all, test.err).Fire(t.Context(), test.ev)
			want := "Careful.\nThis call must run in a sandbox, which is not possible here: " + test.want
			if v.Decision != grapnel.Ask || v.Reason() != want || len(v.Changes) > 0 {
				t.Errorf("%v %q, changes %v, want a question: %q", v.Decision, v.Reason(), v.Changes, want)
			}
		})
	}
	if v := containing(t, all, nil).Fire(t.Context(), can(fixture.Shell("ls"), grapnel.Can{Change: input})); v.Decision != grapnel.None || len(v.Changes) == 0 || len(v.Context)+len(v.Unsupported) > 0 {
		t.Errorf("an agent that accepts a changed input and no context: %v, %v, %v, %v", v.Decision, v.Changes, v.Context, v.Unsupported)
	}
}

// Other hooks judge the commands in the sandbox, and the stricter answer wins.
func TestContainAndOtherHooks(t *testing.T) {
	t.Parallel()
	e := containing(t, unknownLines+`
  - {name: no-push, on: tool.before, match: {command: git push}, block: No pushes.}
  - {name: sudo, on: tool.before, match: {command: sudo *}, ask: Really?}
  - {name: secrets, on: tool.before, match: {reads: '**/.env'}, block: Secret.}
  - {name: own, on: tool.before, match: {command: whoami}, contain: true}
`, nil)
	for line, want := range map[string]grapnel.Decision{
		"$X":                              grapnel.None,
		"$X; git push":                    grapnel.Block,
		"$X; bash -c 'cd y; git push -f'": grapnel.Block,
		"$X; sudo ls":                     grapnel.Ask,
		"$X <.env":                        grapnel.Block,
	} {
		v := e.Fire(t.Context(), fixture.Shell(line))
		if v.Decision != want || v.Event.Tool.Commands[0] != wrapped(line) {
			t.Errorf("%s: %v %v, want %v: %s", line, v.Decision, v.Reasons, want, v.Event.Tool.Commands)
		}
	}
	// Two hooks with different sandboxes: both restrict the line.
	got := e.Fire(t.Context(), fixture.Shell("whoami; $X")).Event.Tool.Commands[0]
	if strings.Count(got, "grapnel-hook' contain ") != 1 || strings.Count(got, "grapnel-hook") != 2 {
		t.Errorf("two hooks: %s", got)
	}
}
