package policy

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/shell"
)

// matcher decides whether a hook listens to an event. It is a grapnel.Matcher.
type matcher struct {
	match  *compiled // nil = every event
	except []*compiled
	when   *when
	// every: all commands, paths and addresses of the call must fit, not just one.
	// That is how `allow` looks: one harmless command does not vouch for its neighbour.
	every bool
	facts *factCache
}

// compiled is a Match ready to be asked.
type compiled struct {
	tests []func(*facts) bool // of what an event has once; all must hold

	// Of what an event may have several of, one must fit.
	command   []*shell.Pattern
	path      []string
	url, host []globPattern

	said *Match // as the file says it, for explanations
}

func compileMatch(m *Match) (*compiled, error) {
	if m == nil {
		return nil, nil
	}
	c := &compiled{path: m.Path, url: newGlobs(m.URL), host: newGlobs(m.Host), said: m}
	for _, source := range m.Command {
		p, err := shell.Compile(source)
		if err != nil {
			return nil, err
		}
		c.command = append(c.command, p)
	}
	c.word(m.Tool, nil, func(globs []globPattern, f *facts) bool { return matchTool(globs, f.ev.Tool) })
	c.word(agentNames(m.Agent), func(ev *grapnel.Event) string { return ev.Agent.Name }, nil)
	c.word(m.Mode, func(ev *grapnel.Event) string { return ev.Session.Mode }, nil)
	c.word(m.MCP, func(ev *grapnel.Event) string {
		if ev.Tool == nil || ev.Tool.MCP == nil {
			return ""
		}
		return ev.Tool.MCP.Server
	}, nil)
	c.word(m.Subagent, func(ev *grapnel.Event) string {
		if ev.Session.Subagent == nil {
			return ""
		}
		return ev.Session.Subagent.Type
	}, nil)
	c.text(m.Content, (*facts).content)
	c.text(m.Prompt, (*facts).prompt)
	c.text(m.Text, func(f *facts) []string { return f.allTexts() })
	if len(m.Shell) > 0 {
		c.tests = append(c.tests, func(f *facts) bool { return len(f.shell().Unknown) > 0 })
	}
	if m.Not != nil {
		not, err := compileMatch(m.Not)
		if err != nil {
			return nil, err
		}
		c.tests = append(c.tests, func(f *facts) bool { return !not.whole(f) || not.items() && !not.fits(f, false, nil) })
	}
	return c, nil
}

// word adds a test of one word of the event, or another one over globs.
func (c *compiled) word(sources []string, of func(*grapnel.Event) string, test func([]globPattern, *facts) bool) {
	if len(sources) == 0 {
		return
	}
	globs := newGlobs(sources)
	if test == nil {
		test = func(globs []globPattern, f *facts) bool { return anyGlob(globs, of(f.ev)) }
	}
	c.tests = append(c.tests, func(f *facts) bool { return test(globs, f) })
}

// text adds a test of pieces of text.
func (c *compiled) text(sources []Pattern, of func(*facts) []string) {
	if len(sources) == 0 {
		return
	}
	patterns := newTextPatterns(sources)
	c.tests = append(c.tests, func(f *facts) bool { return anyText(patterns, of(f)) })
}

// agentNames turns short forms of agents into their names.
func agentNames(names []string) []string {
	var full []string
	for _, name := range names {
		if d, ok := dialect.Find(name); ok {
			name = d.Name
		}
		full = append(full, name)
	}
	return full
}

// items reports whether the match speaks of single commands, paths or addresses.
func (c *compiled) items() bool {
	return len(c.command)+len(c.path)+len(c.url)+len(c.host) > 0
}

// whole looks at what an event has once.
func (c *compiled) whole(f *facts) bool {
	for _, holds := range c.tests {
		if !holds(f) {
			return false
		}
	}
	return true
}

// Match reports whether the hook listens.
func (m *matcher) Match(ev *grapnel.Event, v *grapnel.Verdict) (bool, error) {
	f := m.facts.of(ev)
	var exceptions []*compiled
	for _, e := range m.except {
		if !e.whole(f) {
			continue
		}
		if !e.items() || (m.match == nil || !m.match.items()) && e.fits(f, true, nil) {
			return false, nil
		}
		exceptions = append(exceptions, e)
	}
	if m.match != nil {
		if !m.match.whole(f) || m.match.items() && !m.match.fits(f, m.every, exceptions) {
			return false, nil
		}
	}
	if m.when == nil {
		return true, nil
	}
	if v == nil {
		return m.when.holds(f.env())
	}
	return m.when.holds(whenEnv(ev, v))
}

