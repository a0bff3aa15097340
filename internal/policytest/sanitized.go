package policytest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// The replacements for the path of the agent's project and the ID of its session.
const (
	recordedProject = "/repo"
	recordedSession = "s1"
)

// sanitizedEvent is the event of a Record without private data: secrets, and the user's directories.
type sanitizedEvent struct {
	agent   string // the name of its dialect
	payload *yaml.Node
	kind    grapnel.Kind // if the payload does not name the event
	native  string       // and the agent's name of the event
	cwd     string
	masked  bool
	clean   func(string) string
}

// An earlierEvent is an event before the tested one.
type earlierEvent struct {
	*sanitizedEvent
	at time.Time // zero = the next event follows at once
}

// gapBehind returns the time between the earlier event i and the next event. last is the time of
// the tested event, which follows the earlier ones.
func gapBehind(before []earlierEvent, i int, last time.Time) time.Duration {
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
	d, ok := dialect.FindAgent(cmp.Or(ev.Agent.Name, e.Agent))
	if !ok || payload == nil {
		d = dialect.Plain()
		plain := *ev
		plain.ID, plain.Native = "", nil
		text, err := rawjson.Marshal(&plain)
		if err != nil {
			return nil, err
		}
		payload = text
	}
	t.agent, t.clean = d.Name, r.cleaner(ev, t)
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
	root.Pairs = slices.DeleteFunc(root.Pairs, func(p yaml.Pair) bool {
		return ofOneCall(p.Key.Text) || p.Key.Text == "cwd" && t.clean(p.Value.Text) == t.cwd
	})
	t.payload = fill(root, t.clean)
	payload = t.payload.JSON()
	got := dialect.ReceiveAs(d, payload, e.Event)
	switch {
	case got.Err != nil:
		return nil, got.Err
	case got.Event.Kind != e.Event:
		return nil, fmt.Errorf("without its secrets and paths %s reads it as %s", d.Name, got.Event.Kind)
	}
	if named := dialect.Receive(d, dialect.Input{Payload: payload}); got.Row() != nil && (named.Err != nil || named.Event.Kind != e.Event) {
		t.kind, t.native = e.Event, got.Row().Native
	}
	t.masked = bytes.Contains(payload, []byte("***")) || bytes.Contains(payload, []byte("… [grapnel: "))
	return t, nil
}

// A place is a private directory, and the name that replaces it.
type place struct{ at, as string }

// places returns the private directories of an event, and the name of the agent's working directory.
func (r *Recorder) places(ev *grapnel.Event) (list []place, as string) {
	cwd, home, as := ev.Session.CWD, r.opts.Home, recordedProject
	add := func(at, as string) {
		if at = strings.TrimRight(filepath.ToSlash(at), "/"); len(at) > 1 {
			list = append(list, place{at, as})
		}
	}
	if filepath.IsAbs(cwd) || strings.HasPrefix(cwd, "/") {
		root := cmp.Or(ev.Session.Root, ProjectRoot(cwd))
		if below, ok := files.Below(root, cwd); ok {
			as = path.Join(recordedProject, below)
		}
		if _, around := files.Below(root, home); home == "" || !around { // not if the home directory is inside the project
			add(root, recordedProject)
		} else {
			as = recordedProject
		}
	}
	add(home, "~")
	return list, as
}

// cleaner returns a function that masks secrets in a text and replaces private paths and IDs.
func (r *Recorder) cleaner(ev *grapnel.Event, t *sanitizedEvent) func(string) string {
	cwd := ev.Session.CWD
	places, as := []place(nil), cmp.Or(cwd, t.cwd)
	if !r.opts.Private {
		places, as = r.places(ev)
	}
	t.cwd = as
	return func(text string) string {
		if text == ev.Session.ID && text != "" {
			return recordedSession
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

// String describes the event in a few words.
func (t *sanitizedEvent) String() string {
	return (&Event{Payload: t.payload.JSON(), Agent: t.agent, Native: t.native}).String()
}

// words returns the keys of the event in a test.
func (t *sanitizedEvent) words() (w words) {
	if t.kind != "" {
		w.add("event", text(string(t.kind)))
	}
	w.add("payload", t.payload)
	return w
}

// ofOneCall reports whether a member of a payload differs in each call or session and gives rules
// nothing: a time, the path of a transcript, the ID of a call or a turn.
func ofOneCall(member string) bool {
	name := strings.ToLower(strings.ReplaceAll(member, "_", ""))
	return strings.HasSuffix(name, "transcriptpath") || slices.Contains([]string{
		"time", "timestamp", "tooluseid", "toolcallid", "turnid", "promptid", "generationid", "executionid", "messageid",
	}, name)
}
