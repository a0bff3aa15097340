// Package redact hides the data that `redact:` selects from less trusted hooks, and removes the
// data that `records:` selects from records.
package redact

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/prefilter"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/wire"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Redacted is the text that replaces a secret.
const Redacted = "[REDACTED]"

// leastSecret is the minimum length in bytes of a secret at a redacted place that is also searched
// everywhere else. Shorter texts occur too often in unrelated texts.
const leastSecret = 6

// MaxDepth is the maximum nesting depth of values. Deeper values cannot be redacted and give an
// error.
const MaxDepth = 128

// A Redactor is the combined `redact:` settings of all policies in force.
type Redactor struct {
	places   [][]string
	patterns []*prefilter.Regexp
}

// New returns a Redactor, or nil if there is nothing to redact.
func New(all []*policyfile.Redact) *Redactor {
	r := &Redactor{}
	for _, one := range all {
		for _, pointer := range one.Fields {
			r.places = append(r.places, PointerPath(pointer))
		}
		for _, p := range one.Patterns {
			r.patterns = append(r.patterns, prefilter.NewRegexp(p.Pattern, p.Literal))
		}
	}
	if len(r.places)+len(r.patterns) == 0 {
		return nil
	}
	return r
}

// PointerPath splits a JSON pointer. It folds the case of names, because JSON decoders ignore case.
func PointerPath(pointer string) []string {
	path := strings.Split(pointer, "/")[1:]
	for i := range path {
		path[i] = foldName(strings.NewReplacer("~1", "/", "~0", "~").Replace(path[i]))
	}
	return path
}

// foldName returns the same text for names that differ only in case.
func foldName(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, name)
}

// Guard wraps the hooks for which low returns true, so that they get redacted events. It skips
// rules: they run inside Grapnel and change nothing.
func (r *Redactor) Guard(specs []grapnel.Spec, low func(*grapnel.Spec) bool) {
	if r == nil {
		return
	}
	for i := range specs {
		s := &specs[i]
		if s.Phase == grapnel.PhaseRule || s.Hook == nil || !low(s) {
			continue
		}
		s.Hook = &Hook{Hook: s.Hook, Redactor: r}
	}
}

// Hook is a less trusted hook that gets redacted events.
type Hook struct {
	grapnel.Hook
	*Redactor
}

// Handle passes a redacted event to the hook, and restores the originals in the changes that the
// hook returns. If the event cannot be redacted, Handle returns an error and does not run the hook.
func (h *Hook) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	shown, err := h.Event(ev)
	if err != nil {
		return grapnel.Outcome{}, err
	}
	out, err := h.Hook.Handle(ctx, shown)
	if shown == ev {
		return out, err
	}
	wrong := h.Restore(ctx, ev, shown, &out)
	return out, errors.Join(err, wrong)
}

// Unwrap returns the wrapped hook.
func (h *Hook) Unwrap() grapnel.Hook { return h.Hook }

// Shown returns the event as the hook may see it: ev itself if nothing is redacted. Code that
// stores an event for a later run of the hook must store the returned event.
func Shown(h grapnel.Hook, ev *grapnel.Event) (*grapnel.Event, error) {
	if r, ok := h.(*Hook); ok {
		return r.Event(ev)
	}
	return ev, nil
}