// fits looks at the commands, paths and addresses of a call: one that fits and that
// no exception takes out is enough, unless every one has to.
func (c *compiled) fits(f *facts, every bool, exceptions []*compiled) bool {
	if len(c.command) > 0 && !c.fitsCommands(f, every, exceptions) {
		return false
	}
	if len(c.path) > 0 && !fitsItems(f.paths(), every, exceptions, (*compiled).fitsPath, c) {
		return false
	}
	if len(c.url)+len(c.host) == 0 {
		return true
	}
	return fitsItems(f.urls(), every, exceptions, (*compiled).fitsURL, c)
}

func fitsItems[T any](items []T, every bool, exceptions []*compiled, fits func(*compiled, T) bool, c *compiled) bool {
	found := false
	for _, item := range items {
		hit := fits(c, item) && !slices.ContainsFunc(exceptions, func(e *compiled) bool { return fits(e, item) })
		if every && !hit {
			return false
		}
		found = found || hit
	}
	return found
}

// fitsCommands is fitsItems for commands, which first asks whether any command of
// the line can fit at all: most rules are about other programs.
func (c *compiled) fitsCommands(f *facts, every bool, exceptions []*compiled) bool {
	if !slices.ContainsFunc(c.command, f.mayFit) {
		return false
	}
	script := f.shell()
	if every && (len(script.Unknown) > 0 || len(script.Writes) > 0) {
		return false
	}
	indices := make([]int, len(script.Commands))
	for i := range indices {
		indices[i] = i
	}
	return fitsItems(indices, every, exceptions, func(c *compiled, i int) bool {
		return slices.ContainsFunc(c.command, func(p *shell.Pattern) bool { return p.MatchCommand(script, i) == shell.Yes })
	}, c)
}

func (c *compiled) fitsPath(p realNames) bool {
	return slices.ContainsFunc(c.path, p.match)
}

func (c *compiled) fitsURL(address string) bool {
	if len(c.url) > 0 && !anyGlob(c.url, address) {
		return false
	}
	if len(c.host) == 0 {
		return len(c.url) > 0
	}
	return anyGlob(c.host, hostOf(address))
}

// hostOf returns the host of an address, as the programs that fetch it see it: a
// backslash is a slash, and what stands before an @ is no host. It takes anything,
// also what net/url refuses, since a guard must not be blind to an odd address.
func hostOf(address string) string {
	if _, rest, ok := strings.Cut(address, "://"); ok {
		address = rest
	}
	if end := strings.IndexAny(address, `/\?#`); end >= 0 {
		address = address[:end]
	}
	address = strings.ToLower(address[strings.LastIndexByte(address, '@')+1:])
	if inner, _, ok := strings.Cut(strings.TrimPrefix(address, "["), "]"); ok && address[0] == '[' {
		return inner // IPv6
	}
	host, _, _ := strings.Cut(address, ":")
	return strings.TrimSuffix(host, ".")
}

func anyGlob(globs []globPattern, word string) bool {
	return slices.ContainsFunc(globs, func(g globPattern) bool { return g.match(word) })
}

func anyText(patterns []textPattern, texts []string) bool {
	return slices.ContainsFunc(patterns, func(p textPattern) bool { return slices.ContainsFunc(texts, p.in) })
}

// matchTool compares with the class, the agent's name and mcp__server__tool.
func matchTool(globs []globPattern, t *grapnel.Tool) bool {
	if t == nil {
		return false
	}
	return slices.ContainsFunc(globs, func(g globPattern) bool {
		return g.source == string(t.Class) || g.match(t.Name) || t.MCP != nil && g.match(t.CanonicalName())
	})
}

// facts are what matchers ask of one event, worked out once however many ask.
type facts struct {
	ev       *grapnel.Event
	gates    func() []shell.Gate // one per shell line
	shell    func() *shell.Script
	allTexts func() []string
	paths    func() []realNames
	env      func() map[string]any // of `when:`, without a Verdict
}

// factCache keeps the facts of the event that is being judged. An engine gives each
// firing its own *Event, so the pointer tells events apart.
type factCache struct{ last atomic.Pointer[facts] }

func (c *factCache) of(ev *grapnel.Event) *facts {
	if f := c.last.Load(); f != nil && f.ev == ev {
		return f
	}
	f := &facts{ev: ev}
	f.gates = sync.OnceValue(func() []shell.Gate { return gates(ev) })
	f.shell = sync.OnceValue(func() *shell.Script { return parseShell(ev) })
	f.allTexts = sync.OnceValue(func() []string { return allTexts(ev) })
	f.paths = sync.OnceValue(f.realPaths)
	f.env = sync.OnceValue(func() map[string]any { return whenEnv(ev, nil) })
	c.last.Store(f)
	return f
}

