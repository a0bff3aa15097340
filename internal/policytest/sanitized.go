package policytest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/sample"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/yaml"
)

// recordedProject replaces the path of the agent's project.
const recordedProject = "/repo"

// sanitizedEvent is the event of a Record without private data: secrets, and the user's directories.
type sanitizedEvent struct {
	agent   string // the name of its dialect
	dialect *dialect.Dialect
	payload json.RawMessage
	event   *grapnel.Event // the event as the dialect reads the payload
	cwd     string
	masked  bool
	clean   func(string) string
}

// A form is one way to write an event in a test.
type form struct {
	Event
	words words
	at    time.Time // time of an earlier event, if time must pass after it; zero = no time passes
}

// gapBehind returns the time between the earlier event i and the next event. last is the time of
// the tested event, which follows the earlier ones.
func gapBehind(before []form, i int, last time.Time) time.Duration {
	if before[i].at.IsZero() {
		return 0
	}
	if i+1 < len(before) {
		last = before[i+1].at
	}
	return max(0, last.Sub(before[i].at).Round(time.Second))
}

// sanitize removes private data from an event.
func (r *Recorder) sanitize(ev *grapnel.Event, e *spool.Entry) (*sanitizedEvent, error) {
	t := &sanitizedEvent{cwd: recordedProject}
	payload := ev.Native
	var ok bool
	if t.dialect, ok = dialect.FindAgent(cmp.Or(ev.Agent.Name, e.Agent)); !ok || payload == nil {
		t.dialect = dialect.Plain()
		plain := *ev
		plain.ID, plain.Native = "", nil
		text, err := rawjson.Marshal(&plain)
		if err != nil {
			return nil, err
		}
		payload = text
	}
	t.agent = t.dialect.Name
	t.clean = r.cleaner(ev, t)
	if hidden := r.opts.Mask(string(payload)); json.Valid([]byte(hidden)) {
		payload = json.RawMessage(hidden)
	}
	root, err := yaml.Parse(payload) // YAML includes JSON, and this parser keeps the order of members
	if err != nil {
		return nil, fmt.Errorf("cannot read the event again: %w", err)
	}
	if root.Kind != yaml.Map {
		return nil, errors.New("the event is not a JSON object")
	}
	gone := func(p yaml.Pair) bool {
		return slices.Contains([]string{"transcript_path", "timestamp", "time"}, p.Key.Text) ||
			p.Key.Text == "cwd" && t.clean(p.Value.Text) == t.cwd
	}
	kept := slices.DeleteFunc(slices.Clone(root.Pairs), gone)
	for _, pairs := range [][]yaml.Pair{kept, root.Pairs} { // unless the agent's dialect requires them
		root.Pairs = pairs
		t.payload = fill(root, t.clean).JSON()
		got := dialect.ReceiveAs(t.dialect, t.payload, e.Event)
		if err = got.Err; err == nil && got.Event.Kind != e.Event {
			err = fmt.Errorf("without its secrets and paths %s reads it as %s", t.dialect.Name, got.Event.Kind)
		}
		if t.event = got.Event; err == nil {
			break
		}
	}
	t.masked = bytes.Contains(t.payload, []byte("***")) || bytes.Contains(t.payload, []byte("… [grapnel: "))
	return t, err
}

// cleaner returns a function that masks secrets in a text and replaces private paths and IDs.
func (r *Recorder) cleaner(ev *grapnel.Event, t *sanitizedEvent) func(string) string {
	type place struct{ at, as string }
	var places []place
	add := func(at, as string) {
		if at = strings.TrimRight(filepath.ToSlash(at), "/"); len(at) > 1 {
			places = append(places, place{at, as})
		}
	}
	cwd, home := ev.Session.CWD, r.opts.Home
	if r.opts.Private {
		t.cwd = cmp.Or(cwd, t.cwd)
		return r.opts.Mask
	}
	if filepath.IsAbs(cwd) || strings.HasPrefix(cwd, "/") {
		root := cmp.Or(ev.Session.Root, ProjectRoot(cwd))
		if below, ok := within(root, cwd); ok {
			t.cwd = path.Join(recordedProject, below)
		}
		if _, around := within(root, home); home == "" || !around { // not if the home directory is inside the project
			add(root, recordedProject)
		} else {
			t.cwd = recordedProject
		}
	}
	add(home, "~")
	return func(text string) string {
		if text == ev.Session.ID && text != "" {
			return sample.Session
		}
		if text == cwd && cwd != "" {
			return t.cwd
		}
		for _, p := range places {
			text = replacePath(text, p.at, p.as)
			if other := filepath.FromSlash(p.at); other != p.at {
				text = replacePath(text, other, p.as)
			}
		}
		return r.opts.Mask(text)
	}
}

