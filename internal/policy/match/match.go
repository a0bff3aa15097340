// Package match decides which events a hook of a policy matches: it evaluates the keys of `match:`,
// exceptions and `when:` expressions, and explains the result. Values of an event are computed once
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
	"github.com/grapnel-dev/grapnel/internal/loss"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/shell"
)

// Matcher decides whether a hook matches an event. It implements grapnel.Matcher.
type Matcher struct {
	Facts  *FactCache
	number int       // number in the ruleIndex; 0 = not indexed
	match  *compiled // nil = every event
	except []*compiled
	when   *when
	allow  bool // the hook's action is `allow`, see Reading
	paths  bool // it resolves paths
	lines  bool // it parses shell lines
	server bool // it depends on the names of MCP servers
}

// A Reading defines how a match treats a call with several commands, paths or addresses. A blocking
// rule matches if one of them matches. A match that permits something, as in an `allow` or in the
// exception of a blocking rule, requires that all of them match and that all are known: one
// harmless command must not permit the others. An exclusion from an `allow` matches if one of them
// may match.
type Reading struct{ Allow, negated bool }

// every reports whether all items must match, instead of one.
func (r Reading) every() bool { return r.Allow != r.negated }

// strict reports whether a match lets a call pass without the agent's own prompt.
func (r Reading) strict() bool { return r.Allow && !r.negated }

// least returns the lowest answer of a command pattern that is treated as a match.
func (r Reading) least() shell.Answer {
	if r.Allow && r.negated {
		return shell.Unknown
	}
	return shell.Yes
}

// Not returns the reading of an exclusion from this reading.
func (r Reading) Not() Reading { return Reading{r.Allow, !r.negated} }

// compiled is a compiled policyfile.Match.
type compiled struct {
	// Values that an event has once: all conditions must be met.
	tool     []Glob
	phrases  []phrase
	words    []wordTest
	texts    []textTest
	secret   *secretTest // nil = no condition
	unknown  bool        // requires a shell line that hides something
	redirect bool        // only files of redirections count
	ended    *bool       // requires a result: true = the call failed
	not      *compiled

	// Values that an event can have several of: for each key, one must match.
	Command   []*command
	path      []string
	reads     []string // path patterns for files that are read
	writes    []string
	firsts    [3][]string // firstPiece of each path pattern
	url, host []Glob
	branch    []Glob     // for the checkouts in which commands work
	pushes    []Glob     // for what commands change in remote repositories
	deletes   loss.Class // what commands delete; without a pattern, Command has the programs that delete
	drops     dropClass  // which databases commands drop; likewise
	sorts     int        // number of keys for commands, paths and addresses that are set; branch and pushes are for commands

	reading Reading
	source  *policyfile.Match // as in the file, for explanations
}

// command is a command pattern. A hook that is built lazily compiles its patterns when a line may
// match them, because such a hook may have hundreds.
type command struct {
	source  string
	program int // its index in the FactCache; -1 = none

	once    sync.Once
	pattern *shell.Pattern
}

// get returns the compiled pattern. It panics for an invalid pattern, which the engine reports as
// an error of the hook; patterns are checked before.
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

// may reports whether the pattern may match a command of a script. It returns false only if no
// match is possible.
func (c *command) may(s *shell.Script) bool { return c.program >= 0 || s.MayMatch(c.source) }

// wordTest tests a single word of the event. If the event does not have the word, nothing matches,
// not even *: for example, events of the main agent have no subagent.
type wordTest struct {
	of    func(*grapnel.Event) (string, bool)
	globs []Glob
}

// textTest tests texts of the event.
type textTest struct {
	of       func(*Facts) []string
	patterns []textPattern
	every    bool // each text must match, and there must be one
}

func (t *textTest) holds(f *Facts) bool {
	texts := t.of(f)
	if !t.every {
		return f.anyText(t.patterns, texts)
	}
	for i := range texts {
		if !f.anyText(t.patterns, texts[i:i+1]) {
			return false
		}
	}
	return len(texts) > 0
}