// Event returns a redacted copy of the event, or ev itself if it has no secrets.
func (r *Redactor) Event(ev *grapnel.Event) (shown *grapnel.Event, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("the hook did not get the event, because Grapnel cannot redact it: %w", err)
		}
	}()
	s := r.eventRedactor(ev)
	whole := *ev
	if s.holds {
		whole.Native = nil // short secrets in it cannot be found
	}
	data, _ := rawjson.Marshal(wire.Event{Event: &whole, More: wire.More{Verdict: ev.Verdict()}})
	if data == nil {
		return nil, errors.New("the event is not valid JSON")
	}
	if len(s.values) > maxSought/(len(data)+1) {
		return nil, fmt.Errorf("too many secrets to search for: %d in %d bytes", len(s.values), len(data))
	}
	data, err = s.walk(data, freeForm, func(path []string, raw json.RawMessage) (json.RawMessage, bool, error) {
		if input, ok := inputPath(path); ok && r.place(input) {
			return s.whole(path, raw), true, nil
		}
		return s.leaf(path, raw, freeForm(path))
	})
	if err != nil || len(s.spots)+len(s.names) == 0 && !s.holds {
		return ev, err
	}
	var redacted wire.Event
	if err := json.Unmarshal(data, &redacted); err != nil {
		return nil, err
	}
	shown = redacted.Event
	shown.Kind, shown.Terms = ev.Kind, ev.Terms // the engine uses them
	if redacted.More.Verdict != nil {
		shown = shown.WithVerdict(redacted.More.Verdict)
	}
	if ev.Tool != nil {
		rederive(shown.Tool, ev.Tool)
	}
	for i := range ev.Calls {
		rederive(&shown.Calls[i], &ev.Calls[i])
	}
	return shown, nil
}

// rederive computes the facts of a tool call from its redacted input.
func rederive(shown, was *grapnel.Tool) {
	if shown.Facts = was.Facts; len(was.Facts) > 0 {
		shown.Derive()
	}
}

// inputPath returns the path relative to the input of a call, for a path in an event.
func inputPath(path []string) ([]string, bool) {
	for _, to := range [][]string{{"tool", "input"}, {"calls", "*", "input"}, {"verdict", "changes", "tool.input"}} {
		if len(path) > len(to) && fitsPath(to, path[:len(to)]) {
			return path[len(to):], true
		}
	}
	return nil, false
}

// fitsPath reports whether path matches a pattern in which * matches any name.
func fitsPath(pattern, path []string) bool {
	return slices.EqualFunc(pattern, path, func(p, name string) bool { return p == "*" || foldName(p) == foldName(name) })
}

// Meets reports whether two path patterns match a common path.
func Meets(a, b []string) bool {
	return slices.EqualFunc(a, b, func(x, y string) bool { return x == "*" || y == "*" || foldName(x) == foldName(y) })
}

func (r *Redactor) place(path []string) bool {
	return slices.ContainsFunc(r.places, func(p []string) bool { return fitsPath(p, path) })
}

// A spot is a place where something was redacted.
type spot struct {
	path  string
	was   json.RawMessage // the complete original value
	now   json.RawMessage
	parts []string // for a text: the originals of each Redacted in it; nil = the whole value was redacted
}

// A eventRedactoractor redacts one event.
type eventRedactor struct {
	*Redactor
	values []string // the secret texts
	holds  bool     // the event or its payload contains one of the redacted places
	spots  []spot
	names  map[string]string // original names of members with a redacted name: by path, with the shown name
}

// maxSought limits the product of the number of secrets and the number of bytes to search. The
// author of the input must not control the search time.
const maxSought = 1 << 30

// freeForm reports whether member names at this place of an event are free text and can contain
// secrets.
func freeForm(path []string) bool {
	for _, to := range [...][]string{
		{"native"},
		{"tool", "input"},
		{"tool", "output"},
		{"tool", "next"},
		{"calls", "*", "input"},
		{"calls", "*", "output"},
		{"calls", "*", "next"},
		{"model", "*"},
		{"message", "raw"},
		{"elicitation", "*"},
		{"verdict", "changes", "*"},
	} {
		if len(path) > len(to) && fitsPath(to, path[:len(to)]) {
			return true
		}
	}
	return false
}

