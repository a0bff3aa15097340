package match

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/shell"
)

// Explain returns a short description of the matching parts.
func (m *Matcher) Explain(ev *grapnel.Event, _ *grapnel.Verdict) string {
	if m.match == nil {
		if m.when != nil {
			return "when " + m.when.Source
		}
		return ""
	}
	f := m.Facts.Of(ev)
	if ev.Tool == nil && len(ev.Calls) > 0 {
		var words []string
		for _, call := range f.calls() {
			if ok, call, err := m.judgeNames(call, nil); ok && err == nil {
				words = append(words, m.explain(call))
			}
		}
		return strings.Join(slices.Compact(words), ", ")
	}
	if m.server {
		_, f, _ = m.judgeNames(f, nil)
	}
	return m.explain(f)
}

func (m *Matcher) explain(f *Facts) string {
	ev := f.Event
	var words []string
	add := func(key, pattern, value string) {
		words = append(words, fmt.Sprintf("%s %q: %s", key, pattern, Shorten(value)))
	}
	c := m.match
	for _, g := range NewGlobs(c.source.Tool) {
		if matchTool([]Glob{g}, ev.Tool) {
			add("tool", g.source, ev.Tool.Name)
		}
	}
	words = append(append(words, c.deletedParts(f)...), c.droppedParts(f)...)
	for i, p := range c.phrases {
		if p.in(f.callWords()) {
			add("words", c.source.Words[i], strings.Join(f.callWords(), " "))
		}
	}
	for _, p := range c.Command {
		if cmd, found := f.find(p, shell.Yes); found && len(c.source.Command) > 0 {
			add("command", p.source, cmd.String())
		}
	}
	for _, part := range c.checkoutParts(f) {
		words = append(words, part.key+" "+part.head.String())
	}
	for key, patterns := range c.paths() {
		for _, pattern := range patterns {
			for _, p := range f.Paths() {
				if c.speaks(key, p, []string{pattern}) {
					add([...]string{"path", "reads", "writes"}[key], pattern, p.name)
				}
			}
		}
	}
	for _, address := range f.urls() {
		if c.items() && len(c.url)+len(c.host) > 0 && c.fitsURL(address) {
			words = append(words, "url "+Shorten(address))
		}
	}
	words = append(words, c.explainTexts(f)...)
	if c.ended != nil {
		words = append(words, "failed "+strconv.FormatBool(*c.ended))
	}
	if c.secret != nil {
		words = append(words, c.secret.explain(f)...)
	}
	if c.redirect {
		words = append(words, "shell "+ShellRedirection)
	}
	if c.unknown {
		words = append(words, "shell unknown: "+Shorten(strings.Join(f.unknown(), "; ")))
	}
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ", ")
}

// explainTexts describes the patterns that match texts.
func (c *compiled) explainTexts(f *Facts) (words []string) {
	for key, part := range map[string]struct {
		patterns []policyfile.Pattern
		texts    func(*Facts) []string
	}{"code": {c.source.Code, (*Facts).code}, "content": {c.source.Content, (*Facts).content}, "prompt": {c.source.Prompt, (*Facts).prompt}, "text": {c.source.Text, (*Facts).texts}} {
		for _, p := range newTextPatterns(part.patterns) {
			if slices.ContainsFunc(part.texts(f), p.in) {
				words = append(words, fmt.Sprintf("%s %q", key, p.source))
			}
		}
	}
	return words
}

// Shorten converts text to one line of at most about 80 bytes.
func Shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 80 {
		text = strings.ToValidUTF8(text[:80], "") + "…"
	}
	return text
}
