package hookfiles

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/digest"
	"github.com/grapnel-dev/grapnel/internal/match"
	"github.com/grapnel-dev/grapnel/internal/nearest"
	"github.com/grapnel-dev/grapnel/internal/readfile"
	"github.com/grapnel-dev/grapnel/internal/tree"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// What a bundle may say, and what it says where it says nothing.
const (
	ironClawMaxTimeout      = 30_000 // milliseconds
	ironClawWebhookTimeout  = 2_000
	ironClawWebhookPriority = 300
	ironClawMaxInFlight     = 32
)

// ironClawFormat loads IronClaw's bundles. No dialect is IronClaw's, so its own events
// do not meet them a second time. Whether an extension is active nobody knows here:
// each counts as if it were.
var ironClawFormat = &Format{
	Name: "ironclaw",
	// Bundles are in what installed extensions say of themselves, in the workspace, and
	// in what extensions that are being built say.
	User: []string{
		".ironclaw/tools/*.capabilities.json", ".ironclaw/channels/*.capabilities.json",
		"tools/*.capabilities.json", "channels/*.capabilities.json",
		"hooks/hooks.json", "hooks/**/*.hook.json",
	},
	Project: []string{
		".ironclaw/tools/*.capabilities.json", ".ironclaw/channels/*.capabilities.json",
		"tools/*.capabilities.json", "channels/*.capabilities.json",
		"hooks/hooks.json", "hooks/**/*.hook.json",
		"tools/*/capabilities.json", "channels/*/capabilities.json", "tools-src/*/*.capabilities.json",
	},
	Parse: func(files []File) Found {
		bundles := make([]IronClawFile, len(files))
		for i := range files {
			bundles[i] = IronClawFile{Source: ironClawSource(&files[i]), Path: files[i].Path, Data: files[i].Data}
		}
		r := readIronClaw(bundles, nil)
		f := Found{Notes: r.notes}
		for _, h := range r.hooks {
			f.Hooks = append(f.Hooks, h.Hook)
		}
		for _, err := range r.errors {
			if err.Hook == "" {
				f.Broken = append(f.Broken, err.At)
			} else {
				f.Errors = append(f.Errors, err.At)
			}
		}
		return f
	},
}

const workspacePrefix = "workspace:"

// ironClawSource is what IronClaw would call the source of a file.
func ironClawSource(f *File) string {
	dir, base := path.Split(f.Name)
	name, isExtension := strings.CutSuffix(base, ".capabilities.json")
	if base == "capabilities.json" {
		name, isExtension = filepath.Base(filepath.Dir(f.Path)), true
	}
	dirs := strings.Split(dir, "/")
	switch {
	case !isExtension:
		return workspacePrefix + f.Name
	case slices.Contains(dirs, "channels"):
		return "plugin.channel:" + name
	case slices.Contains(dirs, "tools-src"):
		return "plugin.dev_tool:" + name
	default:
		return "plugin.tool:" + name
	}
}

// ironClawHook is a hook of a bundle.
type ironClawHook struct {
	Hook
	source string
	sender grapnel.Hook // of a webhook, where somebody makes it
}

func (h *ironClawHook) fullName() string { return h.source + "::" + h.Name }

// spec is the hook as IronClaw would register it.
func (h *ironClawHook) spec(file *IronClawFile) grapnel.Spec {
	s := grapnel.Spec{
		Name: h.Name, Source: grapnel.Source{Name: h.source, File: file.Path, Digest: digest.Of(file.Data)}, Line: h.Line, On: h.On,
		Priority: h.Priority, Timeout: time.Duration(h.Timeout), OnError: policyfile.ParseOnError(h.OnError),
		Hook: h.Handler, Phase: h.Phase, Sequential: h.Sequential,
	}
	if h.Webhook != nil {
		s.Hook = h.sender
	}
	return s
}

// ironClawReader reads bundles, and goes on after what is wrong.
type ironClawReader struct {
	webhook func(Webhook) (grapnel.Hook, error) // nil = it is for `load:`, where others look at addresses

	hooks   []ironClawHook // one of each name
	errors  []*IronClawError
	notes   []*policyfile.Error
	named   map[string]int // where in hooks
	rules   map[string]int // how many rules of a source there are, those replaced included
	senders int            // how many webhooks

	input *sortedText // of all rules

	file  int // of the bundle that is being read
	at    *IronClawFile
	wrong *policyfile.Error // the first thing in it that makes all of it invalid
}

