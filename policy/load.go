package policy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems"
)

// loads parses a `load:` key.
func (p *fileParser) loads(n *yaml.Node) []policyfile.LoadFrom {
	if n.Kind != yaml.List {
		p.fail(n, "for example [claude-code, {format: claude-code, file: settings.json}]", "load must be a list of formats, not %s", n.Kind)
		return nil
	}
	var all []policyfile.LoadFrom
	for _, item := range n.Items {
		l := policyfile.LoadFrom{}
		if item.Kind != yaml.Map {
			l.Format = p.format(item)
		} else {
			p.mapping(item, "load", []key{
				{"format", func(n *yaml.Node) { l.Format = p.format(n) }},
				{"file", func(n *yaml.Node) { l.File = p.text(n); p.pathPattern(n) }},
			})
			if item.Get("format") == nil {
				p.fail(item, "for example {format: claude-code, file: settings.json}", "the entry has no `format`")
			}
		}
		for _, before := range all {
			if before.Format.Text == l.Format.Text && before.File == l.File && l.Format.Text != "" {
				p.fail(item, "", "%s is loaded twice, first in line %d", cmp.Or(l.File, l.Format.Text), before.Format.Line)
			}
		}
		all = append(all, l)
	}
	return all
}

// format parses the name of a format.
func (p *fileParser) format(n *yaml.Node) policyfile.Word {
	w := p.word(n)
	if w.Text != "" && !slices.Contains(systems.Names, w.Text) {
		p.fail(n, cmp.Or(wording.Nearest(w.Text, systems.Names), "valid values: "+strings.Join(systems.Names, ", ")), "unknown format %q", w.Text)
	}
	return w
}

// networks parses a `networks:` key. It only detects simple mistakes. Package outbound, which opens
// connections, parses the values strictly, and "grapnel check" uses it.
func (p *fileParser) networks(n *yaml.Node) []policyfile.Word {
	if n.Kind != yaml.List || len(n.Items) == 0 {
		p.fail(n, "for example [10.1.0.0/16, collector.corp.internal]", "networks must be a list of networks and names")
		return nil
	}
	var all []policyfile.Word
	for _, item := range n.Items {
		w := p.word(item)
		address, bits, network := strings.Cut(w.Text, "/")
		if !network && isName(w.Text) {
			all = append(all, w)
			continue
		}
		if size, err := strconv.Atoi(bits); err != nil || size < 0 || size > 128 || strings.Trim(address, "0123456789abcdefABCDEF.:") != "" {
			p.fail(item, "for example 10.1.0.0/16, 10.1.2.3/32, collector.corp.internal or *.corp.internal", "%q is neither a network nor a full name", w.Text)
		}
		all = append(all, w)
	}
	return all
}

// isName reports whether a text looks like a full name, or like *. and a name of at least two labels.
func isName(text string) bool {
	name := strings.TrimPrefix(text, "*.")
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			return false
		}
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	return last != name && strings.Trim(last[:1], "0123456789_-") != "" // otherwise it is an address
}
