package policytest

import (
	"encoding/json"
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/yaml"
)

func (p *parser) want(n *yaml.Node) Want {
	if n.Kind != yaml.Map {
		return Want{Line: n.Line, Col: n.Col, Decision: p.decisions(n)}
	}
	w := Want{Line: n.Line, Col: n.Col}
	p.keys(n, "want", append(p.wanted(&w),
		key{"would", func(n *yaml.Node) { w.Would = p.decisions(n) }},
		key{"failed", func(n *yaml.Node) { w.Failed = p.words(n) }},
		key{"not", func(n *yaml.Node) {
			w.Not = &Want{Line: n.Line, Col: n.Col}
			if n.Kind == yaml.String {
				w.Not.Decision = p.decisions(n)
				return
			}
			p.keys(n, "not", p.wanted(w.Not)...)
		}},
		key{"reply", func(n *yaml.Node) { w.reply("", p.reply(n)) }},
		key{"replies", func(n *yaml.Node) {
			for _, pair := range p.pairs(n, "replies") {
				w.reply(p.agent(pair.Key), p.reply(pair.Value))
			}
		}},
	)...)
	if len(n.Pairs) == 0 {
		p.fail(n, "for example `want: {decision: block, rule: no-force-push}`", "the test wants nothing")
	}
	return w
}

// wanted are the keys of a Want that may stand in a `not:` too.
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
		{"lost", func(n *yaml.Node) { w.Lost = p.patterns(n) }},
	}
}

func (w *Want) reply(agent string, r Reply) {
	if w.Replies == nil {
		w.Replies = map[string]Reply{}
	}
	w.Replies[agent] = r
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
				t := p.pattern(n)
				t.Whole = t.re == nil
				*to = t
			}
		}
	}
	p.keys(n, "reply", key{"stdout", stream(&r.Stdout)}, key{"stderr", stream(&r.Stderr)}, key{"exit", func(n *yaml.Node) { r.Exit = p.integer(n) }})
	return r
}

func (p *parser) decisions(n *yaml.Node) []grapnel.Decision {
	list := []grapnel.Decision{}
	for _, item := range itemsOf(n) {
		var d grapnel.Decision
		if item.Kind != yaml.String || d.UnmarshalText([]byte(item.Text)) != nil {
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

// fields lists what of an event can change.
func fields() []string {
	names := []string{string(grapnel.FieldCommand), string(grapnel.FieldPath), string(grapnel.FieldURL), string(grapnel.FieldContent)}
	for _, c := range grapnel.Contracts {
		for _, change := range c.Changes {
			if !slices.Contains(names, string(change.Field)) {
				names = append(names, string(change.Field))
			}
		}
	}
	return names
}
