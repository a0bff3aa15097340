package allow

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/format"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml/layout"
	"github.com/grapnel-dev/grapnel/internal/policytest"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
)

const (
	blockRule = `version: 1
hooks:
  - name: plan
    on: tool.before
    match: {command: terraform plan}
    ask: "Plan now?"
    approve: {within: 10m}
`
	flowRule = `version: 1
hooks:
  - {name: plan, on: tool.before, match: {command: terraform plan}, ask: "Plan now?", approve: {within: 10m}}
`
	// anyRule asks about each shell call.
	anyRule = `version: 1
hooks:
  - name: plan
    on: tool.before
    match: {tool: shell}
    ask: Sure?
`
)

// user is a user with a policy.
type user struct {
	*testing.T

	place local.Place
}

func newUser(t *testing.T, policy string) user {
	t.Helper()
	place, err := local.Locate(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	place.Home = t.TempDir()
	u := user{t, place}
	u.write(place.Policy, policy)
	return u
}

func (u user) write(file, text string) {
	u.Helper()
	if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
		u.Fatal(err)
	}
}

func (u user) read(file string) string {
	u.Helper()
	data, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		u.Fatal(err)
	}
	return string(data)
}

func (u user) tests() string { return strings.TrimSuffix(u.place.Policy, ".yaml") + policytest.Suffix }

// asked returns the Record of a question about a Claude Code call, as in an approval.Request.
func (u user) asked(tool string, input any, hooks ...string) *spool.Entry {
	u.Helper()
	payload, err := json.Marshal(map[string]any{
		"session_id": "s1", "cwd": filepath.Join(u.place.Home, "app"), "hook_event_name": "PreToolUse", "tool_use_id": "t1", "tool_name": tool, "tool_input": input,
	})
	if err != nil {
		u.Fatal(err)
	}
	ev := dialect.Receive(dialect.ClaudeCode(), dialect.Input{Payload: payload}).Event
	ev.Tool.Complete()
	rec := grapnel.Record{ID: "r1", Agent: ev.Agent.Name, Session: "s1", Event: ev.Kind, Tool: ev.ToolName(), Decision: grapnel.Ask, CallDigest: u.place.Approvals().Digest(ev)}
	for _, name := range hooks {
		source, name, ok := strings.Cut(name, "::")
		if !ok {
			source, name = u.place.Policy, source
		}
		rec.Hooks = append(rec.Hooks, grapnel.HookRun{Name: name, Source: source, Decision: grapnel.Ask})
	}
	final := *ev
	final.Native = nil
	rec.Input = &final
	sp, err := spool.Open(u.place.State, &spool.Options{MaxInput: 1 << 20})
	if err != nil {
		u.Fatal(err)
	}
	defer sp.Close()
	sp.Keep(spool.Masked, nil, false)
	line, err := sp.Line(&rec)
	if err != nil {
		u.Fatal(err)
	}
	e := &spool.Entry{}
	if err := json.Unmarshal(line, e); err != nil {
		u.Fatal(err)
	}
	return e
}

func (u user) shell(command string, hooks ...string) *spool.Entry {
	u.Helper()
	return u.asked("Bash", map[string]string{"command": command, "description": "Look"}, hooks...)
}

// propose returns a Rule that must be possible.
func (u user) propose(e *spool.Entry) *Rule {
	u.Helper()
	r, err := Propose(u.Context(), u.place, e)
	if err != nil {
		u.Fatalf("Propose: %v (%s)", err, cli.HintOf(err))
	}
	return r
}

// pass runs all tests of the test file against the policy, and returns how many there are.
func (u user) pass() int {
	u.Helper()
	file, errs := policytest.Read(u.tests())
	if len(errs) > 0 {
		u.Fatal(errs)
	}
	results, err := policytest.Run(u.Context(), file.Tests, nil)
	if err != nil {
		u.Fatal(err)
	}
	for _, res := range results {
		if res.Status != policytest.Passed {
			u.Errorf("the test %q: %s, %v %v\n%s", res.Test.Name, res.Status, res.Mismatches, res.Error, u.read(u.tests()))
		}
	}
	return len(results)
}

