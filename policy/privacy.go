package policy

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/policy/prefilter"
	"github.com/grapnel-dev/grapnel/internal/policy/redact"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// records parses a `records:` section.
func (p *fileParser) records(n *yaml.Node) *policyfile.Records {
	r := &policyfile.Records{}
	if n.Kind != yaml.Map {
		r.Keep = p.oneOf(n, redact.KeepWords[:]...)
		return r
	}
	p.mapping(n, "records", []key{
		{"keep", func(n *yaml.Node) { r.Keep = p.oneOf(n, redact.KeepWords[:]...) }},
		{"sync", func(n *yaml.Node) { r.Sync = p.boolean(n) }},
		{"drop", func(n *yaml.Node) { r.Drop = p.each(n, p.dropped) }},
		{"replace", func(n *yaml.Node) { r.Replace = p.replacements(n) }},
		{"forward", func(n *yaml.Node) { r.Forward = p.forwards(n) }},
	})
	if len(n.Pairs) == 0 {
		p.fail(n, "for example `records: {keep: masked, drop: [tool.output]}`", "records is empty")
	}
	return r
}

// forwards parses a `forward:` list.
func (p *fileParser) forwards(n *yaml.Node) []policyfile.Forward {
	if n.Kind != yaml.List || len(n.Items) == 0 {
		p.fail(n, "for example [{to: \"postgres://db.example.com/grapnel\"}]", "forward must be a list of targets")
		return nil
	}
	var out []policyfile.Forward
	for _, item := range n.Items {
		var f policyfile.Forward
		p.mapping(item, "forward", []key{
			{"to", func(n *yaml.Node) { f.To = p.target(n) }},
			{"credentials", func(n *yaml.Node) { f.Credentials = p.absolute(n) }},
			{"ca", func(n *yaml.Node) { f.CA = p.absolute(n) }},
		})
		p.wants(item, "to")
		if slices.ContainsFunc(out, func(o policyfile.Forward) bool { return o.To.Text == f.To.Text }) {
			p.fail(item, "", "the target is listed twice")
		}
		out = append(out, f)
	}
	return out
}

const targetExample = "write for example to: postgres://db.example.com/grapnel, or to: nats://nats.example.com"

// target parses the URL of a database or stream. The message for a URL with a password does not
// repeat it.
func (p *fileParser) target(n *yaml.Node) policyfile.Word {
	text := p.text(n)
	scheme, rest, ok := strings.Cut(text, "://")
	host, query, _ := strings.Cut(rest, "?")
	host, _, _ = strings.Cut(host, "/")
	user, _, hasUser := strings.Cut(host, "@")
	switch {
	case text == "":
	case hasUser && (strings.Contains(user, ":") || scheme == "nats"), strings.Contains(strings.ToLower(query), "password"):
		p.fail(n, "write the path of a file that has it: credentials: /etc/grapnel/forward", "a policy cannot contain a password")
		return policyfile.Word{}
	case !ok || scheme != "postgres" && scheme != "nats":
		p.fail(n, targetExample, "%q does not begin with postgres:// or nats://", text)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }):
		p.fail(n, "write %20 for a space and %5C for a backslash", "the URL contains white space, a control character or a backslash")
	case strings.HasSuffix("@"+host, "@") && (scheme == "nats" || query == ""):
		p.fail(n, targetExample, "the target names no server")
	}
	return word(n)
}

// authorities parses the path of a file with certificate authorities.
func (p *fileParser) authorities(n *yaml.Node) policyfile.Word {
	if n.Kind == yaml.Number || n.Kind == yaml.Bool {
		p.fail(n, "write for example ca: /etc/ssl/corp-ca.pem", "want the path of a file, not %s", n.Kind)
	}
	return p.word(n)
}

// absolute parses the absolute path of a file.
func (p *fileParser) absolute(n *yaml.Node) string {
	name := p.text(n)
	if !filepath.IsAbs(name) {
		p.fail(n, "write an absolute path", "%q is not an absolute path", name)
	}
	return name
}

