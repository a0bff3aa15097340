package doctor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// judge returns the findings from the facts, and the memory for the next run.
func judge(f *facts) ([]Finding, *memory) {
	found := slices.Concat(judgePolicy(f), judgeDaemon(f), judgeForward(f), judgeDeliveries(f))
	for i := range f.agents {
		a := &f.agents[i]
		for _, part := range [][]Finding{
			judgePresence(f, a), judgeInstalls(f, a), judgeStrays(f, a), judgeLayers(a), judgeEvents(f, a),
			judgeUnseen(f, a), judgeLatency(a),
		} {
			for _, finding := range part {
				finding.Agent = a.Name
				found = append(found, finding)
			}
		}
		if own := peculiar[a.Name]; own != nil && len(a.installs) > 0 {
			for _, finding := range own(f, a) {
				finding.Agent = a.Name
				found = append(found, finding)
			}
		}
	}
	others, kept := judgeOthers(f)
	var once []Finding // two switches may name one setting
	for _, finding := range append(found, others...) {
		if !slices.Contains(once, finding) {
			once = append(once, finding)
		}
	}
	return once, kept
}

// judgeLog judges the files and limits of the log.
func judgeLog(f *facts) (found []Finding) {
	if f.keep != "" {
		found = append(found, Finding{ID: "log.retention", Level: Info, What: "the oldest Records are removed above " + f.keep, Why: "a policy sets retention"})
	}
	if len(f.oldLogs) > 0 {
		found = append(found, Finding{
			ID: "log.old", Level: Info, Subject: f.oldLogs[0], What: "this version does not read " + printable.Count(len(f.oldLogs), "file") + " of an older one: " + strings.Join(f.oldLogs, ", "),
			Why: "Records are in journal/ now, and older ones were not moved", Hint: "keep or remove them",
		})
	}
	return found
}

