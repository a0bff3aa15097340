package policytest

import (
	"encoding/json"
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
)

func (p *parser) want(n *yaml.Node) Want {
	if n.Kind != yaml.Map {
		return Want{Line: n.Line, Col: n.Col, Decision: p.decisions(n)}
	}
	w := Want{Line: n.Line, Col: n.Col}
	p.keys(n, aWant, append(p.wanted(&w),
		key{"replies", func(*yaml.Node) {}}, // read by looksAt
		key{"would", func(n *yaml.Node) { w.Would = p.decisions(n) }},
		key{"failed", func(n *yaml.Node) { w.Failed = p.words(n) }},
		key{"not", func(n *yaml.Node) {
			w.Not = &Want{Line: n.Line, Col: n.Col}
			if n.Kind == yaml.String {
				w.Not.Decision = p.decisions(n)
				return
			}
			p.keys(n, notThat, p.wanted(w.Not)...)
			p.wants(n, notThat)
		}},
		key{"reply", func(n *yaml.Node) { w.Replies = map[string]Reply{"": p.reply(n)} }},
	)...)
	p.wants(n, aWant)
	if replies := n.Get("replies"); replies != nil {
		p.wants(replies, someReplies)
		for _, pair := range p.pairs(replies, someReplies) {
			agent := p.agent(pair.Key)
			if _, ok := w.Replies[agent]; ok && agent != "" {
				p.fail(pair.Key, "remove one of them", "the agent %s is listed twice", agent)
			}
			if w.Replies == nil {
				w.Replies = map[string]Reply{}
			}
			w.Replies[agent] = p.reply(pair.Value)
		}
	}
	return w
}

// wants reports a mapping without expectations, which every result would satisfy.
func (p *parser) wants(n *yaml.Node, what string) {
	if n.Kind == yaml.Map && len(n.Pairs) == 0 {
		p.fail(n, examples[what], "%s is empty: the test checks nothing", what)
	}
}

// looksAt records the agents in which a test checks a reply. The rows of a table may share the
// replies and have different agents.
func (p *parser) looksAt(want *yaml.Node, agents []string) {
	if want.Kind != yaml.Map || want.Get("replies") == nil {
		return
	}
	for _, pair := range want.Get("replies").Pairs {
		d, ok := dialect.FindAgent(pair.Key.Text)
		if _, known := p.looked[pair.Key]; !known {
			p.replies = append(p.replies, pair.Key)
		}
		p.looked[pair.Key] = p.looked[pair.Key] || ok && slices.Contains(agents, d.Name)
	}
}

// unseen reports replies of agents in which no test runs.
func (p *parser) unseen() {
	for _, agent := range p.replies {
		if p.failed == 0 && !p.looked[agent] {
			p.fail(agent, "`agents:` lists the agents in which a test runs", "the test does not run in %s, so this reply is never checked", agent.Text)
		}
	}
}

// wanted returns the keys of a Want that are also allowed in `not:`.
func (p *parser) wanted(w *Want) []key {
	return []key{
		{"decision", func(n *yaml.Node) { w.Decision = p.decisions(n) }},
		{"reason", func(n *yaml.Node) { w.Reason = p.pattern(n) }},
		{"rule", func(n *yaml.Node) { w.Rule = p.words(n) }},
		{"changes", func(n *yaml.Node) {
			w.Changes = map[grapnel.Field]json.RawMessage{}
			for _, pair := range p.pairs(n, "changes") {
				w.Changes[p.field(pair.Key)] = pair.Value.JSON()
			}
		}},
		{"context", func(n *yaml.Node) { w.Context = p.patterns(n) }},
		{"message", func(n *yaml.Node) { w.Message = p.patterns(n) }},
		{"halt", func(n *yaml.Node) { w.Halt = p.pattern(n) }},
		{"unsupported", func(n *yaml.Node) { w.Unsupported = p.patterns(n) }},
	}
}

func (p *parser) reply(n *yaml.Node) Reply {
	var r Reply
	stream := func(to **Text) func(*yaml.Node) {
		return func(n *yaml.Node) {
			switch n.Kind {
			case yaml.Map, yaml.List:
				*to = &Text{Text: string(n.JSON()), Whole: true}
			case yaml.Null:
				*to = &Text{Whole: true}
			default:
				if n.Text == "" {
					*to = &Text{Whole: true}
					return
				}
				t := p.pattern(n)
				t.Whole = t.re == nil
				*to = t
			}
		}
	}
	p.wants(n, aReply)
	p.keys(n, aReply, key{"stdout", stream(&r.Stdout)}, key{"stderr", stream(&r.Stderr)}, key{"exit", func(n *yaml.Node) { r.Exit = p.integer(n) }})
	return r
}

func (p *parser) decisions(n *yaml.Node) []grapnel.Decision {
	list := []grapnel.Decision{}
	for _, item := range p.some(n) {
		var d grapnel.Decision
		if item.Kind != yaml.String || item.Text == "" || d.UnmarshalText([]byte(item.Text)) != nil {
			p.unknown(item, "decision", []string{"none", "allow", "ask", "block"})
		}
		list = append(list, d)
	}
	return list
}

func (p *parser) field(n *yaml.Node) grapnel.Field {
	known := fields()
	if !slices.Contains(known, n.Text) {
		p.unknown(n, "field", known)
	}
	return grapnel.Field(n.Text)
}

// fields returns the fields of an event that hooks can change.
func fields() []string {
	names := []string{string(grapnel.FieldCommand), string(grapnel.FieldPath), string(grapnel.FieldURL), string(grapnel.FieldContent)}
	for _, c := range grapnel.Contracts() {
		for _, change := range c.Changes {
			if !slices.Contains(names, string(change.Field)) {
				names = append(names, string(change.Field))
			}
		}
	}
	return names
}