func TestRule(t *testing.T) {
	t.Parallel()
	const when = `tool.command not in ["terraform plan"]`
	for name, tt := range map[string]struct{ policy, want string }{
		"block":    {blockRule, strings.Replace(blockRule, "    ask", "    when: "+when+"\n    ask", 1)},
		"flow":     {flowRule, strings.Replace(flowRule, "10m}}", "10m}, when: '"+when+"'}", 1)},
		"extended": {strings.Replace(blockRule, "    ask", "    when: tool.command not in [\"terraform plan -no-color\"]\n    ask", 1), strings.Replace(blockRule, "    ask", "    when: 'tool.command not in [\"terraform plan -no-color\", \"terraform plan\"]'\n    ask", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, tt.policy)
			e := u.shell("terraform plan", "plan")
			r := u.propose(e)
			if got := u.read(u.place.Policy); got != tt.policy || u.read(u.tests()) != "" {
				t.Fatalf("Propose wrote files: %s", got)
			}
			if want := []string{"terraform plan passes", "terraform plan --another-option is asked about"}; !cmp.Equal(r.Tests, want) {
				t.Errorf("tests %q, want %q", r.Tests, want)
			}
			if again := u.propose(e); again.Digest != r.Digest {
				t.Error("the same proposal has another digest")
			}
			shown, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{`"record":"r1"`, `"command":"terraform plan"`, `"hooks":["plan"]`, `"digest":"` + r.Digest, "+++ " + filepath.ToSlash(u.tests()), "+++ " + filepath.ToSlash(u.place.Policy)} {
				if !strings.Contains(filepath.ToSlash(string(shown)), want) {
					t.Errorf("want %s in %s", want, shown)
				}
			}
			if err := r.Write(u.place); err != nil {
				t.Fatal(err)
			}
			if got := u.read(u.place.Policy); got != tt.want {
				t.Errorf("(-want +got)\n%s", cmp.Diff(tt.want, got))
			}
			if n := u.pass(); n != 2 {
				t.Errorf("%d tests, want 2", n)
			}
			if text := u.read(u.tests()); strings.Contains(text, "grapnel-record-") || strings.Contains(text, "skip:") || !strings.Contains(text, "tool_input: {command: terraform plan, description: Look}\n") {
				t.Errorf("the tests:\n%s", text)
			}
			if info, err := os.Stat(u.place.Policy); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
				t.Errorf("mode %v, %v, want that of the old file", info.Mode(), err)
			}
			if _, err := Propose(t.Context(), u.place, e); err == nil || !strings.Contains(err.Error(), "already") {
				t.Errorf("the same again: %v", err)
			}
			if tidy, err := layout.Format([]byte(u.read(u.tests())), format.KeyOrder()); err != nil || string(tidy) != u.read(u.tests()) {
				t.Errorf("%v: \"grapnel fmt\" changes the tests:\n%s", err, cmp.Diff(u.read(u.tests()), string(tidy)))
			}
			u.logged("terraform plan")
		})
	}
}

// logged checks that the log has one Rule.
func (u user) logged(command string) {
	u.Helper()
	n := 0
	for e, err := range spool.Read(u.place.State, spool.Filter{Events: []grapnel.Kind{records.Own + ruled}}) {
		if err != nil {
			u.Fatal(err)
		}
		n++
		if len(e.Reasons) != 1 || e.CallDigest == "" || e.User != u.place.Identity().User || !strings.Contains(e.Reasons[0].Text, "the call r1") || !strings.Contains(e.Reasons[0].Text, "\n+") || !strings.Contains(e.Reasons[0].Text, command) {
			u.Errorf("the Record %+v", e)
		}
	}
	if n != 1 {
		u.Errorf("%d Records of rules, want 1", n)
	}
}

