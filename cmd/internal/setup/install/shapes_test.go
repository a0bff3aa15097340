package install

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install/shim"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/installation"
)

// Agents of every shape with peculiarities of real agents. They are tested in addition to the
// real agents, so that each peculiarity is tested even if no agent has it.
var (
	keeper = row("keeper", dialect.Setup{
		User: ".keeper/hooks.json", Project: ".keeper/hooks.json", Shape: dialect.ShapeGroups, Keep: true, Unit: time.Second,
		Entry: `{"type": "command", "command": $command, "timeout": $timeout}`,
		Off:   []dialect.Switch{{File: ".keeper/config.toml", Path: "features.hooks", Is: "false", Effect: "switches all hooks off"}},
		Todo:  []string{"open keeper and trust $file"}, TodoProject: []string{"trust the project, too"},
	})
	// Its lists in hooks.json replace those in settings.json.
	layered = row("layered", dialect.Setup{
		User: ".layered/settings.json", Project: ".layered/settings.json", Over: []string{"hooks.json", "hooks/hooks.json"},
		Shape: dialect.ShapeGroups, Comments: true, Unit: time.Second,
		Entry: `{"type": "command", "command": $command, "timeout": $timeout}`,
	})
	flat = row("flat", dialect.Setup{
		User: ".flat/hooks.json", Project: ".flat/hooks.json", Managed: [3]string{"/etc/flat/hooks.json", "/etc/flat/hooks.json", "C:/flat/hooks.json"},
		Shape: dialect.ShapeFlat, Top: `"version": 1`, Unit: time.Second, Comments: true, Cuts: true, Strict: true, NoLink: true, Anonymous: true,
		Entry: `{"command": $command, "timeout": $timeout, "failClosed": $closed}`,
	})
	folding = row("folding", dialect.Setup{
		User: ".config/folding/folding.json", Shape: dialect.ShapeFlat, Fold: true, Unit: time.Second, Label: "grapnel",
		Entry: `{"name": $label, "command": $command, "timeout": $timeout}`,
	})
	own = row("own", dialect.Setup{
		User: ".own/hooks/grapnel.json", Project: ".own/hooks/grapnel.json", MovedBy: "OWN_HOME", Moves: ".own", Own: true,
		Shape: dialect.ShapeFlat, Top: `"version": 1`, Unit: time.Second,
		Entry: `{"type": "command", "bash": $command, "powershell": $powershell, "timeoutSec": $timeout}`,
	})
	named = row("named", dialect.Setup{
		User: ".named/config/hooks.json", Project: ".named/hooks.json", Shape: dialect.ShapeNamed, Fold: true, Strict: true, Unit: time.Second,
		Label: "grapnel", Matcher: "*", Entry: `{"type": "command", "command": $command, "timeout": $timeout}`,
		Off: []dialect.Switch{{Path: "grapnel.enabled", Is: "false", Effect: "switches Grapnel off"}},
	})
	listed = row("listed", dialect.Setup{
		User: ".listed/hooks/grapnel.json", Project: ".listed/hooks/grapnel.json", Own: true, Shape: dialect.ShapeList, Top: `"version": "v1"`, Unit: time.Second,
		Entry: `{"name": "grapnel", "trigger": $event, "action": {"type": "command", "command": $command}, "timeout": $timeout, "enabled": true}`,
	})
	scripts = row("scripts", dialect.Setup{
		User: ".scripts/hooks", Project: ".scripts/hooks", Shape: dialect.ShapeFiles, Files: []string{"$event.sh", "$event.bash", "$event"},
		Entry: "#!/bin/sh\n# $marker\nexec $command\n",
	})
	plugged = row("plugged", dialect.Setup{
		User: ".plugged/plugged.json", MovedBy: "PLUGGED_CONFIG", Moves: ".plugged/plugged.json", Shape: dialect.ShapePlugin, Deadline: time.Second, Comments: true, JSON5: true,
		Edits: []dialect.Edit{
			{Path: "plugins.load.paths", Value: "$dir"},
			{Path: "plugins.entries", Key: "grapnel", Value: `{"enabled": true, "hooks": {"allowConversationAccess": true}}`},
			{Path: "plugins.allow", Value: `"grapnel"`, Only: true},
		},
	})
	ownRows = []Agent{keeper, layered, flat, folding, own, named, listed, scripts, plugged}
)

