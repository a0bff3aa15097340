package policytest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml/layout"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// words are the keys of a test or of an event, in order.
type words []yaml.Pair

func (w *words) add(key string, value *yaml.Node) {
	*w = append(*w, yaml.Pair{Key: text(key), Value: value})
}

// later adds the time since the previous event.
func (w *words) later(by time.Duration) {
	if by > 0 {
		w.add("later", text(policyfile.Duration(by).String()))
	}
}

// object returns the words as one mapping.
func (w words) object() *yaml.Node { return &yaml.Node{Kind: yaml.Map, Pairs: w} }

func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.String, Text: s} }

func listOf(texts []string) *yaml.Node {
	list := &yaml.Node{Kind: yaml.List}
	for _, s := range texts {
		list.Items = append(list.Items, text(s))
	}
	return list
}

// visible returns a value in one line, and escapes invisible characters as in JSON. Characters that
// change the direction of text or have no width would show a reader another text than the tested one.
func visible(n *yaml.Node) string {
	var b strings.Builder
	for _, c := range string(n.JSON()) {
		switch {
		case unicode.IsPrint(c) || c == '\n' || c == '\t':
			b.WriteRune(c)
		case c > 0xFFFF:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}

func (t *recordedTest) rename(name string) {
	t.name = name
	t.words[0].Value = text(name)
}

// head returns the beginning of a new file.
func (r *Recorder) head() string {
	var b strings.Builder
	b.WriteString("# yaml-language-server: $schema=https://raw.githubusercontent.com/grapnel-dev/grapnel/main/docs/schema/test.json\n")
	about := ""
	if !r.opts.Private {
		about = recordedProject + " is the project, ~ the home directory, and "
	}
	fmt.Fprintf(&b, "# Recorded from real work. %s*** replaces secrets.\nversion: 1\n", about)
	if named := r.named(); named != "" {
		fmt.Fprintf(&b, "policy: %s\n", visible(text(named)))
	}
	if r.opts.Scope != grapnel.ScopeUser {
		fmt.Fprintf(&b, "scope: %s\n", r.opts.Scope)
	}
	if project := r.project(); project != "" {
		fmt.Fprintf(&b, "cwd: %s\n", project)
	}
	var all words
	for name := range r.observers() {
		all.add(name, text("none"))
	}
	if len(all) > 0 {
		slices.SortFunc(all, func(a, b yaml.Pair) int { return cmp.Compare(a.Key.Text, b.Key.Text) })
		fmt.Fprintf(&b, "programs: %s\n", visible(all.object()))
	}
	out, err := layout.Format([]byte(b.String()), nil)
	if err != nil {
		out = []byte(b.String())
	}
	return string(out) + "tests:"
}

// project returns the working directory of a new file; "" = each test has its own.
func (r *Recorder) project() string {
	if r.opts.Private {
		return ""
	}
	return recordedProject
}

// named returns the value by which a new file names its policy; "" = the policy has the matching
// name in the same directory.
func (r *Recorder) named() string {
	path, err := filepath.Abs(r.path)
	policy, errPolicy := filepath.Abs(r.opts.Policy)
	if err != nil || errPolicy != nil {
		return r.opts.Policy
	}
	for _, suffix := range []string{Suffix, suffixShort} {
		if base, ok := strings.CutSuffix(path, suffix); ok && base+".yaml" == policy {
			return ""
		}
	}
	if _, near := files.Below(filepath.Dir(filepath.Dir(path)), policy); near {
		policy, _ = filepath.Rel(filepath.Dir(path), policy) // within found a relative path
	}
	return filepath.ToSlash(policy)
}

// observers returns empty answers for programs and servers that run after the reply. Tests do not
// need them.
func (r *Recorder) observers() map[string]Answer {
	none := map[string]Answer{}
	for _, spec := range r.stage.loaded.Specs {
		if spec.Phase == grapnel.PhaseObserve && slices.Contains(r.stage.loaded.Programs, spec.Name) {
			none[spec.Name] = Answer{}
		}
	}
	return none
}

// draft makes a test from an event and the events before it, with the recorded results.
func (r *Recorder) draft(e *spool.Entry, sanitized *sanitizedEvent, before []earlierEvent) *recordedTest {
	t := &recordedTest{masked: sanitized.masked}
	t.name = r.unique(r.title(e, sanitized, before), "")
	t.words.add("name", text(t.name))
	t.words.add("agents", listOf([]string{sanitized.agent}))
	anywhere := r.file.CWD == "" && sanitized.cwd == recordedProject && !bytes.Contains(sanitized.payload.JSON(), []byte(recordedProject))
	if r.file.CWD != sanitized.cwd && !anywhere {
		t.words.add("cwd", text(sanitized.cwd))
	}
	t.words = append(t.words, sanitized.words()...)
	if answers := r.answers(e, sanitized); len(answers) > 0 {
		t.words.add("programs", answers.object())
	}
	if len(before) > 0 {
		list := &yaml.Node{Kind: yaml.List}
		var later time.Duration
		for i, b := range before {
			w := b.words()
			w.later(later)
			list.Items = append(list.Items, w.object())
			later = gapBehind(before, i, e.Time)
		}
		t.words.add("before", list)
		t.words.later(later)
	}
	t.words.add("want", r.want(e, sanitized))
	return t
}

// title names a test: the event, its result, and the last of the events before it.
func (r *Recorder) title(e *spool.Entry, sanitized *sanitizedEvent, before []earlierEvent) string {
	if len(before) == 0 {
		return wording.Shorten(sanitized.String(), 64) + " " + r.outcome(e)
	}
	const half = 32
	return wording.Shorten(sanitized.String(), half) + " " + r.outcome(e) + " after " + wording.Shorten(before[len(before)-1].String(), half)
}

// unique returns a name that no other test has. was is a name that becomes free.
func (r *Recorder) unique(name, was string) string {
	free := name
	for i := 2; r.names[free] && free != was; i++ {
		free = fmt.Sprintf("%s (%d)", name, i)
	}
	return free
}

// outcome describes the result of an event, for a name.
func (r *Recorder) outcome(e *spool.Entry) string {
	switch d := r.decided(e); {
	case d == grapnel.Block:
		return "is blocked"
	case d == grapnel.Ask:
		return "is asked about"
	case d == grapnel.Allow:
		return "is allowed"
	case len(e.Changed) > 0:
		return "is changed"
	}
	return "passes"
}

// answers returns the recorded answers of programs and servers.
func (r *Recorder) answers(e *spool.Entry, sanitized *sanitizedEvent) words {
	var list words
	for i := range e.Hooks {
		run := &e.Hooks[i]
		if !r.isOurs(run) || !slices.Contains(r.stage.loaded.Programs, run.Name) || slices.ContainsFunc(list, func(p yaml.Pair) bool { return p.Key.Text == run.Name }) {
			continue
		}
		if run.Async {
			if _, defined := r.file.Programs[run.Name]; !defined {
				list.add(run.Name, text("none"))
			}
			continue
		}
		list.add(run.Name, r.answer(e, run, sanitized))
	}
	return list
}

func (r *Recorder) answer(e *spool.Entry, run *grapnel.HookRun, sanitized *sanitizedEvent) *yaml.Node {
	var answer words
	yes := &yaml.Node{Kind: yaml.Bool, Text: "true"}
	switch {
	case run.Cause == grapnel.CauseTimeout:
		answer.add("timeout", yes)
	case run.Error != "":
		answer.add("error", text(sanitized.clean(run.Error)))
	case run.Decision > grapnel.None:
		value := yes
		for _, x := range e.Reasons {
			if x.Text != "" && (x.Hook == run.Name || x.Hook == run.Source+"::"+run.Name) {
				value = text(sanitized.clean(x.Text))
			}
		}
		answer.add(run.Decision.String(), value)
	}
	var set words
	for _, field := range run.Changed {
		if value := e.Changes[field]; value != nil {
			set.add(string(field), cleaned(value, sanitized.clean))
		}
	}
	if len(set) > 0 {
		answer.add("set", set.object())
	}
	if run.Halt && e.Halt != "" {
		answer.add("halt", text(sanitized.clean(e.Halt)))
	}
	if len(e.Context) > 0 && r.singleHook(e) {
		var list []string
		for _, c := range e.Context {
			list = append(list, sanitized.clean(c))
		}
		answer.add("context", listOf(list))
	}
	if len(answer) == 0 {
		return text("none")
	}
	return answer.object()
}

// singleHook reports whether only one hook ran.
func (r *Recorder) singleHook(e *spool.Entry) bool {
	asked := 0
	for i := range e.Hooks {
		if !e.Hooks[i].Async {
			asked++
		}
	}
	return asked == 1
}

// cleaned returns a value without private data.
func cleaned(raw json.RawMessage, clean func(string) string) *yaml.Node {
	n, err := yaml.Parse(raw)
	if err != nil {
		return text("***")
	}
	return fill(n, clean)
}

// want returns the recorded results of an event that the policy's hooks caused.
func (r *Recorder) want(e *spool.Entry, sanitized *sanitizedEvent) *yaml.Node {
	decided := r.decided(e)
	did := r.deeds(e, decided)
	var w words
	w.add("decision", text(decided.String()))
	if len(did.rules) == 1 {
		w.add("rule", text(did.rules[0]))
	} else if len(did.rules) > 1 {
		w.add("rule", listOf(did.rules))
	}
	if changes := r.changes(e, sanitized); did.changed && len(changes) > 0 && !did.others {
		w.add("changes", changes.object())
	}
	if len(e.Context) > 0 && !did.others {
		var list []string
		for _, c := range e.Context {
			if words := firstWords(sanitized.clean(c)); words != "" {
				list = append(list, words)
			}
		}
		if list != nil {
			w.add("context", listOf(list))
		}
	}
	if words := firstWords(sanitized.clean(e.Halt)); did.halted && words != "" {
		w.add("halt", text(words))
	}
	if e.Would > grapnel.None && !did.others {
		w.add("would", text(e.Would.String()))
	}
	if len(did.failed) > 0 {
		w.add("failed", listOf(did.failed))
	}
	if len(w) == 1 {
		return w[0].Value
	}
	return w.object()
}

// deeds are the results of hooks at an event.
type deeds struct {
	rules, failed   []string // hooks of the policy that decided, and that failed
	changed, halted bool     // by hooks of the policy
	others          bool     // hooks of other policies contributed
}

func (r *Recorder) deeds(e *spool.Entry, decided grapnel.Decision) (did deeds) {
	for i := range e.Hooks {
		run := &e.Hooks[i]
		if run.Async {
			continue
		}
		if !r.isOurs(run) {
			did.others = did.others || run.Decision > grapnel.None || len(run.Changed) > 0
			continue
		}
		if run.Error != "" && !slices.Contains(did.failed, run.Name) {
			did.failed = append(did.failed, run.Name)
		}
		if run.Observed || run.Expired {
			continue
		}
		did.changed, did.halted = did.changed || len(run.Changed) > 0, did.halted || run.Halt
		acts := decided > grapnel.None && max(run.Decision, run.Approved) == decided || run.Decision == grapnel.None && len(run.Changed) > 0 && e.Decision == decided
		if acts && !slices.Contains(did.rules, run.Name) {
			did.rules = append(did.rules, run.Name)
		}
	}
	return did
}

// firstWords returns the beginning of a long text, which is enough to recognize it.
func firstWords(s string) string {
	const most = 80
	if i := strings.IndexByte(strings.TrimSpace(s), '\n'); i > 0 {
		s = strings.TrimSpace(s)[:i]
	}
	if len(s) > most {
		at := strings.LastIndexByte(s[:most], ' ')
		if at <= 0 {
			at = most
		}
		s = strings.ToValidUTF8(s[:at], "")
	}
	return s
}

// changes returns the new values of fields, or nil if the Record does not contain them completely.
func (r *Recorder) changes(e *spool.Entry, sanitized *sanitizedEvent) (list words) {
	for _, field := range e.Changed {
		value := cleaned(e.Changes[field], sanitized.clean)
		if e.Changes[field] == nil || bytes.Contains(e.Changes[field], []byte("… [grapnel: ")) {
			return nil
		}
		list.add(string(field), value)
	}
	return list
}

// with returns the file with tests appended.
func (r *Recorder) with(tests []*recordedTest) (string, error) {
	if len(tests) == 0 {
		return r.base, nil
	}
	var items strings.Builder
	items.WriteString("tests:\n")
	for i, t := range tests {
		if i > 0 {
			items.WriteString("\n")
		}
		r.write(&items, t)
	}
	laid, err := layout.Format([]byte(items.String()), nil)
	if err != nil {
		return "", fmt.Errorf("cannot write the test: %w", err)
	}
	_, body, _ := strings.Cut(string(laid), "\n")
	if r.file.Tests == nil { // a new file
		return r.base + "\n" + body, nil
	}
	at, err := r.place()
	if err != nil {
		return "", err
	}
	return at.put(body), nil
}

// write writes a test as a block of YAML for the formatter.
func (r *Recorder) write(b *strings.Builder, t *recordedTest) {
	if t.masked {
		b.WriteString("  # a part of this event is missing because it was secret or too long\n")
	}
	r.writePairs(b, "  - ", t.words)
}

// writePairs writes a mapping as lines. lead begins the first one: its indentation, or a dash.
func (r *Recorder) writePairs(b *strings.Builder, lead string, pairs []yaml.Pair) {
	below := strings.Repeat(" ", len(lead))
	for _, p := range pairs {
		key := lead + r.escaped(visible(p.Key)) + ":"
		line := key + " " + r.escaped(visible(p.Value)) + "\n"
		if r.long(p, line) {
			b.WriteString(key)
			r.writeLines(b, below+"  ", p.Value)
		} else {
			b.WriteString(line)
		}
		lead = below
	}
}

// writeLines writes a value in the lines after its key. lead is their indentation.
func (r *Recorder) writeLines(b *strings.Builder, lead string, n *yaml.Node) {
	if n.Kind == yaml.String {
		mark, lines := r.lines(n.Text, columns-len(lead))
		b.WriteString(" " + mark)
		for _, line := range lines {
			b.WriteString(strings.TrimRight("\n"+lead+r.escaped(line), " "))
		}
	}
	b.WriteString("\n")
	r.writePairs(b, lead, n.Pairs)
	for _, item := range n.Items {
		if len(item.Pairs) == 0 {
			b.WriteString(lead + "- " + r.escaped(visible(item)) + "\n")
		}
		r.writePairs(b, lead+"- ", item.Pairs)
	}
}

// lines returns how YAML marks a text that is written as lines, and these. It breaks a text without
// line ends at blanks. Fewer than two lines mean that the text is better read in quotes.
func (r *Recorder) lines(s string, width int) (mark string, lines []string) {
	body, ended := strings.CutSuffix(s, "\n")
	switch {
	case !r.readable(s):
	case strings.Contains(body, "\n") && ended:
		return "|", strings.Split(body, "\n")
	case strings.Contains(body, "\n"):
		return "|-", strings.Split(body, "\n")
	case !ended && !strings.Contains(s, "  ") && !strings.Contains(s, "\t"):
		for word := range strings.SplitSeq(s, " ") {
			if last := len(lines) - 1; last >= 0 && utf8.RuneCountInString(lines[last]+" "+word) <= width {
				lines[last] += " " + word
			} else {
				lines = append(lines, word)
			}
		}
	}
	return ">-", lines
}

// long reports whether a value is written in several lines: because it does not fit into its line, or
// because a part of it is better read so.
func (r *Recorder) long(p yaml.Pair, line string) bool {
	n, wide := p.Value, utf8.RuneCountInString(line) > columns
	several := func(item *yaml.Node) bool { return r.long(yaml.Pair{Key: p.Key, Value: item}, "") }
	switch n.Kind {
	case yaml.String:
		mark, lines := r.lines(n.Text, columns)
		return len(lines) > 1 && (wide || mark != ">-")
	case yaml.List, yaml.Map:
		return (wide || p.Key.Text == "payload") && len(n.Items)+len(n.Pairs) > 0 ||
			slices.ContainsFunc(n.Items, several) || slices.ContainsFunc(n.Pairs, func(p yaml.Pair) bool { return r.long(p, "") })
	default:
		return false
	}
}

// columns is the width of a line, if the values allow it.
const columns = 100

// escaped escapes shell variables that the file would replace with its own variables.
func (r *Recorder) escaped(s string) string {
	if r.vars {
		return strings.ReplaceAll(s, "${", "$${")
	}
	return s
}

// readable reports whether a text can be written as a block of lines.
func (r *Recorder) readable(s string) bool {
	if strings.HasPrefix(s, " ") || strings.HasPrefix(s, "\n") || strings.HasSuffix(s, "\n\n") {
		return false
	}
	for line := range strings.SplitSeq(s, "\n") {
		if strings.TrimRight(line, " \t") != line || strings.ContainsFunc(line, func(c rune) bool { return c != '\t' && !unicode.IsPrint(c) }) {
			return false
		}
	}
	return true
}

// A gap is the position in a hand-written file at which tests are inserted.
type gap struct {
	head, tail string
	indent     string
	crlf       bool
}

// place finds the end of the list of tests in a file.
func (r *Recorder) place() (gap, error) {
	src, err := yaml.ParseSource([]byte(r.base))
	if err != nil {
		return gap{}, err
	}
	tests := src.Root.Get("tests")
	if tests == nil || len(tests.Items) == 0 || src.Text[src.Written(tests).Start] == '[' {
		return gap{}, fmt.Errorf("%s: tests can only be added to a list with one item per line, each with a dash", r.path)
	}
	dash := src.Written(tests.Items[0]).Dash
	g := gap{indent: strings.Repeat(" ", dash-strings.LastIndexByte("\n"+src.Text[:dash], '\n')), crlf: strings.Contains(r.base, "\r\n")}
	end := len(src.Text)
	for _, p := range src.Root.Pairs {
		if at := src.Written(p.Key).Start; at > src.Written(tests).Start && at < end {
			end = at
		}
	}
	lines := strings.SplitAfter(src.Text[:end], "\n")
	n := len(lines)
	for end < len(src.Text) && n > 1 && (strings.TrimSpace(lines[n-1]) == "" || strings.HasPrefix(lines[n-1], "#")) {
		n--
	}
	g.head = strings.TrimRight(strings.Join(lines[:n], ""), "\n") + "\n"
	g.tail = strings.Join(lines[n:], "") + src.Text[end:]
	return g, nil
}

// put inserts tests.
func (g gap) put(body string) string {
	var b strings.Builder
	b.WriteString(g.head)
	b.WriteString("\n")
	for line := range strings.SplitAfterSeq(body, "\n") {
		if line = strings.TrimPrefix(line, "  "); strings.TrimSpace(line) != "" {
			line = g.indent + line
		}
		b.WriteString(line)
	}
	if g.tail != "" && !strings.HasPrefix(g.tail, "\n") {
		b.WriteString("\n")
	}
	b.WriteString(g.tail)
	if g.crlf {
		return strings.ReplaceAll(b.String(), "\n", "\r\n")
	}
	return b.String()
}
