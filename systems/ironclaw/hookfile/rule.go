package hookfile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/prefilter"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// An Rule is a rule of IronClaw's hook bundles, with the fields of its JSON. The fields
// that define when the rule runs (name, points, priority, failure_mode, timeout_ms) are for the
// Spec. [Rule.Hook] returns its effect:
//
//	var rule hookfiles.Rule
//	err := json.Unmarshal(entry, &rule)
//	hook, err := rule.Hook()
//
// A rule reads and changes the main text of an event: the prompt, the message, the response, or the
// tool's input as compact JSON with sorted keys and minimal escaping. A response that is not a JSON
// string is treated like an input. At the start and end of a session, a rule reads the session ID
// and changes nothing. For all other events it returns an empty outcome.
//
// Patterns use the RE2 syntax of Go, not the syntax of Rust. Both run in linear time. Shared syntax
// has the same meaning with one exception: \d, \w, \s and \b only support ASCII.
type Rule struct {
	WhenRegex    string        `json:"when_regex,omitempty"`    // unanchored; the rule applies only if it matches. Empty = always
	RejectReason *string       `json:"reject_reason,omitempty"` // blocks, and nothing is rewritten; nil = does not block
	Replacements []Replacement `json:"replacements,omitempty"`  // applied in order, each to all matches
	Prepend      string        `json:"prepend,omitempty"`       // text to insert at the beginning, after the replacements
	Append       string        `json:"append,omitempty"`        // text to insert at the end
}

// Replacement replaces all matches of a pattern by a text. In the text, $1, ${1}, $name and
// ${name} refer to groups, groups that the pattern does not have are empty, and $$ is a dollar
// sign.
type Replacement struct {
	Pattern     string `json:"pattern"`
	Replacement string `json:"replacement"`
}

// Hook compiles the rule. It returns an error for a pattern that is invalid in Go or has another
// meaning in Go than in Rust.
func (r Rule) Hook() (grapnel.Hook, error) { return r.hook(&sortedText{}) }

func (r Rule) hook(input *sortedText) (grapnel.Hook, error) {
	h := &ruleHook{reject: r.RejectReason, prepend: r.Prepend, append: r.Append, input: input}
	if r.WhenRegex != "" {
		re, _, err := rustRegexp(r.WhenRegex)
		if err != nil {
			return nil, fmt.Errorf("when_regex %q: %w", r.WhenRegex, err)
		}
		h.when = re
	}
	for i, part := range r.Replacements {
		re, tree, err := rustRegexp(part.Pattern)
		if err != nil {
			return nil, fmt.Errorf("replacements[%d].pattern %q: %w", i, part.Pattern, err)
		}
		h.replace = append(h.replace, replacing{re, goTemplate(tree, part.Replacement)})
	}
	return h, nil
}

type ruleHook struct {
	when            *prefilter.Regexp
	reject          *string
	replace         []replacing
	prepend, append string
	input           *sortedText
}

type replacing struct {
	re       *prefilter.Regexp
	template string
}

// Handle blocks or rewrites. If a rewritten tool input is not valid JSON, the engine rejects the
// change with an error.
func (h *ruleHook) Handle(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	var out grapnel.Outcome
	field, text, isJSON, err := h.input.primary(ev)
	if field == "" || err != nil || h.when != nil && !h.when.MatchString(text) {
		return out, err
	}
	if h.reject != nil {
		out.Decision, out.Reason = grapnel.Block, *h.reject
		return out, nil
	}
	now := text
	for _, part := range h.replace {
		if part.re.MayMatch(now) {
			now = part.re.Compile().ReplaceAllString(now, part.template)
		}
	}
	if now == text && field == grapnel.FieldPrompt && onlyAdds(ev.Can()) {
		for _, part := range []string{h.prepend, h.append} {
			if part = strings.TrimSpace(part); part != "" {
				out.Context = append(out.Context, part)
			}
		}
		return out, nil
	}
	now = h.prepend + now + h.append
	switch value := json.RawMessage(now); {
	case now == text || field == sessionID:
		return out, nil
	case isJSON && !json.Valid(value):
		return out, fmt.Errorf("%w: %s is no longer JSON: %s", grapnel.ErrIllegal, field, match.Shorten(now))
	case isJSON:
		out.Set = map[grapnel.Field]json.RawMessage{field: value}
	default:
		out.Set = map[grapnel.Field]json.RawMessage{field: rawjson.AppendQuoted(nil, now)}
	}
	return out, nil
}

// onlyAdds reports whether an agent can add context to a prompt but not change it. Text around an
// unchanged prompt is then context: a change would block every prompt. A replacement stays a change,
// because the model must not see the original.
func onlyAdds(can *grapnel.Can) bool {
	return can != nil && can.Context && !slices.Contains(can.Change, grapnel.FieldPrompt)
}

// sessionID is the field of a main text that cannot be changed.
const sessionID grapnel.Field = "session.id"

