// Package manpage writes manual pages of commands and policies.
package manpage

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml/layout"
	"github.com/grapnel-dev/grapnel/policy"
)

// Pages returns the pages of all commands, of grapnel-hook with the given help text, and of
// policies.
func Pages(root *cobra.Command, hookHelp string) []*Page {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var pages []*Page
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Name() == "hook" { // a separate page describes it better
			return
		}
		if cmd == root || cmd.IsAvailableCommand() {
			pages = append(pages, commandPage(cmd))
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
	return append(pages, hookPage(hookHelp), policyPage())
}

// A Page is a manual page in the man macros, which groff and mandoc read.
type Page struct {
	Name    string
	Section int
	text    strings.Builder
}

// Text returns the source of the page.
func (p *Page) Text() string { return p.text.String() }

func newPage(name string, section int, about string) *Page {
	p := &Page{Name: name, Section: section}
	p.line(".TH %s %d \"\" \"grapnel %s\" \"Grapnel\"", roff(strings.ToUpper(name)), section, hookcmd.Version)
	p.heading("NAME")
	p.line("%s \\- %s", roff(name), roff(about))
	return p
}

func (p *Page) line(format string, args ...any) { fmt.Fprintf(&p.text, format+"\n", args...) }

func (p *Page) heading(title string) { p.line(".SH %s", title) }

// roff escapes a text so that no part of it is an escape or, at the beginning, a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

// prose writes paragraphs. It keeps the layout of indented lines.
func (p *Page) prose(text string) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if first := strings.Index(text, strings.TrimSpace(text)); first > 0 && text[first-1] == ' ' {
		lines[0] = "  " + lines[0]
	}
	var example, begun, gap bool
	for i, l := range lines {
		if strings.TrimSpace(l) == "" {
			if gap = !example || i+1 == len(lines) || !strings.HasPrefix(lines[i+1], "  "); !gap {
				p.line("\\&")
			}
			continue
		}
		indented := strings.HasPrefix(l, "  ") || strings.HasPrefix(l, "\t")
		if example && !indented {
			p.line(".EE")
		}
		if begun && (gap || example != indented) {
			p.line(".PP")
		}
		if indented && !example {
			p.line(".EX")
		}
		p.line("%s", roff(l))
		example, begun, gap = indented, true, false
	}
	if example {
		p.line(".EE")
	}
}

// also ends a page with a list of other pages, each with its section.
func (p *Page) also(names ...string) {
	p.heading("SEE ALSO")
	for i, name := range names {
		word, section, _ := strings.Cut(name, "/")
		end := ","
		if i == len(names)-1 {
			end = ""
		}
		p.line(".BR %s (%s)%s", roff(word), section, end)
	}
}

func commandPage(cmd *cobra.Command) *Page {
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	p := newPage(name, 1, cmd.Short)
	p.heading("SYNOPSIS")
	p.line(".B %s", roff(cmd.CommandPath()))
	if words := strings.TrimPrefix(cmd.UseLine(), cmd.CommandPath()); words != "" {
		p.line("%s", roff(strings.TrimSpace(words)))
	}
	p.heading("DESCRIPTION")
	p.prose(cmp.Or(cmd.Long, cmd.Short+"."))
	if subs := slices.DeleteFunc(slices.Clone(cmd.Commands()), func(sub *cobra.Command) bool { return !sub.IsAvailableCommand() }); len(subs) > 0 {
		p.heading("COMMANDS")
		for _, sub := range subs {
			p.line(".TP\n.B %s\n%s", roff(sub.Name()), roff(sub.Short))
		}
	}
	cmd.InitDefaultHelpFlag()
	p.flags("OPTIONS", cmd.NonInheritedFlags())
	p.flags("OPTIONS OF ALL COMMANDS", cmd.InheritedFlags())
	if cmd.Example != "" {
		p.heading("EXAMPLES")
		p.prose(cmd.Example)
	}
	also := []string{"grapnel-hook/1", "grapnel-policy/5"}
	if cmd.HasParent() {
		also = append([]string{strings.ReplaceAll(cmd.Parent().CommandPath(), " ", "-") + "/1"}, also...)
	}
	p.also(also...)
	return p
}

