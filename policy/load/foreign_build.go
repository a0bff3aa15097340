package load

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/seam"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
)

// buildForeign builds the Specs of the hooks in an entry's files. dir is the directory of the
// policy file. trust is nil if the files need no trust. Hooks that cannot be built are skipped.
// rows has one element per file and counts its hooks.
func (ld *loader) buildForeign(f *hookfiles.Format, p *policyfile.Policy, trust *Trust, dir string, files []hookfiles.File, hooks []hookfiles.Hook) (specs []grapnel.Spec, rows []Loaded) { //nolint:gocognit // a hook can be skipped for several reasons, which share its row
	rows = make([]Loaded, len(files))
	rules := f.PresetRow()
	preset, _ := grapnel.FindPreset(rules.Name)
	byKey := map[string][]*foreignMatcher{}
	for i := range hooks {
		h, file, row := &hooks[i], &files[hooks[i].FileIndex], &rows[hooks[i].FileIndex]
		if h.Off {
			continue
		}
		if !ld.fits(h) {
			row.Hooks++
			continue
		}
		if h.Complete != nil {
			h.Complete(h)
			h.Complete = nil
		}
		spec, err := ld.foreignSpec(p, trust, dir, h, file.Source)
		if err != nil {
			row.Errors = append(row.Errors, &policyfile.Error{File: file.Path, Line: h.Line, Col: min(h.Line, 1), Msg: fmt.Sprintf("hook %q: %v", h.Name, err)})
			continue
		}
		if spec.Hook == nil {
			continue // the caller builds no hooks of this kind
		}
		if spec.OnError == grapnel.OnErrorDefault && (p.Strict || spec.Source.Scope == grapnel.ScopeManaged) {
			spec.OnError = grapnel.OnErrorClosed
		}
		spec = preset.Defaults(spec)
		policy.FailOpen(&spec)
		if h.Handler != nil {
			spec.Timeout = time.Duration(h.Timeout) // rules run without a timeout: a goroutine for each would cost more than the rule itself
		}
		if h.Run != nil && spec.Timeout == 0 {
			spec.Timeout = policyfile.DefaultTimeout
		}
		m := &foreignMatcher{on: spec.On}
		if file.Own {
			m.runs, m.where = f.Agent, file.WorkDir
		}
		for _, matcher := range []grapnel.Matcher{spec.Match, h.Matcher} {
			if matcher != nil {
				m.all = append(m.all, matcher)
			}
		}
		if rules.Once && h.Key != "" {
			m.before = byKey[h.Key]
			byKey[h.Key] = append(byKey[h.Key], m)
		}
		if m.runs != "" || m.all != nil || m.before != nil {
			spec.Match = m
		}
		spec.Key, spec.Sequential = h.Key, h.Sequential
		specs = append(specs, spec)
		switch {
		case h.Webhook != nil:
			row.Webhooks++
		case h.Run != nil:
			row.Commands++
		default:
			row.Rules++
		}
		if h.File != nil {
			handler := *h.File
			handler.Hook = h.Name
			row.Handlers = append(row.Handlers, handler)
		}
		row.Hooks++
	}
	return specs, rows
}

// fits reports whether a hook may run at the event that the Set is used for. At events with notices,
// every hook is built, because a notice names those that cannot be.
func (ld *loader) fits(h *hookfiles.Hook) bool {
	if ld.about == nil || notice.Shows(ld.about.Kind) {
		return true
	}
	if !slices.Contains(h.On, ld.about.Kind) {
		return false
	}
	if h.Matcher == nil || h.Reads && ld.Event == nil {
		return true
	}
	ok, err := h.Matcher.Match(ld.about, nil)
	return ok || err != nil
}