// primary returns the main text of an event. An empty field means that rules ignore the event.
func (s *sortedText) primary(ev *grapnel.Event) (field grapnel.Field, text string, isJSON bool, err error) {
	switch ev.Kind {
	case grapnel.SessionStart, grapnel.SessionEnd:
		return sessionID, ev.Session.ID, false, nil
	case grapnel.PromptBefore:
		field = grapnel.FieldPrompt
	case grapnel.MessageBefore:
		field = grapnel.FieldText
	case grapnel.ResponseBefore:
		field = grapnel.FieldResponse
	case grapnel.ToolBefore:
		field = grapnel.FieldInput
	default:
		return "", "", false, nil
	}
	raw, ok := ev.Get(field)
	if !ok {
		raw = json.RawMessage("null")
		if field != grapnel.FieldInput {
			raw = json.RawMessage(`""`)
		}
	}
	if field != grapnel.FieldInput && json.Unmarshal(raw, &text) == nil {
		return field, text, false, nil
	}
	text, err = s.of(raw)
	return field, text, true, err
}

// sortedText caches the last sorted input, because all rules of a bundle use the same one. The key
// is the content of the input, because a caller may reuse an Event for another firing.
type sortedText struct {
	last atomic.Pointer[struct{ raw, text string }]
}

func (s *sortedText) of(raw []byte) (string, error) {
	if last := s.last.Load(); last != nil && last.raw == string(raw) {
		return last.text, nil
	}
	text, err := rawjson.Sorted(raw)
	if err == nil {
		s.last.Store(&struct{ raw, text string }{string(raw), text})
	}
	return text, err
}

// rustRegexp checks a pattern that was written for Rust. It returns an error for syntax with
// another meaning in Go, because the rule would then match other texts: class operations, named
// boundaries, and repetitions without a lower bound.
func rustRegexp(pattern string) (*prefilter.Regexp, *syntax.Regexp, error) {
	for i := 0; i < len(pattern); i++ {
		rest := pattern[i:]
		switch {
		case strings.HasPrefix(rest, `\b{`), strings.HasPrefix(rest, `\B{`):
			return nil, nil, fmt.Errorf("%s...} is a boundary only in Rust: write \\b", rest[:3])
		case strings.HasPrefix(rest, `\<`), strings.HasPrefix(rest, `\>`):
			return nil, nil, fmt.Errorf("%s is a word boundary in Rust but a character here: write \\b, or %s for the character", rest[:2], rest[1:2])
		case rest[0] == '\\':
			i++
		case strings.HasPrefix(rest, "{,"):
			return nil, nil, errors.New("{, starts a repetition only in Rust: write {0, for it, or \\{, for the characters")
		case rest[0] == '[':
			var op string
			if i, op = classEnd(pattern, i+1); op != "" {
				return nil, nil, fmt.Errorf("%s inside a class [...] is an operation only in Rust: list the characters", op)
			}
		}
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err == nil {
		return prefilter.NewRegexp(pattern, prefilter.RequiredLiteralOf(tree.Simplify())), tree, nil
	}
	for _, group := range []string{"(?=", "(?!", "(?<=", "(?<!"} {
		if strings.Contains(pattern, group) {
			return nil, nil, fmt.Errorf("%w: Rust does not support look-around either", err)
		}
	}
	return nil, nil, err
}

// asciiOnly reports whether a pattern uses escapes that support Unicode in Rust and only ASCII in
// Go.
func asciiOnly(pattern string) bool {
	for i := 0; i+1 < len(pattern); i++ {
		if pattern[i] == '\\' {
			i++
			if strings.IndexByte("bBdDsSwW", pattern[i]) >= 0 {
				return true
			}
		}
	}
	return false
}

// classEnd returns the end of the character class that begins before i, or the first class
// operation in it.
func classEnd(pattern string, i int) (end int, op string) {
	if strings.HasPrefix(pattern[i:], "^") {
		i++
	}
	if strings.HasPrefix(pattern[i:], "]") { // a leading ] is a literal
		i++
	}
	for ; i < len(pattern); i++ {
		rest := pattern[i:]
		switch {
		case rest[0] == ']':
			return i, ""
		case rest[0] == '\\':
			i++
		case strings.HasPrefix(rest, "[:"): // [:alpha:]
			if n := strings.Index(rest, ":]"); n > 0 {
				i += n + 1
			}
		case rest[0] == '[':
			return i, "["
		case strings.HasPrefix(rest, "&&"), strings.HasPrefix(rest, "--"), strings.HasPrefix(rest, "~~"):
			return i, rest[:2]
		}
	}
	return i, ""
}

// goTemplate converts a replacement to Go's syntax. The syntaxes differ in valid names and in the
// handling of missing groups.
func goTemplate(re *syntax.Regexp, replacement string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(replacement, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, after, closed := strings.Cut(strings.TrimPrefix(rest, "{"), "}")
		if !strings.HasPrefix(rest, "{") {
			after = strings.TrimLeft(rest, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")
			name = rest[:len(rest)-len(after)]
			closed = name != ""
		}
		switch {
		case strings.HasPrefix(rest, "$"):
			b.WriteString("$$")
			after = rest[1:]
		case !closed: // a literal dollar sign
			b.WriteString("$$")
			after = rest
		default:
			if group := groupOf(re, name); group >= 0 {
				fmt.Fprintf(&b, "${%d}", group)
			}
		}
		replacement = after
	}
}

// groupOf returns the number of a group, or -1 if the pattern does not have it.
func groupOf(re *syntax.Regexp, name string) int {
	n, err := strconv.ParseUint(name, 10, 31)
	switch {
	case err != nil && name == "":
		return -1
	case err != nil:
		return slices.Index(re.CapNames(), name)
	case int(n) > re.MaxCap():
		return -1
	}
	return int(n)
}
