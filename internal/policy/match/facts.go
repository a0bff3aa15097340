package match

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/prefilter"
	"github.com/grapnel-dev/grapnel/internal/policy/secret"
	"github.com/grapnel-dev/grapnel/internal/seam"
	"github.com/grapnel-dev/grapnel/shell"
)

// Facts caches the values that matchers compute from one event, so that each value is computed
// once.
type Facts struct {
	Event      *grapnel.Event
	lines      *parsedLines // nil = parsed lines are not cached
	pastOf     PastOf
	session    SessionOf
	keptPast   lazy[*shell.Past]
	programs   []string   // programs in the rules of the policy
	ruleIndex  *ruleIndex // index of these rules
	candidates lazy[ruleSet]
	keptCalls  lazy[[]*Facts]
	keptGate   lazy[[]bool]
	keptShell  lazy[[]*shell.Script]
	keptTexts  lazy[[]string]
	keptPlain  lazy[[]string] // see texts
	keptNames  lazy[[]namedPath]
	keptPaths  lazy[[]Path]
	keptRoots  lazy[[]string]
	keptInput  lazy[any]
	keptWords  lazy[[]string]
	keptOther  lazy[[]otherName]

	keptCheckouts lazy[*checkouts]
	keptDeletions lazy[*deletions]
	keptDrops     lazy[*drops]

	lowering   sync.Mutex // protects lowered, dirs and packs
	lowered    []*prefilter.Text
	keptJoined lazy[string]
	dirs       []RealDirectory // with symlinks resolved, see RealDirectory
	fewDirs    [6]RealDirectory
	packs      []nearPack
	keptURLs   lazy[[]string]
	keptNear   lazy[bool]

	secretsLock sync.Mutex
	keptSecrets []foundSecrets

	patternsLock sync.Mutex // protects keptPatterns and prefiltered
	keptPatterns map[matchOfScript][]*shell.Pattern
	prefiltered  int // number of patterns that were compared with a whole script
}

// lazy is a value that is computed at first use.
type lazy[T any] struct {
	once  sync.Once
	value T
}

func (l *lazy[T]) get(work func() T) T {
	l.once.Do(func() { l.value = work() })
	return l.value
}

// Former returns the names that the files had before earlier calls of the session moved or linked them,
// and the files that they were copied from. A file in an archive has a name below the archive.
func (f *Facts) Former(files []string) (names []string) {
	past := f.past()
	if past == nil {
		return nil
	}
	for _, name := range files {
		moves := past.Moved
		if len(past.Copied) > 0 && !past.Unchanged(name) {
			moves = slices.Concat(moves, past.Copied)
		}
		all := []string{name} // several archives can have been unpacked into one directory
		for _, m := range slices.Backward(moves) {
			for _, name := range all {
				rest, ok := strings.CutPrefix(name, strings.TrimSuffix(m.To, "/"))
				if ok && (rest == "" || rest[0] == '/') && len(all) < maxFormer {
					all = append(all, m.From+rest)
				}
			}
		}
		names = append(names, all[1:]...)
	}
	return names
}

// maxFormer limits the names of one file.
const maxFormer = 64

// PastOf returns the earlier actions of the session of an event, as far as they may change the effect of the shell
// lines of the event; nil = nothing. scripts returns the lines, parsed without a past. A nil
// PastOf knows nothing.
type PastOf func(ev *grapnel.Event, scripts func() []*shell.Script) *shell.Past

// past returns the past of the event, or nil. If it is not nil, the event may run programs that
// its text does not name.
func (f *Facts) past() *shell.Past {
	if f.pastOf == nil || f.Event.Tool == nil || len(f.Event.Tool.Commands) == 0 {
		return nil
	}
	return f.keptPast.get(func() *shell.Past {
		return f.pastOf(f.Event, func() []*shell.Script { return f.lines.parse(f.Event, nil) })
	})
}

// calls returns the facts of each call of a batch.
func (f *Facts) calls() []*Facts {
	return f.keptCalls.get(f.eachCall)
}

// gate returns, for each program, whether a shell line of the event may run it. This is one pass
// for all rules, most of which are about other programs.
func (f *Facts) gate() []bool {
	return f.keptGate.get(func() []bool { return gate(f.Event, f.programs, f.past() != nil) })
}