func row(name string, setup dialect.Setup) Agent {
	setup.Program = name
	return Agent{&dialect.Dialect{Name: name, Title: "The " + name, Events: []dialect.EventRow{
		{Native: "SessionStart", Kind: grapnel.SessionStart, Install: true},
		{Native: "PreToolUse", Kind: grapnel.ToolBefore, Install: true, Closed: true},
		{Native: "PostToolUse", Kind: grapnel.ToolAfter, Install: true},
		{Native: "Notification", Kind: grapnel.NotificationSent, Why: "would start a process for every word"},
		{Native: "Forbidden", Kind: grapnel.ConfigBefore, Never: true, Why: "it takes the agent's work over"},
		{Native: "SessionEnd", Kind: grapnel.SessionEnd, Install: true, Wait: 3 * time.Second},
	}}, &setup}
}

// testAgents returns the real agents with the given shapes, and then the agents of this file.
func testAgents(shapes ...dialect.Shape) []Agent {
	return slices.DeleteFunc(slices.Concat(Agents(), ownRows), func(a Agent) bool { return !slices.Contains(shapes, a.Setup.Shape) })
}

// documents returns the agents whose entries are in a document.
func documents() []Agent {
	return slices.DeleteFunc(testAgents(dialect.ShapeGroups, dialect.ShapeFlat, dialect.ShapeNamed, dialect.ShapeList, dialect.ShapePlugin), func(a Agent) bool {
		return a.Setup.Shape == dialect.ShapePlugin && len(a.Setup.Edits) == 0
	})
}