// walk is walkJSON that also redacts member names where free returns true.
func (s *eventRedactor) walk(raw json.RawMessage, free func([]string) bool, visit visitor) (json.RawMessage, error) {
	return walkNamed(raw, visit, func(path []string) (shown, known string, err error) {
		last := len(path) - 1
		known = path[last]
		shown = known
		if !free(path) {
			return shown, known, nil
		}
		var parts []string
		if shown, parts = s.text(known); parts == nil {
			return shown, known, nil
		}
		key := pathKey(append(slices.Clone(path[:last]), shown))
		if was, exists := s.names[key]; exists && was != known {
			return "", "", errors.New("two members would get the same name")
		}
		if s.names == nil {
			s.names = map[string]string{}
		}
		s.names[key] = known
		return shown, known, nil
	})
}

// eventRedactor returns a redactor with the secrets in the inputs of an event's calls.
func (r *Redactor) eventRedactor(ev *grapnel.Event) *eventRedactor {
	s := &eventRedactor{Redactor: r}
	calls := ev.Calls
	if ev.Tool != nil {
		calls = append(slices.Clone(calls), *ev.Tool)
	}
	for i := range calls {
		if len(r.places) > 0 && len(calls[i].Input) > 0 {
			_, _ = walkJSON(calls[i].Input, func(path []string, raw json.RawMessage) (json.RawMessage, bool, error) { // Event reports invalid JSON
				if r.place(path) {
					s.holds = true
					s.remember(raw)
					return raw, true, nil
				}
				return raw, false, nil
			})
		}
	}
	if len(r.places) > 0 && len(ev.Native) > 0 {
		s.payload(ev.Native, nil)
	}
	return s
}

// payload searches the agent's original payload for the redacted places, because hooks may have
// removed or replaced them in the input.
func (s *eventRedactor) payload(raw json.RawMessage, below []string) {
	_, _ = walkJSON(raw, func(path []string, raw json.RawMessage) (json.RawMessage, bool, error) { // Event reports invalid JSON
		path = slices.Concat(below, path)
		for _, place := range s.places {
			at := len(path) - len(place)
			if at < 0 || !fitsPath(place, path[at:]) {
				continue
			}
			s.holds = true
			if at > 0 && inputName(path[at-1]) {
				s.remember(raw)
				return raw, true, nil
			}
		}
		if len(below) == 0 && len(path) > 0 && inputName(path[len(path)-1]) { // JSON in a text, as in Cursor
			if text, ok := rawjson.Unquote(raw); ok && json.Valid([]byte(text)) {
				s.payload(json.RawMessage(text), path)
			}
		}
		return raw, false, nil
	})
}

// inputName reports whether a name looks like an agent's name for a tool's input.
func inputName(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "input") || strings.Contains(name, "arg") || strings.Contains(name, "param")
}

// remember stores the texts in a secret, both plain and in the form that they have inside a JSON
// string.
func (s *eventRedactor) remember(raw json.RawMessage) {
	add := func(text string) {
		if len(strings.TrimSpace(text)) < leastSecret || len(s.values) < 64 && slices.Contains(s.values, text) {
			return
		}
		s.values = append(s.values, text)
		if quoted := string(rawjson.AppendQuoted(nil, text)); len(quoted) > len(text)+2 {
			s.values = append(s.values, quoted[1:len(quoted)-1])
		}
	}
	_, _ = walkJSON(raw, func(_ []string, raw json.RawMessage) (json.RawMessage, bool, error) {
		text, ok := rawjson.Unquote(raw)
		switch {
		case ok:
			add(text)
		case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
			add(string(raw))
		}
		return raw, false, nil
	})
}

// whole redacts a whole value.
func (s *eventRedactor) whole(path []string, raw json.RawMessage) json.RawMessage {
	now := json.RawMessage(rawjson.AppendQuoted(nil, Redacted))
	s.spots = append(s.spots, spot{path: pathKey(path), was: slices.Clone(raw), now: now})
	return now
}