// readIronClaw reads the bundles of extensions by the name of their source, then
// those of the workspace by theirs. A file that has two names counts once.
func readIronClaw(files []IronClawFile, webhook func(Webhook) (grapnel.Hook, error)) *ironClawReader {
	r := &ironClawReader{webhook: webhook, input: &sortedText{}, named: map[string]int{}, rules: map[string]int{}}
	type bundle struct {
		*IronClawFile
		file int
	}
	order := make([]*bundle, len(files))
	for i := range order {
		order[i] = &bundle{&files[i], i}
	}
	slices.SortStableFunc(order, func(a, b *bundle) int { return cmp.Compare(a.Source, b.Source) }) // plugin.* before workspace:*
	seen := map[string]bool{}
	for _, b := range order {
		r.file, r.at, r.wrong = b.file, b.IronClawFile, nil
		if !seen[r.at.Path] || r.at.Path == "" {
			seen[r.at.Path] = true
			r.read()
		}
	}
	return r
}

// read reads one file.
func (r *ironClawReader) read() {
	before := len(r.notes)
	entries := r.bundle()
	if r.wrong != nil {
		r.notes = r.notes[:before]
		r.errors = append(r.errors, &IronClawError{Kind: IronClawInvalidFormat, At: r.wrong})
		return
	}
	for i := range entries {
		r.register(&entries[i])
	}
}

// ironClawEntry is an entry of a bundle, and what is wrong with it.
type ironClawEntry struct {
	ironClawHook
	node *tree.Node
	err  *IronClawError
}

// register keeps a hook, in the place of one with its name.
func (r *ironClawReader) register(e *ironClawEntry) {
	if e.Webhook != nil && r.webhook != nil {
		var err error
		if e.sender, err = r.webhook(*e.Webhook); err != nil { // before what else is wrong with it
			e.err = &IronClawError{At: r.errorAt(e.node, "", "hook %q: %v", e.Name, err), Err: err}
		}
	}
	if e.err != nil {
		e.err.Hook = e.fullName()
		r.errors = append(r.errors, e.err)
		return
	}
	switch {
	case e.Webhook == nil:
		r.rules[e.source]++
	case e.sender == nil && r.webhook != nil:
		return // nobody makes webhooks here
	default:
		r.senders++
	}
	name := e.fullName()
	if r.webhook == nil {
		name = r.at.Path + " " + name // what `load:` finds in several directories: each file is a source of its own
	}
	if i, taken := r.named[name]; taken {
		r.note(e.node, "", "hook %q takes the place of the one before it with this name", e.Name)
		r.hooks[i] = e.ironClawHook
		return
	}
	r.named[name] = len(r.hooks)
	r.hooks = append(r.hooks, e.ironClawHook)
}

// bundle reads the entries of the file, the rules first.
func (r *ironClawReader) bundle() []ironClawEntry {
	if r.at.Err != nil {
		r.wrong = &policyfile.Error{File: r.at.Path, Msg: readfile.Reason(r.at.Err)}
		return nil
	}
	root, wrong := tree.ParseJSON(r.at.Data)
	switch {
	case !utf8.Valid(r.at.Data):
		wrong = &tree.Error{Msg: "is not UTF-8"}
	case len(bytes.TrimSpace(r.at.Data)) == 0:
		wrong = &tree.Error{Msg: "is empty"}
	}
	if wrong != nil {
		r.wrong = ErrorIn(r.at.Path, wrong)
		return nil
	}
	n, at := root, ""
	if nested := root.Get("hooks"); nested != nil {
		n, at = nested, "hooks"
	} else if ofExtension(r.at.Source) {
		if n, at = root.Get("capabilities").Get("hooks"), "capabilities.hooks"; n == nil {
			return nil // an extension without hooks
		}
	}
	var entries []ironClawEntry
	if n.Is(tree.List) {
		for i, item := range n.Items {
			entries = append(entries, r.rule(item, fmt.Sprintf("%s[%d]", at, i)))
		}
		return entries
	}
	if at != "" {
		at += "."
	}
	if !r.object(n, "the bundle", "rules", "outbound_webhooks") {
		return nil
	}
	for i, item := range r.list(n.Get("rules"), at+"rules") {
		entries = append(entries, r.rule(item, fmt.Sprintf("%srules[%d]", at, i)))
	}
	for i, item := range r.list(n.Get("outbound_webhooks"), at+"outbound_webhooks") {
		entries = append(entries, r.outbound(item, fmt.Sprintf("%soutbound_webhooks[%d]", at, i)))
	}
	return entries
}