// judgePolicy judges facts that concern all agents.
func judgePolicy(f *facts) []Finding {
	var found []Finding
	for _, p := range f.policies {
		switch {
		case p.State == load.Absent && !slices.ContainsFunc(f.specs, func(s grapnel.Spec) bool { return !notice.Own(&s) }):
			found = append(found, Finding{
				ID: "policy.absent", Level: Warn, Subject: p.File, What: "policy file " + p.File + " does not exist", Why: "only Grapnel's own files are guarded", Hint: "grapnel init",
			})
		case p.Notice != "":
			level := Warn
			if p.State == load.Broken {
				level = Bad
			}
			found = append(found, Finding{ID: "policy." + strings.ToLower(fmt.Sprint(p.State)), Level: level, Subject: p.File, What: p.Notice, Hint: "grapnel check"})
		}
	}
	for i := range f.policies {
		if p := &f.policies[i]; p.Expired(f.now) {
			found = append(found, Finding{
				ID: "policy.expired", Level: Warn, Subject: p.File, What: fmt.Sprintf("revision %d of %s expired at %s", p.Revision, p.File, p.Expires.Format(time.RFC3339)),
				Why: "it stays in force, but no newer one has arrived", Hint: "grapnel bundle pull URL, as root; if that fails, its error says why",
			})
		}
	}
	if f.homeless != nil {
		found = append(found, Finding{
			ID: "user.home", Level: Warn, What: "the home directory of this user is unknown: " + f.homeless.Error(),
			Why: "~ in a policy is the root directory, so hooks for paths below ~ do not match", Hint: "as root, add the user to the user database, or write the path to /etc/grapnel/home",
		})
	}
	if f.elsewhere != "" {
		found = append(found, Finding{
			ID: "state.elsewhere", Level: Info, Subject: f.elsewhere, What: "Records and trust are in " + f.elsewhere + ", although HOME is another directory",
			Why: "a project's settings can set HOME, so it does not move them", Hint: "--root DIR keeps everything in one directory",
		})
	}
	if f.only != "" {
		found = append(found, Finding{ID: "policy.managed", Level: Info, What: strings.TrimPrefix(f.only, "grapnel: "), Why: "root set use_only_managed"})
	}
	found = append(found, judgeLog(f)...)
	if !f.paused.IsZero() {
		found = append(found, Finding{
			ID: "policy.paused", Level: Warn, What: "hooks only observe until " + f.paused.Local().Format(time.TimeOnly),
			Why: "only managed hooks and self-protection decide", Hint: "grapnel pause --off",
		})
	}
	found = append(found, judgeIdle(f)...)
	for _, what := range f.unlogged {
		found = append(found, Finding{ID: "log.grant", Level: Bad, What: what, Why: "a call that hooks stop could pass, or has passed, without a person", Hint: "grapnel allow --list; grapnel log"})
	}
	if f.rootless > 0 {
		found = append(found, Finding{
			ID: "sessions.rootless", Level: Warn, What: fmt.Sprintf("%s had a session whose root could not be stored, last %s", printable.Count(f.rootless, "event"), minute(f.lastRootless)),
			Why: "in these sessions, a project's policy stops applying when the agent leaves the project directory", Hint: "grapnel log shows these sessions; a new one gets a root when old ones have been idle for seven days",
		})
	}
	if f.roomless > 0 {
		found = append(found, Finding{
			ID: "state.full", Level: Warn, What: fmt.Sprintf("%s found no room in the state of its session or hook, last %s", printable.Count(f.roomless, "count"), minute(f.lastRoomless)),
			Why: "it stores the maximum, so its guards ask a person; other sessions are not affected", Hint: "grapnel log --decision ask shows these calls; a new session has room again",
		})
	}
	found = append(found, judgeLosses(f)...)
	for _, why := range f.broken {
		found = append(found, Finding{
			ID: "install.unreadable", Level: Bad, What: "cannot read the record of an installation: " + why,
			Why: "the hook cannot find its policy, so its guards fail closed",
		})
	}
	if len(f.records) == 0 && !slices.ContainsFunc(f.agents, func(a agent) bool { return a.named }) {
		found = append(found, Finding{ID: "install.nowhere", Level: Warn, What: "Grapnel is not installed into any agent", Hint: "grapnel install"})
	}
	if f.logError != "" {
		found = append(found, Finding{ID: "log.unreadable", Level: Warn, What: "cannot read the log: " + f.logError, Why: "so failed guards are not listed here"})
	}
	if f.torn > 0 {
		found = append(found, Finding{
			ID: "log.torn", Level: Info, What: fmt.Sprintf("%d incomplete lines in the log, the last: %s", f.torn, cut(f.lastTorn, 200)),
			Why: "a disk was full, the power failed, or the file was changed",
		})
	}
	for _, b := range f.boxes {
		switch {
		case b.off:
		case b.missing == nil:
			found = append(found, Finding{ID: "sandbox.held", Level: OK, Subject: b.hook, What: fmt.Sprintf("hook %s, %s", b.hook, b.holds)})
		case b.optional:
			found = append(found, Finding{ID: "sandbox.missing", Level: Warn, Subject: b.hook, What: fmt.Sprintf("hook %s runs, but %v", b.hook, b.missing), Why: "its policy sets `required: false`"})
		default:
			found = append(found, Finding{
				ID: "sandbox.missing", Level: Bad, Subject: b.hook, What: fmt.Sprintf("hook %s %v", b.hook, b.missing),
				Why: "it fails each time", Hint: "set `required: false` in its sandbox, or remove the sandbox",
			})
		}
	}
	for _, d := range f.damaged {
		found = append(found, Finding{ID: "policy.damaged", Level: Bad, Subject: d.File, What: d.What, Why: d.Why, Hint: d.Hint})
	}
	return append(found, judgeFailing(f)...)
}

// judgeIdle judges hooks that are loaded and decide nothing.
func judgeIdle(f *facts) (found []Finding) {
	if f.idle != "" {
		found = append(found, Finding{
			ID: "policy.observes", Level: Warn, Subject: f.idle, What: f.idle + " only observes: it stops nothing",
			Why: "its hooks are in observe mode", Hint: "grapnel stats --would shows what it would have stopped, and grapnel enforce ends this",
		})
	}
	for _, h := range f.off {
		found = append(found, Finding{
			ID: "hook.off", Level: Warn, Subject: h.Hook, What: fmt.Sprintf("hook %s is off since %s: %s", h.Hook, minute(h.Since), h.Reason),
			Why: "a person switched it off", Hint: "grapnel hooks enable " + h.Hook,
		})
	}
	if f.offError != nil {
		found = append(found, Finding{ID: "hook.off", Level: Warn, What: "cannot see which hooks are off: " + f.offError.Error()})
	}
	for _, what := range f.changed {
		found = append(found, Finding{ID: "policy.changed", Level: Bad, What: what, Why: "a program that they run differs from what was trusted"})
	}
	for _, what := range f.stuck {
		found = append(found, Finding{ID: "hook.stuck", Level: Warn, What: what, Why: "it fails each time until then", Hint: "grapnel check"})
	}
	return found
}