// concerns reports whether a rule may match the event.
func (f *Facts) concerns(rule int) bool {
	if len(f.ruleIndex.rules) < minRules || f.past() != nil {
		return true
	}
	left := f.candidates.get(func() ruleSet { return f.ruleIndex.pass(f) })
	return left == nil || left.has(rule)
}

// Scripts returns the parsed shell lines of the event, one script per line.
func (f *Facts) Scripts() []*shell.Script {
	return f.keptShell.get(func() []*shell.Script { return f.lines.parse(f.Event, f.past()) })
}

// allTexts returns all texts in the event, unchanged.
func (f *Facts) allTexts() []string {
	return f.keptTexts.get(func() []string { return allTexts(f.Event) })
}

// actedTexts returns the texts of which one may permit something: of a call of a shell its lines, because
// the model also writes a description of them, and otherwise all texts.
func (f *Facts) actedTexts() []string {
	if t := f.Event.Tool; t != nil && len(t.Commands) > 0 && !hasEnded(f.Event) {
		return t.Commands
	}
	return f.allTexts()
}

func (f *Facts) pathNames() []namedPath { return f.keptNames.get(f.findPaths) }

// pathSize returns the number of paths and their total length in bytes.
func (f *Facts) pathSize() (n, size int) {
	names := f.pathNames()
	for i := range names {
		size += len(names[i].name)
	}
	return len(names), size
}

// TooManyPaths reports whether the event names more paths than a match of paths accepts.
func (f *Facts) TooManyPaths() bool {
	n, size := f.pathSize()
	return n > maxPaths || size > maxPathBytes
}

// Paths returns the paths that the event names, as written and with symlinks resolved.
func (f *Facts) Paths() []Path { return f.keptPaths.get(f.realPaths) }

// input returns the tool's input, decoded.
func (f *Facts) input() any {
	return f.keptInput.get(func() any {
		if input, ok := f.Event.Value(grapnel.FieldInput); ok {
			return input
		}
		return map[string]any{}
	})
}

func (f *Facts) output() string {
	output, _ := f.Event.Get(grapnel.FieldOutput)
	return string(output)
}

// maxPaths and maxPathBytes limit the number and the total length of paths of one call that are
// resolved. Each path component costs a system call, which is slow in deep directories, and agents
// stop waiting after a timeout.
const (
	maxPaths     = 4096
	maxPathBytes = 256 << 10
)

// MaxShellBytes limits the total length of the shell lines of one call. Parsing takes about a
// second per megabyte. Systems do not start a shell with an argument of more than 128 KiB.
const MaxShellBytes = 1 << 20

// ShellBytes returns the total length of the shell lines of a call in bytes.
func (f *Facts) ShellBytes() int {
	size := 0
	for _, line := range OrZero(f.Event.Tool).Commands {
		size += len(line)
	}
	return size
}

// FactCache caches the facts of events for rules that were loaded together. The key is the *Event,
// because an engine creates a new *Event for each firing. It is safe for concurrent use after all
// rules are compiled.
type FactCache struct {
	programs  []string // programs in the rules, without duplicates; complete before the first event
	ruleIndex ruleIndex

	Secrets *secret.Rules // secret rules of the policy whose rules are being compiled

	Clock   func() time.Time // nil = time.Now
	Past    PastOf
	Session SessionOf // nil = not known

	// Announced means that events come from a program that a model can run, too. The result of a call
	// then counts for `until:` only if the call was announced before.
	Announced bool

	// In the cache of a rule that is compiled later: the cache of the other rules.
	first *FactCache

	lines parsedLines

	// The newest facts, and some earlier ones. When several events are evaluated at once, one must
	// not evict the facts that another still needs many times.
	last  atomic.Pointer[Facts]
	other [8]atomic.Pointer[Facts]
	next  atomic.Uint32 // next index in other
}

// LateFacts returns the cache for a rule that is compiled after the others, which share c. The rule
// uses the given secret rules. If c is nil, the rule shares no facts.
func LateFacts(c *FactCache, secrets *secret.Rules) *FactCache {
	if c != nil && c.first != nil {
		c = c.first
	}
	return &FactCache{first: c, Secrets: secrets}
}