// All hooks of the user that ask get the exception, and existing tests stay.
func TestRuleContinues(t *testing.T) {
	t.Parallel()
	u := newUser(t, blockRule+"  - {name: infra, on: tool.before, match: {command: terraform}, ask: Sure?}\n")
	u.write(u.tests(), "version: 1\n\n# Mine.\ntests:\n  - name: destroy\n    command: terraform destroy\n    want: ask # always\n")
	r := u.propose(u.shell("terraform plan", "plan", "infra"))
	if !cmp.Equal(r.Hooks, []string{"plan", "infra"}) {
		t.Errorf("hooks %q", r.Hooks)
	}
	if err := r.Write(u.place); err != nil {
		t.Fatal(err)
	}
	if n := u.pass(); n != 3 {
		t.Errorf("%d tests, want 3", n)
	}
	if text := u.read(u.tests()); !strings.HasPrefix(text, "version: 1\n\n# Mine.\ntests:\n  - name: destroy\n    command: terraform destroy\n    want: ask # always\n") {
		t.Errorf("the tests:\n%s", text)
	}
	if n := strings.Count(u.read(u.place.Policy), `not in ["terraform plan"]`); n != 2 {
		t.Errorf("%d exceptions in\n%s", n, u.read(u.place.Policy))
	}
}

// The answers of other hooks of the policy do not prevent a rule, and programs do not run.
func TestRuleBesideOthers(t *testing.T) {
	t.Parallel()
	u := newUser(t, blockRule+`  - {name: fine, on: tool.before, match: {command: terraform}, allow: true}
  - {name: hint, on: tool.before, match: {tool: shell}, context: Mind the state.}
  - {name: program, on: tool.before, match: {tool: shell}, run: "touch ran"}
  - {name: server, on: tool.before, match: {tool: shell}, http: "http://127.0.0.1:1/"}
  - {name: later, on: tool.before, run: "touch ran", async: true}
`)
	r := u.propose(u.shell("terraform plan", "plan"))
	if err := r.Write(u.place); err != nil {
		t.Fatal(err)
	}
	if n := u.pass(); n != 2 || !strings.Contains(u.read(u.tests()), "decision: allow") {
		t.Errorf("%d tests, want 2:\n%s", n, u.read(u.tests()))
	}
}

// The text of a command stays exact in the policy and in the tests.
func TestRuleExactText(t *testing.T) {
	t.Parallel()
	for i, command := range []string{
		`echo "it's" 'x' \n $'\t'`, "a: b #c", "cat <<E\n  'two'  \n\"lines\"\nE", "- [x] {a}, *b &c !d |e >f %g @h `i`", "ü 日本 \u202eabc\u200b \U0001F600 \U000e0041",
		"echo ${HOME} $$", `"] or true or tool.command in ["`, "'] or true or tool.command in ['", "true\u0085x\u2028y", " lead and trail ", "echo '***'",
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			u := newUser(t, anyRule)
			command = strings.ReplaceAll(command, "HOME", u.place.Home+"/app")
			r := u.propose(u.shell(command, "plan"))
			if err := r.Write(u.place); err != nil {
				t.Fatal(err)
			}
			if p, errs := policy.Parse("p", []byte(u.read(u.place.Policy))); len(errs) > 0 || r.Command != command || p.Hooks[0].When != "tool.command not in ["+strconv.Quote(command)+"]" {
				t.Errorf("%q is not in\n%s", command, u.read(u.place.Policy))
			}
			file, errs := policytest.Read(u.tests())
			if len(errs) > 0 || !file.Tests[0].Event.Runs(command) {
				t.Errorf("%v: %q is not in\n%s", errs, command, u.read(u.tests()))
			}
			u.pass()
			for _, f := range r.Files {
				if strings.ContainsAny(f.Diff, "\u202e\u200b\u2028") {
					t.Errorf("the diff has invisible characters: %q", f.Diff)
				}
			}
		})
	}
}