func (p *Page) flags(title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	p.heading(title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		label := `\fB` + roff("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			label = `\fB` + roff("-"+f.Shorthand) + `\fR, ` + label
		}
		if value != "" {
			label += ` \fI` + roff(value) + `\fR`
		}
		p.line(".TP\n%s\n%s", label, roff(usage))
	})
}

// hookPage returns the page of grapnel-hook.
func hookPage(help string) *Page {
	synopsis, rest, _ := strings.Cut(strings.TrimPrefix(help, "usage: grapnel-hook "), "\n")
	p := newPage("grapnel-hook", 1, "Answer one event of an AI agent")
	p.heading("SYNOPSIS")
	p.line(".B grapnel\\-hook\n%s", roff(synopsis))
	p.heading("DESCRIPTION")
	p.prose(rest)
	p.heading("EXIT STATUS")
	p.prose("The exit code is part of the reply. For several agents, 2 means that the event is blocked.\n64 is a usage error.")
	p.also("grapnel/1", "grapnel-install/1", "grapnel-explain/1", "grapnel-policy/5")
	return p
}

// policyPage describes the keys of a policy, with the texts of the schema.
func policyPage() *Page {
	p := newPage("grapnel-policy", 5, "Policies of Grapnel")
	p.heading("DESCRIPTION")
	p.prose("A policy is a YAML file of hooks: rules for AI agents, and actions such as logging. Your policy is\n" +
		"~/.config/grapnel/grapnel.yaml; a project has a grapnel.yaml at its root and in any directory\nbelow, which applies after you trust it.")
	schema, err := yaml.Parse([]byte(policy.Schema())) // JSON is YAML
	if err != nil {
		return p
	}
	defs := schema.Get("$defs")
	p.keys("KEYS OF A POLICY", schema, defs)
	p.keys("KEYS OF A HOOK", defs.Get("hook"), defs)
	p.keys("KEYS OF MATCH, EXCEPT AND NOT", defs.Get("match"), defs)
	p.keys("KEYS OF LIMIT", defs.Get("limit"), defs)
	p.keys("KEYS OF AFTER", defs.Get("after"), defs)
	p.keys("KEYS OF SANDBOX", defs.Get("sandbox"), defs)
	p.heading("EXAMPLES")
	p.prose("  version: 1\n  use: [destructive, secrets]\n\n  hooks:\n    - name: keep-out-of-prod\n      on: tool.before\n      match: {writes: \"deploy/prod/**\"}\n      ask: This changes production. Go on?")
	p.also("grapnel/1", "grapnel-check/1", "grapnel-fmt/1", "grapnel-explain/1")
	return p
}

// keys describes the properties of a definition in the schema.
func (p *Page) keys(title string, def, defs *yaml.Node) {
	p.heading(title)
	for _, pair := range def.Get("properties").Pairs {
		about := pair.Value.Get("description")
		if ref := pair.Value.Get("$ref"); about == nil && ref != nil {
			about = defs.Get(strings.TrimPrefix(ref.Text, "#/$defs/")).Get("description")
		}
		p.line(".TP\n.B %s", roff(pair.Key.Text))
		if about != nil {
			p.line("%s", roff(about.Text))
		}
		if examples := pair.Value.Get("examples"); examples != nil {
			example := fmt.Appendf(nil, "%s: %s", pair.Key.Text, examples.Items[0].JSON())
			if out, err := layout.Format(example, nil); err == nil {
				example = bytes.TrimSuffix(out, []byte("\n"))
			}
			p.line(".IP\n.EX\n%s\n.EE", roff(string(example)))
		}
	}
}
