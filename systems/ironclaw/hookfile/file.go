// Package hookfile reads the hook bundles of IronClaw and compiles their rules.
//
// It is exported because package policy needs it, and is not an API.
package hookfile

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
	"sync"
	"time"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/tree"
	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
)

// points returns the rows of the six points, copied once: reading files uses them many times and does
// not change them.
var points = sync.OnceValue(dialect.IronClawEvents)

// Limits and defaults of bundles.
const (
	maxTimeout      = 30_000 // milliseconds
	webhookTimeout  = 2_000
	webhookPriority = 300
	defaultInFlight = 32
)

// Format loads IronClaw's bundles. IronClaw has no dialect in Grapnel, so its own events
// cannot run these hooks a second time. Grapnel cannot know which extensions are active, and loads
// all of them.
var Format = &hookfiles.Format{
	Name: "ironclaw",
	// Bundles are in the manifests of installed extensions, in the workspace, and in the manifests
	// of extensions in development.
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
	Start: start,
	Events: func() []hookfiles.Event {
		var out []hookfiles.Event
		for _, row := range points() {
			out = append(out, hookfiles.Event{Name: row.Native, Kinds: []grapnel.Kind{row.Kind}})
		}
		return out
	},
	Parse: func(files []hookfiles.File, _ bool) hookfiles.Found {
		bundles := make([]File, len(files))
		for i := range files {
			bundles[i] = File{Source: sourceOf(&files[i]), Path: files[i].Path, Data: files[i].Data}
		}
		r := readBundles(bundles, nil)
		f := hookfiles.Found{Notes: r.notes}
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

// sourceOf returns the source name that IronClaw uses for a file.
func sourceOf(f *hookfiles.File) string {
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

// bundleHook is a hook of a bundle.
type bundleHook struct {
	hookfiles.Hook
	source string
	sender grapnel.Hook // the hook of a webhook, if the request can build one
}

func (h *bundleHook) fullName() string { return h.source + "::" + h.Name }

// spec returns the Spec of the hook as IronClaw would register it.
func (h *bundleHook) spec(file *File) grapnel.Spec {
	s := grapnel.Spec{
		Name: h.Name, Source: grapnel.Source{Name: h.source, File: file.Path, Digest: files.Digest(file.Data)}, Line: h.Line, On: h.On,
		Priority: policyfile.SpecPriority(h.Priority), Timeout: time.Duration(h.Timeout), OnError: policyfile.ParseOnError(h.OnError),
		Hook: h.Handler, Phase: h.Phase, Sequential: h.Sequential,
	}
	if h.Webhook != nil {
		s.Hook = h.sender
	}
	return s
}

// reader reads bundles, and continues after errors.
type reader struct {
	webhook func(policyfile.Webhook) (grapnel.Hook, error) // nil = for `load:`, which checks addresses elsewhere

	hooks   []bundleHook // with unique names
	errors  []*Error
	notes   []*policyfile.Error
	named   map[string]int // indexes into hooks
	rules   map[string]int // number of rules per source, including replaced ones
	senders int            // number of webhooks

	input *sortedText // shared by all rules

	file  int // index of the file that is being read
	at    *File
	wrong *policyfile.Error // the first error that makes the whole file invalid
}

// readBundles reads the bundles of extensions, sorted by source name, then the bundles of the
// workspace, also sorted. A file with two names is read once.
func readBundles(files []File, webhook func(policyfile.Webhook) (grapnel.Hook, error)) *reader {
	r := &reader{webhook: webhook, input: &sortedText{}, named: map[string]int{}, rules: map[string]int{}}
	type bundle struct {
		*File
		file int
	}
	order := make([]*bundle, len(files))
	for i := range order {
		order[i] = &bundle{&files[i], i}
	}
	slices.SortStableFunc(order, func(a, b *bundle) int { return cmp.Compare(a.Source, b.Source) }) // "plugin." sorts before "workspace:"
	seen := map[string]bool{}
	for _, b := range order {
		r.file, r.at, r.wrong = b.file, b.File, nil
		if !seen[r.at.Path] || r.at.Path == "" {
			seen[r.at.Path] = true
			r.read()
		}
	}
	return r
}

// read reads one file.
func (r *reader) read() {
	before := len(r.notes)
	entries := r.bundle()
	if r.wrong != nil {
		r.notes = r.notes[:before]
		r.errors = append(r.errors, &Error{Kind: InvalidFormat, At: r.wrong})
		return
	}
	for i := range entries {
		r.register(&entries[i])
	}
}

// entry is an entry of a bundle with its first error.
type entry struct {
	bundleHook
	node *tree.Node
	err  *Error
}

// register adds a hook, or replaces the hook with the same name.
func (r *reader) register(e *entry) {
	if e.Webhook != nil && r.webhook != nil {
		var err error
		if e.sender, err = r.webhook(*e.Webhook); err != nil { // this error takes precedence over other errors of the entry
			e.err = &Error{At: r.errorAt(e.node, "", "hook %q: %v", e.Name, err), Err: err}
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
		r.note(e.node, "set Request.Webhook", "webhook %q is not loaded", e.Name)
		return
	default:
		r.senders++
	}
	name := e.fullName()
	if r.webhook == nil {
		name = r.at.Path + " " + name // `load:` may find files in several directories, and each file is a separate source
	}
	if i, taken := r.named[name]; taken {
		r.note(e.node, "", "hook %q replaces the earlier hook with this name", e.Name)
		r.hooks[i] = e.bundleHook
		return
	}
	r.named[name] = len(r.hooks)
	r.hooks = append(r.hooks, e.bundleHook)
}

// bundle parses the entries of the file, rules first.
func (r *reader) bundle() []entry {
	if r.at.Err != nil {
		r.wrong = &policyfile.Error{File: r.at.Path, Msg: files.Reason(r.at.Err)}
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
		r.wrong = hookfiles.ErrorIn(r.at.Path, wrong)
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
	var entries []entry
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

// entry parses the fields that rules and webhooks share.
func (r *reader) entry(n *tree.Node, at string, fields ...string) entry {
	e := entry{node: n, bundleHook: bundleHook{source: r.at.Source}}
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
		e.fail(r, InvalidFormat, n, "", "the name of %s is empty", at)
	case len(e.On) == 0:
		e.fail(r, MissingPoints, n, "for example \"points\": [\"beforeToolCall\"]", "hook %q names no points", e.Name)
	}
	return e
}

func (e *entry) point(r *reader, n *tree.Node, at string) {
	name := r.text(n, at)
	var known []string
	for _, row := range points() {
		if known = append(known, row.Native); row.Native == name {
			if !slices.Contains(e.On, row.Kind) {
				e.On = append(e.On, row.Kind)
			}
			return
		}
	}
	r.fail(n, wording.Nearest(name, known), "%s: unknown point %q", at, match.Shorten(name))
}

// fail sets the reason for skipping the entry. Only the first reason is kept.
func (e *entry) fail(r *reader, kind string, n *tree.Node, hint, format string, args ...any) {
	if e.err == nil {
		e.err = &Error{Kind: kind, At: r.errorAt(n, hint, format, args...)}
	}
}

// timeout parses timeout_ms. If it is missing or invalid, timeout returns the default: otherwise.
func (e *entry) timeout(r *reader, otherwise uint64) policyfile.Duration {
	n := e.node.Get("timeout_ms")
	ms := otherwise
	if value := r.number(n, e.At+".timeout_ms", 64); value != nil {
		if ms = *value; ms < 1 || ms > maxTimeout {
			e.fail(r, InvalidTimeout, n, "", "hook %q: timeout_ms is %d, and must be from 1 to %d", e.Name, ms, maxTimeout)
			ms = otherwise
		}
	}
	return policyfile.Duration(time.Duration(ms) * time.Millisecond) // the range was checked above
}

func (r *reader) rule(n *tree.Node, at string) entry {
	e := r.entry(n, at, "failure_mode", "when_regex", "reject_reason", "replacements", "prepend", "append")
	e.Timeout = e.timeout(r, 0)
	if mode := r.optional(n.Get("failure_mode"), at+".failure_mode"); mode != nil {
		switch *mode {
		case "fail_open":
			e.OnError = "open"
		case "fail_closed":
			e.OnError = "closed"
		default:
			r.fail(n.Get("failure_mode"), wording.Nearest(*mode, []string{"fail_open", "fail_closed"}), "%s.failure_mode is neither fail_open nor fail_closed", at)
		}
	}
	text := func(name string) string {
		if t := r.optional(n.Get(name), at+"."+name); t != nil {
			return *t
		}
		return ""
	}
	rule := Rule{
		WhenRegex: text("when_regex"), RejectReason: r.optional(n.Get("reject_reason"), at+".reject_reason"),
		Prepend: text("prepend"), Append: text("append"),
	}
	for i, item := range r.list(n.Get("replacements"), at+".replacements") {
		at := fmt.Sprintf("%s.replacements[%d]", at, i)
		if r.object(item, at, "pattern", "replacement") {
			rule.Replacements = append(rule.Replacements, Replacement{r.required(item, at, "pattern"), r.required(item, at, "replacement")})
		}
	}
	if r.wrong != nil {
		return e
	}
	hook, err := rule.hook(r.input)
	if err != nil {
		e.fail(r, InvalidRegex, n, "", "hook %q: %v", e.Name, err)
	}
	if e.err == nil && rule.RejectReason == nil && rule.Replacements == nil && rule.Prepend+rule.Append == "" {
		r.note(n, "add reject_reason, replacements, prepend or append", "hook %q does nothing", e.Name)
	}
	if slices.ContainsFunc(rule.patterns(), asciiOnly) {
		e.Unsupported = append(e.Unsupported, `its \b, \d, \s and \w match ASCII only, but all of Unicode in IronClaw`)
	}
	// A rule can both decide and rewrite, and rules of a bundle see the changes of earlier rules.
	// So a rule is a step with its own priority, and rules run sequentially.
	e.Handler, e.Rule, e.Phase, e.Sequential = hook, &rule, grapnel.PhaseStep, true
	return e
}

// patterns returns the rule's regular expressions.
func (r *Rule) patterns() []string {
	patterns := []string{r.WhenRegex}
	for _, part := range r.Replacements {
		patterns = append(patterns, part.Pattern)
	}
	return patterns
}

// outbound parses a webhook. The request's policyfile.Webhook function checks its address and headers first,
// so invalid other fields are replaced by their defaults before.
func (r *reader) outbound(n *tree.Node, at string) entry {
	e := r.entry(n, at, "url", "headers", "max_in_flight")
	w := &policyfile.Webhook{Name: e.fullName(), URL: r.required(n, at, "url"), MaxInFlight: defaultInFlight, Body: "ironclaw"}
	if headers := n.Get("headers"); headers != nil && r.object(headers, at+".headers") {
		w.Headers = map[string]string{}
		for _, name := range headers.Names {
			w.Headers[name] = r.text(headers.Get(name), at+".headers."+name)
		}
	}
	asked := e.err == nil // false for an entry without points
	w.Timeout = e.timeout(r, webhookTimeout)
	if most := r.number(n.Get("max_in_flight"), at+".max_in_flight", 64); most != nil {
		if w.MaxInFlight = int(min(*most, math.MaxInt)); w.MaxInFlight == 0 {
			e.fail(r, InvalidMaxInFlight, n.Get("max_in_flight"), "", "hook %q: max_in_flight is 0, so nothing would be sent", e.Name)
			w.MaxInFlight = defaultInFlight
		}
	}
	if e.Priority == nil {
		priority := webhookPriority
		e.Priority = &priority
	}
	if asked {
		e.Webhook = w
	}
	return e
}

// fail sets the reason why the whole file is invalid. Only the first reason is kept.
func (r *reader) fail(n *tree.Node, hint, format string, args ...any) {
	if r.wrong == nil {
		r.wrong = r.errorAt(n, hint, format, args...)
	}
}

func (r *reader) note(n *tree.Node, hint, format string, args ...any) {
	r.notes = append(r.notes, r.errorAt(n, hint, format, args...))
}

func (r *reader) errorAt(n *tree.Node, hint, format string, args ...any) *policyfile.Error {
	return &policyfile.Error{File: r.at.Path, Line: n.Line, Col: n.Col, Msg: fmt.Sprintf(format, args...), Hint: hint}
}

// object checks that a value is an object. It adds a note for each unknown member, which would
// otherwise be ignored silently. Without known names, all members are accepted.
func (r *reader) object(n *tree.Node, what string, known ...string) bool {
	if !n.Is(tree.Object) {
		r.fail(n, "", "%s must be an object, not %s", what, n.Kind)
		return false
	}
	for _, name := range n.Names {
		if len(known) > 0 && !slices.Contains(known, name) {
			r.note(n.Get(name), wording.Nearest(name, known), "%s: unknown field %q", what, match.Shorten(name))
		}
	}
	return true
}

// list returns the items of an optional list.
func (r *reader) list(n *tree.Node, what string) []*tree.Node {
	if n == nil {
		return nil
	}
	if !n.Is(tree.List) {
		r.fail(n, "", "%s must be a list, not %s", what, n.Kind)
	}
	return n.Items
}

// required returns a text that an object must contain.
func (r *reader) required(n *tree.Node, at, name string) string {
	if n.Get(name) == nil {
		r.fail(n, "", "%s has no %s", at, name)
		return ""
	}
	return r.text(n.Get(name), at+"."+name)
}

func (r *reader) text(n *tree.Node, what string) string {
	if !n.Is(tree.Text) {
		r.fail(n, "", "%s must be text, not %s", what, n.Kind)
	}
	return n.Text
}

// optional returns a text, or nil if it is missing or null.
func (r *reader) optional(n *tree.Node, what string) *string {
	if n == nil || n.Is(tree.Null) {
		return nil
	}
	text := r.text(n, what)
	return &text
}

// number returns a non-negative integer, or nil if it is missing or null.
func (r *reader) number(n *tree.Node, what string, bits int) *uint64 {
	if n == nil || n.Is(tree.Null) {
		return nil
	}
	number, err := strconv.ParseUint(string(n.Raw), 10, bits)
	if err != nil { // also true for quoted text
		r.fail(n, "", "%s must be a whole number from 0 to %d, not %s", what, uint64(1)<<(bits-1)<<1-1, match.Shorten(string(n.Raw)))
	}
	return &number
}

// ofExtension reports whether a source is the manifest of an extension. All other sources are files
// that only contain bundles.
func ofExtension(source string) bool { return strings.HasPrefix(source, "plugin.") }