// foreignSpec builds the Spec of one hook. Spec.Hook is nil if the request has no function for its
// kind.
func (ld *loader) foreignSpec(p *policyfile.Policy, trust *Trust, dir string, h *hookfiles.Hook, source grapnel.Source) (spec grapnel.Spec, err error) {
	for _, kind := range h.On {
		if !kind.Known() && !kind.Native() {
			return spec, fmt.Errorf("unknown event %q", kind)
		}
	}
	if h.Run != nil && h.Run.Scope == grapnel.ScopePlugin && source.Scope == grapnel.ScopeUser {
		source.Scope = grapnel.ScopePlugin // a plugin of the user has fewer rights than the user
	}
	if it := ld.ruling.of(source.File); policyfile.OfProject(source.Scope) {
		switch {
		case h.Run != nil && it&mayRun == 0:
			return spec, errors.New(notGranted(startPrograms))
		case h.Webhook != nil && it&mayHTTP == 0:
			return spec, errors.New(notGranted(reachServers))
		}
		defer func() { spec.MayAllow = it&mayAllow != 0 && !ld.noAllow }()
	}
	switch {
	case h.Handler != nil:
		spec, err = policy.HookSpec(&h.Hook, source, ld.facts)
		spec.Hook, spec.Phase = h.Handler, h.Phase
	case h.Webhook != nil:
		if spec, err = policy.HookSpec(&h.Hook, source, ld.facts); err != nil || ld.Webhook == nil {
			return spec, err
		}
		w := *h.Webhook
		w.Name = cmp.Or(w.Name, source.Name+"::"+h.Name)
		spec.Phase = grapnel.PhaseObserve
		spec.Hook, err = ld.Webhook(w)
	case h.Run != nil && ld.Command == nil:
	case h.Run != nil:
		run, newCommand := *h.Run, ld.Command
		run.Name = h.Name
		if trust != nil {
			newCommand = trust.command(newCommand, source.Name+"::")
		}
		plain := h.Hook
		plain.Run = &run
		b := &policy.Builder{Policy: &policyfile.Policy{Strict: p.Strict}, Facts: ld.facts}
		b.Command = func(c policyfile.Command) grapnel.Hook {
			if h.Start != nil {
				c.Title, c.Args = strings.Join(c.Args, " "), h.Start
			}
			if c.Dir = dir; !policyfile.OfProject(c.Scope) {
				c.Scope = max(c.Scope, run.Scope) // a plugin of the user has fewer rights than the user
			}
			return newCommand(c)
		}
		spec, err = b.Spec(&plain, source)
		spec.Timeout = time.Duration(h.Timeout)
	default:
		spec, err = policy.BuildRule(&h.Hook, source, ld.facts)
	}
	return spec, err
}

// foreignMatcher is the Matcher of a hook in a foreign file. It ignores events of the agent that
// runs the hook itself, and events for which an earlier hook with the same key runs.
type foreignMatcher struct {
	runs   string // the agent that runs the hook itself
	where  string // only if the session's root is this directory; empty = anywhere
	on     []grapnel.Kind
	all    []grapnel.Matcher
	before []*foreignMatcher // matchers of earlier hooks with the same key
}

// Match reports whether the hook matches the event and no earlier hook with the same key does.
func (m *foreignMatcher) Match(ev *grapnel.Event, v *grapnel.Verdict) (bool, error) {
	runs, err := m.wants(ev, v)
	if !runs && !errors.Is(err, grapnel.ErrUndecided) {
		return false, err
	}
	for _, other := range m.before {
		ok, err := other.wants(ev, v)
		if (ok || errors.Is(err, grapnel.ErrUndecided)) && slices.Contains(other.on, ev.Kind) {
			return false, nil
		}
	}
	return runs, err
}