// blocked returns the Record of a blocked shell call.
func (u user) blocked(command string, hooks ...string) *spool.Entry {
	u.Helper()
	e := u.shell(command, hooks...)
	e.Decision = grapnel.Block
	for i := range e.Hooks {
		e.Hooks[i].Decision = grapnel.Block
	}
	return e
}

// A false alarm of a pack becomes one entry at the pack, for the commands of the line that the hook
// stops. A block of the own policy becomes a condition, like a question.
func TestRuleOfPack(t *testing.T) {
	t.Parallel()
	const head, noDelete = "version: 1\n", "#destructive::no-recursive-delete"
	for name, tt := range map[string]struct {
		policy, command, want string
		hook                  string // what follows the file in its full name
		stays                 string // a command that is still stopped
	}{
		"by name": {"use: [destructive]\n", "rm -rf reports", "use: [{pack: destructive, allow: {no-recursive-delete: {command: rm -rf reports}}}]\n", noDelete, "rm -rf reports /"},
		"in a list": {
			"use:\n  - secrets\n  - destructive # all of it\n", "make && rm -rf 'my reports' && ls",
			"use:\n  - secrets\n  - {pack: destructive, allow: {no-recursive-delete: {command: 'rm -rf ''my reports'''}}} # all of it\n", noDelete, "rm -rf my reports",
		},
		"in braces": {
			"use: [{pack: destructive, except: no-force-push}, secrets]\n", "rm -rf reports",
			"use: [{pack: destructive, except: no-force-push, allow: {no-recursive-delete: {command: rm -rf reports}}}, secrets]\n", noDelete, "rm -rf report",
		},
		"on lines": {
			"use:\n  - pack: destructive # mine\n    except: [no-force-push]\n", "rm -rf reports && rm -rf charts",
			"use:\n  - pack: destructive # mine\n    allow: {no-recursive-delete: {command: [rm -rf reports, rm -rf charts]}}\n    except: [no-force-push]\n", noDelete, "rm -rf reports charts /",
		},
		"the second hook": {
			"use: [{pack: destructive, allow: {no-hard-reset: {command: git reset --hard}}}]\n", "rm -rf reports",
			"use: [{pack: destructive, allow: {no-hard-reset: {command: git reset --hard}, no-recursive-delete: {command: rm -rf reports}}}]\n", noDelete, "rm -rf /",
		},
		"the second time": {
			"use:\n  - pack: destructive\n    allow:\n      no-recursive-delete: {command: rm -rf logs}\n", "rm -rf reports",
			"use:\n  - pack: destructive\n    allow:\n      no-recursive-delete: [{command: rm -rf logs}, {command: rm -rf reports}]\n", noDelete, "rm -rf /",
		},
		"a hook in lines": {
			"use:\n  - pack: destructive\n    allow:\n      no-hard-reset: {command: git reset --hard}\n", "rm -rf reports",
			"use:\n  - pack: destructive\n    allow:\n      no-hard-reset: {command: git reset --hard}\n      no-recursive-delete: {command: rm -rf reports}\n", noDelete, "rm -rf /",
		},
		"an own block": {
			"hooks:\n  - {name: plan, on: tool.before, match: {command: terraform}, block: No.}\n", "terraform plan",
			"hooks:\n  - {name: plan, on: tool.before, match: {command: terraform}, block: No., when: 'tool.command not in [\"terraform plan\"]'}\n", "::plan", "terraform plan -x",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, head+tt.policy)
			r := u.propose(u.blocked(tt.command, u.place.Policy+tt.hook))
			if err := r.Write(u.place); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(head+tt.want, u.read(u.place.Policy)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if n := u.pass(); n < 1 {
				t.Errorf("%d tests", n)
			}
			if _, by, err := r.try(t.Context(), r.changed, tt.stays); err != nil || len(by) == 0 {
				t.Errorf("%q passes: %v", tt.stays, err)
			}
		})
	}
}

