// Package match decides for which events a hook of a policy is meant: the keys of `match:`,
// exceptions, conditions of `when:`, and why they hold or not. An event is worked out once
// for all rules; see [Facts].
package match

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/shell"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Matcher decides whether a hook listens to an event. It is a grapnel.Matcher.
type Matcher struct {
	Facts  *FactCache
	number int       // in the ruleIndex; -1 = it is not there
	match  *compiled // nil = every event
	except []*compiled
	when   *when
	allow  bool // it is an `allow`, see reading
	paths  bool // it makes paths real
	lines  bool // it parses shell lines
}

// A Reading is how a match looks at a call that names several commands, paths or
// addresses. What guards fits when one of them does. What lets something through,
// an `allow` or the exception of a guard, wants all of them, and knows them: one
// harmless command does not vouch for its neighbour. What takes from an `allow`
// fits when one of them may.
type Reading struct{ Allow, negated bool }

// every: all have to fit, not just one.
func (r Reading) every() bool { return r.Allow != r.negated }

// least is the answer of a command pattern that counts as fitting.
func (r Reading) least() shell.Answer {
	if r.Allow && r.negated {
		return shell.Unknown
	}
	return shell.Yes
}

// Not is the reading of what takes from this one.
func (r Reading) Not() Reading { return Reading{r.Allow, !r.negated} }

// compiled is a Match ready to be asked.
type compiled struct {
	// Of what an event has once, all must hold.
	tool   []Glob
	words  []wordTest
	texts  []textTest
	secret *secretTest // nil = whatever is in it
	shell  bool        // something of a shell line cannot be told
	ended  *bool       // how the call ended: true = it failed
	not    *compiled

	// Of what an event may have several of, one must fit.
	Command   []*command
	path      []string
	reads     []string // path patterns, of what is read
	writes    []string
	firsts    [3][]string // of the patterns of paths, see firstPiece
	url, host []Glob
	sorts     int // how many of commands, paths, addresses it speaks of

	reading Reading
	said    *policyfile.Match // as the file says it, for explanations
}

// command is a pattern of commands. That of a hook which is made when an event comes is
// compiled when a line comes near it: such a hook may have hundreds.
type command struct {
	source  string
	program int // its index in the FactCache, if it has one

	once    sync.Once
	pattern *shell.Pattern
}

// get panics over a pattern that was not checked before, which the engine takes for an
// error of the hook.
func (c *command) get() *shell.Pattern {
	c.once.Do(func() {
		if c.pattern != nil {
			return
		}
		var err error
		if c.pattern, err = shell.Compile(c.source); err != nil {
			panic(err)
		}
	})
	return c.pattern
}

// may reports whether the pattern may match a command of a script. It is false only if
// that is certain.
func (c *command) may(s *shell.Script) bool { return c.program >= 0 || s.MayMatch(c.source) }

// wordTest is a test of one word of the event, which an event of the main agent, or of a
// tool of the agent's own, may not have: then not even * fits.
type wordTest struct {
	of    func(*grapnel.Event) (string, bool)
	globs []Glob
}

// textTest is a test of pieces of text.
type textTest struct {
	of       func(*Facts) []string
	patterns []textPattern
}

func (cache *FactCache) compile(m *policyfile.Match, r Reading) (*compiled, error) {
	if m == nil {
		return nil, nil
	}
	c := &compiled{
		tool: NewGlobs(m.Tool), shell: len(m.Shell) > 0, ended: m.Failed,
		path: m.Path, reads: m.Reads, writes: m.Writes, url: NewGlobs(m.URL), host: NewGlobs(lowerWords(m.Host)), reading: r, said: m,
	}
	for key, patterns := range c.paths() {
		for _, pattern := range patterns {
			c.firsts[key] = append(c.firsts[key], firstPiece(pattern))
		}
	}
	block := make([]command, len(m.Command))
	c.Command = make([]*command, len(m.Command))
	for i, source := range m.Command {
		p := &block[i]
		p.source, p.program = source, -1
		if cache.first == nil {
			var err error
			if p.pattern, err = shell.Compile(source); err != nil {
				return nil, err
			}
			p.program = cache.program(p.pattern.Program())
		}
		c.Command[i] = p
	}
	for _, has := range []bool{len(c.Command) > 0, len(c.path) > 0, len(c.reads) > 0, len(c.writes) > 0, len(c.url)+len(c.host) > 0} {
		if has {
			c.sorts++
		}
	}
	for i := range Keys {
		switch k := &Keys[i]; {
		case k.Form == FormAgent:
			c.word(agentNames(*k.Words(m)), k.word)
		case k.word != nil:
			c.word(*k.Words(m), k.word)
		case k.Texts != nil && k.sure != nil && r.every():
			c.text(*k.Texts(m), k.sure)
		case k.Texts != nil:
			c.text(*k.Texts(m), k.got)
		}
	}
	if len(m.Secret) > 0 {
		c.secret = &secretTest{NewGlobs(m.Secret), cache.Secrets, r.every()}
	}
	var err error
	c.not, err = cache.compile(m.Not, r.Not())
	return c, err
}

