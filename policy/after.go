package policy

import (
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// afters parses an `after:` key.
func (p *fileParser) afters(n *yaml.Node) []policyfile.After {
	items := itemsOf(n)
	if len(items) == 0 || len(items) > state.MaxSteps {
		p.fail(n, "", "after needs 1 to %d earlier events, not %d", state.MaxSteps, len(items))
		return nil
	}
	var steps []policyfile.After
	for _, item := range items {
		a := p.after(item)
		if steps = append(steps, a); !slices.Equal(a.By, steps[0].By) {
			p.fail(item, "write the same `by` in each step", "all steps of `after` need the same `by`")
		}
	}
	return steps
}

func (p *fileParser) after(n *yaml.Node) policyfile.After {
	var a policyfile.After
	p.mapping(n, "after", []key{
		{"event", func(n *yaml.Node) { a.Event = p.kinds(n) }},
		{"match", func(n *yaml.Node) { a.Match = new(p.match(n)) }},
		{"except", func(n *yaml.Node) { a.Except = p.matches(n) }},
		{"when", func(n *yaml.Node) { a.When = p.when(n) }},
		{"blocked", func(n *yaml.Node) { a.Blocked = p.boolean(n) }},
		{"within", func(n *yaml.Node) {
			if a.Within = p.duration(n); time.Duration(a.Within) > state.MaxPer {
				p.fail(n, "omit `within` for the whole session", "events are kept for at most %s", policyfile.FormatDuration(state.MaxPer))
			}
		}},
		{"times", func(n *yaml.Node) {
			if a.Times = *p.integer(n); a.Times < 1 || a.Times > policyfile.MaxTimes {
				p.fail(n, "", "times must be between 1 and %d", policyfile.MaxTimes)
			}
		}},
		{"same", func(n *yaml.Node) { a.Same = p.oneOf(n, state.SameWords[:]...) }},
		{"by", func(n *yaml.Node) { a.By = p.limitedBy(n) }},
		{"until", func(n *yaml.Node) { a.Until = p.until(n) }},
	})
	p.hasEvent(n, "after")
	for _, kind := range a.Event {
		if a.Blocked && !state.Stops(&grapnel.Event{Kind: kind}) {
			p.fail(n, "list only events such as tool.before", "%s cannot be blocked, so it never counts with `blocked`", kind)
		}
	}
	return a
}

func (p *fileParser) until(n *yaml.Node) *policyfile.Happening {
	h := &policyfile.Happening{}
	p.mapping(n, "until", []key{
		{"event", func(n *yaml.Node) { h.Event = p.kinds(n) }},
		{"match", func(n *yaml.Node) { h.Match = new(p.match(n)) }},
		{"except", func(n *yaml.Node) { h.Except = p.matches(n) }},
		{"when", func(n *yaml.Node) { h.When = p.when(n) }},
	})
	p.hasEvent(n, "until")
	return h
}

// kinds parses event names, including aliases.
func (p *fileParser) kinds(n *yaml.Node) (all []grapnel.Kind) {
	for _, item := range itemsOf(n) {
		kinds := Kinds(item.Text)
		if item.Kind != yaml.String || kinds == nil {
			p.fail(item, eventHint(item.Text), "unknown event %q", item.Text)
		}
		for _, kind := range kinds {
			if !slices.Contains(all, kind) {
				all = append(all, kind)
			}
		}
	}
	return all
}

func (p *fileParser) hasEvent(n *yaml.Node, what string) {
	if event := n.Get("event"); n.Kind == yaml.Map && (event == nil || len(itemsOf(event)) == 0) {
		p.fail(n, "for example `event: tool.after`", "%s has no `event`", what)
	}
}

// comparable reports an error for a `same:` property that one of the events never has.
func (p *fileParser) comparable(h *policyfile.Hook, n *yaml.Node) {
	isCall := func(k grapnel.Kind) bool {
		return k == grapnel.ToolBefore || k == grapnel.ToolAfter || k == grapnel.ToolFailed || k == grapnel.PermissionBefore || k == grapnel.PermissionDenied
	}
	for i := range h.After {
		if h.After[i].Same == "" {
			continue
		}
		for _, k := range append(slices.Clip(h.On), h.After[i].Event...) {
			if !isCall(k) {
				p.fail(n, "`same` compares tool calls", "hook %q: %s has no value to compare with `same: %s`", h.Name, k, h.After[i].Same)
			}
		}
	}
}