func (cache *FactCache) compile(m *policyfile.Match, r Reading) (*compiled, error) {
	if m == nil {
		return nil, nil
	}
	c := &compiled{
		tool: NewGlobs(m.Tool), phrases: newPhrases(m.Words), unknown: slices.Contains(m.Shell, ShellUnknown), redirect: slices.Contains(m.Shell, ShellRedirection), ended: m.Failed,
		path: m.Path, reads: m.Reads, writes: m.Writes, url: NewGlobs(m.URL), host: NewGlobs(lowerWords(m.Host)), branch: NewGlobs(m.Branch), pushes: NewGlobs(m.Pushes), deletes: loss.Of(m.Deletes), drops: dropClasses(m.Drops), reading: r, source: m,
	}
	for key, patterns := range c.paths() {
		for _, pattern := range patterns {
			c.firsts[key] = append(c.firsts[key], firstPiece(pattern))
		}
	}
	commands := m.Command
	if len(commands) == 0 {
		commands = c.programs()
	}
	block := make([]command, len(commands))
	c.Command = make([]*command, len(commands))
	for i, source := range commands {
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
	for _, has := range []bool{len(c.Command) > 0 || c.git(), len(c.path) > 0, len(c.reads) > 0, len(c.writes) > 0, len(c.url)+len(c.host) > 0} {
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
		case k.Texts != nil && k.sure != nil && r.every() && (!k.each || r.strict()):
			c.text(*k.Texts(m), k.sure, false)
		case k.Texts != nil:
			c.text(*k.Texts(m), k.got, k.each && r.every())
		}
	}
	if len(m.Secret) > 0 {
		c.secret = &secretTest{NewGlobs(m.Secret), cache.Secrets, r.every()}
	}
	var err error
	c.not, err = cache.compile(m.Not, r.Not())
	return c, err
}

// programs returns the programs for which the match has other keys than patterns.
func (c *compiled) programs() []string {
	switch {
	case c.deletes != 0:
		return shell.Deleters()
	case c.drops != 0:
		return shell.DatabasePrograms()
	}
	return nil
}

func (c *compiled) word(sources []string, of func(*grapnel.Event) (string, bool)) {
	if len(sources) > 0 {
		c.words = append(c.words, wordTest{of, NewGlobs(sources)})
	}
}

func (c *compiled) text(sources []policyfile.Pattern, of func(*Facts) []string, every bool) {
	if len(sources) > 0 {
		c.texts = append(c.texts, textTest{of, newTextPatterns(sources), every})
	}
}

// agentNames replaces short names of agents by their full names.
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

// git reports whether the match has keys for checkouts and pushes.
func (c *compiled) git() bool { return len(c.branch)+len(c.pushes) > 0 }

// branchOfFiles reports whether `branch` is for the checkouts of the files that match a path key.
func (c *compiled) branchOfFiles() bool {
	return len(c.branch) > 0 && len(c.path)+len(c.reads)+len(c.writes) > 0 && len(c.Command)+len(c.pushes) == 0 && !c.reading.every()
}

// excludesCommands reports whether `not` has only keys for checkouts and pushes. Then it excludes
// single commands, like an exception: in "cd ../wt && git commit" the commit is in another checkout
// than the cd.
func (c *compiled) excludesCommands() bool {
	n := c.not
	return n != nil && n.git() && n.sorts == 1 && len(n.Command)+len(n.tool)+len(n.phrases)+len(n.words)+len(n.texts) == 0 && n.secret == nil && n.not == nil &&
		n.ended == nil && !n.unknown && !n.redirect && (len(c.Command) > 0 || c.git())
}

// items reports whether the match has keys for single commands, paths or addresses.
func (c *compiled) items() bool { return c.sorts > 0 }

// whole tests the values that an event has once, the cheapest first, because most rules are about
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
	if len(c.phrases) > 0 && !c.fitsWords(f) {
		return false
	}
	for i := range c.texts {
		if !c.texts[i].holds(f) {
			return false
		}
	}
	if c.redirect && !f.redirects() {
		return false
	}
	if c.unknown && (len(f.unknown()) == 0 || !c.reading.Allow && len(f.hides()) == 0) {
		return false
	}
	if c.secret != nil && !c.secret.holds(f) {
		return false
	}
	return c.not == nil || c.excludesCommands() || !c.not.whole(f) || c.not.items() && !c.not.fits(f, nil)
}

// Match reports whether the hook matches the event. For a batch of calls, a blocking rule matches
// if one call does, and an `allow` matches if all calls do.
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