// wants reports whether the hook matches the event, regardless of other hooks.
func (m *foreignMatcher) wants(ev *grapnel.Event, v *grapnel.Verdict) (bool, error) {
	if m.runs != "" && m.runs == ev.Agent.Name && (m.where == "" || m.where == match.RealPath(ev.Session.Root)) {
		return false, nil
	}
	for _, matcher := range m.all {
		if ok, err := matcher.Match(ev, v); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// Explain joins the explanations of its matchers.
func (m *foreignMatcher) Explain(ev *grapnel.Event, v *grapnel.Verdict) string {
	var texts []string
	for _, matcher := range m.all {
		if e, ok := matcher.(seam.Explainer[grapnel.Event, grapnel.Verdict]); ok {
			if text := e.Explain(ev, v); text != "" {
				texts = append(texts, text)
			}
		}
	}
	return strings.Join(texts, ", ")
}

// describe returns the conditions of the hook. It skips a match that is only close to
// the matcher of the other system.
func (m *foreignMatcher) describe() []string {
	var parts []string
	for i, matcher := range m.all {
		switch known := matcher.(type) {
		case *match.Matcher:
			if i == len(m.all)-1 {
				parts = append(parts, match.ConditionsOf(known).Describe()...)
			}
		case seam.Explainer[grapnel.Event, grapnel.Verdict]: // the matchers of package hookfiles do not depend on the event
			if text := known.Explain(nil, nil); text != "" {
				parts = append(parts, text)
			}
		}
	}
	if m.runs != "" {
		parts = append(parts, "not in "+m.runs+", which runs it itself")
	}
	return parts
}

// An entry is one entry of `load:` with the files and hooks found for it.
type entry struct {
	format *hookfiles.Format
	files  []*candidate
	hookfiles.Found
	in []hookfiles.File // the parsed files; Hook.FileIndex is an index into this list
}

// settle parses the files until none of them has errors. A file with errors is replaced by its last
// valid content, or skipped if it has none. A brief result is for one event; see hookfiles.Format.
func (e *entry) settle(last func(*candidate) []byte, brief bool) {
	for {
		var from []*candidate
		e.in = nil
		for _, c := range e.files {
			if c.Source.Digest != "" {
				from, e.in = append(from, c), append(e.in, c.File)
			}
		}
		if e.Found = (hookfiles.Found{}); e.in == nil {
			return
		}
		if e.Found = e.format.Read(e.in, brief); len(e.Broken) == 0 {
			return
		}
		for _, err := range e.Broken {
			c := from[max(0, slices.IndexFunc(from, func(c *candidate) bool { return c.Path == err.File }))]
			old := last(c)
			if c.err == nil {
				c.state, c.err = Broken, err
			}
			if c.Source.Digest == "" || old != nil && files.Digest(old) == c.Source.Digest {
				old = nil // the last content has the same errors
			}
			if c.Source.Digest = ""; old != nil {
				c.last(old)
			}
		}
	}
}

// loadForeign loads the files of a policy's `load:` key. If trust is nil, it loads their current
// content, otherwise the trusted content.
func (ld *loader) loadForeign(file File, policy *policyfile.Policy, trust *Trust) (specs []grapnel.Spec, rows []Loaded) {
	for i := range policy.Load {
		l := &policy.Load[i]
		key := entryKey{file, i, l.Format.Text, l.File}
		e := ld.entries[key]
		if e == nil {
			e = ld.entry(file, l, i, trust)
			if ld.entries != nil {
				ld.entries[key] = e
			}
		}
		// Skip files that another source already loaded. This must happen after all files are read,
		// because the names of the other files and their pinned programs depend on the full list.
		ld.skipSeen(e)
		more, counted := ld.buildForeign(e.format, policy, trust, filepath.Dir(file.Path), e.in, e.Hooks)
		if e.format.PresetRow().Unite {
			for j := range more {
				more[j].Unite = fmt.Sprintf("%s load[%d]", file.Path, i)
			}
		}
		specs = append(specs, more...)
		for _, c := range e.files {
			row := Loaded{}
			if j := slices.IndexFunc(e.in, func(f hookfiles.File) bool { return f.Path == c.Path }); j >= 0 {
				row = counted[j]
			}
			e.row(&row, c, file)
			if row.Notice != "" {
				specs = append(specs, row.notice(c.Source))
			}
			if c.Source.Digest == "" && c.state != Untrusted {
				specs = append(specs, brokenSpec(c.Source, c.err))
			}
			rows = append(rows, row)
		}
	}
	return specs, rows
}

// An entryKey identifies an entry of `load:` while the policies are loaded a second time, because a
// hook may change the event.
type entryKey struct {
	file         File
	index        int
	format, name string
}

// entry finds and parses the files of an entry.
func (ld *loader) entry(file File, l *policyfile.LoadFrom, i int, trust *Trust) *entry {
	e := &entry{format: systems.Find(l.Format.Text)}
	last := func(*candidate) []byte { return nil }
	snaps, kept := snapshots{dir: ld.Snapshots}, keptEntry{}
	switch {
	case trust != nil:
		e.files = ld.trusted(file, l, i, trust)
	case file.Root: // snapshots are writable by the user, so they are not used
		kept = snaps.entry(file.Path, l)
		e.files = ld.withLast(file, e.format, ld.find(file, l), &keptEntry{}, last)
	default:
		kept = snaps.entry(file.Path, l)
		last = func(c *candidate) []byte { return snaps.foreign(c.Source.Name, kept.digest(c.Path)).Data }
		e.files = ld.withLast(file, e.format, ld.find(file, l), &kept, last)
	}
	e.settle(last, ld.about != nil)
	if trust == nil {
		snaps.keepEntry(&kept, e)
	}
	return e
}

// skipSeen switches off the hooks of files that another source already loaded, and marks the others
// as loaded.
func (ld *loader) skipSeen(e *entry) {
	for _, c := range e.files {
		if ld.seen[c.called()] {
			ld.seen[c.Source.Name] = true
		}
	}
	for j := range e.Hooks {
		e.Hooks[j].Off = ld.seen[e.in[e.Hooks[j].FileIndex].Source.Name]
	}
	e.files = slices.DeleteFunc(e.files, func(c *candidate) bool { return ld.seen[c.Source.Name] })
	for _, c := range e.files {
		ld.seen[c.Source.Name], ld.seen[c.called()] = true, true
	}
}

// withLast adds files that existed before and were deleted. Files that cannot be read get their
// last valid content.
func (ld *loader) withLast(file File, f *hookfiles.Format, found []*candidate, kept *keptEntry, last func(*candidate) []byte) []*candidate {
	for _, k := range kept.Files {
		if !slices.ContainsFunc(found, func(c *candidate) bool { return c.Path == k.Path }) {
			c := ld.candidate(f, file, k.Path, k.Name)
			c.state, c.err = Gone, &policyfile.Error{File: k.Path, Msg: goneNow}
			found = append(found, c)
		}
	}
	for _, c := range found {
		if c.unsettled && ld.Settled {
			if old := last(c); old != nil {
				c.content(old)
			}
		}
		if c.Source.Digest != "" {
			continue
		}
		if old := last(c); old != nil {
			c.last(old)
		}
		if c.state == Absent { // the policy names this file
			c.state = Broken
			if c.Source.Digest != "" {
				c.state = Gone
			}
		}
	}
	return slices.DeleteFunc(found, func(c *candidate) bool { return c.state == Gone && c.Source.Digest == "" })
}

// row sets the state of a file and its messages. The hooks in force are already counted.
func (e *entry) row(row *Loaded, c *candidate, file File) {
	row.File, row.Scope, row.Format, row.State, row.Digest = c.Path, file.Scope.String(), e.format.Name, c.state, c.Source.Digest
	if c.Own && c.WorkDir == "" {
		row.RunBy = e.format.Agent
	}
	if c.Source.Digest != "" {
		row.Order = e.Order[c.Path]
		row.Errors = append(ofFile(e.Errors, c.Path), row.Errors...)
		row.Notes = ofFile(e.Notes, c.Path)
		row.Skipped = len(row.Errors)
	}
	var notices []string
	addNotice := func(format string, args ...any) {
		notices = append(notices, policyfile.OneLine(fmt.Sprintf("grapnel: "+format, args...)))
	}
	switch trusts := fmt.Sprintf("Review it with \"grapnel trust %s\"", file.Path); {
	case c.state == Untrusted:
		addNotice("%s is not in force, because it did not exist when %s was trusted. %s.", c.Path, file.Path, trusts)
	case c.Source.Digest == "":
		addNotice("%v; tools are blocked until it is fixed. Run \"grapnel check\".", c.err)
	case file.Trust && c.err != nil:
		addNotice("%s %s; the trusted content stays active. %s, or stop enforcing it with \"grapnel untrust %s\".", c.Path, c.err.Msg, trusts, file.Path)
	case c.state == Gone:
		addNotice("%s was deleted; its last content stays active. To stop enforcing it, run \"grapnel untrust %s\".", c.Path, c.Path)
	case c.state == Broken:
		addNotice("%v; its last valid content stays active. Run \"grapnel check\".", c.err)
	}
	if row.Skipped > 0 {
		addNotice("%d of %d hooks of %s are skipped: %s. Run \"grapnel check\".", row.Skipped, row.Skipped+row.Hooks, c.Path, listed(row.Errors))
	}
	if c.err != nil && c.state != Untrusted {
		row.Errors = append([]*policyfile.Error{c.err}, row.Errors...)
	}
	row.Notice = strings.Join(notices, "\n")
}

// maxListed limits the skipped hooks that a message names.
const maxListed = 5

// listed returns the errors of skipped hooks as one line.
func listed(errs []*policyfile.Error) string {
	var texts []string
	for _, err := range errs[:min(len(errs), maxListed)] {
		texts = append(texts, err.Error())
	}
	if more := len(errs) - maxListed; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// trusted lists the foreign files of a project's policy: the trusted files with their trusted
// content, and files that were added later.
func (ld *loader) trusted(file File, l *policyfile.LoadFrom, i int, trust *Trust) []*candidate {
	now := ld.find(file, l)
	var all []*candidate
	for _, pin := range trust.Loads {
		if pin.Entry != i {
			continue
		}
		c := ld.candidate(systems.Find(l.Format.Text), file, pin.Path, pin.Name)
		c.state = Trusted
		data, err := ld.Trusts.Content(pin.SHA256)
		if err != nil {
			c.state, c.err = Broken, &policyfile.Error{File: pin.Path, Msg: err.Error(), Hint: fmt.Sprintf("run \"grapnel trust %s\" again", file.Path)}
			all = append(all, c)
			continue
		}
		c.content(data)
		j := slices.IndexFunc(now, func(n *candidate) bool { return n.Path == pin.Path })
		switch {
		case j < 0 || now[j].state == Absent:
			c.state, c.err = Gone, &policyfile.Error{File: pin.Path, Msg: goneNow}
		case now[j].err != nil:
			c.state, c.err = Changed, now[j].err
		case now[j].Source.Digest != pin.SHA256:
			c.state, c.err = Changed, &policyfile.Error{File: pin.Path, Msg: "was changed"}
		default:
			c.Own, c.WorkDir = now[j].Own, now[j].WorkDir
		}
		all = append(all, c)
	}
	for _, n := range now {
		if n.state != Absent && !slices.ContainsFunc(all, func(c *candidate) bool { return c.Path == n.Path }) {
			n.state, n.Data, n.Source.Digest = Untrusted, nil, ""
			all = append(all, n)
		}
	}
	return all
}

// Source returns the hooks of a source at the given digest. It reads the stored content, not
// the current files. A project's source must still be trusted.
func Source(req Request, source grapnel.Source) ([]grapnel.Spec, error) {
	ld := &loader{Request: req, facts: &match.FactCache{Clock: req.Now}}
	name := strings.TrimSuffix(strings.TrimSuffix(source.Name, source.File), ":")
	if !slices.Contains(systems.Names, name) {
		return ld.loadPolicySource(source)
	}
	return ld.loadForeignSource(source)
}

func (ld *loader) loadForeignSource(source grapnel.Source) ([]grapnel.Spec, error) {
	f := systems.Find(strings.TrimSuffix(strings.TrimSuffix(source.Name, source.File), ":"))
	file, policy, c := File{Path: source.File, Scope: source.Scope}, &policyfile.Policy{}, (*candidate)(nil)
	trust, pin := ld.Trusts.naming(source)
	switch {
	case trust != nil:
		file.Path = trust.File
		data, err := ld.Trusts.Content(pin.SHA256)
		if err != nil {
			return nil, err
		}
		c = ld.candidate(f, file, pin.Path, pin.Name)
		c.content(data)
	default:
		kept := snapshots{dir: ld.Snapshots}.foreign(source.Name, source.Digest)
		if kept.Data == nil {
			return nil, fmt.Errorf("the content %s of %s is no longer stored", source.Digest, source.File)
		}
		file.Path = kept.Policy
		c = ld.candidate(f, file, source.File, kept.Name)
		c.content(kept.Data)
	}
	e := &entry{format: f, files: []*candidate{c}}
	e.settle(func(*candidate) []byte { return nil }, false)
	specs, _ := ld.buildForeign(f, policy, trust, filepath.Dir(file.Path), e.in, e.Hooks)
	return specs, nil
}

func (ld *loader) loadPolicySource(source grapnel.Source) ([]grapnel.Spec, error) {
	file := File{Path: source.File, Scope: source.Scope, Must: true}
	if policyfile.OfProject(source.Scope) {
		trust, err := ld.Trusts.Of(source.File)
		if err != nil {
			return nil, err
		}
		file.Trust = trust != nil // without trust, the file was named on a command line
	}
	req := ld.Request
	req.Files, req.Frozen = []File{file}, map[string]string{source.File: source.Digest}
	var specs []grapnel.Spec
	for _, spec := range Policies(req).Specs {
		if spec.Source.Name == source.Name && spec.Source.Digest == source.Digest {
			specs = append(specs, spec)
		}
	}
	return specs, nil
}

// foreignSnapshot is the stored content of a foreign file.
type foreignSnapshot struct {
	Policy string // the policy file that loads it
	Name   string
	Data   []byte
}

// keptEntry lists the valid files that a `load:` entry found last. Grapnel needs the list to notice
// a deleted file that a pattern found before.
type keptEntry struct {
	Policy string     `json:"policy"`
	Format string     `json:"format"`
	File   string     `json:"file,omitempty"` // the entry's `file:` value
	Files  []keptFile `json:"files"`
}

type keptFile struct {
	Path   string `json:"path"`
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

func (k *keptEntry) digest(path string) string {
	for _, f := range k.Files {
		if f.Path == path {
			return f.SHA256
		}
	}
	return ""
}

const keptPrefix = "load-"

func (s snapshots) entryFile(k *keptEntry) string {
	return filepath.Join(s.dir, keptPrefix+files.Digest([]byte(k.Policy + "\x00" + k.Format + "\x00" + k.File))[:16])
}

// entry returns the stored list of the files that an entry found last.
func (s snapshots) entry(policy string, l *policyfile.LoadFrom) keptEntry {
	k := keptEntry{Policy: policy, Format: l.Format.Text, File: l.File}
	if s.dir == "" {
		return k
	}
	old, err := readEntry(s.entryFile(&k))
	if err == nil && old.Policy == k.Policy && old.Format == k.Format && old.File == k.File {
		k.Files = old.Files
	}
	return k
}

func readEntry(name string) (k keptEntry, err error) {
	data, err := files.Read(name, yaml.MaxSize)
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	return k, err
}

// keepEntry stores the valid files of an entry, including earlier content that is still in force.
func (s snapshots) keepEntry(k *keptEntry, e *entry) {
	var now []keptFile
	for _, c := range e.files {
		if c.Source.Digest == "" {
			continue
		}
		now = append(now, keptFile{c.Path, c.Name, c.Source.Digest})
		if s.dir != "" && k.digest(c.Path) != c.Source.Digest &&
			!s.keepAs(s.foreignDigest(c.Source.Name, c.Source.Digest), snapshot{Foreign: &foreignSnapshot{k.Policy, c.Name, c.Data}}) {
			return
		}
	}
	// Hooks that run after the reply read a content by its digest. A file that was just changed is
	// kept for them, but it is not the last valid content yet.
	if s.dir == "" || slices.Equal(now, k.Files) || slices.ContainsFunc(e.files, func(c *candidate) bool { return c.unsettled }) {
		return
	}
	k.Files = now
	if data, err := json.Marshal(k); err == nil {
		_ = files.Write(s.entryFile(k), data, 0o600)
	}
	s.prune()
}

// foreignDigest returns the name of a foreign file's snapshot. It depends on the source name and
// the content.
func (s snapshots) foreignDigest(source, sum string) string {
	return files.Digest([]byte(source + "\n" + sum))
}

// foreign returns the stored content of a foreign source with the given digest, or an empty value.
func (s snapshots) foreign(source, sum string) foreignSnapshot {
	if s.dir == "" || sum == "" {
		return foreignSnapshot{}
	}
	snap, _ := s.readSnapshot(s.foreignDigest(source, sum), nil)
	if snap == nil || snap.Foreign == nil || files.Digest(snap.Foreign.Data) != sum {
		return foreignSnapshot{}
	}
	return *snap.Foreign
}

// forgetForeign removes a foreign file from the stored entries, and reports whether any entry had
// it.
func (s snapshots) forgetForeign(path string) (bool, error) {
	names, _ := filepath.Glob(filepath.Join(s.dir, keptPrefix+"*"))
	found := false
	for _, name := range names {
		k, err := readEntry(name)
		if err != nil || k.digest(path) == "" {
			continue
		}
		found = true
		k.Files = slices.DeleteFunc(k.Files, func(f keptFile) bool { return f.Path == path })
		data, err := json.Marshal(k)
		if err == nil {
			err = files.Write(name, data, 0o600)
		}
		if err != nil {
			return true, fmt.Errorf("cannot delete %s: %w", path, err)
		}
	}
	return found, nil
}

// addReach adds the servers that the policy in a file opens.
func addReach(r *policyfile.Reach, p *policyfile.Policy, file string) {
	for _, w := range p.Networks {
		r.Networks = append(r.Networks, w.Text)
	}
	if p.CA.Text != "" {
		r.CA = append(r.CA, home.Absolute(p.CA.Text, filepath.Dir(file)))
	}
}