// judgeFailing judges hooks that could not answer.
func judgeFailing(f *facts) (found []Finding) {
	for _, g := range f.failing {
		what := fmt.Sprintf("%s did not answer %s since %s, last %s: %s", g.name, times(g.errors), day(f.since), minute(g.last), g.why)
		if g.timeouts > 0 {
			what += fmt.Sprintf(" (%s it was too slow)", times(g.timeouts))
		}
		why := "each time the action was blocked"
		if g.opened > 0 {
			why = times(g.opened) + " the action continued unguarded"
		}
		level := Warn
		if g.gone {
			level, why = Info, "no policy has this hook any more"
		}
		found = append(found, Finding{
			ID: "guard.failed", Level: level, Subject: g.source + "::" + g.name, What: what, Why: why,
			Hint: fmt.Sprintf("grapnel log --hook %s", g.name),
		})
	}
	return found
}

// judgeLosses judges Records that were lost, or cannot be stored.
func judgeLosses(f *facts) (found []Finding) {
	if l := f.losses; l.Replies > 0 {
		found = append(found, Finding{
			ID: "log.lost", Level: Bad, What: fmt.Sprintf("%s without a complete record since %s, last %s: %s", printable.Count(l.Replies, "event"), minute(l.First), minute(l.Last), l.Error),
			Why: "the log has a gap; with `strict: true` these events were blocked instead", Hint: "free space or repair permissions of the state directory; this message ends seven days after the last loss",
		})
	}
	if f.unwritable != nil {
		found = append(found, Finding{
			ID: "log.unwritable", Level: Bad, What: "cannot store records: " + f.unwritable.Error(),
			Why: "without a daemon, events have no record, and `strict: true` blocks them", Hint: "make the state directory writable for you",
		})
	}
	return found
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func day(t time.Time) string    { return t.Local().Format(time.DateOnly) }
func minute(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }

// judgePresence judges whether the agent is in use.
func judgePresence(f *facts, a *agent) []Finding {
	var found []Finding
	setup := a.Setup()
	unasked := Info // a user who names an agent wants it guarded
	if a.named {
		unasked = Warn
	}
	switch {
	case !a.present() && len(a.installs) == 0:
		return []Finding{{ID: "agent.absent", Level: unasked, What: a.Title + " was not found", Why: setup.Program + " is not on PATH, and its settings directory does not exist"}}
	case a.inside:
		found = append(found, Finding{
			ID: "agent.inside", Level: Warn, Subject: a.program, What: fmt.Sprintf("the first %s on PATH is part of this project: %s", setup.Program, a.program),
			Why: "the program comes from the project, so it was not started to read its version", Hint: "remove that directory from PATH",
		})
	case a.program == "" && a.dir == "": // only installed
		found = append(found, Finding{ID: "agent.settings", Level: OK, What: fmt.Sprintf("%s: %s is not on PATH", a.Title, setup.Program)})
	case a.program == "":
		found = append(found, Finding{ID: "agent.settings", Level: OK, Subject: a.dir, What: fmt.Sprintf("%s has settings in %s; %s is not on PATH", a.Title, a.dir, setup.Program)})
	default:
		found = append(found, Finding{ID: "agent.found", Level: OK, Subject: a.program, What: strings.TrimSpace(a.Title+" "+a.version) + ", " + a.program})
	}
	if a.mute != "" {
		found = append(found, Finding{ID: "agent.mute", Level: Info, Subject: a.program, What: "unknown version: " + a.mute})
	}
	if len(a.installs) == 0 {
		found = append(found, Finding{ID: "install.none", Level: unasked, What: "Grapnel is not installed into " + a.Title, Why: "so its actions are not guarded", Hint: "grapnel install " + a.Name})
	}
	return found
}

// judgeInstalls judges the recorded installations.
func judgeInstalls(f *facts, a *agent) []Finding {
	var found []Finding
	for i := range a.installs {
		in := &a.installs[i]
		again := fmt.Sprintf("grapnel install %s --scope %s", a.Name, cmp.Or(in.Scope, string(install.User)))
		add := func(id string, level Level, what, why, hint string) {
			found = append(found, Finding{ID: id, Level: level, Subject: in.Settings, What: what, Why: why, Hint: hint})
		}
		before := len(found)
		switch {
		case in.void != "":
			add("install.void", Bad, in.void, "the agent does not call Grapnel", "repair it, or: "+again)
			continue
		case in.cannot != "" && in.Scope == string(install.Managed):
			add("install.unsure", Info, "cannot check whether the entries are current: "+in.cannot, "root installs them", "")
		case in.cannot != "":
			add("install.unsure", Warn, "cannot check whether the entries are current: "+in.cannot, "", again)
		case in.now != "":
			add("install.moved", Warn, fmt.Sprintf("%s now reads its settings from %s, but Grapnel is installed in %s", a.Title, in.now, in.Settings), "an environment variable changes the location", again)
		case in.stale != "":
			add("install.stale", Warn, fmt.Sprintf("the entries in %s differ from the entries of this version", in.Settings), in.stale, again)
		}
		if len(in.missing) > 0 {
			add("install.missing", Bad, fmt.Sprintf("%s no longer contains grapnel-hook for %s", in.Settings, strings.Join(in.missing, ", ")), "Grapnel does not get these events", again)
		}
		p := in.program
		switch {
		case p.gone:
			add("program.gone", Bad, in.Program+" is gone", "the agent cannot start the hook", again)
		case p.cannot != "":
			add("program.dead", Bad, fmt.Sprintf("cannot run %s: %s", in.Program, p.cannot), "the agent cannot start the hook", again)
		case p.version != "" && p.version != f.version:
			add("program.version", Warn, fmt.Sprintf("%s has version %s, this program has %s", in.Program, p.version, f.version), "", again)
		case p.version == "" && in.Version != "" && in.Version != f.version:
			add("install.version", Warn, fmt.Sprintf("installed by version %s, this program has %s", in.Version, f.version), "", again)
		}
		if p.open != "" {
			add("program.open", Bad, p.open+" is writable by other users", "a user who changes it controls the replies to "+a.Title, "chmod go-w "+p.open)
		}
		for _, dir := range filepath.SplitList(in.Path) {
			if !filepath.IsAbs(dir) {
				add("install.path", Warn, fmt.Sprintf("the PATH of the installation contains %q", dir), "so programs of hooks are also searched for in the project", "remove it from PATH, then "+again)
				break
			}
		}
		if in.Path == "" && in.Root == "" {
			add("install.path", Warn, "the installation has no PATH", "so settings of the project decide which programs hooks start", again)
		}
		if needs := install.HookTime(f.specs); needs > 0 && in.TimeoutMS > 0 && needs > time.Duration(in.TimeoutMS)*time.Millisecond {
			add("install.timeout", Warn, fmt.Sprintf("hooks of the policy may take %s, but %s waits %s", policyfile.FormatDuration(needs), a.Title, policyfile.FormatDuration(time.Duration(in.TimeoutMS)*time.Millisecond)),
				"Grapnel replies before the agent's timeout, and on_error decides for hooks that still run", again)
		}
		if len(found) == before {
			whom := "the " + cmp.Or(in.Scope, string(install.User))
			if in.Scope == string(install.Managed) {
				whom = "all users"
			}
			add("install.good", OK, fmt.Sprintf("installed for %s, %s, %s", whom, printable.Count(len(in.Events), "event"), in.Settings), "", "")
		}
		if len(in.newer) > 0 {
			add("install.newer", Info, fmt.Sprintf("%s %s has more events than at the installation: %s", a.Title, a.version, strings.Join(in.newer, ", ")), "Grapnel does not get these events", again)
		}
	}
	return found
}

func (a *agent) layerOf(file string) *layer {
	for i := range a.layers {
		if a.layers[i].file == file {
			return &a.layers[i]
		}
	}
	return nil
}

// judgeStrays judges entries of Grapnel without an installation, and installations that overlap.
func judgeStrays(f *facts, a *agent) []Finding {
	var found []Finding
	reported := map[string]bool{}
	for _, l := range a.layers {
		for _, h := range l.hooks {
			if !h.Ours || h.Event == "" || reported[l.file] || slices.ContainsFunc(a.installs, func(in installed) bool { return in.Settings == l.file }) {
				continue
			}
			reported[l.file] = true
			known := slices.ContainsFunc(a.installs, func(in installed) bool { return h.ID != "" && in.ID == h.ID })
			if known {
				found = append(found, Finding{
					ID: "install.copy", Level: Bad, Subject: l.file, What: l.file + " repeats the entries of another installation",
					Why: "if two entries are equal, the agent may use this one, with its timeout and other settings", Hint: "remove it there",
				})
				continue
			}
			found = append(found, Finding{
				ID: "install.stray", Level: Warn, Subject: l.file, What: l.file + " contains entries of an unknown installation",
				Why: "their guards find no policy, so they fail closed", Hint: "remove them, or install there",
			})
		}
	}
	var scopes []string
	weakest := install.User
	for _, in := range a.installs {
		if in.Scope == string(install.Project) {
			if !within(f.dir, in.Project) {
				continue
			}
			weakest = install.Project
		}
		scopes = append(scopes, in.Settings)
	}
	if len(scopes) > 1 {
		found = append(found, Finding{
			ID: "install.twice", Level: Warn, Subject: scopes[1], What: "Grapnel gets each event twice here: from " + strings.Join(scopes, " and from "),
			Hint: fmt.Sprintf("grapnel uninstall %s --scope %s", a.Name, weakest),
		})
	}
	return found
}

// within reports whether a file is a directory or in it.
func within(file, dir string) bool {
	_, ok := files.Below(dir, file)
	return ok
}

// judgeLayers judges settings in the agent's files that prevent Grapnel's entries from running.
func judgeLayers(a *agent) []Finding {
	if len(a.installs) == 0 {
		return nil
	}
	var found []Finding
	for _, l := range a.layers {
		if l.err != "" && !slices.ContainsFunc(a.installs, func(in installed) bool { return in.Settings == l.file }) {
			level := Warn
			if a.Setup().JSON5 {
				level = Info // the agent may accept the file
			}
			found = append(found, Finding{ID: "settings.unreadable", Level: level, Subject: l.file, What: l.err, Why: "so switches in it that turn hooks off are unknown", Hint: "repair it"})
		}
		for _, sw := range a.Setup().Off {
			if sw.File != l.rel {
				continue
			}
			value, ok := at(l.tree, sw.Path)
			if !ok || !holds(sw, value, a.Setup()) {
				continue
			}
			why, hint, ok := strings.Cut(sw.Effect, "; ")
			if !ok {
				hint = "change or remove it there"
			}
			off := Finding{ID: "settings.off", Level: Bad, Subject: l.file, What: fmt.Sprintf("%s is %s in %s", sw.Path, cut(raw(value), 60), l.file), Why: "this " + why, Hint: hint}
			if sw.SparesManaged && l.scope != string(install.Managed) && !slices.ContainsFunc(a.installs, func(in installed) bool { return in.Scope != string(install.Managed) }) {
				off.Level, off.Why, off.Hint = Info, "managed hooks run anyway", ""
			}
			found = append(found, off)
		}
		found = append(found, judgeStrict(a, &l)...)
		found = append(found, judgeUnknown(a, &l)...)
	}
	return found
}

// at returns the value of a tree at a path with dots.
func at(tree map[string]any, path string) (any, bool) {
	var value any = tree
	for name := range strings.SplitSeq(path, ".") {
		object, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		if value, ok = object[name]; !ok {
			return nil, false
		}
	}
	return value, true
}

// holds reports whether a setting has the value that switches hooks off.
func holds(sw dialect.Switch, value any, setup *dialect.Setup) bool {
	if sw.Names {
		list, _ := value.([]any)
		return slices.ContainsFunc(list, func(v any) bool {
			name, _ := v.(string)
			return name == cmp.Or(setup.Label, "grapnel") || strings.Contains(name, "grapnel-hook")
		})
	}
	return sw.Is == "" || bytes.Equal([]byte(raw(value)), canonical(sw.Is))
}

func canonical(text string) []byte {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return []byte(text)
	}
	return []byte(raw(v))
}