// Every installable agent has a valid setup, and is data in the form that this package expects.
func TestSetups(t *testing.T) {
	t.Parallel()
	for _, a := range slices.Concat(Agents(), ownRows) {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			s := a.Setup
			if s.Program == "" || a.Title == "" || s.User+s.Project == "" {
				t.Errorf("no program, no title or no file: %+v", s)
			}
			for _, file := range append([]string{s.User, s.Project, s.Dir}, s.Over...) {
				if strings.HasPrefix(file, "/") || strings.Contains(file, `\`) {
					t.Errorf("%q is not a path with slashes below a directory", file)
				}
			}
			if !strings.HasPrefix(s.User, s.Moves) {
				t.Errorf("Moves %q is not the first part of User %q", s.Moves, s.User)
			}
			w := Wanted{Agent: a, Hook: Hook{Program: "/opt/grapnel-hook", ID: tokenA}, Timeout: time.Minute, FailClosed: true}
			switch s.Shape {
			case dialect.ShapeFiles:
				for _, word := range []string{"$command", "$marker"} {
					if !strings.Contains(s.Entry, word) {
						t.Errorf("the file of an event has no %s", word)
					}
				}
				if len(s.Files) < 2 {
					t.Errorf("an event has the names %q: none is left when somebody else has the first", s.Files)
				}
			case dialect.ShapePlugin:
				if _, ok := shim.Files(a.Name, shim.Options{}); !ok && a.Name != plugged.Name {
					t.Error("contains no plugin")
				}
				if s.Deadline <= 0 {
					t.Error("the plugin would wait for no reply")
				}
			default:
				entry, err := w.entry(a.Events[0].Native)
				if err != nil {
					t.Fatalf("the entry cannot be read: %v", err)
				}
				if len(a.members("command")) == 0 || s.Shape == dialect.ShapeList && len(a.members("event")) == 0 {
					t.Errorf("the entry %v names no command or no event", entry)
				}
			}
			if v, err := expand("{"+s.Top+"}", nil, false); err != nil || v == nil {
				t.Errorf("Top cannot be read: %v", err)
			}
			for _, sw := range s.Off {
				if _, err := expand(sw.Is, nil, false); sw.Is != "" && err != nil || sw.Path == "" || sw.Effect == "" || sw.Names && sw.Is != "" {
					t.Errorf("%+v: %v", sw, err)
				}
			}
			for _, e := range s.Edits {
				if _, err := expand(e.Value, map[string]any{"dir": "/x"}, false); err != nil {
					t.Errorf("%+v: %v", e, err)
				}
			}
		})
	}
}

// others returns hooks of other programs in the place of Grapnel's entries, by shape.
func others(a Agent) string {
	entry := `{"command": "their-own-hook"}`
	event := a.Events[0].Native
	top := ""
	if a.Setup.Top != "" {
		top = a.Setup.Top + ", "
	}
	switch a.Setup.Shape {
	case dialect.ShapeFiles: // has no document
	case dialect.ShapeGroups:
		return "{\n  " + top + "\"hooks\": {\"" + event + "\": [{\"matcher\": \"x\", \"hooks\": [" + entry + "]}]},\n  \"a\": 1\n}\n"
	case dialect.ShapeFlat:
		return "{" + top + "\"hooks\": {\"" + event + "\": [" + entry + "]}}\n"
	case dialect.ShapeNamed:
		return "{\"theirs\": {\"enabled\": false, \"" + event + "\": [" + entry + "], \"PreToolUse\": [{\"matcher\": \"x\", \"hooks\": [" + entry + "]}]}}\n"
	case dialect.ShapeList:
		return "{" + top + "\"hooks\": [" + entry + "]}"
	case dialect.ShapePlugin:
		return "{\"plugins\": {\"load\": {\"paths\": [\"/theirs\"]}, \"allow\": [\"theirs\"], \"entries\": {\"theirs\": {\"enabled\": true}}}}\n"
	}
	return ""
}

// In every shape: entries of other programs stay, installing twice is the same as once, all
// requested entries exist, and uninstalling restores every byte.
//
// Proves: IC-43
func TestEveryShape(t *testing.T) {
	t.Parallel()
	for _, a := range slices.Concat(Agents(), ownRows) {
		if a.Name == plugged.Name { // has no plugin
			continue
		}
		for _, scope := range []Scope{User, Project, Managed} {
			for _, what := range []string{"nothing", "others"} {
				t.Run(a.Name+"/"+string(scope)+"/"+what, func(t *testing.T) {
					t.Parallel()
					m := newMachine(t)
					req := m.request(a.Name)
					req.Scope, req.ProjectDir, req.FailClosed = scope, m.project, true
					base := map[Scope]string{User: m.home, Project: m.project, Managed: m.system}[scope]
					file, err := a.Settings(scope, base, req.Env)
					if errors.Is(err, ErrUsage) {
						if _, err := Install(t.Context(), req); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "use --scope ") {
							t.Errorf("an agent without this layer: %v, want a usage error with those there are", err)
						}
						return
					} else if err != nil {
						t.Fatal(err)
					}
					theirs := file
					if a.Setup.Shape == dialect.ShapeFiles {
						theirs = filepath.Join(file, strings.ReplaceAll(a.Setup.Files[0], "$event", a.Events[1].Native))
					}
					if what == "others" && (a.Setup.Shape != dialect.ShapePlugin || len(a.Setup.Edits) > 0) {
						m.write(theirs, cmp.Or(others(a), "#!/bin/sh\nexec their-own-hook\n"))
					}
					before := tree(t, m.home, m.project, m.system)

					res := m.install(req)
					rec := res.record(t, m, scope)
					in, err := a.Installed(rec)
					if err != nil {
						t.Fatal(err)
					}
					var has []string
					for _, e := range in.Entries {
						if e.ID != rec.ID {
							t.Errorf("an entry with the token %q, want %q", e.ID, rec.ID)
						}
						has = append(has, e.Event)
					}
					want := slices.Sorted(slices.Values(rec.Events))
					if slices.Sort(has); !slices.Equal(has, want) || len(has) == 0 {
						t.Errorf("installed %v, want %v", has, want)
					}
					if what == "others" && before[theirs] != "" && !strings.Contains(m.read(theirs), "their") {
						t.Errorf("what others had is lost:\n%s", m.read(theirs))
					}

					once := tree(t, m.home, m.project, m.system, m.state)
					again := req
					again.Now = req.Now.Add(time.Hour)
					if res := m.install(again); res.Changed() || res.Applied {
						t.Errorf("installing twice: %+v", res.Files)
					}
					if diff := gocmp.Diff(once, tree(t, m.home, m.project, m.system, m.state)); diff != "" {
						t.Errorf("installing twice writes (-before +after):\n%s", diff)
					}

					out := req
					out.Now, out.Agents, out.All = req.Now.Add(2*time.Hour), nil, true
					m.uninstall(out)
					after := tree(t, m.home, m.project, m.system)
					for name := range after {
						if strings.HasPrefix(name, filepath.Join(m.system, "etc", "grapnel")) || name == filepath.Join(m.system, "etc") || name == m.system {
							delete(after, name) // files of Grapnel: backups, a lock
							delete(before, name)
						}
					}
					if diff := gocmp.Diff(before, after); diff != "" {
						t.Errorf("installing and uninstalling left (-before +after):\n%s", diff)
					}
					if _, err := os.Stat(filepath.Join(m.state, "plugins")); err == nil {
						t.Error("the plugin is left")
					}
				})
			}
		}
	}
}

// record returns the record of the Result.
func (r *Result) record(t *testing.T, m *machine, scope Scope) installation.Record {
	t.Helper()
	dir := m.state
	if scope == Managed {
		dir = installation.Managed(m.system)
	}
	rec, err := installation.Read(filepath.Join(dir, "installs"), r.Files[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestScripts(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := filepath.Join(m.home, ".scripts", "hooks")
	theirs := m.write(filepath.Join(dir, "PreToolUse.sh"), "#!/bin/sh\nexec theirs\n")
	m.install(m.request("scripts"))
	ours := filepath.Join(dir, "PreToolUse.bash")
	if text := m.read(ours); !strings.Contains(text, marker) || !strings.Contains(text, "exec "+m.program+" scripts PreToolUse --id ") {
		t.Errorf("%s holds\n%s", ours, text)
	}

	// The name is free again: Grapnel's file keeps its name and runs once.
	if err := os.Remove(theirs); err != nil {
		t.Fatal(err)
	}
	if res := m.install(m.request("scripts")); res.Changed() {
		t.Errorf("installed again: %+v", res.Files)
	}

	// Add an event, and remove it again.
	more := m.request("scripts")
	more.Events = map[string][]string{"scripts": {"Notification"}}
	m.install(more)
	extra := filepath.Join(dir, "Notification.sh")
	if !strings.Contains(m.read(extra), "scripts Notification") {
		t.Errorf("%s is not for the event", extra)
	}
	m.install(m.request("scripts"))
	if _, err := os.Stat(extra); err == nil {
		t.Error("the file of an event that nobody listens to is left")
	}

	// The user has changed the file, so Grapnel no longer treats it as its own.
	m.write(ours, "#!/bin/sh\n"+m.program+" scripts PreToolUse --id x && exec theirs\n")
	m.uninstall(m.request("scripts"))
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || entries[0].Name() != "PreToolUse.bash" {
		t.Errorf("left: %v, %v", entries, err)
	}

	for _, name := range []string{"PreToolUse.sh", "PreToolUse"} {
		m.write(filepath.Join(dir, name), "theirs")
	}
	_, err := Install(t.Context(), m.request("scripts"))
	if fe, ok := errors.AsType[*FileError](err); !ok || !strings.Contains(err.Error(), "PreToolUse.sh, PreToolUse.bash, PreToolUse") || fe.Hint == "" {
		t.Errorf("all names are taken: %v", err)
	}
}

// The entry goes into the file that overrides another one for an event. In another file it would
// disable other hooks or be disabled.
func TestOver(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	settings := m.write(filepath.Join(m.home, ".layered", "settings.json"), "{\n  \"a\": 1\n}\n")
	over := m.write(filepath.Join(m.home, ".layered", "hooks.json"), "{\n  // mine\n  \"PreToolUse\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"theirs\"}]}]\n}\n")
	legacy := m.write(filepath.Join(m.home, ".layered", "hooks", "hooks.json"), "{\"SessionStart\": []}")
	before := tree(t, m.home)
	res := m.install(m.request("layered"))
	if text := m.read(over); strings.Count(text, "grapnel-hook") != 1 || !strings.Contains(text, "layered PreToolUse") || !strings.Contains(text, "theirs") {
		t.Errorf("%s holds\n%s", over, text)
	}
	if text := m.read(settings); strings.Contains(text, "layered PreToolUse") || strings.Count(text, "grapnel-hook") != 3 {
		t.Errorf("%s holds\n%s", settings, text)
	}
	if strings.Contains(m.read(legacy), "grapnel") || len(res.Files) != 2 {
		t.Errorf("%s is read only without the other: %s, %+v", legacy, m.read(legacy), res.Files)
	}
	if res := m.install(m.request("layered")); res.Changed() {
		t.Errorf("installing twice: %+v", res.Files)
	}
	m.uninstall(m.request("layered"))
	if diff := gocmp.Diff(before, tree(t, m.home)); diff != "" {
		t.Errorf("left (-before +after):\n%s", diff)
	}
}

// If an agent trusts hooks by their position, the hooks of other programs keep their positions.
func TestKeep(t *testing.T) {
	t.Parallel()
	w := wanted(t, "keeper", "PreToolUse")
	w.Current = []byte(`{"hooks": {"PreToolUse": [{"hooks": [{"command": "first"}]}]}}`)
	c := mustPlan(t, w)
	behind := bytes.Replace(c.After, []byte(`]}]}}`), []byte(`]}, {"hooks": [{"command": "last"}]}]}}`), 1)
	if bytes.Equal(behind, c.After) {
		t.Fatalf("nothing to put a group behind in %s", c.After)
	}
	// A changed entry stays in its place.
	w.Current, w.Made, w.Timeout = behind, &c.Made, time.Second
	changed := mustPlan(t, w)
	if want := bytes.Replace(behind, []byte(`"timeout": 60`), []byte(`"timeout": 1`), 1); !bytes.Equal(changed.After, want) {
		t.Errorf("updated\n%s\ngot\n%s", behind, changed.After)
	}
	out, err := PlanRemove(keeper, "settings.json", behind, &c.Made)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"hooks": {"PreToolUse": [{"hooks": [{"command": "first"}]}, {"hooks": []}, {"hooks": [{"command": "last"}]}]}}`; string(out.After) != want {
		t.Errorf("got  %s\nwant %s", out.After, want)
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	w := wanted(t, "folding", "PreToolUse", "PostToolUse")
	w.Current = []byte(`{"hooks": {"pre_tool_use": [{"command": "theirs"}]}}`)
	c := mustPlan(t, w)
	if text := string(c.After); strings.Contains(text, `"PreToolUse"`) || strings.Contains(text, "matcher") || strings.Count(text, "grapnel-hook") != 2 {
		t.Errorf("got %s", text)
	}
	if in, err := folding.Inspect(w.File, c.After); err != nil || len(in.Entries) != 2 || in.Entries[0].Event != "PreToolUse" {
		t.Errorf("found %+v, %v", in, err)
	}
}