func TestRuleRefuses(t *testing.T) {
	t.Parallel()
	project := "/srv/app/grapnel.yaml"
	for name, tt := range map[string]struct {
		policy string // empty = blockRule
		tests  string
		entry  func(u user) *spool.Entry
		want   string
	}{
		"another source": {entry: func(u user) *spool.Entry { return u.shell("terraform plan", "plan", project+"::plan") }, want: "/srv/app/grapnel.yaml::plan stopped it: it is not in force now"},
		"a managed rule": {entry: func(u user) *spool.Entry { return u.managed() }, want: "a.yaml::plan stopped it: it is not in force now"},
		"a pack that hides a part": {policy: "version: 1\nuse: [destructive]\n", entry: func(u user) *spool.Entry {
			return u.shell("git reset --hard $(cat x)", u.place.Policy+"#destructive::no-hard-reset")
		}, want: "no pattern describes exactly this command"},
		"no hook":           {entry: func(u user) *spool.Entry { return u.shell("terraform plan") }, want: "no hook stopped it"},
		"a file":            {entry: func(u user) *spool.Entry { return u.asked("Read", map[string]string{"file_path": "/x"}, "plan") }, want: "not one shell command"},
		"a masked command":  {policy: anyRule, entry: func(u user) *spool.Entry { return u.shell("login --password hunter2", "plan") }, want: "masked"},
		"a byte order mark": {policy: anyRule, entry: func(u user) *spool.Entry { return u.shell("echo \uFEFF", "plan") }, want: "no test can prove it"},
		"a cut command":     {policy: anyRule, entry: func(u user) *spool.Entry { return u.shell("ls"+strings.Repeat(" ", 1<<21)+"; x", "plan") }, want: "only a part"},
		"an environment": {policy: anyRule, entry: func(u user) *spool.Entry {
			return u.asked("Bash", map[string]any{"command": "ls", "env": map[string]string{"A": "b"}}, "plan")
		}, want: "for any env"},
		"a halt": {entry: func(u user) *spool.Entry {
			e := u.shell("terraform plan", "plan")
			e.Hooks[0].Halt = true
			return e
		}, want: "ended the agent's turn"},
		"another condition": {policy: strings.Replace(blockRule, "    ask", "    when: not tool.failed\n    ask", 1), entry: ask, want: "another condition"},
		"a program":         {policy: "version: 1\nhooks:\n  - {name: plan, on: tool.before, run: ask}\n", entry: ask, want: "does not ask or block"},
		"a removed hook":    {policy: "version: 1\nhooks: []\n", entry: ask, want: "has no hook plan now"},
		"a narrowed hook":   {policy: strings.Replace(blockRule, "terraform plan}", "terraform apply}", 1), entry: ask, want: "not all hooks stop it now"},
		"a hook more":       {policy: blockRule + "  - {name: more, on: tool.before, match: {command: terraform}, ask: Sure?}\n", entry: ask, want: "more would still stop it"},
		"a broken policy":   {policy: "version: 1\nhooks: [\n", entry: ask, want: "grapnel.yaml"},
		"a failing test":    {tests: "version: 1\ntests:\n  - {name: mine, command: terraform plan, want: ask}\n", entry: ask, want: `3: the test "mine" would fail`},
		"a failing payload": {
			tests: "version: 1\ntests:\n  - {name: mine, payload: {hook_event_name: PreToolUse, tool_name: Bash, tool_input: {command: terraform plan}}, want: ask}\n",
			entry: ask, want: `3: the test "mine" would fail`,
		},
		"another policy":      {tests: "version: 1\npack: destructive\ntests:\n  - {command: ls, want: none}\n", entry: ask, want: "does not test"},
		"broken tests":        {tests: "version: 1\ntests: [\n", entry: ask, want: "cannot add tests"},
		"tests in brackets":   {tests: "version: 1\ntests: [{command: ls, want: none}]\n", entry: ask, want: "cannot add tests"},
		"a read-only policy":  {entry: func(u user) *spool.Entry { u.readOnly(); return ask(u) }, want: "is read-only"},
		"no policy":           {entry: func(u user) *spool.Entry { e := ask(u); u.must(os.Remove(u.place.Policy)); return e }, want: "grapnel.yaml"},
		"an unusual layout":   {policy: strings.Replace(flowRule, ", ask", ",\n     ask", 1), entry: ask, want: "layout"},
		"a Record of no call": {entry: func(u user) *spool.Entry { e := ask(u); e.CallDigest = ""; return e }, want: "does not identify"},
		"only metadata":       {entry: func(u user) *spool.Entry { e := ask(u); e.Input = nil; return e }, want: "contains no event"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, tt.policy)
			if tt.policy == "" {
				u.write(u.place.Policy, blockRule)
			}
			if tt.tests != "" {
				u.write(u.tests(), tt.tests)
			}
			e := tt.entry(u)
			before := u.read(u.place.Policy)
			r, err := Propose(t.Context(), u.place, e)
			if err == nil || r != nil || !strings.Contains(err.Error()+cli.HintOf(err), tt.want) || strings.Contains(err.Error(), "grapnel-record-") {
				t.Errorf("Propose = %+v, %v, want %q", r, err, tt.want)
			}
			if u.read(u.place.Policy) != before || u.read(u.tests()) != tt.tests {
				t.Error("a file has changed")
			}
		})
	}
}

