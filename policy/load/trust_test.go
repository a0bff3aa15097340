package load_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// project is a directory with a policy, and the state directory of its user.
type project struct {
	t     testing.TB
	dir   string
	file  string
	state string
}

func newProject(t testing.TB, text string) *project {
	t.Helper()
	dir := t.TempDir()
	p := &project{t: t, dir: dir, file: filepath.Join(dir, "grapnel.yaml"), state: t.TempDir()}
	p.put("grapnel.yaml", text)
	return p
}

func (p *project) put(name, text string) {
	p.t.Helper()
	name = filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *project) trusts() load.Trusts { return load.Trusts(filepath.Join(p.state, "trust")) }

func (p *project) snapshots() string { return filepath.Join(p.state, "policy") }

func (p *project) examine() *load.Examined {
	p.t.Helper()
	x, errs := load.Examine(p.file, p.dir, load.Packs{})
	if len(errs) > 0 {
		p.t.Fatalf("Examine: %v", errs)
	}
	return x
}

func (p *project) trust() *load.Examined {
	p.t.Helper()
	x := p.examine()
	x.Time = time.Now()
	if err := p.trusts().Keep(x); err != nil {
		p.t.Fatal(err)
	}
	return x
}

// load loads the project's policy after the user's policies. Programs answer that they ran.
func (p *project) load(own ...load.File) (load.Set, *grapnel.Engine) {
	p.t.Helper()
	set := load.Policies(load.Request{
		Files: append(own, load.File{Path: p.file, Scope: grapnel.ScopeProject, Trust: true}), Snapshots: p.snapshots(), Trusts: p.trusts(),
		Runners: policy.Runners{Command: func(c policyfile.Command) grapnel.Hook {
			return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
				return grapnel.Outcome{Message: c.Name + " ran"}, nil
			})
		}},
	})
	e, err := grapnel.New(set.Specs, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return set, e
}

func (p *project) state1(set load.Set) load.Loaded {
	p.t.Helper()
	i := slices.IndexFunc(set.Files, load.Loaded.OfProject)
	if i < 0 {
		p.t.Fatalf("no file of the project in %+v", set.Files)
	}
	return set.Files[i]
}

// messagesOf returns the messages for the user at the start of a session and with a prompt.
func messagesOf(e *grapnel.Engine) (atStart, atPrompt string) {
	start := e.Fire(context.Background(), &grapnel.Event{Kind: grapnel.SessionStart})
	prompt := e.Fire(context.Background(), &grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "hello"}})
	return strings.Join(start.Messages, "\n"), strings.Join(prompt.Messages, "\n")
}

func TestUntrustedProjectDoesNothing(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a policy":       blockAll,
		"a program":      "version: 1\nhooks:\n  - {name: x, on: tool.before, run: 'true'}\n",
		"a broken file":  "version: [",
		"a strict one":   "version: 1\nstrict: true\n",
		"an empty file":  "",
		"a hostile size": strings.Repeat("# x\n", 1<<19),
	} {
		p := newProject(t, text)
		set, e := p.load()
		if got := p.state1(set); got.State != load.Untrusted || got.Hooks != 0 || got.Digest != "" || set.Strict {
			t.Errorf("%s: %+v, want nothing in force", name, got)
		}
		if v := e.Fire(context.Background(), fixture.Shell("touch x")); v.Decision != grapnel.None || len(v.Messages) > 0 {
			t.Errorf("%s: %v %v, want no opinion", name, v.Decision, v.Messages)
		}
		start, prompt := messagesOf(e)
		if !strings.Contains(start, "grapnel trust "+p.file) || prompt != "" {
			t.Errorf("%s: told %q at the start and %q with a prompt, want it named once", name, start, prompt)
		}
		if _, err := os.Stat(p.snapshots()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something of it was kept (%v)", name, err)
		}
	}
}

func TestNoProjectPolicyIsNoFile(t *testing.T) {
	t.Parallel()
	p := newProject(t, "")
	if err := os.Remove(p.file); err != nil {
		t.Fatal(err)
	}
	if set, _ := p.load(); len(set.Files) != 0 || len(set.Specs) != 0 {
		t.Errorf("%+v, want nothing", set.Files)
	}
}