// leaf redacts secrets in a text. If free is true, it also redacts a number that is a secret.
func (s *eventRedactor) leaf(path []string, raw json.RawMessage, free bool) (json.RawMessage, bool, error) {
	text, ok := rawjson.Unquote(raw)
	if !ok {
		if free && len(raw) >= leastSecret && raw[0] != '{' && raw[0] != '[' && slices.Contains(s.values, string(raw)) {
			return s.whole(path, raw), true, nil
		}
		return raw, false, nil
	}
	now, parts := s.text(text)
	if parts == nil {
		return raw, false, nil
	}
	value := json.RawMessage(rawjson.AppendQuoted(nil, now))
	s.spots = append(s.spots, spot{path: pathKey(path), was: slices.Clone(raw), now: value, parts: parts})
	return value, true, nil
}

// text redacts secrets in a text, and returns the original of each part that is now Redacted.
func (s *eventRedactor) text(text string) (now string, parts []string) {
	type span struct{ begin, end int }
	var spans []span
	for _, value := range s.values {
		for from := 0; ; {
			at := strings.Index(text[from:], value)
			if at < 0 {
				break
			}
			from += at + len(value)
			spans = append(spans, span{from - len(value), from})
		}
	}
	for _, p := range s.patterns {
		if p.MayMatch(text) {
			for _, at := range p.Compile().FindAllStringIndex(text, -1) {
				spans = append(spans, span{at[0], at[1]})
			}
		}
	}
	if len(spans) == 0 {
		return text, nil
	}
	for from := 0; ; { // text that already contains Redacted stays as it is
		at := strings.Index(text[from:], Redacted)
		if at < 0 {
			break
		}
		from += at + len(Redacted)
		spans = append(spans, span{from - len(Redacted), from})
	}
	slices.SortStableFunc(spans, func(a, b span) int { return a.begin - b.begin })
	var b strings.Builder
	done := 0
	for i := 0; i < len(spans); {
		begin, end := spans[i].begin, spans[i].end
		for i++; i < len(spans) && spans[i].begin < end; i++ {
			end = max(end, spans[i].end)
		}
		b.WriteString(text[done:begin] + Redacted)
		parts = append(parts, text[begin:end])
		done = end
	}
	b.WriteString(text[done:])
	return b.String(), parts
}

// Restore restores the originals in the changes that a hook made to a redacted event. It drops a
// change of redacted data and returns an error.
func (r *Redactor) Restore(ctx context.Context, ev, shown *grapnel.Event, out *grapnel.Outcome) error {
	var touched []grapnel.Field
	for field := range out.Set {
		touched = append(touched, storedIn(field))
	}
	for field := range out.Patch {
		touched = append(touched, storedIn(field))
	}
	slices.Sort(touched)
	var errs []error
	for _, field := range slices.Compact(touched) {
		was, _ := ev.Get(field)
		s := r.eventRedactor(ev)
		if _, err := s.field(field, was); err != nil {
			out.Set, out.Patch = nil, nil
			return err
		}
		if len(s.spots)+len(s.names) == 0 {
			continue
		}
		var mine grapnel.Outcome
		mine.Set, out.Set = split(out.Set, field)
		mine.Patch, out.Patch = split(out.Patch, field)
		made, err := changed(ctx, shown, mine)
		if err != nil {
			errs = append(errs, err)
		}
		now, ok := made.Get(field)
		if !ok {
			continue
		}
		before, _ := shown.Get(field)
		if bytes.Equal(now, before) {
			continue
		}
		back, kept, err := s.back(field, now)
		if err != nil {
			errs = append(errs, fmt.Errorf("%w: a change of redacted text in %s: %w", grapnel.ErrIllegal, field, err))
		}
		if kept && !bytes.Equal(back, was) {
			if out.Set == nil {
				out.Set = map[grapnel.Field]json.RawMessage{}
			}
			out.Set[field] = back
		}
	}
	return errors.Join(errs...)
}

// storedIn returns the field that a change of f modifies.
func storedIn(f grapnel.Field) grapnel.Field {
	if slices.Contains(policyfile.InputFields(), f) {
		return grapnel.FieldInput
	}
	return f
}