// dropped rejects fields that no record has, and fields that every record needs.
func (p *fileParser) dropped(n *yaml.Node) {
	var fields []string
	for _, d := range redact.Droppable {
		fields = append(fields, string(d.Field))
	}
	if !strings.HasPrefix(n.Text, "/") {
		if !slices.Contains(fields, n.Text) {
			hint := wording.Nearest(n.Text, fields)
			if hint == "" {
				hint = fmt.Sprintf("use %s, or a JSON pointer such as /input/session/user", strings.Join(fields, ", "))
			}
			p.fail(n, hint, "%q is not a field of records", n.Text)
		}
		return
	}
	p.pointer(n)
	if path := redact.PointerPath(n.Text); slices.ContainsFunc(redact.Needed[1:], func(need string) bool { return need != "input" && redact.Meets(path, strings.Split(need, "/")) }) {
		p.fail(n, "write `keep: metadata` to store no events", "a record needs %s", n.Text)
	}
}

// retention parses a `retention:` section.
func (p *fileParser) retention(n *yaml.Node) *policyfile.Retention {
	r := &policyfile.Retention{Line: n.Line}
	p.mapping(n, "retention", []key{
		{"days", func(n *yaml.Node) { r.Days = int(p.within(n, n.Text, 1, 1, 36500, "a number of days")) }},
		{"records", func(n *yaml.Node) { r.Records = int(p.within(n, n.Text, 1, 1000, 100_000_000, "a number of Records")) }},
		{"size", func(n *yaml.Node) {
			number, unit := strings.TrimRight(n.Text, "BGMT"), int64(0)
			switch strings.TrimPrefix(n.Text, number) {
			case "MB":
				unit = 1e6
			case "GB":
				unit = 1e9
			case "TB":
				unit = 1e12
			}
			r.Size = p.within(n, number, unit, 10e6, 10e12, "a size with the unit MB, GB or TB")
		}},
	})
	if n.Kind == yaml.Map && len(n.Pairs) == 0 {
		p.fail(n, "for example {days: 30, records: 500000, size: 1GB}", "retention is empty")
	}
	return r
}

// within parses a whole number of units. The product must be from least to most.
func (p *fileParser) within(n *yaml.Node, number string, unit, least, most int64, what string) int64 {
	i, err := strconv.ParseInt(number, 10, 64)
	if err != nil || unit == 0 || strconv.FormatInt(i, 10) != number || i < (least+unit-1)/unit || i > most/unit {
		hint := fmt.Sprintf("write a whole number from %d to %d", least, most)
		if unit != 1 {
			hint = "write for example 500MB or 1GB; the smallest size is 10MB, the largest 10TB"
		}
		p.fail(n, hint, "%q is not %s that retention accepts", n.Text, what)
		return 0
	}
	return i * unit
}

// redact parses a `redact:` section.
func (p *fileParser) redact(n *yaml.Node) *policyfile.Redact {
	r := &policyfile.Redact{}
	p.mapping(n, "redact", []key{
		{"fields", func(n *yaml.Node) { r.Fields = p.each(n, p.pointer) }},
		{"patterns", func(n *yaml.Node) { r.Patterns = p.secretPatterns(n) }},
	})
	if n.Kind == yaml.Map && len(n.Pairs) == 0 {
		p.fail(n, "for example {fields: [/api_key], patterns: ['sk-[A-Za-z0-9]{20,}']}", "redact is empty")
	}
	return r
}

// pointer rejects a text that is not a JSON pointer into an input.
func (p *fileParser) pointer(n *yaml.Node) {
	if !strings.HasPrefix(n.Text, "/") || len(n.Text) < 2 || strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(n.Text), "~") {
		p.fail(n, "write it as /name/inner, with * for any member", "%q is not a JSON pointer to a place", n.Text)
	}
}

// secretPatterns parses patterns of texts to remove.
func (p *fileParser) secretPatterns(n *yaml.Node) []policyfile.Replacement {
	var out []policyfile.Replacement
	p.each(n, func(n *yaml.Node) {
		re := p.regexp(n, n.Text)
		if re != nil && re.MatchString("") {
			p.fail(n, "", "pattern %q matches the empty text", n.Text)
		}
		out = append(out, policyfile.Replacement{Pattern: n.Text, Literal: prefilter.RequiredLiteral(n.Text)})
	})
	return out
}
