package match

import (
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/policy/prefilter"
	"github.com/grapnel-dev/grapnel/shell"
)

// Needs lists the properties that an event must have for a hook to match, as far as they can be
// tested cheaply. Each list is encoded as one string, because there are many hooks; empty = no
// requirement.
type Needs struct {
	Tools   string // classes, names or globs, one per line, of which the tool must match one
	Paths   string // patterns of path, reads and writes, of which a path must match one, see paths
	Text    string // the required literals of each `text:` pattern
	Content string // the same for `content:`
	Code    string // the same for `code:`
	Prompt  string // the same for `prompt:`
	Program bool   // one of the hook's programs, see shell.Begins
	Line    bool   // a shell line
	Unknown bool   // a shell line with parts that cannot be evaluated
	URL     bool   // an address
	Secret  bool   // a text that may be a secret
}

// nearText encodes the required literals of patterns, each list once: patterns often search for the
// same words in different orders.
func nearText(patterns []textPattern) string {
	var all []string
	for i := range patterns {
		p := &patterns[i]
		near := p.near
		switch {
		case p.re == nil:
			near = prefilter.Fold(p.source)
		case near == "" && p.re.Literal() != "":
			near = prefilter.Fold(p.re.Literal())
		}
		if !slices.Contains(all, near) {
			all = append(all, near)
		}
	}
	return strings.Join(all, prefilter.NextPattern)
}

// NeedsOf returns the properties that an event must have for a Matcher to match, and the command
// patterns of the Matcher.
func NeedsOf(m *Matcher) (n Needs, commands []*shell.Pattern) {
	if m == nil || m.match == nil {
		return n, nil
	}
	for _, c := range m.match.Command {
		commands = append(commands, c.get())
	}
	return m.match.needs(), commands
}

// needs omits requirements that cost more to test than to build the hook.
func (c *compiled) needs() Needs {
	n := Needs{Program: len(c.Command) > 0, Line: c.unknown || c.redirect || len(c.pushes)+len(c.source.Code) > 0, Unknown: c.unknown, URL: len(c.url)+len(c.host) > 0, Secret: c.secret != nil}
	var tools []string
	for _, g := range c.tool {
		if g.re != nil {
			tools = nil
			break
		}
		tools = append(tools, g.source)
	}
	n.Tools = strings.Join(tools, "\n")
	if len(c.path)+len(c.reads)+len(c.writes) > 0 {
		n.Paths = strings.Join(c.path, "\n") + prefilter.NextSet + strings.Join(c.reads, "\n") + prefilter.NextSet + strings.Join(c.writes, "\n")
	}
	n.Code = nearText(newTextPatterns(c.source.Code))
	n.Text, n.Content, n.Prompt = nearText(newTextPatterns(c.source.Text)), nearText(newTextPatterns(c.source.Content)), nearText(newTextPatterns(c.source.Prompt))
	return n
}

// NearPrograms returns, for each hook of a pack, whether the call may run one of the hook's
// programs. begins comes from [shell.Begins].
func (f *Facts) NearPrograms(begins string, hooks int) []bool {
	f.lowering.Lock()
	defer f.lowering.Unlock()
	for i := range f.packs {
		if f.packs[i].begins == begins && len(f.packs[i].near) == hooks {
			return f.packs[i].near
		}
	}
	near := make([]bool, hooks)
	for _, script := range f.Scripts() {
		if script.Near(begins, func(hook int) { near[hook] = true }) {
			for i := range near {
				near[i] = true
			}
		}
	}
	f.packs = append(f.packs, nearPack{begins, near})
	return near
}

// nearPack is a cached result of NearPrograms.
type nearPack struct {
	begins string
	near   []bool
}

// ToolAmong reports whether the tool of a call is in a list of [Needs].Tools.
func (f *Facts) ToolAmong(list string) bool {
	t := f.Event.Tool
	for rest, more := list, true; more; {
		var word string
		if word, rest, more = strings.Cut(rest, "\n"); word == string(t.Class) || strings.EqualFold(word, t.Name) {
			return true
		}
		if strings.ContainsAny(word, "*?[\\_") && f.matchAnyName(NewGlobs([]string{word})) {
			return true
		}
	}
	return false
}

// nearAny reports whether one of the patterns with these required literals may match one of the
// texts.
func (f *Facts) nearAny(all string, texts func(*Facts) []string) bool {
	if all == "" {
		return true
	}
	for _, text := range texts(f) {
		low := f.lower(text)
		for rest, more := all, true; more; {
			var lists string
			lists, rest, more = strings.Cut(rest, prefilter.NextPattern)
			if low.Holds(lists) {
				return true
			}
		}
	}
	return false
}

// Met reports whether an event may have the properties that the hook needs. programs reports
// whether the call may run a program of the hook.
func (n *Needs) Met(f *Facts, programs func() bool) bool {
	t := f.Event.Tool
	if t == nil {
		if len(f.Event.Calls) > 0 {
			return true
		}
		if n.Tools != "" || n.Program || n.Paths != "" || n.Content != "" || n.Code != "" || n.Line || n.URL {
			return false
		}
		return f.nearAny(n.Text, (*Facts).texts) && f.nearAny(n.Prompt, (*Facts).prompt)
	}
	if n.Tools != "" && !f.ToolAmong(n.Tools) {
		return false
	}
	if n.Line && len(t.Commands) == 0 {
		return false
	}
	if f.ShellBytes() > MaxShellBytes {
		return true // the hook reports this as an error
	}
	switch {
	case n.Program && !programs(),
		n.Unknown && len(f.unknown()) == 0,
		n.URL && len(f.urls()) == 0,
		n.Paths != "" && (len(f.pathNames()) == 0 || !f.nearPaths(n.Paths)):
		return false
	} // texts are tested last, because they may be long
	return f.nearAny(n.Text, (*Facts).texts) && f.nearAny(n.Prompt, (*Facts).prompt) && f.nearAny(n.Content, (*Facts).content) && f.nearAny(n.Code, (*Facts).code)
}
