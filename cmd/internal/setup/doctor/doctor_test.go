package doctor

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/internal/pause"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
)

var update = flag.Bool("update", false, "rewrite the golden report")

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// well returns a world without problems: one agent, installed for the user.
func well(d *dialect.Dialect) *facts {
	file := "/home/ann/" + d.Setup().User
	rec := installation.Record{
		ID: strings.Repeat("a", 26), Agent: d.Name, Scope: "user", Settings: file, Program: "/usr/bin/grapnel-hook", Path: "/usr/bin",
		Events: []string{nativeOf(d, grapnel.ToolBefore)}, TimeoutMS: 60_000, Version: "1", Time: now.AddDate(0, 0, -1),
	}
	top := map[string]any{}
	if strings.Contains(d.Setup().Top, "version") {
		top["version"] = 1.0
	}
	return &facts{
		now: now, version: "1", program: "/usr/bin/grapnel-hook", dir: "/home/ann/project", records: []installation.Record{rec}, since: now.AddDate(0, 0, -7),
		policies: []load.Loaded{{File: "/home/ann/.config/grapnel/grapnel.yaml", State: load.Valid}},
		specs:    []grapnel.Spec{{Name: "guard", On: []grapnel.Kind{grapnel.ToolBefore}}},
		agents: []agent{{
			Dialect: d, program: "/usr/bin/" + d.Setup().Program, dir: filepath.Dir(file), version: "9.9.9", last: now, lastUsed: now,
			installs: []installed{{Record: rec, program: program{version: "1"}}},
			layers:   []layer{{scope: "user", file: file, is: true, tree: top, hooks: []install.Found{ours(d)}}},
			latency:  &latency{event: "X", runs: 20, median: 3 * time.Millisecond, most: 4 * time.Millisecond, floor: time.Millisecond, wait: time.Minute},
		}},
		before: &memory{Version: 1, Time: now.AddDate(0, 0, -1), Looked: []string{d.Name + " " + file}},
	}
}

func nativeOf(d *dialect.Dialect, kind grapnel.Kind) string {
	i := slices.IndexFunc(d.Events, func(r dialect.EventRow) bool { return r.Kind == kind && r.Install })
	return d.Events[i].Native
}

func ours(d *dialect.Dialect) install.Found {
	return install.Found{Event: nativeOf(d, grapnel.ToolBefore), Command: "grapnel-hook", Entry: json.RawMessage(`{"command":"grapnel-hook"}`), Ours: true, ID: strings.Repeat("a", 26)}
}

func other(event, command string) install.Found {
	return install.Found{Event: event, Command: command, Entry: json.RawMessage(`{"command":` + raw(command) + `}`), Group: 1}
}

func daemonOf(version string, well bool) *server.Found {
	return &server.Found{PID: 7, Health: map[string]json.RawMessage{"version": json.RawMessage(raw(version))}, Well: well}
}

// A daemon is not required.
func TestNoDaemon(t *testing.T) {
	t.Parallel()
	for _, err := range []error{nil, server.ErrAbsent, fmt.Errorf("x: %w", server.ErrAbsent)} {
		if found := judgeDaemon(&facts{daemon: daemon{err: err}}); found != nil {
			t.Errorf("%v: %+v", err, found)
		}
	}
}