// Files that their agents would ignore, also because of Grapnel's own entries, with hints.
func TestShapesRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ agent, text, want string }{
		"a comment in a string":   {"flat", `{"version": 1, "a": "http://x"}`, `settings.json:1:21: a string contains // or /*: The flat reads that as a comment`},
		"a comment begins there":  {"flat", "{\"version\": 1,\n\"/*\": 1}", `settings.json:2:1: a string contains // or /*`},
		"hooks without a version": {"flat", `{"hooks": {"PreToolUse": [{"command": "x"}]}}`, `settings.json:1:1: the file has hooks but no "version", so The flat ignores all of it; add {"version": 1}`},
		"a list that is none":     {"listed", `{"version": "v1", "hooks": {}}`, `settings.json:1:28: "hooks" is not a list`},
		"plugins are a list":      {"plugged", `{"plugins": []}`, `settings.json:1:13: "plugins" is not an object`},
		"JSON5":                   {"plugged", `{plugins: {}}`, `settings.json:1:2: not valid JSON: invalid literal; The plugged may accept this, but Grapnel can only edit JSON with comments: convert the file`},
		"a comma of JSON5":        {"plugged", `{"a": 1,}`, `settings.json:1:8: a comma after the last item: Grapnel can only edit JSON with comments; remove the comma`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := wanted(t, tt.agent, "PreToolUse")
			w.Current = []byte(tt.text)
			_, err := Plan(w)
			if fe, ok := errors.AsType[*FileError](err); !ok || !strings.Contains(err.Error(), tt.want) || fe.Hint == "" {
				t.Errorf("Plan in %s: %v, want a FileError with %q", tt.text, err, tt.want)
			}
		})
	}
	w := wanted(t, "flat", "PreToolUse")
	w.Hook.Program = "//opt/grapnel-hook"
	if _, err := Plan(w); !errors.Is(err, ErrUsage) {
		t.Errorf("a path that the agent takes for a comment: %v", err)
	}
}