// entry reads what rules and webhooks have in common.
func (r *ironClawReader) entry(n *tree.Node, at string, fields ...string) ironClawEntry {
	e := ironClawEntry{node: n, ironClawHook: ironClawHook{source: r.at.Source}}
	e.FileIndex, e.At = r.file, at
	if !r.object(n, at, append(fields, "name", "points", "priority", "timeout_ms")...) {
		return e
	}
	e.Line = n.Line
	e.Name = r.required(n, at, "name")
	if n.Get("points") == nil {
		r.fail(n, "", "%s has no points", at)
	}
	for i, point := range r.list(n.Get("points"), at+".points") {
		e.point(r, point, fmt.Sprintf("%s.points[%d]", at, i))
	}
	if p := r.number(n.Get("priority"), at+".priority", 32); p != nil {
		priority := int(min(*p, math.MaxInt))
		e.Priority = &priority
	}
	switch {
	case e.Name == "":
		e.fail(r, IronClawInvalidFormat, n, "", "the name of %s is empty", at)
	case len(e.On) == 0:
		e.fail(r, IronClawMissingPoints, n, "for example \"points\": [\"beforeToolCall\"]", "hook %q names no points", e.Name)
	}
	return e
}

func (e *ironClawEntry) point(r *ironClawReader, n *tree.Node, at string) {
	name := r.text(n, at)
	var known []string
	for _, row := range dialect.IronClawEvents() {
		if known = append(known, row.Native); row.Native == name {
			if !slices.Contains(e.On, row.Kind) {
				e.On = append(e.On, row.Kind)
			}
			return
		}
	}
	r.fail(n, nearest.Hint(name, known), "%s: there is no point %q", at, match.Shorten(name))
}

// fail says why the entry is left out. The first reason counts.
func (e *ironClawEntry) fail(r *ironClawReader, kind string, n *tree.Node, hint, format string, args ...any) {
	if e.err == nil {
		e.err = &IronClawError{Kind: kind, At: r.errorAt(n, hint, format, args...)}
	}
}

// timeout reads timeout_ms, or returns what stands for it.
func (e *ironClawEntry) timeout(r *ironClawReader, otherwise uint64) policyfile.Duration {
	n := e.node.Get("timeout_ms")
	ms := otherwise
	if said := r.number(n, e.At+".timeout_ms", 64); said != nil {
		if ms = *said; ms < 1 || ms > ironClawMaxTimeout {
			e.fail(r, IronClawInvalidTimeout, n, "", "hook %q: timeout_ms is %d, and must be from 1 to %d", e.Name, ms, ironClawMaxTimeout)
			ms = otherwise
		}
	}
	return policyfile.Duration(time.Duration(ms) * time.Millisecond) //nolint:gosec // it is small by now
}

func (r *ironClawReader) rule(n *tree.Node, at string) ironClawEntry {
	e := r.entry(n, at, "failure_mode", "when_regex", "reject_reason", "replacements", "prepend", "append")
	e.Timeout = e.timeout(r, 0)
	if mode := r.optional(n.Get("failure_mode"), at+".failure_mode"); mode != nil {
		switch *mode {
		case "fail_open":
			e.OnError = "open"
		case "fail_closed":
			e.OnError = "closed"
		default:
			r.fail(n.Get("failure_mode"), nearest.Hint(*mode, []string{"fail_open", "fail_closed"}), "%s.failure_mode is neither fail_open nor fail_closed", at)
		}
	}
	text := func(name string) string {
		if t := r.optional(n.Get(name), at+"."+name); t != nil {
			return *t
		}
		return ""
	}
	rule := IronClawRule{
		WhenRegex: text("when_regex"), RejectReason: r.optional(n.Get("reject_reason"), at+".reject_reason"),
		Prepend: text("prepend"), Append: text("append"),
	}
	for i, item := range r.list(n.Get("replacements"), at+".replacements") {
		at := fmt.Sprintf("%s.replacements[%d]", at, i)
		if r.object(item, at, "pattern", "replacement") {
			rule.Replacements = append(rule.Replacements, IronClawReplacement{r.required(item, at, "pattern"), r.required(item, at, "replacement")})
		}
	}
	if r.wrong != nil {
		return e
	}
	hook, err := rule.hook(r.input)
	if err != nil {
		e.fail(r, IronClawInvalidRegex, n, "", "hook %q: %v", e.Name, err)
	}
	if e.err == nil && rule.RejectReason == nil && rule.Replacements == nil && rule.Prepend+rule.Append == "" {
		r.note(n, "add reject_reason, replacements, prepend or append", "hook %q does nothing", e.Name)
	}
	if slices.ContainsFunc(rule.patterns(), asciiOnly) {
		e.Lost = append(e.Lost, `its \b, \d, \s and \w know ASCII only, and know all of Unicode in IronClaw`)
	}
	// A rule can judge and rewrite, and those of a bundle rewrite for each other: so it
	// is a step with its own priority, and one after the other.
	e.Handler, e.Rule, e.Phase, e.Sequential = hook, &rule, grapnel.PhaseStep, true
	return e
}