// judge evaluates a single call under each of its names.
func (m *Matcher) judge(f *Facts, v *grapnel.Verdict) (bool, error) {
	if m.number > 0 && !f.concerns(m.number-1) { // the answer for most rules
		return false, nil
	}
	ok, _, err := m.judgeNames(f, v)
	return ok, err
}

// judgeNames also returns the facts with the name that decides.
func (m *Matcher) judgeNames(f *Facts, v *grapnel.Verdict) (bool, *Facts, error) {
	ok, err := m.judgeName(f, v)
	if !m.server || ok != m.allow || err != nil {
		return ok, f, err
	}
	for _, other := range f.otherNames() {
		if m.allow && other.alias {
			continue
		}
		if ok, err := m.judgeName(other.facts, v); ok != m.allow || err != nil {
			return ok, other.facts, err
		}
	}
	return ok, f, nil
}

func (m *Matcher) judgeName(f *Facts, v *grapnel.Verdict) (bool, error) {
	if err := m.tooLarge(f); err != nil {
		return false, err
	}
	var exceptions []*compiled
	for _, e := range m.except {
		switch {
		case !e.whole(f):
		case !e.items():
			return false, nil
		case m.excepts(e):
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

// excepts reports whether an exception excludes single commands, paths or addresses.
func (m *Matcher) excepts(e *compiled) bool {
	return e.sorts == 1 && m.match != nil && m.match.items() && (!e.git() || len(m.match.url)+len(m.match.host) == 0)
}

// tooLarge returns an error if a call is too large to evaluate in time.
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

// LooksAtPaths reports whether m evaluates the paths of a call. If it does, a call with too many
// paths is an error.
func (m *Matcher) LooksAtPaths() bool { return m != nil && m.paths }

// looksAtLines reports whether a match parses shell lines, which can contain paths too.
func (c *compiled) looksAtLines() bool {
	return c != nil && (len(c.Command)+len(c.path)+len(c.reads)+len(c.writes)+len(c.url)+len(c.host) > 0 || c.git() || c.unknown || c.redirect || len(c.source.Content)+len(c.source.Code) > 0 || c.not.looksAtLines())
}

// looksAtPaths reports whether a match resolves paths.
func (c *compiled) looksAtPaths() bool {
	return c != nil && (len(c.path)+len(c.reads)+len(c.writes) > 0 || c.not.looksAtPaths())
}

// fits tests the commands, paths and addresses of a call. For each key, one item must match without
// being excluded by an exception, or every item if the reading requires it.
func (c *compiled) fits(f *Facts, exceptions []*compiled) bool {
	if c.excludesCommands() {
		exceptions = append(slices.Clip(exceptions), c.not)
	}
	switch {
	case c.linked():
		if !c.fitsCommandURLs(f, exceptions) {
			return false
		}
	case c.blind(f):
		return false
	case (len(c.Command) > 0 || c.git()) && !c.branchOfFiles():
		if !c.fitsCommands(f, exceptions) {
			return false
		}
	}
	for key, patterns := range c.paths() {
		if len(patterns) > 0 && !c.fitsPaths(f, key, exceptions) {
			return false
		}
	}
	return len(c.url)+len(c.host) == 0 || c.linked() || c.fitsURLs(f, exceptions)
}

// linked reports whether a matching command must name the address: in "curl a && pip install b"
// the address of curl is not one of pip.
func (c *compiled) linked() bool {
	return len(c.Command) > 0 && len(c.url)+len(c.host) > 0 && !c.reading.every()
}

// fitsCommandURLs reports whether a command matches that names a matching address. The addresses
// in code and in other parts of the call count for each of its commands.
func (c *compiled) fitsCommandURLs(f *Facts, exceptions []*compiled) bool {
	if !c.fitsCommands(f, exceptions) {
		return false
	}
	fits := func(urls []string) bool { return fitsItems(urls, exceptions, (*compiled).fitsURL, c) }
	if fits(OrZero(f.Event.Tool).URLs) {
		return true
	}
	for _, script := range f.Scripts() {
		if fits(script.CodeURLs()) {
			return true
		}
		for i := range script.Commands {
			if fits(script.Commands[i].URLs()) && c.fitsCommand(f, script, i) &&
				!slices.ContainsFunc(exceptions, func(e *compiled) bool { return e.fitsCommand(f, script, i) }) {
				return true
			}
		}
	}
	return false
}

// blind reports whether a match that permits something has no command pattern, but the call has
// shell lines. The paths in a command do not show the effect of the command. Its checkout excludes it,
// but does not allow it.
func (c *compiled) blind(f *Facts) bool {
	return c.reading.every() && len(c.Command) == 0 && (!c.git() || c.reading.strict()) && f.Event.Tool != nil && len(f.Event.Tool.Commands) > 0
}

// fitsURLs reports whether the addresses of a call fit the match, as described at fits.
func (c *compiled) fitsURLs(f *Facts, exceptions []*compiled) bool {
	urls := f.urls()
	if c.reading.every() && len(OrZero(f.Event.Tool).URLs) == 0 {
		return false // an address in a shell line never allows a call
	}
	return fitsItems(urls, exceptions, (*compiled).fitsURL, c)
}

// fitsPaths reports whether the paths of a call fit one of the path keys, as described at fits.
// Paths that shell commands name as arguments can cause a block, but never allow a call, because
// the table of programs may be incomplete.
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
		hit := c.speaks(key, p, near) && (p.redirect || !c.redirect) && c.belongs(f, p) && !slices.ContainsFunc(exceptions, func(e *compiled) bool { return e.fitsPath(p) || e.names(f, p) })
		if c.reading.every() && !hit {
			return false
		}
		found = found || hit && (p.explicit || !c.reading.every())
	}
	return found
}

// belongs reports whether a path is of a matching command, if the match has commands: in "rm -rf
// dist && cp a /etc/b" the path /etc/b is not one of rm.
func (c *compiled) belongs(f *Facts, p Path) bool {
	switch {
	case c.reading.every():
		return true
	case c.branchOfFiles() && !f.checkouts().ofFile(p).fits(c.branch, false):
		return false
	}
	return len(c.Command)+len(c.pushes) == 0 || p.by.script == nil || c.fitsCommand(f, p.by.script, p.by.i)
}

// paths returns the patterns of the keys path, reads and writes.
func (c *compiled) paths() [3][]string { return [...][]string{c.path, c.reads, c.writes} }

// speaks reports whether one of the patterns of a path key matches a path.
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

// fitsCommands reports whether the commands of a call fit the match, as described at fits. It first
// tests whether any command of the line can match, because most rules are about other programs.
func (c *compiled) fitsCommands(f *Facts, exceptions []*compiled) bool {
	least := c.reading.least()
	if len(OrZero(f.Event.Tool).Commands) == 0 {
		return c.fitsCall(f, exceptions)
	}
	if least == shell.Unknown && len(f.unknown()) > 0 {
		return true
	}
	if len(c.pushes) > 0 && !f.mayRunGit() {
		return false
	}
	if len(c.Command) > 0 && !c.namesCommand(f) {
		return false
	}
	type place struct {
		script *shell.Script
		i      int
	}
	var places []place
	git := c.git() || slices.ContainsFunc(exceptions, (*compiled).git)
	for _, script := range f.Scripts() {
		if c.reading.every() && (len(script.Unknown) > 0 || len(script.Writes) > 0) || c.reading.strict() && script.SetsVariables() {
			return false
		}
		for i := range script.Commands {
			if cmd := &script.Commands[i]; git && !c.reading.strict() && cmd.Again() || len(c.Command) == 0 && !cmd.Acts() {
				continue
			}
			places = append(places, place{script, i})
		}
	}
	return fitsItems(places, exceptions, func(c *compiled, at place) bool { return c.fitsCommand(f, at.script, at.i) }, c)
}

// namesCommand reports whether a command pattern matches a command of the call.
func (c *compiled) namesCommand(f *Facts) bool {
	return slices.ContainsFunc(c.Command, func(p *command) bool { _, found := f.find(p, c.reading.least()); return found })
}

// fitsCall is fitsCommands for a call without a shell line: its checkouts are the ones of its files.
func (c *compiled) fitsCall(f *Facts, exceptions []*compiled) bool {
	if len(c.Command)+len(c.pushes) > 0 || len(c.branch) == 0 {
		return false
	}
	return fitsItems(f.checkouts().ofCall(), exceptions, func(c *compiled, at head) bool {
		return len(c.Command)+len(c.pushes) == 0 && at.fits(c.branch, c.reading.every())
	}, c)
}

// mayRunGit reports whether a shell line may run git.
func (f *Facts) mayRunGit() bool {
	return f.past() != nil || shellLanguage(f.Event.Tool) != "" ||
		slices.ContainsFunc(f.Event.Tool.Commands, func(line string) bool { return shell.NewGate(line).May("git") })
}

// fitsCheckout reports whether one command of a script fits the keys for checkouts and pushes.
func (c *compiled) fitsCheckout(f *Facts, script *shell.Script, i int) bool {
	sure := c.reading.every()
	if len(c.branch) > 0 && !f.checkouts().ofCommand(script, i).fits(c.branch, sure) {
		return false
	}
	if len(c.pushes) == 0 {
		return true
	}
	found := false
	for _, ref := range f.checkouts().pushed(script, i) {
		fits := ref.fits(c.pushes, sure)
		if sure && !fits {
			return false
		}
		found = found || fits
	}
	return found
}

// MatchesCommand reports whether a command of a line of the event matches the command patterns.
func (m *Matcher) MatchesCommand(f *Facts, script *shell.Script, i int) bool {
	return m.match == nil || len(m.match.Command) == 0 || m.match.fitsCommand(f, script, i)
}

// fitsCommand reports whether one command of a script fits the command patterns, and works in a
// checkout and pushes like the match.
func (c *compiled) fitsCommand(f *Facts, script *shell.Script, i int) bool {
	return (len(c.Command) == 0 && c.git() || c.fitsPatterns(f, script, i)) && (!c.git() || c.fitsCheckout(f, script, i)) &&
		(c.deletes == 0 || c.fitsDeletes(f, script, i)) && (c.drops == 0 || c.fitsDrops(f, script, i))
}

func (c *compiled) fitsPatterns(f *Facts, script *shell.Script, i int) bool {
	patterns := f.patterns(c, script)
	switch {
	case c.reading.strict():
		return shell.Allows(patterns, script, i)
	case c.reading.every():
		return shell.MatchWhole(patterns, script, i) >= c.reading.least()
	}
	return slices.ContainsFunc(patterns, func(p *shell.Pattern) bool { return p.MatchCommand(script, i) >= c.reading.least() })
}

// patterns returns the command patterns of c that can match a command of the script. The result is
// cached, because each pattern is compared with the whole script: otherwise a line of n commands
// would cost n*n comparisons per pattern.
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

// matchOfScript is the key of Facts.keptPatterns.
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

// names reports whether an exception matches the command that names a path. The arguments of an
// excepted command are not tested, but the same path in another command is.
func (c *compiled) names(f *Facts, p Path) bool {
	if c.git() && len(c.Command)+len(c.pushes) == 0 {
		return f.checkouts().ofFile(p).fits(c.branch, c.reading.every())
	}
	if c.git() {
		return p.by.script != nil && c.fitsCommand(f, p.by.script, p.by.i)
	}
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

// lowerWords converts globs for hosts to lower case.
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

// lowerHost converts the scheme and host of an address to lower case, which does not change their
// meaning.
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

// unseen removes the characters that HTTP clients ignore in an address, and replaces Unicode full
// stops that clients treat as a dot in a host.
var unseen = strings.NewReplacer("\t", "", "\n", "", "\r", "", "\u3002", ".", "\uff0e", ".", "\uff61", ".")

// schemes lists the schemes for which clients accept missing slashes: fetch("https:host") works.
var schemes = []string{"http:", "https:", "ws:", "wss:", "ftp:"}

// HostOf returns the host of an address, as HTTP clients interpret it: a backslash is a slash, and
// text before an @ is not part of the host. It accepts any text, also addresses that net/url
// rejects, because a rule must not miss a malformed address.
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

// unescape decodes percent escapes such as %41, and keeps invalid escapes.
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

// matchTool compares globs with the class, the agent's name for the tool, and mcp__server__tool.
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

// Matcher compiles a match, its exceptions and its `when:` expression.
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
	m.server = m.match.namesServers() || slices.ContainsFunc(m.except, (*compiled).namesServers)
	if when != "" {
		m.when = newWhen(when)
	}
	if cache.first == nil {
		cache.ruleIndex.add(m)
	}
	return m, nil
}