func cut(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n]) + "..."
	}
	return text
}

// judgeStrict judges agents that ignore the whole file if it contains one unknown event, even in
// an entry of another program.
func judgeStrict(a *agent, l *layer) []Finding {
	if !a.Setup().Strict || l.rel != "" {
		return nil
	}
	var found []Finding
	reported := map[string]bool{}
	for _, h := range l.hooks {
		if h.Event == "" || reported[h.Event] || a.row(h.Event) != nil || a.Setup().Fold {
			continue
		}
		reported[h.Event] = true
		found = append(found, Finding{
			ID: "settings.void", Level: Bad, Subject: l.file, What: fmt.Sprintf("%s contains the event %q, which %s is not known to have", l.file, h.Event, a.Title),
			Why: "one unknown event makes it ignore the whole file, including Grapnel's entries", Hint: "remove it, unless this version of " + a.Title + " has it",
		})
	}
	return found
}

// judgeUnknown judges entries for events that the agent's version does not have.
func judgeUnknown(a *agent, l *layer) []Finding {
	var events []string
	hint := fmt.Sprintf("grapnel install %s --scope %s", a.Name, l.scope)
	for _, h := range l.hooks {
		if l.rel != "" || !a.lacks(h.Event) || slices.Contains(events, h.Event) {
			continue
		}
		events = append(events, h.Event)
		if !h.Ours {
			hint = "remove them, or update " + a.Title
		}
	}
	if len(events) == 0 {
		return nil
	}
	f := Finding{
		ID: "install.events", Level: Warn, Subject: l.file, What: fmt.Sprintf("%s contains events that %s %s does not know: %s", l.file, a.Title, a.version, strings.Join(events, ", ")),
		Why: "it ignores them, and may show a warning at each start", Hint: hint,
	}
	if install.Older(a.version, a.Setup().StrictBefore) {
		f.Level, f.Why = Bad, "one unknown event makes it ignore the whole file, including Grapnel's entries"
	}
	return []Finding{f}
}

