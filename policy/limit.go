package policy

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// limit parses a `limit:` action.
func (p *fileParser) limit(n *yaml.Node) *policyfile.Limit {
	l := &policyfile.Limit{}
	var count, sum, most, per *yaml.Node
	p.mapping(n, "limit", []key{
		{"count", func(n *yaml.Node) { count, l.Count = n, *p.integer(n) }},
		{"sum", func(n *yaml.Node) { sum, l.Sum = n, p.sum(n) }},
		{"max", func(n *yaml.Node) { most, l.Max = n, p.number(n) }},
		{"per", func(n *yaml.Node) { per, l.Per = n, p.duration(n) }},
		{"by", func(n *yaml.Node) { l.By = p.limitedBy(n) }},
		{"then", func(n *yaml.Node) { l.Then = p.oneOf(n, "block", "ask") }},
		{"reason", func(n *yaml.Node) { l.Reason = strings.TrimSpace(p.text(n)) }},
	})
	if n.Kind != yaml.Map {
		return l
	}
	switch {
	case (count == nil) == (sum == nil):
		p.fail(n, "for example {count: 20, per: 1m, by: session}", "limit needs a `count` or a `sum`")
	case sum != nil && most == nil:
		p.fail(n, "for example {sum: tool.input.amount, max: 500, per: 24h}", "limit has a `sum` without `max`")
	case count != nil && most != nil:
		p.fail(most, "", "`max` needs `sum`")
	case count != nil && l.Count < 1:
		p.fail(count, "write `block` to forbid it", "the count must be at least 1")
	case most != nil && l.Max <= 0:
		p.fail(most, "write `block` to forbid it", "the max must be more than 0")
	}
	switch d := time.Duration(l.Per); {
	case per == nil:
		p.fail(n, "for example `per: 1m`", "limit has no `per`")
	case d > 0 && (d < state.MinPer || d > state.MaxPer):
		p.fail(per, "", "`per` must be between %s and %s", policyfile.FormatDuration(state.MinPer), policyfile.FormatDuration(state.MaxPer))
	}
	return l
}

func (p *fileParser) sum(n *yaml.Node) string {
	source := p.text(n)
	if _, err := match.CompileExpression(match.KeySum, source); err != nil {
		p.fail(n, "", "%v", err)
	}
	return source
}

func (p *fileParser) number(n *yaml.Node) float64 {
	f, err := strconv.ParseFloat(n.Text, 64)
	if err != nil || n.Kind != yaml.Number {
		p.fail(n, "", "want a number, not %q", n.Text)
	}
	return f
}

func (p *fileParser) limitedBy(n *yaml.Node) []string {
	var by []string
	words := state.ByWords()
	items := itemsOf(n)
	if len(items) == 0 {
		p.fail(n, "omit `by` to count all events together", "the list is empty")
	}
	for _, item := range items {
		word := p.oneOf(item, words...)
		if slices.Contains(by, word) {
			p.fail(item, "", "%s is listed twice", word)
		}
		by = append(by, word)
	}
	return by
}
