package policytest

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/wire"
)

// events reads the earlier events: a text is a shell command.
func (p *parser) events(n *yaml.Node) []Event {
	var list []Event
	for _, item := range itemsOf(n) {
		var ev Event
		if item.Kind == yaml.String {
			ev = Event{Line: item.Line, Col: item.Col, Tool: string(grapnel.ClassShell), Command: &item.Text}
		} else {
			p.event(item, anEvent, &ev)
		}
		list = append(list, ev)
	}
	return list
}

// event reads the keys of an event, and the keys in beside.
func (p *parser) event(n *yaml.Node, what string, ev *Event, beside ...key) {
	ev.Line, ev.Col = n.Line, n.Col
	text := func(to **string) func(*yaml.Node) {
		return func(n *yaml.Node) {
			if n.Kind == yaml.List || n.Kind == yaml.Map || n.Kind == yaml.Null {
				p.fail(n, "", "want text, not %s", n.Kind)
			}
			*to = &n.Text
		}
	}
	before := p.failed
	p.keys(n, what, append(beside,
		key{"tool", func(n *yaml.Node) { ev.Tool = p.text(n) }},
		key{"command", text(&ev.Command)},
		key{"path", text(&ev.Path)},
		key{"content", text(&ev.Content)},
		key{"url", text(&ev.URL)},
		key{"input", func(n *yaml.Node) {
			if ev.Input = n.JSON(); n.Kind != yaml.Map {
				p.fail(n, "for example `input: {timeout: 5}`", "input must be a mapping, not %s", n.Kind)
			}
		}},
		key{"output", func(n *yaml.Node) { ev.Output = n.JSON() }},
		key{"error", text(&ev.Error)},
		key{"prompt", text(&ev.Prompt)},
		key{"event", func(n *yaml.Node) { ev.Plain = p.plain(n) }},
		key{"payload", func(n *yaml.Node) { p.payload(n, ev) }},
		key{"agent", func(n *yaml.Node) { ev.Agent = p.agent(n) }},
		key{"later", func(n *yaml.Node) { ev.Later = p.duration(n) }},
		key{"mode", func(n *yaml.Node) { ev.Mode = p.text(n) }},
		key{"subagent", func(n *yaml.Node) { ev.Subagent = p.text(n) }},
	)...)
	if p.failed == before {
		p.whole(n, what, ev)
	}
}

// whole reports combinations of keys that exclude each other.
func (p *parser) whole(n *yaml.Node, what string, ev *Event) {
	call := ev.Tool != "" || ev.Command != nil || ev.Path != nil || ev.Content != nil || ev.URL != nil || ev.Input != nil
	var forms []string
	for _, form := range []struct {
		name string
		is   bool
	}{{"a call", call}, {"prompt", ev.Prompt != nil}, {"event", ev.Plain != nil && ev.Payload == nil}, {"payload", ev.Payload != nil}} {
		if form.is {
			forms = append(forms, form.name)
		}
	}
	switch {
	case len(forms) == 0:
		p.fail(n, "write one of `command`, `tool`, `prompt`, `event` and `payload`", "%s contains no event", what)
		return
	case len(forms) > 1:
		p.fail(n, "write one test for each", "%s contains several events: %s", what, strings.Join(forms, ", "))
		return
	case !call && (ev.Output != nil || ev.Error != nil):
		p.fail(n, "", "`output` and `error` need a tool call")
		return
	case ev.Output != nil && ev.Error != nil:
		p.fail(n, "", "a call has either an `output` or an `error`")
		return
	case ev.Agent != "" && ev.Payload == nil:
		p.fail(n.Get("agent"), "`agents:` lists the agents in which a test runs", "`agent` needs `payload`")
		return
	case (ev.Mode != "" || ev.Subagent != "") && !call && ev.Prompt == nil:
		p.fail(n, "", "`mode` and `subagent` need a tool call or a prompt")
		return
	}
	if call {
		if _, _, err := ev.call(); err != nil {
			p.fail(n, err.hint, "%s", err.msg)
		}
	}
}