func tree(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func find(t *testing.T, name string) *dialect.Dialect {
	t.Helper()
	d, ok := dialect.Find(name)
	if !ok {
		t.Fatalf("there is no dialect %s", name)
	}
	return d
}

// A machine without problems has no findings, for every agent.
func TestWell(t *testing.T) {
	t.Parallel()
	for _, a := range install.Agents() {
		if a.Setup.Shape == dialect.ShapeFiles {
			continue
		}
		f := well(a.Dialect)
		switch a.Name {
		case "codex":
			f.agents[0].layers = append(f.agents[0].layers, layer{scope: "user", rel: ".codex/config.toml", tree: map[string]any{"hooks": map[string]any{"state": map[string]any{
				f.records[0].Settings + ":pre_tool_use:0:0": map[string]any{"trusted_hash": codexHash(ours(a.Dialect))},
			}}}})
		case "openclaw":
			f.agents[0].layers[0].tree = tree(t, `{"plugins":{"allow":["grapnel"],"entries":{"grapnel":{"enabled":true,"hooks":{"allowConversationAccess":true}}}}}`)
		}
		found, _ := judge(f)
		for _, finding := range found {
			if finding.Level >= Warn {
				t.Errorf("%s: %+v", a.Name, finding)
			}
		}
		if !slices.ContainsFunc(found, func(f Finding) bool { return f.ID == "install.good" && f.Level == OK }) {
			t.Errorf("%s: nothing says that it is installed well: %+v", a.Name, found)
		}
	}
}

// Each problem is found at its level, with a hint if a fix is known.
func TestJudge(t *testing.T) {
	t.Parallel()
	claude := dialect.ClaudeCode()
	for name, tt := range map[string]struct {
		agent   *dialect.Dialect
		spoil   func(t *testing.T, f *facts, a *agent)
		id      string
		level   Level
		what    string // text in What
		hint    string // text in Hint
		nothing bool   // there must be no such finding
	}{
		"no policy": {claude, func(_ *testing.T, f *facts, _ *agent) { f.policies[0].State, f.specs = load.Absent, nil }, "policy.absent", Warn, "grapnel.yaml", "grapnel init", false},
		"no policy of one's own, but a managed one": {claude, func(_ *testing.T, f *facts, _ *agent) { f.policies[0].State = load.Absent }, "policy.absent", Warn, "", "", true},
		"broken policy": {claude, func(_ *testing.T, f *facts, _ *agent) {
			f.policies[0].State, f.policies[0].Notice = load.Broken, "tools are blocked"
		}, "policy.broken", Bad, "tools are blocked", "grapnel check", false},
		"expired policy": {claude, func(_ *testing.T, f *facts, _ *agent) {
			f.policies = append(f.policies, load.Loaded{File: "/etc/grapnel/policy.d/signed.yaml", Scope: "managed", State: load.Valid, Revision: 42, Expires: now})
		}, "policy.expired", Warn, "revision 42 of /etc/grapnel/policy.d/signed.yaml expired", "bundle pull", false},
		"expired policy of a user": {claude, func(_ *testing.T, f *facts, _ *agent) { f.policies[0].Revision, f.policies[0].Expires = 42, now }, "policy.expired", Warn, "", "", true},
		"a hook that takes longer than the agent waits": {claude, func(_ *testing.T, f *facts, _ *agent) {
			f.specs = append(f.specs, grapnel.Spec{Name: "tests-pass", On: []grapnel.Kind{grapnel.AgentAfter}, Timeout: 5 * time.Minute})
		}, "install.timeout", Warn, "hooks of the policy may take 5m, but Claude Code waits 1m", "grapnel install claude-code", false},
		"lost records": {claude, func(_ *testing.T, f *facts, _ *agent) {
			f.losses = spool.Losses{Replies: 3, First: now.Add(-time.Hour), Last: now, Error: "no space left on device"}
		}, "log.lost", Bad, "no space left on device", "free space", false},
		"no records": {claude, func(_ *testing.T, f *facts, _ *agent) { f.unwritable = errors.New("read-only file system") }, "log.unwritable", Bad, "read-only file system", "writable", false},
		"rootless":   {claude, func(_ *testing.T, f *facts, _ *agent) { f.rootless, f.lastRootless = 3, now }, "sessions.rootless", Warn, "3 events", "seven days", false},
		"roomless":   {claude, func(_ *testing.T, f *facts, _ *agent) { f.roomless, f.lastRoomless = 3, now }, "state.full", Warn, "3 counts", "new session", false},
		"homeless":   {claude, func(_ *testing.T, f *facts, _ *agent) { f.homeless = errors.New("user 7 is unknown") }, "user.home", Warn, "user 7 is unknown", "/etc/grapnel/home", false},
		"pause":      {claude, func(_ *testing.T, f *facts, _ *agent) { f.paused = now.Add(time.Hour) }, "policy.paused", Warn, "only observe", "--off", false},
		"sandbox":    {claude, func(_ *testing.T, f *facts, _ *agent) { f.boxes = []box{{hook: "g", holds: "sandbox: reads x"}} }, "sandbox.held", OK, "hook g, sandbox: reads x", "", false},
		"no sandbox": {claude, func(_ *testing.T, f *facts, _ *agent) {
			f.boxes = []box{{hook: "g", missing: errors.New("cannot be sandboxed here: no")}}
		}, "sandbox.missing", Bad, "hook g cannot be sandboxed here: no", "required: false", false},
		"no sandbox, and none needed": {claude, func(_ *testing.T, f *facts, _ *agent) {
			f.boxes = []box{{hook: "g", missing: errors.New("cannot be sandboxed here: no"), optional: true}}
		}, "sandbox.missing", Warn, "hook g runs, but cannot be sandboxed here", "", false},
		"a daemon":                    {claude, func(_ *testing.T, f *facts, _ *agent) { f.daemon.found = daemonOf("1", true) }, "daemon.running", OK, "process 7, version 1", "", false},
		"a daemon of another version": {claude, func(_ *testing.T, f *facts, _ *agent) { f.daemon.found = daemonOf("2", true) }, "daemon.version", Warn, "version 2; this program is 1", "grapnel daemon restart", false},
		"a daemon with a broken part": {claude, func(_ *testing.T, f *facts, _ *agent) { f.daemon.found = daemonOf("1", false) }, "daemon.ill", Warn, "one of its parts", "grapnel daemon status", false},
		"a dead daemon":               {claude, func(_ *testing.T, f *facts, _ *agent) { f.daemon.err = server.ErrDead }, "daemon.dead", Warn, "has died", "grapnel daemon start", false},
		"a daemon that hangs": {claude, func(_ *testing.T, f *facts, _ *agent) {
			f.daemon.found, f.daemon.err = &server.Found{PID: 7}, fmt.Errorf("%w: timeout", server.ErrSilent)
		}, "daemon.silent", Warn, "does not respond: timeout", "grapnel daemon restart", false},
		"a daemon of somebody": {claude, func(_ *testing.T, f *facts, _ *agent) { f.daemon.err = errors.New("user 9 listens") }, "daemon.refused", Bad, "user 9 listens", "grapnel daemon status", false},
		"grant":                {claude, func(_ *testing.T, f *facts, _ *agent) { f.unlogged = []string{"grant 1 was not made"} }, "log.grant", Bad, "grant 1 was not made", "allow --list", false},
		"torn log":             {claude, func(_ *testing.T, f *facts, _ *agent) { f.torn, f.lastTorn = 2, "records.jsonl:7: torn line" }, "log.torn", Info, "2 incomplete lines in the log, the last: records.jsonl:7", "", false},
		"edited snapshot": {claude, func(_ *testing.T, f *facts, _ *agent) {
			f.damaged = []load.Corruption{{File: "/s/x.json", What: "the snapshot lies", Hint: "rm /s/x.json"}}
		}, "policy.damaged", Bad, "the snapshot lies", "rm /s/x.json", false},
		"unreadable record": {claude, func(_ *testing.T, f *facts, _ *agent) { f.broken = []string{"x: EOF"} }, "install.unreadable", Bad, "x: EOF", "", false},
		"installed nowhere": {claude, func(_ *testing.T, f *facts, a *agent) { f.records, a.installs = nil, nil }, "install.nowhere", Warn, "", "grapnel install", false},
		"unreadable log":    {claude, func(_ *testing.T, f *facts, _ *agent) { f.logError = "no" }, "log.unreadable", Warn, "no", "", false},
		"silent guard": {claude, func(_ *testing.T, f *facts, _ *agent) {
			f.failing = []failing{{name: "g", errors: 3, timeouts: 1, opened: 2, last: now, why: "exit code 3"}}
		}, "guard.failed", Warn, "g did not answer 3 times since 2026-11-13, last ", "grapnel log --hook g", false},
		"silent guard of the past": {claude, func(_ *testing.T, f *facts, _ *agent) {
			f.failing = []failing{{name: "g", errors: 3, last: now, why: "exit code 3", gone: true}}
		}, "guard.failed", Info, "g did not answer 3 times", "grapnel log --hook g", false},
		"not installed":     {claude, func(_ *testing.T, _ *facts, a *agent) { a.installs = nil }, "install.none", Info, "", "grapnel install claude-code", false},
		"named, not there":  {claude, func(_ *testing.T, _ *facts, a *agent) { *a = agent{Dialect: claude, named: true} }, "agent.absent", Warn, "", "", false},
		"not there":         {claude, func(_ *testing.T, _ *facts, a *agent) { *a = agent{Dialect: claude} }, "agent.absent", Info, "", "", false},
		"a project's agent": {claude, func(_ *testing.T, _ *facts, a *agent) { a.inside = true }, "agent.inside", Warn, "/usr/bin/claude", "PATH", false},
		"mute agent":        {claude, func(_ *testing.T, _ *facts, a *agent) { a.mute = "took too long" }, "agent.mute", Info, "took too long", "", false},
		"settings gone":     {claude, func(_ *testing.T, _ *facts, a *agent) { a.installs[0].void = "settings.json is gone" }, "install.void", Bad, "is gone", "grapnel install claude-code --scope user", false},
		"entries missing":   {claude, func(_ *testing.T, _ *facts, a *agent) { a.installs[0].missing = []string{"Stop", "PreToolUse"} }, "install.missing", Bad, "for Stop, PreToolUse", "--scope user", false},
		"older entries":     {claude, func(_ *testing.T, _ *facts, a *agent) { a.installs[0].stale = "2 lines" }, "install.stale", Warn, "settings.json", "--scope user", false},
		"a user on a managed machine": {claude, func(_ *testing.T, _ *facts, a *agent) {
			a.installs[0].Scope, a.installs[0].cannot = "managed", "only root can"
		}, "install.unsure", Info, "only root can", "", false},
		"who knows":          {claude, func(_ *testing.T, _ *facts, a *agent) { a.installs[0].cannot = "no plan" }, "install.unsure", Warn, "no plan", "", false},
		"moved settings":     {claude, func(_ *testing.T, _ *facts, a *agent) { a.installs[0].now = "/elsewhere" }, "install.moved", Warn, "/elsewhere", "", false},
		"program gone":       {claude, func(_ *testing.T, _ *facts, a *agent) { a.installs[0].program.gone = true }, "program.gone", Bad, "/usr/bin/grapnel-hook is gone", "grapnel install", false},
		"program dead":       {claude, func(_ *testing.T, _ *facts, a *agent) { a.installs[0].program.cannot = "its mode is 0600" }, "program.dead", Bad, "0600", "", false},
		"another version":    {claude, func(_ *testing.T, _ *facts, a *agent) { a.installs[0].program.version = "0" }, "program.version", Warn, "version 0, this program has 1", "", false},
		"of another version": {claude, func(_ *testing.T, _ *facts, a *agent) { a.installs[0].program.version, a.installs[0].Version = "", "0" }, "install.version", Warn, "version 0, this program has 1", "", false},
		"program open":       {claude, func(_ *testing.T, _ *facts, a *agent) { a.installs[0].program.open = "/usr/bin" }, "program.open", Bad, "/usr/bin is writable", "chmod go-w /usr/bin", false},
		"no PATH":            {claude, func(_ *testing.T, _ *facts, a *agent) { a.installs[0].Path = "" }, "install.path", Warn, "no PATH", "", false},
		"relative PATH": {claude, func(_ *testing.T, _ *facts, a *agent) {
			a.installs[0].Path = "/bin" + string(filepath.ListSeparator) + "bin"
		}, "install.path", Warn, `"bin"`, "", false},
		"a copy": {claude, func(_ *testing.T, _ *facts, a *agent) {
			a.layers = append(a.layers, layer{scope: "project", file: "/p/settings.json", is: true, hooks: []install.Found{ours(claude)}})
		}, "install.copy", Bad, "/p/settings.json repeats", "remove", false},
		"a stray": {claude, func(_ *testing.T, _ *facts, a *agent) {
			h := ours(claude)
			h.ID = strings.Repeat("b", 26)
			a.layers = append(a.layers, layer{scope: "project", file: "/p/settings.json", is: true, hooks: []install.Found{h}})
		}, "install.stray", Warn, "/p/settings.json", "", false},
		"two that meet": {claude, func(_ *testing.T, f *facts, a *agent) {
			a.installs = append(a.installs, installed{Record: installation.Record{Scope: "project", Project: "/home/ann", Settings: "/x", Path: "/bin"}})
		}, "install.twice", Warn, "from /home/ann/.claude/settings.json and from /x", "uninstall claude-code --scope project", false},
		"one of the user and a managed one": {claude, func(_ *testing.T, f *facts, a *agent) {
			a.installs = append(a.installs, installed{Record: installation.Record{Scope: "managed", Settings: "/etc/x", Path: "/bin"}})
		}, "install.twice", Warn, "and from /etc/x", "uninstall claude-code --scope user", false},
		"two that do not meet": {claude, func(_ *testing.T, f *facts, a *agent) {
			a.installs = append(a.installs, installed{Record: installation.Record{Scope: "project", Project: "/elsewhere", Settings: "/x", Path: "/bin"}})
		}, "install.twice", Warn, "", "", true},
		"switched off": {claude, func(t *testing.T, _ *facts, a *agent) { a.layers[0].tree = tree(t, `{"disableAllHooks": true}`) }, "settings.off", Bad, "disableAllHooks is true", "set it to false", false},
		"switched off, but Grapnel is managed": {claude, func(t *testing.T, _ *facts, a *agent) {
			a.layers[0].tree, a.installs[0].Scope = tree(t, `{"disableAllHooks": true}`), "managed"
		}, "settings.off", Info, "disableAllHooks is true", "", false},
		"switched off by an administrator": {claude, func(t *testing.T, _ *facts, a *agent) {
			a.layers[0].tree, a.layers[0].scope, a.installs[0].Scope = tree(t, `{"disableAllHooks": true}`), "managed", "managed"
		}, "settings.off", Bad, "disableAllHooks is true", "set it to false", false},
		"switched on": {claude, func(t *testing.T, _ *facts, a *agent) { a.layers[0].tree = tree(t, `{"disableAllHooks": false}`) }, "settings.off", Bad, "", "", true},
		"code for the hook": {claude, func(t *testing.T, _ *facts, a *agent) {
			a.layers = append(a.layers, layer{scope: "project", rel: ".claude/settings.local.json", tree: tree(t, `{"env": {"BASH_ENV": "x"}}`)})
		}, "settings.off", Bad, `env.BASH_ENV is "x"`, "remove it", false},
		"named in a list": {dialect.GeminiCLI(), func(t *testing.T, _ *facts, a *agent) {
			a.layers[0].tree = tree(t, `{"hooksConfig": {"disabled": ["x", "grapnel"]}}`)
		}, "settings.off", Bad, "hooksConfig.disabled", "take it off", false},
		"others in a list": {dialect.GeminiCLI(), func(t *testing.T, _ *facts, a *agent) {
			a.layers[0].tree = tree(t, `{"hooksConfig": {"disabled": ["x"]}}`)
		}, "settings.off", Bad, "", "", true},
		"features off": {dialect.Codex(), func(t *testing.T, _ *facts, a *agent) {
			a.layers = append(a.layers, layer{scope: "user", rel: ".codex/config.toml", tree: tree(t, `{"features": {"hooks": false}}`)})
		}, "settings.off", Bad, "features.hooks is false", "", false},
		"unreadable settings": {claude, func(_ *testing.T, _ *facts, a *agent) {
			a.layers = append(a.layers, layer{scope: "project", file: "/p", is: true, err: "/p: EOF"})
		}, "settings.unreadable", Warn, "/p: EOF", "", false},
		"not trusted by Codex": {dialect.Codex(), func(*testing.T, *facts, *agent) {}, "trust.hooks", Bad, "PreToolUse", "/hooks", false},
		"switched off in Codex": {dialect.Codex(), func(_ *testing.T, f *facts, a *agent) {
			a.layers = append(a.layers, layer{scope: "user", rel: ".codex/config.toml", tree: map[string]any{"hooks": map[string]any{"state": map[string]any{
				f.records[0].Settings + ":pre_tool_use:0:0": map[string]any{"enabled": false},
			}}}})
		}, "trust.hooks", Bad, "switched off", "/hooks", false},
		"folder not trusted": {dialect.GeminiCLI(), func(t *testing.T, _ *facts, a *agent) {
			a.layers = append(a.layers, layer{scope: "user", rel: ".gemini/trustedFolders.json", file: "/t", tree: tree(t, `{"/home/ann": "TRUST_FOLDER", "/home/ann/project/": "DO_NOT_TRUST"}`)})
		}, "trust.folder", Bad, "/home/ann/project", "/t", false},
		"folder unknown": {dialect.GeminiCLI(), func(t *testing.T, _ *facts, a *agent) {
			a.layers = append(a.layers, layer{scope: "user", rel: ".gemini/trustedFolders.json", tree: tree(t, `{"/home/bob": "TRUST_FOLDER"}`)})
		}, "trust.folder", Info, "has not been asked yet", "", false},
		"parent trusted": {dialect.GeminiCLI(), func(t *testing.T, _ *facts, a *agent) {
			a.layers = append(a.layers, layer{scope: "user", rel: ".gemini/trustedFolders.json", tree: tree(t, `{"/home/ann/other": "TRUST_PARENT"}`)})
		}, "trust.folder", Info, "", "", true},
		"no trust wanted": {dialect.GeminiCLI(), func(t *testing.T, _ *facts, a *agent) {
			a.layers[0].tree = tree(t, `{"security": {"folderTrust": {"enabled": false}}}`)
			a.layers = append(a.layers, layer{scope: "user", rel: ".gemini/trustedFolders.json"})
		}, "trust.folder", Info, "", "", true},
		"no grant": {dialect.OpenClaw(), func(t *testing.T, _ *facts, a *agent) {
			a.layers[0].tree = tree(t, `{"plugins":{"entries":{"grapnel":{}}}}`)
		}, "settings.grant", Bad, "allowConversationAccess", "grapnel install openclaw", false},
		"not allowed": {dialect.OpenClaw(), func(t *testing.T, _ *facts, a *agent) {
			a.layers[0].tree = tree(t, `{"plugins":{"allow":["x"],"entries":{"grapnel":{"hooks":{"allowConversationAccess":true}}}}}`)
		}, "settings.grant", Bad, "plugins.allow", "", false},
		"an event too many": {find(t, "cursor"), func(_ *testing.T, _ *facts, a *agent) {
			a.layers[0].hooks = append(a.layers[0].hooks, other("beforeLunch", "x"))
		}, "settings.void", Bad, `"beforeLunch"`, "remove it", false},
		"no version": {find(t, "cursor"), func(_ *testing.T, _ *facts, a *agent) { a.layers[0].tree = map[string]any{} }, "settings.void", Bad, "its version", "", false},
		"a bad timeout": {find(t, "cursor"), func(_ *testing.T, _ *facts, a *agent) {
			a.layers[0].hooks = append(a.layers[0].hooks, install.Found{Event: "stop", Command: "x", Entry: json.RawMessage(`{"command":"x","timeout":0}`)})
		}, "settings.void", Bad, "an entry for stop has a timeout", "", false},
		"a bad matcher": {find(t, "cursor"), func(_ *testing.T, _ *facts, a *agent) {
			a.layers[0].hooks = append(a.layers[0].hooks, install.Found{Event: "stop", Command: "x", Entry: json.RawMessage(`{"command":"x","matcher":"["}`)})
		}, "settings.void", Bad, "not a regular expression", "", false},
		"Claude's form": {find(t, "cursor"), func(_ *testing.T, _ *facts, a *agent) {
			a.layers[0].hooks = append(a.layers[0].hooks, install.Found{Event: "stop", Entry: json.RawMessage(`{"hooks":[]}`)})
		}, "settings.void", Bad, "has no command", "", false},
		"Claude's form, and its command": {find(t, "cursor"), func(t *testing.T, _ *facts, a *agent) {
			a.layers[0].tree = tree(t, `{"version":1,"hooks":{"stop":[{"hooks":[{"command":"x"}]}]}}`)
		}, "settings.void", Bad, "an entry for stop has a list of hooks", "", false},
		"an address": {find(t, "cursor"), func(t *testing.T, _ *facts, a *agent) {
			a.layers[0].tree = tree(t, `{"version":1,"hooks":{"stop":[{"command":"curl http://x"}]}}`)
		}, "settings.void", Bad, `"curl http://x" contains // or /*`, "", false},
		"Claude's form in Crush": {find(t, "crush"), func(t *testing.T, _ *facts, a *agent) {
			a.layers[0].tree = tree(t, `{"hooks":{"PreToolUse":[{"hooks":[{"command":"x"}]}]}}`)
		}, "settings.fatal", Bad, "a list of hooks", "", false},
		"a member too many": {dialect.Codex(), func(t *testing.T, _ *facts, a *agent) { a.layers[0].tree = tree(t, `{"theme":1,"hooks":{}}`) }, "settings.void", Bad, `top-level member "theme"`, "", false},
		"half a second": {dialect.Codex(), func(t *testing.T, _ *facts, a *agent) {
			a.layers[0].tree = tree(t, `{"hooks":{"Stop":[{"hooks":[{"type":"command","timeout":1.5}]}]}}`)
		}, "settings.void", Bad, "an entry for Stop has a timeout", "", false},
		"a hook of another type": {dialect.Codex(), func(t *testing.T, _ *facts, a *agent) {
			a.layers[0].tree = tree(t, `{"hooks":{"Stop":[{"hooks":[{"type":"http"}]}]}}`)
		}, "settings.void", Bad, `an entry for Stop has the type "http"`, "", false},
		"a version to come": {find(t, "copilot-cli"), func(t *testing.T, _ *facts, a *agent) { a.layers[0].tree = tree(t, `{"version":2}`) }, "settings.void", Bad, "its version is not 1", "", false},
		"a plugin that is not named": {dialect.OpenClaw(), func(t *testing.T, _ *facts, a *agent) {
			a.installs[0].Files = []installation.File{{Path: "/s/plugins/openclaw/grapnel/index.mjs"}}
			a.layers[0].tree = tree(t, `{"plugins":{"load":{"paths":["/x"]},"entries":{"grapnel":{"hooks":{"allowConversationAccess":true}}}}}`)
		}, "settings.grant", Bad, "plugins.load.paths", "grapnel install openclaw", false},
		"a switch whose way out is plain": {dialect.Codex(), func(t *testing.T, _ *facts, a *agent) {
			a.layers = append(a.layers, layer{scope: "user", rel: ".codex/config.toml", tree: tree(t, `{"features": {"hooks": false}}`)})
		}, "settings.off", Bad, "features.hooks is false", "change or remove it there", false},
		"event missing": {dialect.GeminiCLI(), func(_ *testing.T, f *facts, _ *agent) {
			f.specs = append(f.specs, grapnel.Spec{Name: "no-keys", On: []grapnel.Kind{grapnel.ModelBefore}})
		}, "events.missing", Warn, "does not call Grapnel for BeforeModel, which hooks listen to: no-keys", "grapnel install gemini-cli", false},
		"event absent": {dialect.GeminiCLI(), func(_ *testing.T, f *facts, _ *agent) {
			f.specs = append(f.specs, grapnel.Spec{Name: "x", On: []grapnel.Kind{grapnel.SubagentStart}})
		}, "events.absent", Info, "has no subagent.start, which hooks listen to: x", "", false},
		"event never": {claude, func(_ *testing.T, f *facts, _ *agent) {
			f.specs = append(f.specs, grapnel.Spec{Name: "x", On: []grapnel.Kind{"native.claude-code.WorktreeCreate"}})
		}, "events.never", Info, "WorktreeCreate", "", false},
		"an event of another agent": {dialect.GeminiCLI(), func(_ *testing.T, f *facts, _ *agent) {
			f.specs = append(f.specs, grapnel.Spec{Name: "x", On: []grapnel.Kind{"native.claude-code.Setup"}})
		}, "events.absent", Info, "", "", true},
		"events that the version does not know": {claude, func(_ *testing.T, _ *facts, a *agent) {
			a.version = "2.1.197"
			for _, event := range []string{"DirectoryAdded", "PostToolBatch", "PreModelSwitch"} {
				h := ours(claude)
				h.Event = event
				a.layers[0].hooks = append(a.layers[0].hooks, h)
			}
		}, "install.events", Warn, "settings.json contains events that Claude Code 2.1.197 does not know: DirectoryAdded, PreModelSwitch", "grapnel install claude-code --scope user", false},
		"events of others that the version does not know": {claude, func(_ *testing.T, _ *facts, a *agent) {
			a.version = "2.1.197"
			a.layers[0].hooks = append(a.layers[0].hooks, other("DirectoryAdded", "x"))
		}, "install.events", Warn, "DirectoryAdded", "remove them, or update Claude Code", false},
		"an event that drops the file": {claude, func(_ *testing.T, _ *facts, a *agent) {
			a.version = "2.1.100"
			a.layers[0].hooks = append(a.layers[0].hooks, other("DirectoryAdded", "x"))
		}, "install.events", Bad, "DirectoryAdded", "", false},
		"an unknown version": {claude, func(_ *testing.T, _ *facts, a *agent) {
			a.version = ""
			a.layers[0].hooks = append(a.layers[0].hooks, other("DirectoryAdded", "x"))
		}, "install.events", Warn, "", "", true},
		"more events after an update": {claude, func(_ *testing.T, _ *facts, a *agent) { a.installs[0].newer = []string{"DirectoryAdded"} }, "install.newer", Info, "more events than at the installation: DirectoryAdded", "grapnel install claude-code --scope user", false},
		"an event of a newer version": {claude, func(_ *testing.T, f *facts, a *agent) {
			a.version = "2.1.197"
			f.specs = append(f.specs, grapnel.Spec{Name: "x", On: []grapnel.Kind{"native.claude-code.PreModelSwitch"}})
		}, "events.absent", Info, "Claude Code 2.1.197 has no PreModelSwitch, which hooks listen to: x", "update Claude Code to 2.1.251", false},
		"a plugin for version 1": {find(t, "opencode"), func(_ *testing.T, _ *facts, a *agent) {
			a.version, a.installs[0].named = "2.0.24", true
		}, "settings.void", Bad, "OpenCode 2.0.24 does not load /home/ann/.config/opencode/plugins/grapnel.js", "grapnel install opencode --scope user", false},
		"a plugin for version 1 in it": {find(t, "opencode"), func(_ *testing.T, _ *facts, a *agent) {
			a.version, a.installs[0].named = "1.18.33", true
		}, "settings.void", Bad, "", "", true},
		"a plugin for version 2": {find(t, "opencode"), func(_ *testing.T, _ *facts, a *agent) { a.version = "2.0.24" }, "settings.void", Bad, "", "", true},
		"version 2":              {find(t, "opencode"), func(_ *testing.T, _ *facts, a *agent) { a.version = "2.0.24" }, "agent.documented", Info, "OpenCode 2.0.24 was not tested", "harmless", false},
		"unseen":                 {claude, func(*testing.T, *facts, *agent) {}, "unseen", Info, "--bare", "", false},
		"untested agent":         {dialect.Windsurf(), func(*testing.T, *facts, *agent) {}, "agent.documented", Info, "no version of Windsurf Cascade was tested", "harmless", false},
		"tested agent":           {claude, func(*testing.T, *facts, *agent) {}, "agent.documented", Info, "", "", true},
		"unknown tools":          {claude, func(_ *testing.T, _ *facts, a *agent) { a.tools = map[string]int{"B": 2, "A": 1} }, "tools.unknown", Info, "A (1), B (2)", "{tool: NAME}", false},
		"Records stopped":        {claude, func(_ *testing.T, _ *facts, a *agent) { a.last, a.lastUsed = now.Add(-5*time.Hour), now }, "records.stopped", Warn, "the last record is from", "grapnel log --agent claude-code", false},
		"no Record at all":       {claude, func(_ *testing.T, _ *facts, a *agent) { a.last, a.lastUsed = time.Time{}, now }, "records.stopped", Warn, "no record since 2026-11-13", "", false},
		"used before it was installed": {claude, func(_ *testing.T, _ *facts, a *agent) {
			a.last, a.lastUsed, a.installs[0].Time = time.Time{}, now.Add(-2*time.Hour), now.Add(-time.Hour)
		}, "records.stopped", Warn, "", "", true},
		"too late":           {claude, func(_ *testing.T, _ *facts, a *agent) { a.latency.most = 2 * time.Minute }, "latency.late", Bad, "at most 120000.0 ms", "", false},
		"very slow":          {claude, func(_ *testing.T, _ *facts, a *agent) { a.latency.median = time.Second }, "latency.slow", Warn, "1000.0 times", "", false},
		"slower than asked":  {claude, func(_ *testing.T, _ *facts, a *agent) { a.latency.slow = 2 * time.Millisecond }, "latency.slow", Warn, "answered in 3.0 ms", "", false},
		"allowed to be slow": {claude, func(_ *testing.T, _ *facts, a *agent) { a.latency.median, a.latency.slow = time.Second, time.Minute }, "latency.slow", Warn, "", "", true},
		"no answer":          {claude, func(_ *testing.T, _ *facts, a *agent) { a.latency = &latency{failed: "exit status 64"} }, "latency.failed", Bad, "exit status 64", "", false},
		"not asked":          {claude, func(_ *testing.T, _ *facts, a *agent) { a.latency.without = []string{"lint"} }, "latency", OK, "without your policy", "", false},
		"first look": {claude, func(_ *testing.T, f *facts, a *agent) {
			f.before = nil
			a.layers[0].hooks = append(a.layers[0].hooks, other("Stop", "x"))
		}, "hooks.remembered", Info, "for the first time: 1", "", false},
		"forgotten": {claude, func(_ *testing.T, f *facts, _ *agent) { f.before, f.beforeTo = nil, "EOF" }, "hooks.forgotten", Warn, "EOF", "", false},
		"observes":  {claude, func(_ *testing.T, f *facts, _ *agent) { f.idle = "/home/ann/grapnel.yaml" }, "policy.observes", Warn, "only observes", "grapnel enforce", false},
		"off": {claude, func(_ *testing.T, f *facts, _ *agent) {
			f.off = pause.Off{{Hook: "x::guard", Reason: "we clean up", Since: now}}
		}, "hook.off", Warn, "x::guard is off since", "grapnel hooks enable x::guard", false},
		"unknown off": {claude, func(_ *testing.T, f *facts, _ *agent) { f.offError = errors.New("EOF") }, "hook.off", Warn, "EOF", "", false},
		"changed":     {claude, func(_ *testing.T, f *facts, _ *agent) { f.changed = []string{"hooks of x do not run"} }, "policy.changed", Bad, "hooks of x do not run", "", false},
		"stuck":       {claude, func(_ *testing.T, f *facts, _ *agent) { f.stuck = []string{"hook far cannot reach its server"} }, "hook.stuck", Warn, "cannot reach", "grapnel check", false},
		"elsewhere":   {claude, func(_ *testing.T, f *facts, _ *agent) { f.elsewhere = "/home/ann/.local/state/grapnel" }, "state.elsewhere", Info, "HOME is another", "--root", false},
		"undone": {claude, func(_ *testing.T, _ *facts, a *agent) {
			a.layers[0].hooks = append(a.layers[0].hooks, other("PreToolUse", "x"), other("Stop", "y"))
		}, "hooks.undo", Info, "decisions: PreToolUse: x (user, /home/ann/.claude/settings.json)", "", false},
		"cannot be undone": {claude, func(_ *testing.T, _ *facts, a *agent) {
			a.layers[0].hooks = append(a.layers[0].hooks, other("Stop", "y"), other("Notification", "y"))
		}, "hooks.undo", Info, "", "", true},
		"an impostor": {claude, func(_ *testing.T, _ *facts, a *agent) {
			h := ours(claude)
			h.Program, h.Command = "/tmp/grapnel-hook", "/tmp/grapnel-hook --id x"
			a.layers[0].hooks = append(a.layers[0].hooks, h)
		}, "hooks.new", Warn, "PreToolUse: /tmp/grapnel-hook --id x", "review it", false},
		"a secret is not shown": {claude, func(_ *testing.T, _ *facts, a *agent) {
			a.layers[0].hooks = append(a.layers[0].hooks, other("Stop", "x sk-ant-api03-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"))
		}, "hooks.new", Warn, "Stop: x sk-ant-***", "review it", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := well(tt.agent)
			tt.spoil(t, f, &f.agents[0])
			found, _ := judge(f)
			i := slices.IndexFunc(found, func(f Finding) bool { return f.ID == tt.id })
			if tt.nothing {
				if i >= 0 {
					t.Errorf("found %+v", found[i])
				}
				return
			}
			if i < 0 {
				t.Fatalf("no %s among %+v", tt.id, found)
			}
			if got := found[i]; got.Level != tt.level || !strings.Contains(got.What, tt.what) || !strings.Contains(got.Hint, tt.hint) {
				t.Errorf("%+v, want %s, %q, hint %q", got, tt.level, tt.what, tt.hint)
			}
		})
	}
}