// Now returns the clock for limits and `after:` steps.
func (c *FactCache) Now() func() time.Time {
	switch {
	case c.first != nil:
		return c.first.Now()
	case c.Clock != nil:
		return c.Clock
	}
	return time.Now
}

// Of returns the facts of an event, from the cache if possible.
func (c *FactCache) Of(ev *grapnel.Event) *Facts {
	if c.first != nil {
		return c.first.Of(ev)
	}
	if f := c.last.Load(); f != nil && f.Event == ev {
		return f
	}
	return c.older(ev)
}

// Early returns the facts of an event before all hooks are built. They share parsed lines with
// later facts, but have no data about rules.
func (c *FactCache) Early(ev *grapnel.Event) *Facts {
	return &Facts{Event: ev, lines: &c.lines, pastOf: c.Past, session: c.Session}
}

func (c *FactCache) older(ev *grapnel.Event) *Facts {
	for i := range c.other {
		if f := c.other[i].Load(); f != nil && f.Event == ev {
			return f
		}
	}
	f := &Facts{Event: ev, lines: &c.lines, pastOf: c.Past, session: c.Session, programs: c.programs, ruleIndex: &c.ruleIndex}
	c.other[c.next.Add(1)%uint32(len(c.other))].Store(f)
	c.last.Store(f)
	return f
}

// program returns the index of a program. It is negative if the rule is compiled after the index is
// complete.
func (c *FactCache) program(name string) int {
	if c.first != nil {
		return -1
	}
	i := slices.Index(c.programs, name)
	if i < 0 {
		i = len(c.programs)
		c.programs = append(c.programs, name)
	}
	return i
}

// eachCall returns the facts of each call of a batch, as if the call were the event's only one.
func (f *Facts) eachCall() []*Facts {
	var calls []*Facts
	for i := range f.Event.Calls {
		one := *f.Event
		one.Tool, one.Calls = &f.Event.Calls[i], nil
		calls = append(calls, f.of(&one))
	}
	return calls
}

// of returns the facts of another event, for the same rules.
func (f *Facts) of(ev *grapnel.Event) *Facts {
	return &Facts{Event: ev, lines: f.lines, pastOf: f.pastOf, session: f.session, programs: f.programs, ruleIndex: f.ruleIndex}
}

func gate(ev *grapnel.Event, programs []string, past bool) []bool {
	may := make([]bool, len(programs))
	if past || ev.Tool != nil && shellLanguage(ev.Tool) != "" {
		for i := range may {
			may[i] = true // the gate only supports the text of lines of POSIX shells
		}
		return may
	}
	for _, line := range OrZero(ev.Tool).Commands {
		g := shell.NewGate(line)
		for i, program := range programs {
			may[i] = may[i] || g.May(program)
		}
	}
	return may
}

// parsedLines caches recently parsed shell lines. A call has an event before and one after it, with
// the same line.
type parsedLines [8]atomic.Pointer[parsedLine]

type parsedLine struct {
	language, line string
	script         *shell.Script
}

// maxKeptLine is the maximum length in bytes of a cached line.
const maxKeptLine = 4 << 10

// parse parses the shell lines of a call separately: an open quote in one line must not affect the
// next.
func (p *parsedLines) parse(ev *grapnel.Event, past *shell.Past) []*shell.Script {
	if ev.Tool == nil {
		return nil
	}
	language := shellLanguage(ev.Tool)
	var scripts []*shell.Script
	for _, line := range ev.Tool.Commands {
		if p == nil || past != nil || len(line) > maxKeptLine {
			scripts = append(scripts, shell.ParseAfter(past, language, line))
			continue
		}
		kept := &p[len(line)%len(p)]
		l := kept.Load()
		if l == nil || l.line != line || l.language != language {
			l = &parsedLine{language, line, shell.ParseAs(language, line)}
			kept.Store(l)
		}
		scripts = append(scripts, l.script)
	}
	return scripts
}