// judgeEvents judges the events that the policy needs.
func judgeEvents(f *facts, a *agent) []Finding {
	if len(a.installs) == 0 {
		return nil
	}
	asked := map[string]bool{}
	for _, in := range a.installs {
		for _, event := range in.Events {
			asked[event] = true
		}
	}
	kinds := map[grapnel.Kind]bool{}
	for _, s := range f.specs {
		for _, kind := range s.On {
			kinds[kind] = true
		}
	}
	var found []Finding
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		var rows []dialect.EventRow
		for _, row := range a.Events {
			if row.Kind == kind || row.Failed == kind {
				rows = append(rows, row)
			}
		}
		hooks := strings.Join(hooksOf(f.specs, kind), ", ")
		foreign := strings.HasPrefix(string(kind), grapnel.NativePrefix) && !strings.HasPrefix(string(kind), grapnel.NativePrefix+a.Name+".")
		switch {
		case foreign || slices.ContainsFunc(rows, func(r dialect.EventRow) bool { return asked[r.Native] }):
		case len(rows) == 0:
			found = append(found, Finding{
				ID: "events.absent", Level: Info, Subject: string(kind), What: fmt.Sprintf("%s has no %s, which hooks listen to: %s", a.Title, kind, hooks),
				Why: "they never run there",
			})
		case !slices.ContainsFunc(rows, func(r dialect.EventRow) bool { return !a.lacks(r.Native) }):
			found = append(found, Finding{
				ID: "events.absent", Level: Info, Subject: string(kind), What: fmt.Sprintf("%s %s has no %s, which hooks listen to: %s", a.Title, a.version, rows[0].Native, hooks),
				Why: "they never run there", Hint: fmt.Sprintf("update %s to %s or newer, then: grapnel install %s", a.Title, rows[0].Since, a.Name),
			})
		case rows[0].Never:
			found = append(found, Finding{
				ID: "events.never", Level: Info, Subject: string(kind), What: fmt.Sprintf("Grapnel never gets %s's event %s, which hooks listen to: %s", a.Title, rows[0].Native, hooks),
				Why: rows[0].Why,
			})
		default:
			found = append(found, Finding{
				ID: "events.missing", Level: Warn, Subject: string(kind), What: fmt.Sprintf("%s does not call Grapnel for %s, which hooks listen to: %s", a.Title, rows[0].Native, hooks),
				Why: "they never run there", Hint: "grapnel install " + a.Name,
			})
		}
	}
	return found
}

