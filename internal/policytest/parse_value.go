package policytest

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// pairs returns the pairs of a mapping.
func (p *parser) pairs(n *yaml.Node, what string) []yaml.Pair {
	if n.Kind != yaml.Map {
		p.fail(n, "", "%s must be a mapping, not %s", what, n.Kind)
	}
	return n.Pairs
}

// itemsOf returns the items of a list, or a single value as a list.
func itemsOf(n *yaml.Node) []*yaml.Node {
	if n.Kind == yaml.List {
		return n.Items
	}
	return []*yaml.Node{n}
}

func (p *parser) text(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.List || n.Kind == yaml.Map || n.Kind == yaml.Null:
		p.fail(n, "", "want text, not %s", n.Kind)
	case n.Text == "":
		p.fail(n, "", "want text, got an empty value")
	}
	return n.Text
}

// some returns the items like itemsOf, and reports an empty list as an error.
func (p *parser) some(n *yaml.Node) []*yaml.Node {
	items := itemsOf(n)
	if len(items) == 0 {
		p.fail(n, "leave it out", "the list is empty")
	}
	return items
}

func (p *parser) words(n *yaml.Node) []policyfile.Word {
	words := []policyfile.Word{}
	for _, item := range p.some(n) {
		words = append(words, policyfile.Word{Text: p.text(item), Line: item.Line, Col: item.Col})
	}
	return words
}

func (p *parser) integer(n *yaml.Node) *int {
	i, err := strconv.Atoi(n.Text)
	if err != nil || n.Kind != yaml.Number {
		p.fail(n, "", "want a whole number, not %q", n.Text)
	}
	return &i
}

// duration reads a duration.
func (p *parser) duration(n *yaml.Node) policyfile.Duration {
	var d policyfile.Duration
	switch err := d.UnmarshalText([]byte(n.Text)); {
	case n.Kind == yaml.List || n.Kind == yaml.Map || n.Kind == yaml.Null:
		p.fail(n, "for example `later: 10m`", "want a duration, not %s", n.Kind)
	case err != nil:
		p.fail(n, "write a number with a unit: 30s, 10m, 2h", "%q is not a duration", n.Text)
	case d <= 0:
		p.fail(n, "leave it out if no time passes", "want a duration above zero, not %q", n.Text)
	}
	return d
}

func (p *parser) scope(n *yaml.Node) grapnel.Scope {
	known := []string{}
	for _, s := range []grapnel.Scope{grapnel.ScopeUser, grapnel.ScopeProject, grapnel.ScopeManaged} {
		if n.Text == s.String() {
			return s
		}
		known = append(known, s.String())
	}
	p.unknown(n, "scope", known)
	return 0
}

func (p *parser) agents(n *yaml.Node) []string {
	var agents []string
	for _, item := range p.some(n) {
		if name := p.agent(item); slices.Contains(agents, name) {
			p.fail(item, "remove one of them", "the agent %s is listed twice", name)
		} else {
			agents = append(agents, name)
		}
	}
	return agents
}

func (p *parser) agent(n *yaml.Node) string {
	name := p.text(n)
	d, ok := dialect.FindAgent(name)
	if ok {
		return d.Name
	}
	if name == "" {
		return ""
	}
	known := dialect.Names()
	hint := "valid values: " + strings.Join(known, ", ")
	for _, d := range dialect.All() {
		known = append(known, d.Aliases...)
	}
	p.fail(n, cmp.Or(didYouMean(name, known), hint), "unknown agent %q", name)
	return name
}

// pattern reads a part of a text, or /RE2/.
func (p *parser) pattern(n *yaml.Node) *Text {
	t := &Text{Text: p.text(n)}
	if re := n.Text; len(re) > 2 && re[0] == '/' && re[len(re)-1] == '/' {
		var err error
		if t.re, err = regexp.Compile(re[1 : len(re)-1]); err != nil {
			p.fail(n, "the syntax is RE2", "%v", err)
		}
	}
	return t
}

func (p *parser) patterns(n *yaml.Node) []Text {
	list := []Text{}
	for _, item := range itemsOf(n) {
		list = append(list, *p.pattern(item))
	}
	return list
}