func (c *compiled) word(sources []string, of func(*grapnel.Event) (string, bool)) {
	if len(sources) > 0 {
		c.words = append(c.words, wordTest{of, NewGlobs(sources)})
	}
}

func (c *compiled) text(sources []policyfile.Pattern, of func(*Facts) []string) {
	if len(sources) > 0 {
		c.texts = append(c.texts, textTest{of, newTextPatterns(sources)})
	}
}

// agentNames turns short forms of agents into their names.
func agentNames(names []string) []string {
	var full []string
	for _, name := range names {
		if found, ok := dialect.FullName(name); ok {
			name = found
		}
		full = append(full, name)
	}
	return full
}

// items reports whether the match speaks of single commands, paths or addresses.
func (c *compiled) items() bool { return c.sorts > 0 }

// whole looks at what an event has once, the cheapest first: most rules are about
// other tools.
func (c *compiled) whole(f *Facts) bool {
	if len(c.tool) > 0 && !matchTool(c.tool, f.Event.Tool) {
		return false
	}
	if c.ended != nil && (!hasEnded(f.Event) || f.Failed() != *c.ended) {
		return false
	}
	for i := range c.words {
		t := &c.words[i]
		if word, ok := t.of(f.Event); !ok || !AnyGlob(t.globs, word) {
			return false
		}
	}
	for i := range c.texts {
		if t := &c.texts[i]; !f.anyText(t.patterns, t.of(f)) {
			return false
		}
	}
	if c.shell && (len(f.unknown()) == 0 || !c.reading.Allow && len(f.hides()) == 0) {
		return false
	}
	if c.secret != nil && !c.secret.holds(f) {
		return false
	}
	return c.not == nil || !c.not.whole(f) || c.not.items() && !c.not.fits(f, nil)
}