// patterns lists the rule's regular expressions.
func (r *IronClawRule) patterns() []string {
	patterns := []string{r.WhenRegex}
	for _, part := range r.Replacements {
		patterns = append(patterns, part.Pattern)
	}
	return patterns
}

// outbound reads a webhook. Whether its address and headers are good is asked first,
// so what is wrong with the other fields must not be in what is asked about.
func (r *ironClawReader) outbound(n *tree.Node, at string) ironClawEntry {
	e := r.entry(n, at, "url", "headers", "max_in_flight")
	w := &Webhook{Name: e.fullName(), URL: r.required(n, at, "url"), MaxInFlight: ironClawMaxInFlight, Body: "ironclaw"}
	if headers := n.Get("headers"); headers != nil && r.object(headers, at+".headers") {
		w.Headers = map[string]string{}
		for _, name := range headers.Names {
			w.Headers[name] = r.text(headers.Get(name), at+".headers."+name)
		}
	}
	asked := e.err == nil // an entry without points is not
	w.Timeout = e.timeout(r, ironClawWebhookTimeout)
	if most := r.number(n.Get("max_in_flight"), at+".max_in_flight", 64); most != nil {
		if w.MaxInFlight = int(min(*most, math.MaxInt)); w.MaxInFlight == 0 {
			e.fail(r, IronClawInvalidMaxInFlight, n.Get("max_in_flight"), "", "hook %q: max_in_flight is 0, and nothing would ever be sent", e.Name)
			w.MaxInFlight = ironClawMaxInFlight
		}
	}
	if e.Priority == nil {
		priority := ironClawWebhookPriority
		e.Priority = &priority
	}
	if asked {
		e.Webhook = w
	}
	return e
}

// fail says why the whole file counts for nothing. The first reason counts.
func (r *ironClawReader) fail(n *tree.Node, hint, format string, args ...any) {
	if r.wrong == nil {
		r.wrong = r.errorAt(n, hint, format, args...)
	}
}

func (r *ironClawReader) note(n *tree.Node, hint, format string, args ...any) {
	r.notes = append(r.notes, r.errorAt(n, hint, format, args...))
}

func (r *ironClawReader) errorAt(n *tree.Node, hint, format string, args ...any) *policyfile.Error {
	return &policyfile.Error{File: r.at.Path, Line: n.Line, Col: n.Col, Msg: fmt.Sprintf(format, args...), Hint: hint}
}

// object checks that a value is an object. What it does not know counts for nothing,
// and nobody would notice a slip of the pen: it is noted. No names = all are known.
func (r *ironClawReader) object(n *tree.Node, what string, known ...string) bool {
	if !n.Is(tree.Object) {
		r.fail(n, "", "%s must be an object, not %s", what, n.Kind)
		return false
	}
	for _, name := range n.Names {
		if len(known) > 0 && !slices.Contains(known, name) {
			r.note(n.Get(name), nearest.Hint(name, known), "%s: unknown field %q", what, match.Shorten(name))
		}
	}
	return true
}

// list returns the items of a list, which need not be there.
func (r *ironClawReader) list(n *tree.Node, what string) []*tree.Node {
	if n == nil {
		return nil
	}
	if !n.Is(tree.List) {
		r.fail(n, "", "%s must be a list, not %s", what, n.Kind)
	}
	return n.Items
}

// required returns a text that an object must have.
func (r *ironClawReader) required(n *tree.Node, at, name string) string {
	if n.Get(name) == nil {
		r.fail(n, "", "%s has no %s", at, name)
		return ""
	}
	return r.text(n.Get(name), at+"."+name)
}

func (r *ironClawReader) text(n *tree.Node, what string) string {
	if !n.Is(tree.Text) {
		r.fail(n, "", "%s must be text, not %s", what, n.Kind)
	}
	return n.Text
}

// optional returns a text, or nil where there is none or null.
func (r *ironClawReader) optional(n *tree.Node, what string) *string {
	if n == nil || n.Is(tree.Null) {
		return nil
	}
	text := r.text(n, what)
	return &text
}

// number returns a whole number from 0 on, or nil where there is none or null.
func (r *ironClawReader) number(n *tree.Node, what string, bits int) *uint64 {
	if n == nil || n.Is(tree.Null) {
		return nil
	}
	number, err := strconv.ParseUint(string(n.Raw), 10, bits)
	if err != nil { // text too, with its quotes
		r.fail(n, "", "%s must be a whole number from 0 to %d, not %s", what, uint64(1)<<(bits-1)<<1-1, match.Shorten(string(n.Raw)))
	}
	return &number
}

// ofExtension reports whether a source is what an extension says of itself. All others
// are files of bundles alone.
func ofExtension(source string) bool { return strings.HasPrefix(source, "plugin.") }
