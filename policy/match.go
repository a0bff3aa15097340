package policy

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
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
	allow  bool // it is an `allow`, see reading
	facts  *factCache
}

// A reading is how a match looks at a call that names several commands, paths or
// addresses. What guards fits when one of them does. What lets something through,
// an `allow` or the exception of a guard, wants all of them, and knows them: one
// harmless command does not vouch for its neighbour. What takes from an `allow`
// fits when one of them may.
type reading struct{ allow, negated bool }

// every: all have to fit, not just one.
func (r reading) every() bool { return r.allow != r.negated }

// least is the answer of a command pattern that counts as fitting.
func (r reading) least() shell.Answer {
	if r.allow && r.negated {
		return shell.Unknown
	}
	return shell.Yes
}

// not is the reading of what takes from this one.
func (r reading) not() reading { return reading{r.allow, !r.negated} }

// compiled is a Match ready to be asked.
type compiled struct {
	tests []func(*facts) bool // of what an event has once; all must hold

	// Of what an event may have several of, one must fit.
	command   []*shell.Pattern
	path      []string
	url, host []globPattern

	reading reading
	said    *Match // as the file says it, for explanations
}

func compileMatch(m *Match, r reading) (*compiled, error) {
	if m == nil {
		return nil, nil
	}
	c := &compiled{path: m.Path, url: newGlobs(m.URL), host: newGlobs(lowerWords(m.Host)), reading: r, said: m}
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
		c.tests = append(c.tests, func(f *facts) bool { return len(f.unknown()) > 0 })
	}
	if m.Not != nil {
		not, err := compileMatch(m.Not, r.not())
		if err != nil {
			return nil, err
		}
		c.tests = append(c.tests, func(f *facts) bool { return !not.whole(f) || not.items() && !not.fits(f, nil) })
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
func (c *compiled) items() bool { return c.sorts() > 0 }

// sorts counts what the match speaks of: commands, paths, addresses.
func (c *compiled) sorts() int {
	n := 0
	for _, has := range []bool{len(c.command) > 0, len(c.path) > 0, len(c.url)+len(c.host) > 0} {
		if has {
			n++
		}
	}
	return n
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

// Match reports whether the hook listens. Of a batch of calls it looks at each.
func (m *matcher) Match(ev *grapnel.Event, v *grapnel.Verdict) (bool, error) {
	f := m.facts.of(ev)
	if ev.Tool != nil || len(ev.Calls) == 0 {
		return m.judge(f, v)
	}
	for _, call := range f.calls() {
		if ok, err := m.judge(call, v); ok != m.allow || err != nil {
			return ok, err
		}
	}
	return m.allow, nil
}

func (m *matcher) judge(f *facts, v *grapnel.Verdict) (bool, error) {
	if m.match.looksAtPaths() || slices.ContainsFunc(m.except, (*compiled).looksAtPaths) {
		if n := len(f.pathNames()); n > maxPaths {
			return false, fmt.Errorf("the call names %d paths, more than %d", n, maxPaths)
		}
	}
	var exceptions []*compiled
	for _, e := range m.except {
		switch {
		case !e.whole(f):
		case !e.items():
			return false, nil
		case e.sorts() == 1 && m.match != nil && m.match.items():
			exceptions = append(exceptions, e)
		case e.fits(f, nil):
			return false, nil
		}
	}
	if m.match != nil {
		if !m.match.whole(f) || m.match.items() && !m.match.fits(f, exceptions) {
			return false, nil
		}
	}
	if m.when == nil {
		return true, nil
	}
	if v == nil {
		return m.when.holds(f.env())
	}
	return m.when.holds(whenEnv(f.ev, v))
}

// looksAtPaths reports whether a match has to make paths real.
func (c *compiled) looksAtPaths() bool {
	if c == nil {
		return false
	}
	for m := c.said; m != nil; m = m.Not {
		if len(m.Path) > 0 {
			return true
		}
	}
	return false
}

// fits looks at the commands, paths and addresses of a call: one that fits and that
// no exception takes out is enough, unless every one has to.
func (c *compiled) fits(f *facts, exceptions []*compiled) bool {
	if len(c.command) > 0 {
		if !c.fitsCommands(f, exceptions) {
			return false
		}
	} else if c.reading.every() && f.ev.Tool != nil && len(f.ev.Tool.Commands) > 0 {
		return false // where a command writes to says nothing of what it does
	}
	if len(c.path) > 0 && !fitsItems(f.paths(), exceptions, (*compiled).fitsPath, c) {
		return false
	}
	if len(c.url)+len(c.host) == 0 {
		return true
	}
	return fitsItems(f.urls(), exceptions, (*compiled).fitsURL, c)
}

func fitsItems[T any](items []T, exceptions []*compiled, fits func(*compiled, T) bool, c *compiled) bool {
	found := false
	for _, item := range items {
		hit := fits(c, item) && !slices.ContainsFunc(exceptions, func(e *compiled) bool { return fits(e, item) })
		if c.reading.every() && !hit {
			return false
		}
		found = found || hit
	}
	return found
}

// fitsCommands is fitsItems for commands, which first asks whether any command of
// the line can fit at all: most rules are about other programs.
func (c *compiled) fitsCommands(f *facts, exceptions []*compiled) bool {
	least := c.reading.least()
	if least == shell.Unknown && len(f.unknown()) > 0 {
		return true
	}
	if !slices.ContainsFunc(c.command, func(p *shell.Pattern) bool { return f.mayFit(p, least) }) {
		return false
	}
	type place struct {
		script *shell.Script
		i      int
	}
	var places []place
	for _, script := range f.scripts() {
		if c.reading.every() && (len(script.Unknown) > 0 || len(script.Writes) > 0) {
			return false
		}
		for i := range script.Commands {
			places = append(places, place{script, i})
		}
	}
	return fitsItems(places, exceptions, func(c *compiled, at place) bool {
		return slices.ContainsFunc(c.command, func(p *shell.Pattern) bool {
			return p.MatchCommand(at.script, at.i) >= c.reading.least()
		})
	}, c)
}

func (c *compiled) fitsPath(p realName) bool {
	return slices.ContainsFunc(c.path, p.match)
}

func (c *compiled) fitsURL(address string) bool {
	if len(c.url) > 0 && !anyGlob(c.url, address) && !anyGlob(c.url, lowerHost(address)) {
		return false
	}
	if len(c.host) == 0 {
		return len(c.url) > 0
	}
	return anyGlob(c.host, hostOf(address))
}

// lowerWords turns globs into those of hosts, which have one letter case.
func lowerWords(globs []string) []string {
	var lower []string
	for _, g := range globs {
		if _, ok := regexpOf(g); !ok {
			g = strings.ToLower(g)
		}
		lower = append(lower, g)
	}
	return lower
}

// lowerHost writes scheme and host of an address in lower case, which is the same
// address.
func lowerHost(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return address
	}
	end := strings.IndexAny(rest, `/\?#`)
	if end < 0 {
		end = len(rest)
	}
	return strings.ToLower(scheme) + "://" + strings.ToLower(rest[:end]) + rest[end:]
}

// unseen drops what programs that fetch an address do not see in it, and puts a
// plain dot in the place of those that count as one in a host.
var unseen = strings.NewReplacer("\t", "", "\n", "", "\r", "", "\u3002", ".", "\uff0e", ".", "\uff61", ".")

// schemes are those of which the slashes may be missing: fetch("https:host") works.
var schemes = []string{"http:", "https:", "ws:", "wss:", "ftp:"}

// hostOf returns the host of an address, as the programs that fetch it see it: a
// backslash is a slash, and what stands before an @ is no host. It takes anything,
// also what net/url refuses, since a guard must not be blind to an odd address.
func hostOf(address string) string {
	address = strings.TrimFunc(unseen.Replace(address), func(r rune) bool { return r <= ' ' })
	address = strings.ToLower(address)
	special := slices.IndexFunc(schemes, func(s string) bool { return strings.HasPrefix(address, s) })
	if special >= 0 {
		address = strings.TrimLeft(address[len(schemes[special]):], `/\`)
	} else if _, rest, ok := strings.Cut(address, "://"); ok {
		address = rest
	}
	if end := strings.IndexAny(address, `/\?#`); end >= 0 {
		address = address[:end]
	}
	address = address[strings.LastIndexByte(address, '@')+1:]
	if inner, _, ok := strings.Cut(strings.TrimPrefix(address, "["), "]"); ok && address[0] == '[' {
		return inner // IPv6
	}
	host, _, _ := strings.Cut(address, ":")
	return strings.TrimSuffix(strings.ToLower(unescape(host)), ".")
}

// unescape decodes %41, and leaves alone what is no such thing.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(code))
				i += 2
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return unseen.Replace(b.String())
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
	ev        *grapnel.Event
	keptCalls lazy[[]*facts]
	keptGates lazy[[]shell.Gate]
	keptShell lazy[[]*shell.Script]
	keptTexts lazy[[]string]
	keptNames lazy[[]string]
	keptPaths lazy[[]realName]
	keptEnv   lazy[map[string]any]
}

// lazy is a value that is worked out when it is first asked for.
type lazy[T any] struct {
	once  sync.Once
	value T
}

func (l *lazy[T]) get(work func() T) T {
	l.once.Do(func() { l.value = work() })
	return l.value
}

// calls are those of a batch.
func (f *facts) calls() []*facts {
	return f.keptCalls.get(func() []*facts { return newCalls(f.ev) })
}

// gates are one for each shell line, and scripts likewise.
func (f *facts) gates() []shell.Gate {
	return f.keptGates.get(func() []shell.Gate { return gates(f.ev) })
}

func (f *facts) scripts() []*shell.Script {
	return f.keptShell.get(func() []*shell.Script { return parseShell(f.ev) })
}

func (f *facts) allTexts() []string {
	return f.keptTexts.get(func() []string { return allTexts(f.ev) })
}

func (f *facts) pathNames() []string { return f.keptNames.get(f.findPaths) }

func (f *facts) paths() []realName { return f.keptPaths.get(f.realPaths) }

// env is that of `when:`, without a Verdict.
func (f *facts) env() map[string]any {
	return f.keptEnv.get(func() map[string]any { return whenEnv(f.ev, nil) })
}

// maxPaths bounds how many paths of one call are made real: each costs a system call
// for each of its parts, and an agent does not wait for ever.
const maxPaths = 4096

// factCache keeps the facts of the event that is being judged. An engine gives each
// firing its own *Event, so the pointer tells events apart.
type factCache struct{ last atomic.Pointer[facts] }

func (c *factCache) of(ev *grapnel.Event) *facts {
	if f := c.last.Load(); f != nil && f.ev == ev {
		return f
	}
	f := newFacts(ev)
	c.last.Store(f)
	return f
}

func newFacts(ev *grapnel.Event) *facts { return &facts{ev: ev} }

// newCalls looks at each call of a batch as if it were the event's only one.
func newCalls(ev *grapnel.Event) []*facts {
	var calls []*facts
	for i := range ev.Calls {
		one := *ev
		one.Tool, one.Calls = &ev.Calls[i], nil
		calls = append(calls, newFacts(&one))
	}
	return calls
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

// parseShell reads the shell lines of a call, each by itself: an open quote in one
// must not swallow the next.
func parseShell(ev *grapnel.Event) []*shell.Script {
	if ev.Tool == nil {
		return nil
	}
	var scripts []*shell.Script
	for _, line := range ev.Tool.Commands {
		scripts = append(scripts, shell.Parse(line))
	}
	return scripts
}

// unknown is what cannot be told about the shell lines.
func (f *facts) unknown() []string {
	var unknown []string
	for _, script := range f.scripts() {
		unknown = append(unknown, script.Unknown...)
	}
	return unknown
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
func (f *facts) mayFit(p *shell.Pattern, least shell.Answer) bool {
	_, found := f.find(p, least)
	return found
}

// find returns the first command that fits a pattern.
func (f *facts) find(p *shell.Pattern, least shell.Answer) (*shell.Command, bool) {
	if !slices.ContainsFunc(f.gates(), func(g shell.Gate) bool { return g.May(p.Program()) }) {
		return nil, false
	}
	for _, script := range f.scripts() {
		if answer, cmd := p.Match(script); answer >= least {
			return cmd, true
		}
	}
	return nil, false
}

// findPaths are the paths that a call names, and those that its shell lines
// redirect from and to.
func (f *facts) findPaths() []string {
	if f.ev.Tool == nil {
		return nil
	}
	var names []string
	for _, p := range f.ev.Tool.Paths {
		names = append(names, p.Path)
	}
	for _, address := range f.ev.Tool.URLs {
		if len(address) > len("file:") && strings.EqualFold(address[:len("file:")], "file:") {
			names = append(names, address)
		}
	}
	for i, line := range f.ev.Tool.Commands {
		if strings.ContainsAny(line, "<>") {
			names = append(names, redirected(f.scripts()[i])...)
		}
	}
	return names
}

// redirected lists the files that a script redirects from and to, also as seen from
// the directories that it changes into.
func redirected(script *shell.Script) []string {
	files := slices.Concat(script.Reads, script.Writes)
	names := slices.Clone(files)
	for _, dir := range entered(script) {
		for _, name := range files {
			if !filepath.IsAbs(name) && !strings.HasPrefix(name, "~") {
				names = append(names, dir+string(filepath.Separator)+name)
			}
		}
	}
	return names
}

// entered lists the directories that a script may be in after a cd. Whether one cd
// counts from another is not known, since it may stand in a subshell.
func entered(script *shell.Script) []string {
	const enough = 32
	var dirs []string
	for i := range script.Commands {
		cmd := &script.Commands[i]
		if cmd.Name != "cd" && cmd.Name != "pushd" || len(cmd.Args) == 0 {
			continue
		}
		to := cmd.Args[len(cmd.Args)-1]
		if !to.Literal || strings.HasPrefix(to.Text, "-") {
			continue
		}
		further := []string{to.Text}
		if !filepath.IsAbs(to.Text) && !strings.HasPrefix(to.Text, "~") {
			for _, dir := range dirs {
				further = append(further, dir+string(filepath.Separator)+to.Text)
			}
		}
		if dirs = append(dirs, further...); len(dirs) >= enough {
			return dirs[:enough]
		}
	}
	return dirs
}

// realPaths are the readings of all paths.
func (f *facts) realPaths() []realName {
	names := f.pathNames()
	if len(names) == 0 {
		return nil
	}
	root := projectRoot(f.ev)
	roots := distinct(root, realPath(root))
	var real []realName
	for _, name := range names {
		for _, path := range resolve(name, f.ev) {
			real = append(real, realName{name: name, roots: roots, path: path})
		}
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
	if ev.Tool == nil && len(ev.Calls) > 0 {
		var words []string
		for _, call := range f.calls() {
			if ok, err := m.judge(call, nil); ok && err == nil {
				words = append(words, m.explain(call))
			}
		}
		return strings.Join(slices.Compact(words), ", ")
	}
	return m.explain(f)
}

func (m *matcher) explain(f *facts) string {
	ev := f.ev
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
		if cmd, found := f.find(p, shell.Yes); found {
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
		words = append(words, "shell unknown: "+short(strings.Join(f.unknown(), "; ")))
	}
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ", ")
}

// short keeps a value fit for one line of an explanation.
func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 80 {
		text = strings.ToValidUTF8(text[:80], "") + "…"
	}
	return text
}