// unknown returns descriptions of the parts of the shell lines that the parser cannot evaluate.
func (f *Facts) unknown() []string {
	var unknown []string
	for _, script := range f.Scripts() {
		unknown = append(unknown, script.Unknown...)
	}
	return unknown
}

// code returns the programs in other languages that interpreters get: from an option, a here-document,
// a pipe, or a file that the session wrote.
func (f *Facts) code() (texts []string) {
	for _, script := range f.Scripts() {
		for i := range script.Code {
			texts = append(texts, script.Code[i].Text)
		}
	}
	return texts
}

// redirects reports whether a shell line redirects to or from a file.
func (f *Facts) redirects() bool {
	return slices.ContainsFunc(f.Scripts(), func(s *shell.Script) bool { return len(s.Reads)+len(s.Writes) > 0 })
}

// hides returns the unknown parts that can hide a command. Exclusions from an `allow` use unknown
// instead.
func (f *Facts) hides() []string {
	var hidden []string
	for _, script := range f.Scripts() {
		hidden = append(hidden, script.Hidden()...)
	}
	return hidden
}

// allTexts returns all texts in the event.
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

// find returns the first command of the call for which the pattern's answer is at least least.
func (f *Facts) find(p *command, least shell.Answer) (*shell.Command, bool) {
	if p.program >= 0 && !f.gate()[p.program] {
		return nil, false
	}
	for _, script := range f.Scripts() {
		if !p.may(script) {
			continue
		}
		if answer, cmd := p.get().Match(script); answer >= least {
			return cmd, true
		}
	}
	return nil, false
}

// patched returns the files that patches in a line name, if one of its commands applies patches.
// Codex treats apply_patch with a here-document as a call of the tool apply_patch. patched does not
// check which text is the input of which command. In lines of other programs, a patch is only text.
func patched(script *shell.Script, line string) []string {
	applies := false
	for i := range script.Commands {
		switch c := &script.Commands[i]; c.Name {
		case "apply_patch", "applypatch", "patch":
			applies = true
		case "git":
			for j := range c.Args {
				applies = applies || c.Args[j].Text == "apply" || c.Args[j].Text == "am"
			}
		}
	}
	if !applies {
		return nil
	}
	for i := range script.Commands {
		for _, w := range script.Commands[i].Args {
			line += "\n" + w.Text // quotes are folded in it
		}
	}
	text, _ := json.Marshal(line) // marshaling a string cannot fail
	patch := grapnel.Tool{Input: text, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, Form: seam.FormPatch, Use: grapnel.UseWrite}}}
	patch.Derive()
	var names []string
	for _, p := range patch.Paths {
		names = append(names, p.Path)
	}
	return names
}

// entered returns the directories that a script may be in after a cd. It considers each cd both
// relative to the start and to earlier directories, because a cd may be in a subshell.
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

func (f *Facts) urls() []string {
	return f.keptURLs.get(func() []string {
		if f.Event.Tool == nil {
			return nil
		}
		list := slices.Clip(f.Event.Tool.URLs)
		for _, script := range f.Scripts() {
			list = append(list, script.URLs()...)
		}
		return list
	})
}

func (f *Facts) prompt() []string {
	if f.Event.Prompt == nil {
		return nil
	}
	return []string{f.Event.Prompt.Text}
}

// maxLowered is the number of texts of an event that are cached in lower case.
const maxLowered = 16

// anyText reports whether one of the patterns matches one of the texts.
func (f *Facts) anyText(patterns []textPattern, texts []string) bool {
	for i := range patterns {
		p := &patterns[i]
		for _, text := range texts {
			switch {
			case p.near != "" && !f.lower(text).Holds(p.near):
			case p.re == nil && p.in(text), p.re != nil && p.re.MayMatch(text) && p.re.MatchLong(f.lower(text), p.near):
				return true
			}
		}
	}
	return false
}

func (f *Facts) lower(text string) *prefilter.Text {
	f.lowering.Lock()
	defer f.lowering.Unlock()
	for _, l := range f.lowered {
		if l.Is(text) {
			return l
		}
	}
	low := prefilter.NewText(text)
	if len(f.lowered) < maxLowered {
		f.lowered = append(f.lowered, low)
	}
	return low
}