// within returns the path of dir relative to root, and whether dir is inside root.
func within(root, dir string) (string, bool) {
	rel, err := filepath.Rel(root, dir)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// replacePath replaces a path that is complete, or the beginning of a longer one.
func replacePath(text, at, as string) string {
	part := func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_.-~", c) >= 0
	}
	var b strings.Builder
	last := byte(' ')
	for {
		i := strings.Index(text, at)
		if i < 0 {
			break
		}
		if i > 0 {
			last = text[i-1]
		}
		b.WriteString(text[:i])
		text = text[i+len(at):]
		if part(last) || last == '/' || text != "" && part(text[0]) {
			b.WriteString(at)
		} else {
			b.WriteString(as)
		}
		last = at[len(at)-1]
	}
	b.WriteString(text)
	return b.String()
}

// forms returns the ways to write the event, the shortest first. Each contains everything that
// rules check.
func (t *sanitizedEvent) forms() []form {
	var list []form
	for _, f := range []*form{t.short(), t.plain()} {
		if f != nil && t.matches(f) {
			list = append(list, *f)
		}
	}
	payload := form{Event: Event{Payload: t.payload, Agent: t.agent}}
	payload.words.add("agent", text(t.agent))
	payload.words.add("payload", t.payload)
	return append(list, payload)
}

// matches reports whether a form gives the same event after conversion to the agent's dialect.
func (t *sanitizedEvent) matches(f *form) bool {
	reported, err := f.report(t.dialect, t.cwd, 1)
	if err != nil {
		return false
	}
	return alikeEvents(t.event, reported.Event, t.cwd)
}

// alikeEvents compares the parts of two events that rules check.
func alikeEvents(a, b *grapnel.Event, cwd string) bool {
	if a.Kind != b.Kind || a.Cause != b.Cause || (a.Tool == nil) != (b.Tool == nil) || (a.Prompt == nil) != (b.Prompt == nil) {
		return false
	}
	type sub = grapnel.Subagent
	if as, bs := cmp.Or(a.Session.Subagent, &sub{}), cmp.Or(b.Session.Subagent, &sub{}); as.Type != bs.Type {
		return false
	}
	if a.Session.Mode != b.Session.Mode && !(usualMode(a) && usualMode(b)) {
		return false
	}
	if a.Prompt != nil && a.Prompt.Text != b.Prompt.Text {
		return false
	}
	if a.Tool == nil {
		return a.Prompt != nil || bytes.Equal(restOf(a), restOf(b))
	}
	at := func(list []grapnel.Path) (abs []grapnel.Path) {
		for _, p := range list {
			if !path.IsAbs(p.Path) && !strings.HasPrefix(p.Path, "~") {
				p.Path = path.Join(cwd, p.Path)
			}
			abs = append(abs, p)
		}
		return abs
	}
	x, y := a.Tool, b.Tool
	return x.Name == y.Name && x.Class == y.Class && x.Content == y.Content && slices.Equal(x.Commands, y.Commands) && slices.Equal(x.URLs, y.URLs) &&
		slices.Equal(at(x.Paths), at(y.Paths)) && x.Failed == y.Failed && (sameOutput(x.Output, y.Output) || x.Failed)
}

// sameOutput compares the outputs of two calls. For a shell only the text matters.
func sameOutput(a, b json.RawMessage) bool {
	if sample.Same(a, b) {
		return true
	}
	return shellText(a) != nil && sample.Same(shellText(a), shellText(b))
}

// shellText returns the output of a shell as a text, if it has no other information.
func shellText(raw json.RawMessage) json.RawMessage {
	var out map[string]json.RawMessage
	if json.Unmarshal(raw, &out) != nil {
		return nil
	}
	for name, value := range out {
		if name != "stdout" && !slices.Contains([]string{`""`, "false", "null"}, string(value)) {
			return nil
		}
	}
	return out["stdout"]
}

func usualMode(ev *grapnel.Event) bool { return ev.Session.Mode == "" || ev.Session.Mode == "default" }

// restOf returns an event as JSON, without its ID, time, agent, session and native payload.
func restOf(ev *grapnel.Event) []byte {
	out := *ev
	out.ID, out.Time, out.Agent, out.Session = "", time.Time{}, grapnel.Agent{}, grapnel.Session{}
	out.Native = nil
	text, err := rawjson.Marshal(&out)
	if err != nil {
		return nil
	}
	return text
}