// A note names the entry for which a strict agent ignores the whole file, for any author.
func TestStrictNotes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"version": 1, "hooks": {"NoSuch": []}}`:                              `unknown event "NoSuch", so The flat ignores the whole file`,
		`{"version": 1, "hooks": {"PreToolUse": [{"timeout": 1}]}}`:            "this hook has no command",
		`{"version": 1, "hooks": {"PreToolUse": [{"hooks": []}]}}`:             "this hook has hooks inside",
		`{"version": 1, "hooks": {"PreToolUse": [7]}}`:                         "this hook is not an object",
		`{"version": 1, "hooks": {"PreToolUse": [{"command": "their-hook"}]}}`: "",
	} {
		w := wanted(t, "flat", "PreToolUse")
		w.Current = []byte(text)
		if got := strings.Join(mustPlan(t, w).Notes, "\n"); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: notes %q, want %q", text, got, want)
		}
	}
}

func TestNoLink(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	elsewhere := m.write(filepath.Join(m.home, "hooks.json"), "{}")
	if err := os.Mkdir(filepath.Join(m.project, ".flat"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(m.project, ".flat", "hooks.json")); err != nil {
		if runtime.GOOS != "windows" {
			t.Fatal(err)
		}
		t.Skip(err) // links need a privilege there
	}
	req := m.request("flat")
	req.Scope, req.ProjectDir = Project, m.project
	if _, err := Install(t.Context(), req); err == nil || !strings.Contains(err.Error(), "does not follow links for hooks of a project") {
		t.Errorf("a link in the project: %v", err)
	}
	if m.read(elsewhere) != "{}" {
		t.Error("the file behind the link was changed")
	}
}

// Grapnel does not create a list of allowed plugins, because the list would disable all others.
func TestPluginEdits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{`{}`: false, `{"plugins": {"allow": []}}`: true, `{"plugins": {"allow": ["x"]}}`: true, `{"plugins": {}}`: false} {
		w := wanted(t, "plugged", "PreToolUse")
		w.Current = []byte(text)
		c := mustPlan(t, w)
		if got := strings.Contains(string(c.After), `"allow"`); got != want {
			t.Errorf("%s became %s", text, c.After)
		}
	}
}

// If one file of an installation cannot be written, none is written.
func TestAllOrNothing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	config := m.write(filepath.Join(m.home, ".openclaw", "openclaw.json"), "{}\n")
	before := tree(t, m.home)
	req := m.request("openclaw")
	req.Confirm = func(*Result, []FileResult) (bool, error) { m.write(config, "{ }\n"); return true, nil }
	if _, err := Install(t.Context(), req); !errors.Is(err, ErrChanged) {
		t.Fatalf("the file changed in the meantime: %v", err)
	}
	m.write(config, "{}\n")
	if diff := gocmp.Diff(before, tree(t, m.home)); diff != "" {
		t.Errorf("left (-before +after):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(m.state, "plugins")); err == nil || len(m.records()) != 0 {
		t.Errorf("the plugin or the record is left: %v", m.records())
	}
}

// If an installation is killed at any write, the next one completes it, and it can be removed
// completely.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, agent := range []string{"scripts", "openclaw", "layered", "own"} {
		whole := newMachine(t)
		res := whole.install(whole.request(agent))
		for kept := range len(res.Files) + 1 {
			for _, finish := range []bool{true, false} {
				m := newMachine(t)
				before := tree(t, m.home)
				m.install(m.request(agent))
				rec := m.records()[0]
				// As if it had been killed: only the first of its files exist.
				files := []string{}
				for _, f := range rec.Files {
					files = append(files, f.Path)
				}
				if agent != "scripts" {
					files = append(files, rec.Settings)
				}
				for _, file := range files[min(kept, len(files)):] {
					if err := os.Remove(file); err != nil {
						t.Fatal(err)
					}
				}
				if finish {
					m.install(m.request(agent))
					a, _ := lookup(slices.Concat(Agents(), ownRows), agent)
					if in, err := a.Installed(m.records()[0]); err != nil || len(in.Entries) != len(rec.Events) || m.records()[0].ID != rec.ID {
						t.Errorf("%s, %d files: finished to %+v, %v", agent, kept, in, err)
					}
				}
				m.uninstall(m.request(agent))
				after := tree(t, m.home)
				for name, what := range after {
					if strings.HasPrefix(what, "d") && !finish {
						delete(after, name) // empty directories may stay
						delete(before, name)
					}
				}
				if diff := gocmp.Diff(before, after); diff != "" {
					t.Errorf("%s, %d files, finished %v: left (-before +after):\n%s", agent, kept, finish, diff)
				}
				if len(m.records()) != 0 {
					t.Errorf("%s: records left", agent)
				}
			}
		}
	}
}

// Without names on the command line, an agent whose file cannot be edited does not prevent the
// installation into the others.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(filepath.Join(m.home, ".keeper", "hooks.json"), "{")
	m.write(filepath.Join(m.home, ".flat", "hooks.json"), "")
	res := m.install(m.request())
	if len(res.Files) != 1 || res.Files[0].Agent != "flat" || len(res.Skipped) != 1 || res.Skipped[0].Agent != "keeper" || res.Skipped[0].Reason == "" {
		t.Errorf("got %+v", res)
	}
	if _, err := Install(t.Context(), m.request("keeper", "flat")); err == nil {
		t.Error("an agent that was named is left out without an error")
	}
}

func TestSwitchesAndTodo(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(filepath.Join(m.home, ".keeper", "config.toml"), "[features]\nhooks = false\n")
	m.write(filepath.Join(m.project, ".keeper", "config.toml"), "features = 1 x\n")
	req := m.request("keeper")
	req.Scope, req.ProjectDir = Project, m.project
	notes := strings.Join(m.install(req).Files[0].Notes, "\n")
	for _, want := range []string{
		filepath.Join(m.home, ".keeper", "config.toml") + ": features.hooks is false, which switches all hooks off",
		"cannot read " + filepath.Join(m.project, ".keeper", "config.toml"),
		"open keeper and trust " + filepath.Join(m.project, ".keeper", "hooks.json"), "trust the project, too",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in\n%s", want, notes)
		}
	}
}

// All users can read the files of an installation by root, and only root can write them.
func TestManaged(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	req := m.request("claude")
	req.Scope = Managed
	res := m.install(req)
	rec := res.record(t, m, Managed)
	if rec.Scope != "managed" || rec.Policy != "" || rec.State != "" || !strings.HasPrefix(rec.Settings, m.system) {
		t.Errorf("record %+v", rec)
	}
	if len(m.records()) != 0 {
		t.Errorf("the user has records: %v", m.records())
	}
	if runtime.GOOS != "windows" {
		etc := filepath.Join(m.system, "etc")
		for name, want := range map[string]fs.FileMode{
			rec.Settings: 0o644, filepath.Dir(rec.Settings): 0o755 | fs.ModeDir, filepath.Join(etc, "grapnel"): 0o755 | fs.ModeDir,
			filepath.Join(etc, "grapnel", "installs"): 0o755 | fs.ModeDir, filepath.Join(etc, "grapnel", "installs", rec.ID+".json"): 0o644,
		} {
			if info, err := os.Stat(name); err != nil || info.Mode() != want {
				t.Errorf("%s: %v, %v, want %v", name, info.Mode(), err, want)
			}
		}
	}
	user := m.request("claude")
	if notes := strings.Join(m.install(user).Files[0].Notes, "\n"); !strings.Contains(notes, rec.Settings+" for every user, so Claude Code sends each event twice") {
		t.Errorf("a second installation is not named:\n%s", notes)
	}
	all := m.request()
	all.All = true
	if notes := strings.Join(m.uninstall(all).Notes, "\n"); !strings.Contains(notes, "grapnel uninstall --all --scope managed") {
		t.Errorf("what stays is not named:\n%s", notes)
	}
	all.Scope = Managed
	if res := m.uninstall(all); !res.Applied || !res.Files[0].Removed {
		t.Errorf("uninstall: %+v", res)
	}

	if os.Geteuid() != 0 && runtime.GOOS != "windows" { // root is allowed to, and would install
		req.System = "/"
		if _, err := Install(t.Context(), req); err == nil || !strings.Contains(err.Error(), "run the command as root") {
			t.Errorf("without root: %v", err)
		}
	}
}

// A record of version 0.1.0, which had one file and one shape.
func TestOldRecord(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	file := m.write(filepath.Join(m.home, ".claude", "settings.json"), `{"hooks": {"Stop": [
  {"hooks": [{"type": "command", "command": "/x/grapnel-hook --id `+tokenA+`", "timeout": 60}]}]}}`)
	m.write(filepath.Join(m.state, "installs", tokenA+".json"), `{"id": "`+tokenA+`", "agent": "claude-code", "scope": "user", "settings": "`+filepath.ToSlash(file)+`",
  "program": "/x/grapnel-hook", "policy": "/p", "state": "/s", "events": ["Stop"], "timeout_ms": 60000, "made": {"events": ["Stop"], "gaps": {"hooks": " "}}, "time": "2026-11-20T12:00:00Z"}`)
	if runtime.GOOS == "windows" {
		t.Skip("the path of this record is not of Windows")
	}
	m.uninstall(m.request("claude"))
	if got := m.read(file); got != `{"hooks": { }}` || len(m.records()) != 0 {
		t.Errorf("got %s, records %v", got, m.records())
	}
}

// An installation into a file that Codex discards returns a note.
func TestTops(t *testing.T) {
	t.Parallel()
	w := wanted(t, "codex", "PreToolUse")
	w.Current = []byte("{\n  \"description\": \"x\",\n  \"theme\": 1\n}\n")
	c, err := Plan(w)
	if err != nil || len(c.Notes) != 1 || !strings.Contains(c.Notes[0], `settings.json:3: "theme" is not allowed here, so Codex CLI ignores the whole file`) {
		t.Errorf("got %v, %v", c, err)
	}
}

// Two OpenClaw installations, of which a variable has moved one: each has a plugin with its own
// token, and uninstalling one does not affect the files of the other. Earlier they shared a
// plugin: the second installation then named a missing plugin, and --all failed.
func TestTwoPlugins(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	before := tree(t, m.home)
	first := m.install(m.request("openclaw"))
	m.env["OPENCLAW_CONFIG_PATH"] = filepath.Join(m.home, "moved", "claw.json")
	second := m.install(m.request("openclaw"))
	if !first.Applied || !second.Applied || len(m.records()) != 2 {
		t.Fatalf("got %+v, %+v", first, second)
	}
	plugins := map[string]bool{}
	for _, f := range append(first.Files, second.Files...) {
		if plugins[f.File] {
			t.Errorf("%s is of both", f.File)
		}
		plugins[f.File] = true
	}
	if again := m.install(m.request("openclaw")); again.Changed() {
		t.Errorf("to install again changes %+v", again)
	}
	whole := tree(t, filepath.Dir(first.Files[0].File))
	m.uninstall(m.request("openclaw"))
	for name, was := range tree(t, filepath.Dir(first.Files[0].File)) {
		if whole[name] != was {
			t.Errorf("%s of the other was changed", name)
		}
	}
	if recs := m.records(); len(recs) != 1 {
		t.Fatalf("records %+v", recs)
	}
	m.install(m.request("openclaw"))
	delete(m.env, "OPENCLAW_CONFIG_PATH")
	req := m.request()
	req.All = true
	m.uninstall(req)
	if diff := gocmp.Diff(before, tree(t, m.home)); diff != "" {
		t.Errorf("after --all (-want +got):\n%s", diff)
	}
	for name := range tree(t, filepath.Join(m.state, "plugins")) {
		if strings.HasSuffix(name, "js") {
			t.Errorf("%s is left", name)
		}
	}
}

// Files that must be executable are executable.
func TestFilesAreExecutable(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("it has no such bits")
	}
	m := newMachine(t)
	for scope, want := range map[Scope]fs.FileMode{User: 0o700, Project: 0o755} {
		req := m.request("cline")
		req.Scope, req.ProjectDir = scope, m.project
		for _, f := range m.install(req).Files {
			if info, err := os.Stat(f.File); err != nil || info.Mode().Perm() != want && info.Mode().Perm() != want&^0o022 {
				t.Errorf("%s: %v, %v, want %v", f.File, info.Mode(), err, want)
			}
		}
	}
}

// After a killed installation, the next installation removes its temporary files.
func TestKilledInstallation(t *testing.T) {
	t.Parallel()
	for name, uninstall := range map[string]bool{"installed again": false, "uninstalled": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			before := tree(t, m.home)
			file := m.install(m.request("copilot-cli")).Files[0].File
			// As if it had been killed between writing and renaming the new file.
			left := filepath.Join(filepath.Dir(file), ".grapnel-ABCDEFGH2345.tmp")
			theirs := m.write(filepath.Join(m.home, ".grapnel-notes.tmp"), "mine")
			if err := os.Rename(file, left); err != nil {
				t.Fatal(err)
			}
			if !uninstall {
				m.install(m.request("copilot-cli"))
				if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is left: %v", left, err)
				}
			}
			m.uninstall(m.request("copilot-cli"))
			if err := os.Remove(theirs); err != nil {
				t.Error(err)
			}
			if diff := gocmp.Diff(before, tree(t, m.home)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// An invalid request writes no file, not even the lock.
func TestUsageComesBeforeTheLock(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	req := m.request("openclaw")
	req.Scope, req.ProjectDir = Project, m.project
	if _, err := Install(t.Context(), req); !errors.Is(err, ErrUsage) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(m.state); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a state: %v", err)
	}
}