func ask(u user) *spool.Entry {
	u.Helper()
	return u.shell("terraform plan", "plan")
}

func (u user) must(err error) {
	u.Helper()
	if err != nil {
		u.Fatal(err)
	}
}

func (u user) readOnly() {
	u.Helper()
	u.must(os.Chmod(u.place.Policy, 0o440))
}

// managed returns a Record of a question of a managed policy.
func (u user) managed() *spool.Entry {
	u.Helper()
	file := filepath.Join(u.place.Managed, "a.yaml")
	u.must(os.MkdirAll(u.place.Managed, 0o755))
	u.write(file, blockRule)
	return u.shell("terraform plan", file+"::plan")
}

// Nothing is written if a file has changed since the person saw the Rule.
func TestRuleOfChangedFiles(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(u user){
		"policy":         func(u user) { u.write(u.place.Policy, blockRule+"# mine\n") },
		"policy removed": func(u user) { u.must(os.Remove(u.place.Policy)) },
		"tests":          func(u user) { u.write(u.tests(), "version: 1\ntests: []\n") },
		"empty tests":    func(u user) { u.write(u.tests(), "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, blockRule)
			r := u.propose(ask(u))
			change(u)
			before, tests := u.read(u.place.Policy), u.read(u.tests())
			if err := r.Write(u.place); err == nil || !strings.Contains(err.Error(), "changed since") || cli.HintOf(err) == "" {
				t.Errorf("Write: %v", err)
			}
			if u.read(u.place.Policy) != before || u.read(u.tests()) != tests {
				t.Error("a file was written")
			}
		})
	}
}

// If the policy cannot be written, no tests for it remain.
func TestRuleRestoresTests(t *testing.T) {
	t.Parallel()
	u := newUser(t, blockRule)
	r := u.propose(ask(u))
	u.readOnly()
	err := r.Write(u.place)
	if err == nil || errors.Is(err, os.ErrNotExist) || u.read(u.place.Policy) != blockRule {
		t.Errorf("Write: %v", err)
	}
	if _, err := os.Lstat(u.tests()); !os.IsNotExist(err) {
		t.Errorf("the tests remain: %v", err)
	}
}

// A policy that is a link stays a link.
func TestRuleOfLink(t *testing.T) {
	t.Parallel()
	u := newUser(t, blockRule)
	target := filepath.Join(t.TempDir(), "dotfile.yaml")
	u.must(os.Rename(u.place.Policy, target))
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege on Windows")
	}
	u.must(os.Symlink(target, u.place.Policy))
	u.must(u.propose(ask(u)).Write(u.place))
	if info, err := os.Lstat(u.place.Policy); err != nil || info.Mode()&os.ModeSymlink == 0 || !strings.Contains(u.read(target), "not in") {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	u.pass()
}