// plain returns an event of the plain dialect, if its kind alone describes it, or nil.
func (t *sanitizedEvent) plain() *form {
	kind, err := rawjson.Marshal(map[string]grapnel.Kind{"kind": t.event.Kind})
	if err != nil || t.event.Tool != nil || t.event.Prompt != nil {
		return nil
	}
	f := &form{Event: Event{Plain: kind}}
	f.words.add("event", text(string(t.event.Kind)))
	return f
}

// short returns the event as a tool call or as a prompt, or nil if it is neither.
func (t *sanitizedEvent) short() *form {
	ev := t.event
	raw := []byte(t.payload)
	if t.dialect.Name != claudeCode().Name {
		var err error
		if raw, err = claudeCode().WriteEvent(ev); err != nil {
			return nil
		}
	}
	var p struct {
		Prompt *string                    `json:"prompt"`
		Tool   string                     `json:"tool_name"`
		Input  map[string]json.RawMessage `json:"tool_input"`
		Output json.RawMessage            `json:"tool_response"`
		Error  *string                    `json:"error"`
	}
	if json.Unmarshal(raw, &p) != nil {
		return nil
	}
	f := &form{}
	switch {
	case ev.Kind == grapnel.PromptBefore && p.Prompt != nil:
		f.Prompt = p.Prompt
		f.words.add("prompt", text(*p.Prompt))
	case ev.Tool != nil && slices.Contains([]grapnel.Kind{grapnel.ToolBefore, grapnel.ToolAfter, grapnel.ToolFailed}, ev.Kind):
		f.called(p.Tool, p.Input)
		switch ev.Kind {
		case grapnel.ToolAfter:
			if f.Output = p.Output; f.Output == nil {
				return nil
			}
			if output := shellText(p.Output); output != nil && p.Tool == classTools[grapnel.ClassShell] {
				f.Output = output
			}
			f.words.add("output", f.Output)
		case grapnel.ToolFailed:
			if f.Error = p.Error; f.Error == nil {
				return nil
			}
			f.words.add("error", text(*f.Error))
		default:
		}
	default:
		return nil
	}
	if t.dialect.Name == claudeCode().Name && !usualMode(ev) {
		f.Mode = ev.Session.Mode
		f.words.add("mode", text(f.Mode))
	}
	if s := ev.Session.Subagent; s != nil && s.Type != "" {
		f.Subagent = s.Type
		f.words.add("subagent", text(s.Type))
	}
	return f
}

// called writes a call of a Claude Code tool with as few keys as possible.
func (f *form) called(name string, input map[string]json.RawMessage) {
	rest := maps.Clone(input)
	f.Tool = name
	for class, usual := range classTools {
		if usual == name {
			f.Tool = string(class)
		}
	}
	var pairs words
	i := slices.IndexFunc(claudeCode().Tools, func(r dialect.ToolRow) bool { return r.Native == name })
	for _, part := range f.parts() {
		for _, fact := range factsOf(i) {
			member := strings.TrimPrefix(fact.At, "/")
			var value string
			if fact.Field != part.field || *part.text != nil || rest[member] == nil || json.Unmarshal(rest[member], &value) != nil {
				continue
			}
			delete(rest, member)
			if short, ok := strings.CutPrefix(value, recordedProject+"/"); ok && part.name == "path" && short != "" {
				value = short
			}
			if part.name != "content" || value != "" || usualInput[name]["content"] == nil {
				*part.text = &value
				pairs.add(part.name, text(value))
			}
		}
	}
	for member, usual := range usualInput[name] {
		if b, err := rawjson.Marshal(usual); err == nil && sample.Same(b, rest[member]) {
			delete(rest, member)
		}
	}
	if name == classTools[grapnel.ClassShell] { // a model's description of a command has no effect on rules
		delete(rest, "description")
		delete(rest, "timeout")
	}
	implied := f.Tool == string(grapnel.ClassShell) && f.Command != nil || f.Tool == string(grapnel.ClassFetch) && f.URL != nil
	if !implied {
		f.words.add("tool", text(f.Tool))
	}
	f.words = append(f.words, pairs...)
	if len(rest) > 0 || i < 0 && !strings.HasPrefix(name, "mcp__") {
		f.Input, _ = rawjson.Marshal(rest) // rest was decoded from JSON
		f.words.add("input", f.Input)
	}
}

func factsOf(row int) []grapnel.Fact {
	if row < 0 {
		return nil
	}
	return claudeCode().Tools[row].Facts
}

// withoutIDs returns a payload without the IDs that differ between calls.
func withoutIDs(payload json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(payload, &members) != nil {
		return payload
	}
	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool {
		return strings.HasSuffix(strings.ToLower(name), "id") || name == "timestamp"
	})
	text, err := rawjson.Marshal(members)
	if err != nil {
		return payload
	}
	return text
}