const gate = "version: 1\nhooks: [{name: x, on: tool.before, block: no}]\n"

// closed checks that the gate is closed, and that the user gets a message unless the file has
// the trusted content.
func (p *project) closed(what string) {
	p.t.Helper()
	set, e := p.load()
	v := e.Fire(context.Background(), fixture.Shell("touch x"))
	if v.Decision != grapnel.Block || v.Reason() != "no" {
		p.t.Errorf("%s: %v %q, want the gate closed", what, v.Decision, v.Reason())
	}
	data, err := os.ReadFile(p.file)
	if same := err == nil && string(data) == gate; same != (p.state1(set).State == load.Trusted) {
		p.t.Errorf("%s: state %s", what, p.state1(set).State)
	} else if same {
		return
	}
	start, prompt := messagesOf(e)
	if !strings.Contains(start, p.file) || !strings.Contains(prompt, p.file) {
		p.t.Errorf("%s: told %q at the start and %q with a prompt, want the file named", what, start, prompt)
	}
}

func FuzzTrustedStaysInForce(f *testing.F) {
	for _, text := range []string{gate, "", "version: 1\n", "version: 1\nhooks: []\n", blockAll, "\xff\xfe"} {
		f.Add([]byte(text))
	}
	p := newProject(f, gate)
	p.trust()
	f.Fuzz(func(t *testing.T, text []byte) {
		mine := *p
		mine.t = t
		mine.put("grapnel.yaml", string(text))
		mine.closed(fmt.Sprintf("%q", text))
	})
}

// Trusted content is stored completely, so losing the snapshots costs time but opens no gate.
// If the trusted content itself is lost, its rules are unknown.
func TestTrustedWithoutItsState(t *testing.T) {
	t.Parallel()
	p := newProject(t, gate)
	p.trust()
	p.load()
	p.put("grapnel.yaml", "version: 1\n")
	if err := os.RemoveAll(p.snapshots()); err != nil {
		t.Fatal(err)
	}
	p.closed("without snapshots")

	for name, spoil := range map[string]func(dir string) error{
		"the content is lost": func(dir string) error {
			return os.Remove(filepath.Join(dir, p.examineTrusted().SHA256))
		},
		"the content is damaged": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, p.examineTrusted().SHA256), []byte("version: 1\n"), 0o600)
		},
		"the record is torn": func(dir string) error { return os.WriteFile(p.record(), []byte("{"), 0o600) },
		"the record is of another file": func(dir string) error {
			return os.WriteFile(p.record(), []byte(`{"file":"/x","sha256":"","pins":[]}`), 0o600)
		},
	} {
		p.put("grapnel.yaml", gate)
		p.trust()
		p.put("grapnel.yaml", "version: 1\n")
		if err := errors.Join(os.RemoveAll(p.snapshots()), spoil(string(p.trusts()))); err != nil {
			t.Fatal(err)
		}
		set, e := p.load()
		v := e.Fire(context.Background(), fixture.Shell("ls"))
		if got := p.state1(set); v.Decision != grapnel.Block || !strings.Contains(v.Reason(), "grapnel untrust "+p.file) || got.State != load.Broken {
			t.Errorf("%s: %v %q, state %s, want a block with the way out", name, v.Decision, v.Reason(), got.State)
		}
		if v := e.Fire(context.Background(), &grapnel.Event{Kind: grapnel.PromptBefore}); v.Decision != grapnel.None {
			t.Errorf("%s: a prompt is locked", name)
		}
	}
	if forgot, err := p.trusts().Forget(p.file, p.snapshots()); !forgot || err != nil {
		t.Errorf("Forget = %v, %v", forgot, err)
	}
	if set, _ := p.load(); p.state1(set).State != load.Untrusted {
		t.Errorf("after Forget: %+v", set.Files)
	}
}

func (p *project) examineTrusted() *load.Trust {
	p.t.Helper()
	trust, err := p.trusts().Of(p.file)
	if err != nil || trust == nil {
		p.t.Fatalf("Of = %v, %v", trust, err)
	}
	return trust
}