// sent finds the agent that sent a payload, and the agent's name of the event. n is the mapping of the
// event, and agents are the agents of the test.
func (p *parser) sent(n *yaml.Node, ev *Event, agents []string) {
	if ev.Payload == nil {
		return
	}
	if ev.Agent == "" && len(agents) == 1 {
		ev.Agent = agents[0]
	}
	if ev.Agent == "" && dialect.Detect(ev.Payload) == nil {
		p.fail(n.Get("payload"), "add `agent:`", "cannot detect which agent sent this payload")
		return
	}
	if ev.Plain == nil {
		return
	}
	by, kind := ev.payloadDialect(), ev.kind()
	i := slices.IndexFunc(by.Events, func(r dialect.EventRow) bool { return r.Kind == kind || r.Failed == kind })
	if i < 0 {
		p.fail(n.Get("event"), "", "%s has no event %s", by.Name, kind)
		return
	}
	ev.Native, ev.Plain = by.Events[i].Native, nil
}

// plain reads an event of the plain dialect.
func (p *parser) plain(n *yaml.Node) json.RawMessage {
	if n.Kind == yaml.String {
		n = &yaml.Node{Kind: yaml.Map, Line: n.Line, Col: n.Col, Pairs: []yaml.Pair{{Key: &yaml.Node{Kind: yaml.String, Text: "kind"}, Value: n}}}
	}
	kind := (*yaml.Node)(nil)
	if n.Kind == yaml.Map {
		kind = n.Get("kind")
	}
	if kind == nil {
		p.fail(n, "for example `event: {kind: session.start}`", "the event has no kind")
		return n.JSON()
	}
	kinds := dialect.Kinds(kind.Text)
	if len(kinds) == 0 {
		var known []string
		for _, c := range grapnel.Contracts() {
			known = append(known, string(c.Kind))
		}
		p.unknown(kind, theKind, known)
		return n.JSON()
	}
	p.members(n, reflect.TypeFor[wire.Event](), theKind)
	named := *n
	named.Pairs = slices.Clone(n.Pairs)
	for i := range named.Pairs {
		if named.Pairs[i].Value == kind {
			named.Pairs[i].Value = &yaml.Node{Kind: yaml.String, Text: string(kinds[0])}
		}
	}
	return named.JSON()
}

// members reports members that no event has. Without this check they would be ignored, and a
// sample value used instead.
func (p *parser) members(n *yaml.Node, t reflect.Type, what string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n.Kind == yaml.Null || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
	case t.Kind() == reflect.Slice && n.Kind == yaml.List:
		for _, item := range n.Items {
			p.members(item, t.Elem(), what)
		}
	case t.Kind() == reflect.Struct && n.Kind != yaml.Map:
		p.fail(n, "", "%s must be a mapping, not %s", what, n.Kind)
	case t.Kind() == reflect.Struct:
		known := membersOf(t)
		for _, pair := range n.Pairs {
			if of, ok := known[pair.Key.Text]; ok {
				p.members(pair.Value, of, pair.Key.Text)
			} else if pair.Key.Text != "grapnel" { // the version of the dialect
				p.unknown(pair.Key, "part of "+what, slices.Sorted(maps.Keys(known)))
			}
		}
	}
}

// payload reads the payload of an agent: inline, or from a file.
func (p *parser) payload(n *yaml.Node, ev *Event) {
	switch n.Kind {
	case yaml.Map:
		ev.Payload = n.JSON()
	case yaml.String:
		name := p.beside(n.Text)
		data, err := readFile(name)
		if err != nil {
			p.fail(n, "names are relative to the directory of this file", "cannot read the payload %s: %v", n.Text, err)
			return
		}
		if err := ev.recorded(name, data); err != nil {
			p.fail(n, "use JSON from an agent, a record, or a conversation (.txtar)", "the payload %s: %v", n.Text, err)
		}
	default:
		p.fail(n, "write the payload of the agent, or the name of a file that contains it", "payload must be a mapping or a file, not %s", n.Kind)
	}
}
