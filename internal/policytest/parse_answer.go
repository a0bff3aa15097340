package policytest

import (
	"encoding/json"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
)

// answers reads the answers of programs and servers.
func (p *parser) answers(n *yaml.Node) map[string]Answer {
	answers := map[string]Answer{}
	for _, pair := range p.pairs(n, "programs") {
		answers[pair.Key.Text] = p.answer(pair.Key, pair.Value)
	}
	return answers
}

func (p *parser) answer(name, n *yaml.Node) Answer {
	a := Answer{Line: name.Line, Col: name.Col}
	if n.Kind == yaml.String {
		if decisions := p.decisions(n); len(decisions) == 1 {
			a.Outcome.Decision = decisions[0]
		}
		return a
	}
	decide := func(d grapnel.Decision) func(*yaml.Node) {
		return func(n *yaml.Node) {
			a.Outcome.Decision = max(a.Outcome.Decision, d)
			if n.Kind == yaml.String {
				a.Outcome.Reason = n.Text
			} else if n.Kind != yaml.Bool || n.Text != "true" {
				p.fail(n, "", "%s must be the reason, or true", d)
			}
		}
	}
	output := func() *Output {
		if a.Output == nil {
			a.Output = &Output{}
		}
		return a.Output
	}
	fields := func(to *map[grapnel.Field]json.RawMessage) func(*yaml.Node) {
		return func(n *yaml.Node) {
			*to = map[grapnel.Field]json.RawMessage{}
			for _, pair := range p.pairs(n, "the fields") {
				(*to)[p.field(pair.Key)] = pair.Value.JSON()
			}
		}
	}
	p.keys(n, anAnswer,
		key{"block", decide(grapnel.Block)}, key{"ask", decide(grapnel.Ask)}, key{"allow", decide(grapnel.Allow)},
		key{"message", func(n *yaml.Node) { a.Outcome.Message = p.text(n) }},
		key{"context", func(n *yaml.Node) {
			for _, item := range itemsOf(n) {
				a.Outcome.Context = append(a.Outcome.Context, p.text(item))
			}
		}},
		key{"set", fields(&a.Outcome.Set)}, key{"patch", fields(&a.Outcome.Patch)},
		key{"halt", func(n *yaml.Node) { a.Outcome.Halt = p.text(n) }},
		key{"exit", func(n *yaml.Node) {
			const most = 255
			if output().Exit = *p.integer(n); a.Output.Exit < 0 || a.Output.Exit > most {
				p.fail(n, "for a program that cannot run, write for example `error: gone`", "an exit code is a number from 0 to %d", most)
			}
		}},
		key{"stdout", func(n *yaml.Node) { output().Stdout = p.written(n) }},
		key{"stderr", func(n *yaml.Node) { output().Stderr = p.written(n) }},
		key{"error", func(n *yaml.Node) { a.Error = p.text(n) }},
		key{"timeout", func(n *yaml.Node) {
			if a.Timeout = n.Text == "true"; n.Kind != yaml.Bool {
				p.fail(n, "", "want true or false, not %q", n.Text)
			}
		}},
	)
	if out := &a.Outcome; a.Output != nil && (out.Decision > grapnel.None || out.Message != "" || out.Halt != "" || out.Context != nil || out.Set != nil || out.Patch != nil) {
		p.fail(n, "write one of the two", "an answer has either the output of the program (exit, stdout, stderr) or its meaning")
	}
	return a
}

// written returns the output of a program: a mapping is converted to JSON.
func (p *parser) written(n *yaml.Node) string {
	if n.Kind == yaml.Map || n.Kind == yaml.List {
		return string(n.JSON())
	}
	return n.Text
}