func gates(ev *grapnel.Event) []shell.Gate {
	if ev.Tool == nil {
		return nil
	}
	var list []shell.Gate
	for _, line := range ev.Tool.Commands {
		list = append(list, shell.NewGate(line))
	}
	return list
}

// parseShell reads the shell lines of a call as one script.
func parseShell(ev *grapnel.Event) *shell.Script {
	if ev.Tool == nil || len(ev.Tool.Commands) == 0 {
		return &shell.Script{}
	}
	return shell.Parse(strings.Join(ev.Tool.Commands, "\n"))
}

// allTexts is every piece of text in the event.
func allTexts(ev *grapnel.Event) []string {
	var texts []string
	for _, field := range ev.TextFields() {
		ev.Texts(field, func(text string) bool {
			texts = append(texts, text)
			return true
		})
	}
	return texts
}

// mayFit reports whether a command of the call could fit a pattern.
func (f *facts) mayFit(p *shell.Pattern) bool {
	if !slices.ContainsFunc(f.gates(), func(g shell.Gate) bool { return g.May(p.Program()) }) {
		return false
	}
	answer, _ := p.Match(f.shell())
	return answer == shell.Yes
}

// realPaths are the paths that a call names, and those that its shell lines
// redirect from and to.
func (f *facts) realPaths() []realNames {
	if f.ev.Tool == nil {
		return nil
	}
	var names []string
	for _, p := range f.ev.Tool.Paths {
		names = append(names, p.Path)
	}
	if slices.ContainsFunc(f.ev.Tool.Commands, func(line string) bool { return strings.ContainsAny(line, "<>") }) {
		script := f.shell()
		names = append(append(names, script.Reads...), script.Writes...)
	}
	if len(names) == 0 {
		return nil
	}
	root := realPath(projectRoot(f.ev))
	var real []realNames
	for _, name := range names {
		real = append(real, realNames{name: name, root: root, real: resolve(name, f.ev)})
	}
	return real
}

func (f *facts) urls() []string {
	if f.ev.Tool == nil {
		return nil
	}
	return f.ev.Tool.URLs
}

func (f *facts) content() []string {
	if f.ev.Tool == nil || f.ev.Tool.Content == "" {
		return nil
	}
	return []string{f.ev.Tool.Content}
}

func (f *facts) prompt() []string {
	if f.ev.Prompt == nil {
		return nil
	}
	return []string{f.ev.Prompt.Text}
}

// Explain says in a few words what matched.
func (m *matcher) Explain(ev *grapnel.Event, _ *grapnel.Verdict) string {
	if m.match == nil {
		if m.when != nil {
			return "when " + m.when.source
		}
		return ""
	}
	f := m.facts.of(ev)
	var words []string
	add := func(key, pattern, value string) {
		words = append(words, fmt.Sprintf("%s %q: %s", key, pattern, short(value)))
	}
	c := m.match
	for _, g := range newGlobs(c.said.Tool) {
		if matchTool([]globPattern{g}, ev.Tool) {
			add("tool", g.source, ev.Tool.Name)
		}
	}
	for _, p := range c.command {
		if answer, cmd := p.Match(f.shell()); answer == shell.Yes {
			add("command", p.String(), cmd.String())
		}
	}
	for _, pattern := range c.path {
		for _, p := range f.paths() {
			if p.match(pattern) {
				add("path", pattern, p.name)
			}
		}
	}
	for _, address := range f.urls() {
		if c.items() && len(c.url)+len(c.host) > 0 && c.fitsURL(address) {
			words = append(words, "url "+short(address))
		}
	}
	for key, part := range map[string]struct {
		patterns []Pattern
		texts    func(*facts) []string
	}{"content": {c.said.Content, (*facts).content}, "prompt": {c.said.Prompt, (*facts).prompt}, "text": {c.said.Text, func(f *facts) []string { return f.allTexts() }}} {
		for _, p := range newTextPatterns(part.patterns) {
			if slices.ContainsFunc(part.texts(f), p.in) {
				words = append(words, fmt.Sprintf("%s %q", key, p.source))
			}
		}
	}
	if len(c.said.Shell) > 0 {
		words = append(words, "shell unknown: "+short(strings.Join(f.shell().Unknown, "; ")))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// short keeps a value fit for one line of an explanation.
func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 80 {
		text = strings.ToValidUTF8(text[:80], "") + "…"
	}
	return text
}