// quiet is how much newer an agent's own files may be than its last Record.
const quiet = time.Hour

// judgeUnseen judges actions that no hook sees.
func judgeUnseen(f *facts, a *agent) []Finding {
	if len(a.installs) == 0 {
		return nil
	}
	var found []Finding
	if a.Setup().Documented {
		found = append(found, Finding{
			ID: "agent.documented", Level: Info, What: fmt.Sprintf("no version of %s was tested", a.Title),
			Why: "Grapnel knows its hooks only from documentation and reports", Hint: "check with a harmless command that a rule blocks it",
		})
	}
	for _, what := range a.Setup().Unseen {
		found = append(found, Finding{ID: "unseen", Level: Info, What: "no hook sees: " + what})
	}
	if len(a.tools) > 0 {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(a.tools)) {
			names = append(names, fmt.Sprintf("%s (%d)", name, a.tools[name]))
		}
		found = append(found, Finding{
			ID: "tools.unknown", Level: Info, What: "unknown tools were called: " + strings.Join(names, ", "),
			Why: "rules for classes, paths or commands do not see their actions", Hint: "match them by name: {tool: NAME}",
		})
	}
	since := a.last
	for _, in := range a.installs {
		if in.Time.After(since) {
			since = in.Time
		}
	}
	if a.lastUsed.Sub(since) > quiet {
		last := "no record since " + day(f.since)
		if !a.last.IsZero() {
			last = "the last record is from " + minute(a.last)
		}
		found = append(found, Finding{
			ID: "records.stopped", Level: Warn, Subject: a.lastFile, What: fmt.Sprintf("%s was used at %s, but %s", a.Title, minute(a.lastUsed), last),
			Why: "a session ran without calling Grapnel", Hint: "start it, run any tool, then check: grapnel log --agent " + a.Name,
		})
	}
	return found
}