func (p *project) record() string {
	p.t.Helper()
	names, err := filepath.Glob(filepath.Join(string(p.trusts()), "*.json"))
	if err != nil || len(names) != 1 {
		p.t.Fatalf("%v, %v, want one record", names, err)
	}
	return names[0]
}

// After the user reviews it again, the new content is in force. Content that is not trusted any
// more is deleted.
func TestTrustAgain(t *testing.T) {
	t.Parallel()
	p := newProject(t, gate)
	old := p.trust()
	longAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(string(p.trusts()), old.SHA256), longAgo, longAgo); err != nil {
		t.Fatal(err)
	}
	p.put("grapnel.yaml", strings.Replace(gate, "block: no", "block: never", 1))
	now := p.trust()
	if old.Digest() == now.Digest() {
		t.Error("two contents have one digest")
	}
	_, e := p.load()
	if v := e.Fire(context.Background(), fixture.Shell("ls")); v.Reason() != "never" {
		t.Errorf("%v %q, want the new content", v.Decision, v.Reason())
	}
	if _, err := p.trusts().Content(old.SHA256); err == nil {
		t.Error("the old content is still kept")
	}
	if err := os.Remove(p.file); err != nil {
		t.Fatal(err)
	}
	set, e := p.load()
	if v := e.Fire(context.Background(), fixture.Shell("ls")); v.Reason() != "never" || p.state1(set).State != load.Gone {
		t.Errorf("%v %q, state %s, want a file that is gone to stay in force", v.Decision, v.Reason(), p.state1(set).State)
	}
}

func TestPins(t *testing.T) {
	t.Parallel()
	type pins map[string]bool // name -> whether it exists
	for name, tt := range map[string]struct {
		run      string // as in the file
		want     pins
		unpinned string // part of the message
	}{
		"a script":               {"./check.sh", pins{"check.sh": true}, ""},
		"for an interpreter":     {"python3 tools/lint.py --strict", pins{"tools/lint.py": true}, ""},
		"behind wrappers":        {"cd . && sudo env A=1 sh -c 'exec ./check.sh'", pins{"check.sh": true}, ""},
		"in another directory":   {"cd tools && python3 lint.py", pins{"tools/lint.py": true, "lint.py": false}, ""},
		"of an option":           {"jq --rules=tools/rules.json", pins{"tools/rules.json": true}, ""},
		"read by a redirection":  {"sh < check.sh", pins{"check.sh": true}, "runs what it reads from a file"},
		"written by one":         {"echo x >> check.sh", pins{}, ""},
		"sourced":                {". ./check.sh; run", pins{"check.sh": true}, "sourced file"},
		"without a shell":        {"[./check.sh, tools/rules.json]", pins{"check.sh": true, "tools/rules.json": true}, ""},
		"twice":                  {"./check.sh && ./check.sh", pins{"check.sh": true}, ""},
		"not there yet":          {"python3 tools/later.py", pins{"tools/later.py": false}, ""},
		"no name of a file":      {"echo later", pins{}, ""},
		"a program on PATH":      {"check.sh", pins{}, ""},
		"outside of the project": {"/bin/sh ../x.sh", pins{}, ""},
		"a text of some length":  {"python3 -c 'print(\"a/b\")" + strings.Repeat("#", 300) + "'", pins{}, ""},
		"below a file":           {"cat check.sh/x", pins{"check.sh/x": false}, ""},
		"an address":             {"curl https://example.com/check.sh", pins{}, ""},
		"a directory":            {"gofmt -l tools .", pins{}, "names tools, a directory"},
		"computed":               {`sh "$GRAPNEL_ROOT/check.sh"`, pins{}, "names $GRAPNEL_ROOT/check.sh, which is known only at run time"},
		"a pattern":              {"sh tools/*.py", pins{}, "names tools/*.py, whose files"},
		"hidden":                 {"cat x | sh", pins{}, "runs unknown commands"},
	} {
		p := newProject(t, "version: 1\nhooks:\n  - name: h\n    on: tool.before\n    run: "+yamlText(tt.run)+"\n")
		for _, file := range []string{"check.sh", "tools/lint.py", "tools/rules.json"} {
			p.put(file, "echo "+file)
		}
		x := p.examine()
		got := pins{}
		for _, pin := range x.Pins {
			rel, err := filepath.Rel(p.dir, pin.Path)
			if err != nil {
				t.Fatal(err)
			}
			got[filepath.ToSlash(rel)] = pin.SHA256 != ""
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s (-want +got)\n%s", name, tt.run, diff)
		}
		if unpinned := strings.Join(x.Unpinned, "\n"); !strings.Contains(unpinned, tt.unpinned) || tt.unpinned == "" && unpinned != "" {
			t.Errorf("%s: %s says %q, want %q", name, tt.run, unpinned, tt.unpinned)
		}
	}
}

// yamlText returns a text in YAML quotes, and a list unchanged.
func yamlText(text string) string {
	if strings.HasPrefix(text, "[") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// The digest is the same on other machines: it does not depend on the project's directory.
func TestDigestIsPortable(t *testing.T) {
	t.Parallel()
	const text = "version: 1\nhooks: [{name: h, on: tool.before, run: sh tools/check.sh tools/none.sh}]\n"
	var digests []string
	for _, script := range []string{"true", "true", "false"} {
		p := newProject(t, text)
		p.put("tools/check.sh", script)
		x := p.examine()
		digests = append(digests, x.Digest())
	}
	if digests[0] != digests[1] || digests[1] == digests[2] {
		t.Errorf("%v, want the first two alike and the last another", digests)
	}
}

// A changed script does not run and opens no gate, for any on_error.
func TestPinnedProgram(t *testing.T) {
	t.Parallel()
	const text = `version: 1
hooks:
  - {name: check, on: [tool.before, tool.after, agent.after, session.start], run: sh tools/check.sh tools/later.sh, on_error: open}
  - {name: other, on: tool.before, run: make check}
`
	for name, spoil := range map[string]func(*project){
		"changed":     func(p *project) { p.put("tools/check.sh", "exit 0 # now") },
		"gone":        func(p *project) { _ = os.Remove(filepath.Join(p.dir, "tools/check.sh")) },
		"a directory": func(p *project) { _ = os.RemoveAll(filepath.Join(p.dir, "tools")); p.put("tools/check.sh/x", "") },
		"planted":     func(p *project) { p.put("tools/later.sh", "exit 0") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, text)
			p.put("tools/check.sh", "exit 2")
			p.trust()
			_, e := p.load()
			if v := e.Fire(context.Background(), fixture.Shell("ls")); v.Decision != grapnel.None || !slices.Equal(v.Messages, []string{"check ran", "other ran"}) {
				t.Fatalf("as trusted: %v %v, want both programs to run", v.Decision, v.Messages)
			}
			spoil(p)
			set, e := p.load()
			if got := p.state1(set).State; got != load.Trusted {
				t.Errorf("state %s, want the policy itself to be as trusted", got)
			}
			v := e.Fire(context.Background(), fixture.Shell("ls"))
			if v.Decision != grapnel.Block || !strings.Contains(v.Reason(), "grapnel trust "+p.file) || !strings.Contains(strings.Join(v.Messages, "\n"), "was not run") {
				t.Errorf("tool.before: %v %q %v, want a block with the way out, and the person told", v.Decision, v.Reason(), v.Messages)
			}
			if v := e.Fire(context.Background(), fixture.Tool(grapnel.ToolAfter, "Bash", grapnel.ClassShell, nil)); v.Decision != grapnel.Block {
				t.Errorf("tool.after: %v, want a block", v.Decision)
			}
			for _, kind := range []grapnel.Kind{grapnel.AgentAfter, grapnel.SessionStart} {
				v := e.Fire(context.Background(), &grapnel.Event{Kind: kind})
				if v.Decision != grapnel.None || !strings.Contains(strings.Join(v.Messages, "\n"), "not run") {
					t.Errorf("%s: %v %v, want it open and the person told", kind, v.Decision, v.Messages)
				}
			}
			if got := p.examineTrusted().Changed(); len(got) != 1 {
				t.Errorf("Changed = %v, want the one file", got)
			}
		})
	}
}

// A project's policy cannot weaken the user's policy: names, modes, exceptions and failures
// apply only to their own file.
func TestProjectDoesNotWeaken(t *testing.T) {
	t.Parallel()
	const own = `version: 1
hooks:
  - {name: no-touch, on: tool.before, match: {command: touch}, block: no touching}
  - {name: careful, on: tool.before, match: {command: mv}, ask: Move it?}
`
	for name, text := range map[string]string{
		"the same name, observed":   "version: 1\nhooks:\n  - {name: no-touch, on: tool.before, match: {command: touch}, block: other, mode: observe}\n",
		"the same name, excepted":   "version: 1\nhooks:\n  - {name: no-touch, on: tool.before, match: {command: touch}, except: {command: touch x}, block: other}\n",
		"the same name, elsewhere":  "version: 1\nhooks:\n  - {name: no-touch, on: session.start, context: hello}\n",
		"an allow":                  "version: 1\nhooks:\n  - {name: yes, on: tool.before, match: {command: [touch, mv]}, allow: true}\n",
		"an allow that comes first": "version: 1\nhooks:\n  - {name: yes, on: tool.before, priority: -1000, allow: true}\n",
		"defaults that are open":    "version: 1\ndefaults: {on_error: open}\nhooks:\n  - {name: yes, on: tool.before, run: 'true'}\n",
		"the source's own name":     "version: 1\nhooks:\n  - {name: 'user', on: tool.before, allow: true}\n",
	} {
		p := newProject(t, text)
		p.trust()
		file := filepath.Join(t.TempDir(), "own.yaml")
		put(t, file, own)
		set, e := p.load(load.File{Path: file})
		if got := p.state1(set).State; got != load.Trusted {
			t.Fatalf("%s: state %s: %+v", name, got, set.Files)
		}
		if v := e.Fire(context.Background(), fixture.Shell("touch x")); v.Decision != grapnel.Block || !strings.Contains(v.Reason(), "no touching") {
			t.Errorf("%s: %v %q, want the person's block", name, v.Decision, v.Reason())
		}
		if v := e.Fire(context.Background(), fixture.Shell("mv a b")); v.Decision != grapnel.Ask || !strings.Contains(v.Reason(), "Move it?") {
			t.Errorf("%s: %v %q, want the person's question", name, v.Decision, v.Reason())
		}
		if v := e.Fire(context.Background(), fixture.Shell("ls")); v.Decision != grapnel.None {
			t.Errorf("%s: %v, want no opinion: a project allows nothing", name, v.Decision)
		}
	}
}

// If users keep their own policy in a repository and work there, it is loaded once.
func TestProjectPolicyThatIsTheUsers(t *testing.T) {
	t.Parallel()
	p := newProject(t, gate)
	own := filepath.Join(t.TempDir(), "grapnel.yaml")
	if err := os.Symlink(p.file, own); err != nil {
		t.Fatal(err)
	}
	set, e := p.load(load.File{Path: own})
	if len(set.Files) != 1 || set.Files[0].Scope != "user" || set.Files[0].State != load.Valid {
		t.Errorf("%+v, want the user's alone", set.Files)
	}
	if v := e.Fire(context.Background(), fixture.Shell("ls")); len(v.Reasons) != 1 {
		t.Errorf("%v, want one reason", v.Reasons)
	}

	// A symlink that replaces a trusted file does not disable the trusted content.
	p.trust()
	own = filepath.Join(t.TempDir(), "own.yaml")
	put(t, own, "version: 1\n")
	if err := errors.Join(os.Remove(p.file), os.Symlink(own, p.file)); err != nil {
		t.Fatal(err)
	}
	if _, e := p.load(load.File{Path: own}); e.Fire(context.Background(), fixture.Shell("ls")).Decision != grapnel.Block {
		t.Error("a link to the user's policy opens the gate")
	}
}

func TestExamineRefuses(t *testing.T) {
	t.Parallel()
	many := "version: 1\nhooks:\n  - {name: h, on: tool.before, run: cat"
	for i := range 300 {
		many += fmt.Sprintf(" a/%d", i)
	}
	for text, want := range map[string]string{
		"version: 2\n":            "version",
		"":                        "the file is empty",
		many + "}\n":              "names more than 256 files",
		"version: 1\nuse: [no]\n": `unknown pack "no"`,
		"version: 1\nhooks:\n  - {name: h, on: tool.before, run: ./big}\n": "is larger than 16 MiB",
	} {
		p := newProject(t, text)
		p.put("big", "")
		if err := os.Truncate(filepath.Join(p.dir, "big"), 17<<20); err != nil {
			t.Fatal(err)
		}
		if _, errs := load.Examine(p.file, p.dir, load.Packs{}); len(errs) == 0 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, errs, want)
		}
	}
	if _, errs := load.Examine(filepath.Join(t.TempDir(), "none"), "/", load.Packs{}); len(errs) != 1 || errs[0].Msg != "no such file" {
		t.Errorf("%v", errs)
	}
}

// The stored trusts can be listed. One that is damaged, or that names another file, is reported and
// hides no other.
func TestStoredTrusts(t *testing.T) {
	t.Parallel()
	p := newProject(t, blockAll)
	trusts := p.trusts()
	if all, broken := trusts.All(); len(all)+len(broken) > 0 || trusts.Has(p.file) || load.Trusts("").Has(p.file) {
		t.Errorf("before any trust: %v, %v", all, broken)
	}
	x := p.trust()
	kept, broken := trusts.All()
	if len(kept) != 1 || kept[0].File != p.file || len(broken) > 0 || !trusts.Has(p.file) {
		t.Errorf("after a trust: %v, %v", kept, broken)
	}
	content, err := trusts.Content(x.SHA256)
	if err != nil || string(content) != blockAll || string(x.Content(x.SHA256)) != blockAll {
		t.Errorf("the trusted content is %q, %v", content, err)
	}

	files, err := filepath.Glob(filepath.Join(string(trusts), "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	stored, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"0.json":                "{",
		"1.json":                string(stored),                                               // the trust of another file
		filepath.Base(files[0]): strings.Replace(string(stored), x.SHA256, "../"+x.SHA256, 1), // a digest that is a path
	} {
		if err := os.WriteFile(filepath.Join(string(trusts), name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if all, broken := trusts.All(); len(all) > 0 || len(broken) != 3 {
		t.Errorf("damaged: %v, %v, want three errors", all, broken)
	}
	if _, err := trusts.Of(p.file); err == nil {
		t.Error("a trust with a damaged digest has no error")
	}
	if err := os.WriteFile(filepath.Join(string(trusts), x.SHA256), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if content, err := trusts.Content(x.SHA256); err == nil {
		t.Errorf("the changed content %q counts as trusted", content)
	}
}

// Replaced changes and removes hooks, and leaves the others in force.
func TestReplaced(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nhooks:\n  - {name: a, on: tool.before, match: {tool: shell}, block: a}\n  - {name: b, on: tool.before, block: b}\n  - {name: c, on: tool.before, match: {secret: true}, block: c}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set := load.Policies(load.Request{Files: []load.File{{Path: file, Scope: grapnel.ScopeUser}}, Snapshots: t.TempDir()})
	changed, errs := policy.Parse("new.yaml", []byte("version: 1\nhooks:\n  - {name: a, on: tool.before, match: {tool: fetch}, block: changed}\n"))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	specs, err := load.Replaced(set.Specs, func(s *grapnel.Spec) (*policyfile.Hook, bool) {
		if s.Name == "a" {
			return &changed.Hooks[0], true
		}
		return nil, s.Name == "b" // removes it
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := grapnel.New(specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ tool, input, want string }{
		{"Bash", `{"command":"ls"}`, ""},
		{"WebFetch", `{"url":"https://example.com/"}`, "changed"},
		{"Write", `{"file_path":"x","content":"` + ghToken + `"}`, "c"},
	} {
		v := firePayload(t, e, map[string]any{"hook_event_name": "PreToolUse", "session_id": "s", "cwd": "/tmp", "tool_name": tt.tool, "tool_input": json.RawMessage(tt.input)})
		if got := v.Reason(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.tool, got, tt.want)
		}
	}
}
