package policytest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/wording"
)

func (p *parser) variables(n *yaml.Node) {
	p.vars = []string{"$${", "${"}
	if n.Kind != yaml.Map {
		p.fail(n, "for example `vars: {main: main}`", "vars must be a mapping, not %s", n.Kind)
		return
	}
	for _, pair := range n.Pairs {
		if !variable.MatchString(pair.Key.Text) {
			p.fail(pair.Key, "", "%q is not a variable name: use letters, digits and _", pair.Key.Text)
		}
		p.vars = append(p.vars, "${"+pair.Key.Text+"}", p.text(pair.Value))
	}
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// filled returns a node with the variables of the file replaced. Other variables are kept,
// because shell lines have variables too.
func (p *parser) filled(n *yaml.Node) *yaml.Node {
	if p.vars == nil {
		return n
	}
	return fill(n, strings.NewReplacer(p.vars...).Replace)
}

// fill returns a copy of a node with its texts changed.
func fill(n *yaml.Node, change func(string) string) *yaml.Node {
	out := *n
	if n.Kind == yaml.String {
		out.Text = change(n.Text)
	}
	out.Items, out.Pairs = nil, nil
	for _, item := range n.Items {
		out.Items = append(out.Items, fill(item, change))
	}
	for _, pair := range n.Pairs {
		out.Pairs = append(out.Pairs, yaml.Pair{Key: pair.Key, Value: fill(pair.Value, change)})
	}
	return &out
}

// mention matches a variable; with another "$" before it, it is an escaped one.
var mention = regexp.MustCompile(`(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// misspelt reports names that are similar to a variable of the file that is never used. Other
// unknown variables are left to the shell.
func (p *parser) misspelt(tests *yaml.Node) {
	found := map[string]*yaml.Node{}
	var names []string
	var look func(*yaml.Node)
	look = func(n *yaml.Node) {
		for _, m := range mention.FindAllStringSubmatch(n.Text, -1) {
			if name := m[2]; m[1] == "" && found[name] == nil {
				found[name] = n
				names = append(names, name)
			}
		}
		for _, item := range n.Items {
			look(item)
		}
		for _, pair := range n.Pairs {
			look(pair.Value)
		}
	}
	if p.vars != nil {
		look(tests)
	}
	for i := 2; i < len(p.vars); i += 2 {
		mine := strings.Trim(p.vars[i], "${}")
		if found[mine] != nil {
			continue
		}
		for _, name := range names {
			if wording.NearestWord(name, []string{mine}) != "" && !slices.Contains(p.vars, "${"+name+"}") {
				p.fail(found[name], fmt.Sprintf("did you mean ${%s}? Write $${%s} for a variable of the shell", mine, name), "${%s} is not a variable of this file, and its variable ${%s} is never used", name, mine)
			}
		}
	}
}