// Match reports whether the hook listens. Of a batch of calls it looks at each.
func (m *Matcher) Match(ev *grapnel.Event, v *grapnel.Verdict) (bool, error) {
	f := m.Facts.Of(ev)
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

func (m *Matcher) judge(f *Facts, v *grapnel.Verdict) (bool, error) {
	if m.number > 0 && !f.concerns(m.number-1) {
		return false, nil
	}
	if err := m.tooLarge(f); err != nil {
		return false, err
	}
	var exceptions []*compiled
	for _, e := range m.except {
		switch {
		case !e.whole(f):
		case !e.items():
			return false, nil
		case e.sorts == 1 && m.match != nil && m.match.items():
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
	return m.when.holds(f, v)
}

// tooLarge says why a call cannot be judged in time.
func (m *Matcher) tooLarge(f *Facts) error {
	if m.lines {
		if size := f.ShellBytes(); size > MaxShellBytes {
			return fmt.Errorf("the call has shell lines of %d bytes, more than %d", size, MaxShellBytes)
		}
	}
	if m.paths && f.TooManyPaths() {
		n, size := f.pathSize()
		return fmt.Errorf("the call names %d paths of %d bytes, more than %d or %d", n, size, maxPaths, maxPathBytes)
	}
	return nil
}

// LooksAtPaths reports whether m looks at the paths of a call; a call with too many of them
// is an error then.
func (m *Matcher) LooksAtPaths() bool { return m != nil && m.paths }

// looksAtLines reports whether a match has to parse shell lines; paths stand in them,
// too.
func (c *compiled) looksAtLines() bool {
	return c != nil && (len(c.Command)+len(c.path)+len(c.reads)+len(c.writes)+len(c.url)+len(c.host) > 0 || c.shell || len(c.said.Content) > 0 || c.not.looksAtLines())
}

// looksAtPaths reports whether a match has to make paths real.
func (c *compiled) looksAtPaths() bool {
	return c != nil && (len(c.path)+len(c.reads)+len(c.writes) > 0 || c.not.looksAtPaths())
}

// fits looks at the commands, paths and addresses of a call: one that fits and that
// no exception takes out is enough, unless every one has to.
func (c *compiled) fits(f *Facts, exceptions []*compiled) bool {
	if len(c.Command) > 0 {
		if !c.fitsCommands(f, exceptions) {
			return false
		}
	} else if c.blind(f) {
		return false
	}
	for key, patterns := range c.paths() {
		if len(patterns) > 0 && !c.fitsPaths(f, key, exceptions) {
			return false
		}
	}
	return len(c.url)+len(c.host) == 0 || c.fitsURLs(f, exceptions)
}

// blind reports whether a call has shell lines, and what would let it through names no
// command: where a command writes to says nothing of what it does.
func (c *compiled) blind(f *Facts) bool {
	return c.reading.every() && len(c.Command) == 0 && f.Event.Tool != nil && len(f.Event.Tool.Commands) > 0
}

// fitsURLs is fitsItems for addresses.
func (c *compiled) fitsURLs(f *Facts, exceptions []*compiled) bool {
	urls := f.urls()
	if c.reading.every() && len(OrZero(f.Event.Tool).URLs) == 0 {
		return false // an address in a shell line lets nothing through
	}
	return fitsItems(urls, exceptions, (*compiled).fitsURL, c)
}

// fitsPaths is fitsItems for one of the keys that are about paths. What a shell line
// names beside its redirections counts against a call and never for it: the table of
// programs may not know all of them.
func (c *compiled) fitsPaths(f *Facts, key int, exceptions []*compiled) bool {
	paths := f.Paths()
	if len(paths) == 0 {
		return false
	}
	var near []string
	all := f.joinedPaths()
	for i, pattern := range c.paths()[key] {
		if strings.Contains(all, c.firsts[key][i]) && f.nearPath(pattern) {
			near = append(near, pattern)
		}
	}
	if near == nil {
		return false
	}
	found := false
	for _, p := range paths {
		hit := c.speaks(key, p, near) && !slices.ContainsFunc(exceptions, func(e *compiled) bool { return e.fitsPath(p) || e.names(f, p) })
		if c.reading.every() && !hit {
			return false
		}
		found = found || hit && (p.told || !c.reading.every())
	}
	return found
}

// paths are the patterns of the keys path, reads and writes.
func (c *compiled) paths() [3][]string { return [...][]string{c.path, c.reads, c.writes} }

// speaks says whether one of the patterns of such a key fits a path.
func (c *compiled) speaks(key int, p Path, patterns []string) bool {
	if key == 1 && !p.reads(c.reading.every()) || key == 2 && !p.writes(c.reading.every()) {
		return false
	}
	return slices.ContainsFunc(patterns, p.Match)
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
func (c *compiled) fitsCommands(f *Facts, exceptions []*compiled) bool {
	least := c.reading.least()
	if least == shell.Unknown && len(f.unknown()) > 0 {
		return true
	}
	if !slices.ContainsFunc(c.Command, func(p *command) bool { _, found := f.find(p, least); return found }) {
		return false
	}
	type place struct {
		script *shell.Script
		i      int
	}
	var places []place
	for _, script := range f.Scripts() {
		if c.reading.every() && (len(script.Unknown) > 0 || len(script.Writes) > 0) {
			return false
		}
		for i := range script.Commands {
			places = append(places, place{script, i})
		}
	}
	return fitsItems(places, exceptions, func(c *compiled, at place) bool {
		patterns := f.patterns(c, at.script)
		if c.reading.every() {
			return shell.MatchWhole(patterns, at.script, at.i) >= c.reading.least()
		}
		return slices.ContainsFunc(patterns, func(p *shell.Pattern) bool {
			return p.MatchCommand(at.script, at.i) >= c.reading.least()
		})
	}, c)
}

// patterns returns the command patterns of c that can match a command of the script. It
// compares each pattern with the whole script, so it does that only once: otherwise a
// line of n commands costs n*n comparisons per pattern.
func (f *Facts) patterns(c *compiled, script *shell.Script) []*shell.Pattern {
	f.patternsLock.Lock()
	defer f.patternsLock.Unlock()
	key := matchOfScript{c, script}
	patterns, ok := f.keptPatterns[key]
	if ok {
		return patterns
	}
	f.prefiltered += len(c.Command)
	for _, p := range c.Command {
		if p.may(script) {
			patterns = append(patterns, p.get())
		}
	}
	if f.keptPatterns == nil {
		f.keptPatterns = map[matchOfScript][]*shell.Pattern{}
	}
	f.keptPatterns[key] = patterns
	return patterns
}

// matchOfScript is the key of facts.keptPatterns.
type matchOfScript struct {
	match  *compiled
	script *shell.Script
}

func (c *compiled) fitsPath(p Path) bool {
	for key, patterns := range c.paths() {
		if c.speaks(key, p, patterns) {
			return true
		}
	}
	return false
}

// names reports whether the command that names a path is one that an exception takes
// out: what a command may be given is free, what another one does with it is not.
func (c *compiled) names(f *Facts, p Path) bool {
	return p.by.script != nil && shell.MatchWhole(f.patterns(c, p.by.script), p.by.script, p.by.i) >= c.reading.least()
}

func (c *compiled) fitsURL(address string) bool {
	if len(c.url) > 0 && !AnyGlob(c.url, address) && !AnyGlob(c.url, lowerHost(address)) {
		return false
	}
	if len(c.host) == 0 {
		return len(c.url) > 0
	}
	return AnyGlob(c.host, HostOf(address))
}

// lowerWords turns globs into those of hosts, which have one letter case.
func lowerWords(globs []string) []string {
	var lower []string
	for _, g := range globs {
		if _, ok := RegexpOf(g); !ok {
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

// HostOf returns the host of an address, as the programs that fetch it see it: a
// backslash is a slash, and what stands before an @ is no host. It takes anything,
// also what net/url refuses, since a guard must not be blind to an odd address.
func HostOf(address string) string {
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

// AnyGlob reports whether one of the globs matches a word.
func AnyGlob(globs []Glob, word string) bool {
	for i := range globs {
		if globs[i].match(word) {
			return true
		}
	}
	return false
}

// matchTool compares with the class, the agent's name and mcp__server__tool.
func matchTool(globs []Glob, t *grapnel.Tool) bool {
	if t == nil {
		return false
	}
	for i := range globs {
		if g := &globs[i]; g.source == string(t.Class) || g.match(t.Name) || t.MCP != nil && g.match(t.CanonicalName()) {
			return true
		}
	}
	return false
}

// Explain says in a few words what matched.
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
			if ok, err := m.judge(call, nil); ok && err == nil {
				words = append(words, m.explain(call))
			}
		}
		return strings.Join(slices.Compact(words), ", ")
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
	for _, g := range NewGlobs(c.said.Tool) {
		if matchTool([]Glob{g}, ev.Tool) {
			add("tool", g.source, ev.Tool.Name)
		}
	}
	for _, p := range c.Command {
		if cmd, found := f.find(p, shell.Yes); found {
			add("command", p.source, cmd.String())
		}
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
	for key, part := range map[string]struct {
		patterns []policyfile.Pattern
		texts    func(*Facts) []string
	}{"content": {c.said.Content, (*Facts).content}, "prompt": {c.said.Prompt, (*Facts).prompt}, "text": {c.said.Text, (*Facts).allTexts}} {
		for _, p := range newTextPatterns(part.patterns) {
			if slices.ContainsFunc(part.texts(f), p.in) {
				words = append(words, fmt.Sprintf("%s %q", key, p.source))
			}
		}
	}
	if c.ended != nil {
		words = append(words, "failed "+strconv.FormatBool(*c.ended))
	}
	if c.secret != nil {
		words = append(words, c.secret.explain(f)...)
	}
	if len(c.said.Shell) > 0 {
		words = append(words, "shell unknown: "+Shorten(strings.Join(f.unknown(), "; ")))
	}
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ", ")
}

// Shorten keeps a value fit for one line of an explanation.
func Shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 80 {
		text = strings.ToValidUTF8(text[:80], "") + "…"
	}
	return text
}

// Matcher compiles what says for which events something is meant.
func (cache *FactCache) Matcher(match *policyfile.Match, except []policyfile.Match, when string, as Reading) (*Matcher, error) {
	m := &Matcher{allow: as.Allow, Facts: cache}
	var err error
	if m.match, err = cache.compile(match, as); err != nil {
		return nil, err
	}
	for i := range except {
		e, err := cache.compile(&except[i], as.Not())
		if err != nil {
			return nil, err
		}
		m.except = append(m.except, e)
	}
	m.paths = m.match.looksAtPaths() || slices.ContainsFunc(m.except, (*compiled).looksAtPaths)
	m.lines = m.match.looksAtLines() || slices.ContainsFunc(m.except, (*compiled).looksAtLines)
	if when != "" {
		m.when = newWhen(when)
	}
	if cache.first == nil {
		cache.ruleIndex.add(m)
	}
	return m, nil
}