// The stored hooks of other programs show new, changed and removed hooks. The stored hooks of
// files that were not read stay.
func TestDrift(t *testing.T) {
	t.Parallel()
	look := func(before *memory, hooks ...install.Found) ([]string, *memory) {
		f := well(dialect.ClaudeCode())
		f.before = before
		a := &f.agents[0]
		a.layers[0].hooks = append(a.layers[0].hooks, hooks...)
		a.layers[0].script = map[int]string{1: "one"}
		found, kept := judge(f)
		var drifts []string
		for _, x := range found {
			if slices.Contains([]string{"hooks.new", "hooks.changed", "hooks.gone", "hooks.other", "hooks.remembered"}, x.ID) {
				drifts = append(drifts, x.ID+" "+x.What[strings.LastIndex(x.What, ": ")+1:])
			}
		}
		return drifts, kept
	}
	ids := func(drifts []string) (ids []string) {
		for _, d := range drifts {
			id, _, _ := strings.Cut(d, " ")
			ids = append(ids, id)
		}
		return ids
	}
	got, kept := look(nil, other("Stop", "a"), other("Stop", "b"))
	if diff := cmp.Diff([]string{"hooks.other", "hooks.other", "hooks.remembered"}, ids(got)); diff != "" {
		t.Errorf("the first time (-want +got)\n%s", diff)
	}
	got, _ = look(&memory{}, other("Stop", "a"))
	if diff := cmp.Diff([]string{"hooks.other", "hooks.remembered"}, ids(got)); diff != "" {
		t.Errorf("a file that nobody has looked at (-want +got)\n%s", diff)
	}
	elsewhere := remembered{Agent: "claude-code", File: "/other/project/.claude/settings.json", Event: "Stop", Command: "z"}
	kept.Hooks = append(kept.Hooks, elsewhere)
	got, kept = look(kept, other("Stop", "a"), other("Stop", "b"))
	if diff := cmp.Diff([]string{"hooks.other", "hooks.other"}, ids(got)); diff != "" {
		t.Errorf("the same (-want +got)\n%s", diff)
	}
	slower := other("Stop", "b")
	slower.Entry = json.RawMessage(`{"command":"b","timeout":9}`)
	got, kept = look(kept, slower, other("Stop", "c"))
	if diff := cmp.Diff([]string{"hooks.changed", "hooks.new", "hooks.gone"}, ids(got)); diff != "" {
		t.Errorf("new, changed and gone (-want +got)\n%s", diff)
	}
	if !slices.Contains(kept.Hooks, elsewhere) || len(kept.Hooks) != 3 {
		t.Errorf("remembered: %+v, want two and what was not looked at", kept.Hooks)
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	file := memoryFile(filepath.Join(t.TempDir(), "state"))
	if m, err := readMemory(file); m != nil || err != nil {
		t.Errorf("nothing was kept, and is read as %v, %v", m, err)
	}
	want := &memory{Version: 1, Time: now, Hooks: []remembered{{Agent: "a", Command: "<c>"}}}
	for range 2 {
		if err := want.write(file); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readMemory(file)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v, want mode 0600", info, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".doctor-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := readMemory(file); m != nil || err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a broken one is read as %v, %v", m, err)
	}
	if err := (&memory{}).write(filepath.Join(file, "x")); err == nil {
		t.Error("it is kept below a file")
	}
}

// Each check of one agent is registered under the name of an agent that can be installed.
func TestPeculiarAgentsExist(t *testing.T) {
	t.Parallel()
	for name := range peculiar {
		if a, err := install.Lookup(name); err != nil || a.Name != name {
			t.Errorf("a check of %q: %q, %v", name, a.Title, err)
		}
	}
}

// The hashes are from Codex 0.169.0, as its app-server lists them.
func TestCodexHash(t *testing.T) {
	t.Parallel()
	for want, h := range map[string]install.Found{
		"a095ef8e645bcbf135ba19a4d342f8126d661f9a4c5fdd913375493469840cf1": {
			Event: "PreToolUse", Entry: json.RawMessage(`{"type":"command","command":"/usr/local/bin/grapnel-hook codex PreToolUse --id aaaaaaaaaaaaaaaaaaaaaaaaaa","timeout":60}`),
			Command: "/usr/local/bin/grapnel-hook codex PreToolUse --id aaaaaaaaaaaaaaaaaaaaaaaaaa",
		},
		"e21697009592ef78a74d40f5e0c11e23bbdd13ef0141c16043608b920c3634b0": {
			Event: "PreToolUse", Matcher: "Bash", Command: "a <b> & c", Entry: json.RawMessage(`{"type":"command","command":"a <b> & c","statusMessage":"s"}`),
		},
		"25cc952a2e454982d340335737f93c8280b22f8f5123b2481a572ba03016cfc4": {
			Event: "PreToolUse", Matcher: "Bash", Command: "x", Entry: json.RawMessage(`{"type":"command","command":"x","async":true,"timeout":0}`),
		},
		"f3041eae9d0be5faed5367060d633bb905ed83825e2f4d9c7bc7f5ef19fe4bc7": {Event: "SessionEnd", Command: "x", Entry: json.RawMessage(`{"type":"command","command":"x"}`)},
		"a5c004c961226f9446832ffd4713c9a952b1b2be25a24b433950f2394329255b": {Event: "Interrupt", Command: "x", Entry: json.RawMessage(`{"type":"command","command":"x","timeout":9}`)},
	} {
		if got := codexHash(h); got != "sha256:"+want {
			t.Errorf("%s %s: %s, want sha256:%s", h.Event, h.Entry, got, want)
		}
	}
}

// The report has the form that scripts read from "grapnel doctor --json".
func TestReportJSON(t *testing.T) {
	t.Parallel()
	f := well(dialect.GeminiCLI())
	f.agents = append(f.agents, well(dialect.Codex()).agents...)
	f.agents[0].layers[0].hooks = append(f.agents[0].layers[0].hooks, other("BeforeTool", "./vet.sh"))
	f.agents[0].tools = map[string]int{"teleport": 2}
	f.agents[1].installs[0].stale = "installing again would change 2 lines"
	f.failing = []failing{{name: "lint", source: "/home/ann/.config/grapnel/grapnel.yaml", errors: 1, timeouts: 1, opened: 1, last: now.Local(), why: "timed out"}}
	found, _ := judge(f)
	for i := range found { // times are in the local time zone
		for _, at := range []time.Time{f.before.Time, now} {
			found[i].What = strings.ReplaceAll(found[i].What, minute(at), "TIME")
		}
		found[i].What = strings.ReplaceAll(found[i].What, day(f.since), "DAY")
	}
	arrange(found)
	got, err := json.MarshalIndent(&Report{Version: "1", Time: now, Dir: f.dir, Findings: found}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	golden := filepath.Join("testdata", "report.json")
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("(-want +got); if it is meant: go test ./cmd/internal/setup/doctor -update\n%s", diff)
	}
	var back Report
	if err := json.Unmarshal(got, &back); err != nil || back.Worst() != Bad {
		t.Errorf("read back: %v, worst %s", err, back.Worst())
	}
	if err := json.Unmarshal([]byte(`"dire"`), new(Level)); err == nil {
		t.Error("an unknown level is read")
	}
}

// The agent's own files show that it was used.
func TestYoungest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if file, when := youngest(filepath.Join(dir, "nowhere")); file != "" || !when.IsZero() {
		t.Errorf("nothing: %s, %v", file, when)
	}
	for i, name := range []string{"a/b/old", "a/young", "older"} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		when := now.Add([]time.Duration{-time.Hour, 0, -2 * time.Hour}[i])
		if err := os.Chtimes(file, when, when); err != nil {
			t.Fatal(err)
		}
	}
	if file, when := youngest(dir); filepath.Base(file) != "young" || !when.Equal(now) {
		t.Errorf("%s, %v", file, when)
	}
}

func TestReadFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := readFile(dir, 10); err == nil {
		t.Error("a directory is read")
	}
	if _, err := readFile(filepath.Join(dir, "x"), 10); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	file := filepath.Join(dir, "big")
	if err := os.WriteFile(file, make([]byte, 11), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readFile(file, 10); err == nil {
		t.Error("more is read than was asked for")
	}
	if data, err := readFile(file, 11); len(data) != 11 || err != nil {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

// Every agent has a harmless event for a measurement. It is read as intended: a shell command
// without effect.
func TestProbe(t *testing.T) {
	t.Parallel()
	for _, a := range install.Agents() {
		var events []string
		for _, row := range a.Events {
			if row.Install {
				events = append(events, row.Native)
			}
		}
		native, payload, err := probe(a.Dialect, events, "/tmp/x")
		if err != nil || len(payload) == 0 {
			t.Errorf("%s: %q, %v", a.Name, payload, err)
			continue
		}
		ev, err := a.Read(dialect.Input{Payload: payload, Event: native})
		if err != nil {
			t.Errorf("%s: %s is read as %v", a.Name, payload, err)
			continue
		}
		if slices.ContainsFunc(a.Events, func(r dialect.EventRow) bool { return r.Kind == grapnel.ToolBefore && r.Install }) && (ev.Kind != grapnel.ToolBefore || ev.Tool == nil) {
			t.Errorf("%s is asked about %s with %s, want a call of a tool", a.Name, ev.Kind, payload)
		}
	}
}

// A measurement starts no program of the policy. If the policy would start none, it is part of
// the measurement.
func TestLeaving(t *testing.T) {
	t.Parallel()
	in := dialect.Input{Payload: []byte(`{"session_id":"s","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"true"}}`)}
	for text, want := range map[string][]string{
		"  - {name: a, on: tool.before, match: {command: rm}, block: No.}":   nil,
		"  - {name: a, on: tool.before, run: touch x}":                       {"a"},
		"  - {name: a, on: tool.before, match: {command: rm}, run: touch x}": nil,
		"  - {name: a, on: tool.before, run: touch x, async: true}":          {"a"},
		"  - {name: a, builtin: audit}":                                      {"a"},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "grapnel.yaml")
		if err := os.WriteFile(file, []byte("version: 1\nhooks:\n"+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		g := gatherer{Request: &Request{Place: local.Place{Policy: file, State: filepath.Join(dir, "state"), Home: dir}}}
		got, err := g.leaving(t.Context(), dialect.ClaudeCode(), file, filepath.Join(dir, "root"), in)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", text, err, diff)
		}
		if _, err := os.Stat(filepath.Join(dir, "state")); err == nil {
			t.Errorf("%s: looking has left something in the state", text)
		}
		if _, err := os.Stat("x"); err == nil {
			t.Errorf("%s: it was run", text)
		}
	}
}

var findingID = regexp.MustCompile("[\"`]((?:agent|install|program|settings|trust|hooks|events|tools|records|guard|log|latency|policy)\\.[a-z]+|unseen|latency)[\"`]")

// The documentation explains each finding.
func TestEachFindingIsExplained(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "doctor.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Each finding")
	explained := map[string]bool{}
	for _, id := range findingID.FindAllStringSubmatch(table, -1) {
		explained[id[1]] = true
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]bool{}
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range findingID.FindAllStringSubmatch(string(text), -1) {
			if id[1] == "hooks.state" { // a setting of Codex
				continue
			}
			if made[id[1]] = true; !explained[id[1]] {
				t.Errorf("%s makes the finding %s, which docs/doctor.md does not explain", source, id[1])
			}
		}
	}
	for id := range explained {
		if !made[id] && !strings.HasPrefix(id, "policy.") { // those have the names of states
			t.Errorf("docs/doctor.md explains %s, which is never found", id)
		}
	}
}

// Another HOME than that of the user database does not move the state. A glance says so, and
// writes nothing.
func TestAnotherHome(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("USERPROFILE", t.TempDir())
	state := filepath.Join(t.TempDir(), "state")
	place := local.Place{State: state, Managed: t.TempDir(), Policy: filepath.Join(state, "absent.yaml")}
	for root, want := range map[string]bool{"": true, "x": false} {
		report, err := Look(t.Context(), Request{Place: place, Dir: t.TempDir(), Root: root, glance: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.ID == "state.elsewhere" }); got != want {
			t.Errorf("with --root %q: %v, want %v", root, got, want)
		}
	}
	if _, err := os.Stat(state); err == nil {
		t.Errorf("a glance wrote %s", state)
	}
}