// split separates the changes of a field, including views of it, from the others.
func split(all map[grapnel.Field]json.RawMessage, field grapnel.Field) (mine, others map[grapnel.Field]json.RawMessage) {
	mine, others = map[grapnel.Field]json.RawMessage{}, map[grapnel.Field]json.RawMessage{}
	for f, value := range all {
		if storedIn(f) == field {
			mine[f] = value
		} else {
			others[f] = value
		}
	}
	return mine, others
}

// changed returns the event with the changes of a hook. It uses an engine, so that the changes are
// applied as in a real run.
func changed(ctx context.Context, ev *grapnel.Event, out grapnel.Outcome) (*grapnel.Event, error) {
	bare := ev.WithVerdict(nil)
	if ev.Terms != nil {
		bare.Terms = &grapnel.Terms{Contract: ev.Terms.Contract}
	}
	var wrong string
	engine, err := grapnel.New([]grapnel.Spec{{
		Name: "changes", Phase: grapnel.PhaseRewrite, OnError: grapnel.OnErrorOpen,
		Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return out, nil }),
	}}, &grapnel.Options{Observers: []grapnel.Observer{grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) { wrong = rec.Hooks[0].Error })}})
	if err != nil {
		return ev, err
	}
	v := engine.Fire(ctx, bare)
	if wrong != "" {
		err = errors.New(wrong)
	}
	return v.Event, err
}

// field redacts one field to record its spots.
func (s *eventRedactor) field(field grapnel.Field, raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return raw, nil
	}
	free := func([]string) bool { return true }
	return s.walk(raw, free, func(path []string, raw json.RawMessage) (json.RawMessage, bool, error) {
		if field == grapnel.FieldInput && s.place(path) {
			return s.whole(path, raw), true, nil
		}
		return s.leaf(path, raw, true)
	})
}

// back restores the originals in a field. If a redacted place was removed or duplicated, the intent
// is unclear, and the whole change is dropped.
func (s *eventRedactor) back(field grapnel.Field, raw json.RawMessage) (was json.RawMessage, kept bool, err error) {
	left := map[string][]int{} // indexes of spots, by path
	for i := range s.spots {
		left[s.spots[i].path] = append(left[s.spots[i].path], i)
	}
	open, names := len(s.spots), len(s.names)
	gone := errors.New("redacted text was changed or moved")
	was, wrong := walkNamed(raw, func(path []string, raw json.RawMessage) (json.RawMessage, bool, error) {
		key := pathKey(path)
		if len(left[key]) == 0 {
			if field == grapnel.FieldInput && s.place(path) {
				return nil, false, gone
			}
			return raw, false, nil
		}
		sp := s.spots[left[key][0]]
		left[key] = left[key][1:]
		open--
		text, isText := rawjson.Unquote(raw)
		shown, _ := rawjson.Unquote(sp.now)
		switch {
		case isText && text == shown:
			return sp.was, true, nil
		case isText && sp.parts != nil && strings.Count(text, Redacted) == len(sp.parts):
			between := strings.Split(text, Redacted)
			text = between[0]
			for i, part := range sp.parts {
				text += part + between[i+1]
			}
			return rawjson.AppendQuoted(nil, text), true, nil
		}
		err = fmt.Errorf("%s", "/"+strings.Join(path, "/"))
		return sp.was, true, nil
	}, func(path []string) (shown, known string, err error) {
		name, renamed := s.names[pathKey(path)]
		if !renamed {
			return path[len(path)-1], path[len(path)-1], nil
		}
		names--
		return name, name, nil
	})
	if wrong == nil && (open > 0 || names != 0) {
		wrong = gone
	}
	if wrong != nil {
		return nil, false, wrong
	}
	return was, true, err
}

func pathKey(path []string) string {
	folded := make([]string, len(path))
	for i := range path {
		folded[i] = foldName(path[i])
	}
	return strings.Join(folded, "\x00")
}