// absurd is the maximum duration of a reply, as a multiple of a program that does nothing, if the
// user has set no limit.
const absurd = 60

// judgeLatency judges how long a reply takes.
func judgeLatency(a *agent) []Finding {
	l := a.latency
	if l == nil {
		return nil
	}
	if l.failed != "" {
		return []Finding{{ID: "latency.failed", Level: Bad, Subject: l.event, What: "the installed command does not answer: " + l.failed, Why: "so the agent gets no answer", Hint: "grapnel install " + a.Name}}
	}
	ratio := 0.0
	what := fmt.Sprintf("%s is answered in %s, at most %s (%d runs", l.event, ms(l.median), ms(l.most), l.runs)
	if l.floor > 0 {
		ratio = float64(l.median) / float64(l.floor)
		what += fmt.Sprintf(", %.1f times a program that does nothing", ratio)
	}
	f := Finding{ID: "latency", Level: OK, Subject: l.event, What: what + ")"}
	if len(l.without) > 0 {
		f.What += ", without your policy"
		f.Why = "with your policy, these programs would have run: " + strings.Join(l.without, ", ")
	}
	switch {
	case l.wait > 0 && l.most > l.wait:
		f.ID, f.Level, f.Why, f.Hint = "latency.late", Bad, fmt.Sprintf("%s waits %s, and continues without a reply", a.Title, l.wait), "grapnel status names the slow hooks"
	case l.slow > 0 && l.median > l.slow, l.slow == 0 && ratio > absurd:
		f.ID, f.Level, f.Why, f.Hint = "latency.slow", Warn, "the agent waits this long at every event", "grapnel status names the slow hooks"
	}
	return []Finding{f}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }
