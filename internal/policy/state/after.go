package state

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/shell"
)

// Limits of an `after:`, and of the stored marks of one hook and session.
const (
	MaxSteps = 8
	maxMarks = 128
)

// After is the Matcher of a hook with an `after:` key.
type After struct {
	*match.Matcher
	steps  []step
	after  []policyfile.After
	source string
	name   string
	now    func() time.Time

	allow     bool // the hook's action is `allow`
	announced bool // an `until:` for a result needs a call that was announced

	counter Counter // see Together
}

// A Sequence is the Matcher of a hook with an `after:` key, compiled or not yet compiled.
type Sequence interface {
	grapnel.Matcher
	Made() (*After, error)                              // compiles it if necessary
	Kinds() []grapnel.Kind                              // kinds of the events that can begin or cancel a step
	MayMark(ev *grapnel.Event, v *grapnel.Verdict) bool // reports false only for events that can do neither
	CountIn(Counter)                                    // sets where the marks are stored
}

// Made implements Sequence.
func (f *After) Made() (*After, error) { return f, nil }

// MayMark implements Sequence.
func (f *After) MayMark(*grapnel.Event, *grapnel.Verdict) bool { return true }

// CountIn implements Sequence.
func (f *After) CountIn(c Counter) { f.counter = c }

// step is a compiled policyfile.After.
type step struct {
	policyfile.After
	event happening
	until *happening // nil = nothing cancels the step
}

// happening is a compiled policyfile.Happening.
type happening struct {
	on []grapnel.Kind
	m  *match.Matcher
}

// NewAfter compiles the `after:` of a hook whose match is m.
func NewAfter(h *policyfile.Hook, source grapnel.Source, m *match.Matcher, as match.Reading) (*After, error) {
	f := &After{Matcher: m, after: h.After, source: source.Name, name: h.Name, now: m.Facts.Now(), allow: as.Allow}
	for i := range h.After {
		s := step{After: h.After[i]}
		s.Times = max(1, s.Times)
		var err error
		if s.event, err = compileHappening(m.Facts, &s.Happening, as); err != nil {
			return nil, err
		}
		if s.Until != nil {
			// `until` is compiled with the zero Reading, which is as loose as the match that begins
			// the step. An attacker who can run one command can also run the other, and one line
			// can run both.
			until, err := compileHappening(m.Facts, s.Until, match.Reading{})
			if err != nil {
				return nil, err
			}
			s.until = &until
			f.announced = f.announced || m.Facts.Announced && until.results()
		}
		f.steps = append(f.steps, s)
	}
	return f, nil
}

func compileHappening(cache *match.FactCache, h *policyfile.Happening, as match.Reading) (happening, error) {
	m, err := cache.Matcher(h.Match, h.Except, h.When, as)
	return happening{h.Event, m}, err
}

// fits reports whether an event is one of the selected events. An agent may report a failed call as
// tool.after; such an event also matches tool.failed.
func (h *happening) fits(ev *grapnel.Event, v *grapnel.Verdict) (bool, error) {
	if !slices.Contains(h.on, ev.Kind) {
		if ev.Kind != grapnel.ToolAfter || !slices.Contains(h.on, grapnel.ToolFailed) || !h.m.Facts.Of(ev).Failed() {
			return false, nil
		}
	}
	return h.m.Match(ev, v)
}

// results reports whether results of calls are among the selected events.
func (h *happening) results() bool {
	return slices.Contains(h.on, grapnel.ToolAfter) || slices.Contains(h.on, grapnel.ToolFailed)
}

// Kinds returns the kinds of the events that can begin or cancel a step, or announce a call whose result
// can cancel one.
func (f *After) Kinds() []grapnel.Kind {
	var kinds []grapnel.Kind
	add := func(on []grapnel.Kind) {
		for _, k := range on {
			if !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
			if k == grapnel.ToolFailed && !slices.Contains(kinds, grapnel.ToolAfter) {
				kinds = append(kinds, grapnel.ToolAfter)
			}
		}
	}
	for i := range f.steps {
		add(f.steps[i].Event)
		if f.steps[i].Until != nil {
			add(f.steps[i].Until.Event)
			if f.announced {
				add([]grapnel.Kind{grapnel.ToolBefore})
			}
		}
	}
	return kinds
}

// Begins returns the programs of the commands that can begin or cancel a step, as in
// [shell.Begins], or "" if other events can.
func (f *After) Begins() string {
	var patterns []*shell.Pattern
	add := func(h *happening) bool {
		needs, commands := match.NeedsOf(h.m)
		patterns = append(patterns, commands...)
		return needs.Program
	}
	for i := range f.steps {
		if s := &f.steps[i]; !add(&s.event) || s.until != nil && !add(s.until) {
			return ""
		}
	}
	return shell.Begins([][]*shell.Pattern{patterns})
}

// markerOf returns the Spec of the second hook of a sequence, which records the events. If
// recording fails, the error is treated like an error of the hook itself.
func markerOf(s *grapnel.Spec, f Sequence) grapnel.Spec {
	m := &Marker{f}
	onError := s.OnError
	if onError == grapnel.OnErrorDefault && (s.Phase == grapnel.PhaseRule || s.Phase == grapnel.PhaseRewrite) {
		onError = grapnel.OnErrorClosed
	}
	return grapnel.Spec{
		Name: s.Name, Source: notice.OwnSource(s.Source), Line: s.Line, On: f.Kinds(), Match: m, Hook: m,
		Phase: grapnel.PhaseObserve, OnError: onError, Observe: s.Observe,
	}
}

// ReadsID marks that the Matcher reads the event's ID: an event must not be treated as its own
// predecessor.
func (f *After) ReadsID() {}

// Match reports whether the event matches the hook and all steps have happened before.
func (f *After) Match(ev *grapnel.Event, v *grapnel.Verdict) (bool, error) {
	if ok, err := f.Matcher.Match(ev, v); !ok || err != nil {
		return false, err
	}
	marks, err := f.marks(ev)
	if err != nil {
		return false, err
	}
	return f.missing(marks, ev) < 0, nil
}

// marks reads the stored marks. If they are invalid, it returns an error once and resets them.
func (f *After) marks(ev *grapnel.Event) ([]mark, error) {
	key := f.key(ev)
	kept, err := counted(f.counter, f.owner(ev), key)
	var marks []mark
	if err == nil {
		if marks, err = readMarks(kept, len(f.steps)); err == nil {
			return f.age(marks), nil
		}
		_ = f.counter.Count(f.owner(ev), key, func([]byte) ([]byte, time.Duration) { return []byte{}, sameCall })
	}
	return nil, fmt.Errorf("the earlier events are unknown: %w", err)
}

// key returns the storage key for an event. The key contains the `after:` definition, because marks
// of other steps have no meaning for these steps.
func (f *After) key(ev *grapnel.Event) string {
	encoded, _ := json.Marshal(f.after) // only strings and numbers, so Marshal cannot fail
	parts := []string{"after", f.source, f.name, files.Digest(encoded)}
	for _, l := range limitBy {
		if slices.Contains(f.by(), l.name) {
			parts = append(parts, l.name, l.of(ev))
		}
	}
	return strings.Join(parts, "\x00")
}

// by returns the fields that separate the marks.
func (f *After) by() []string {
	if by := f.steps[0].By; len(by) > 0 {
		return by
	}
	return []string{bySession, "agent"}
}

func (f *After) owner(ev *grapnel.Event) string {
	if slices.Contains(f.by(), bySession) {
		return sessionOwner(ev)
	}
	return strings.Join([]string{"after", f.source, f.name}, "\x00")
}

// missing returns the index of the first step that has not happened yet, or -1.
func (f *After) missing(marks []mark, ev *grapnel.Event) int {
	at := 0
	self := f.markOf(ev)
	for i := range f.steps {
		n := 0
		for n < f.steps[i].Times {
			if at == len(marks) {
				return i
			}
			if f.counts(&marks[at], i, &self, ev) {
				n++
			}
			at++
		}
	}
	return -1
}

// counts reports whether a mark satisfies step i for the current event.
func (f *After) counts(m *mark, i int, self *mark, ev *grapnel.Event) bool {
	s := &f.steps[i]
	if m.steps&(1<<i) == 0 || m.about(self) || s.Within > 0 && self.at-m.at >= int64(s.Within) {
		return false
	}
	facts, shared := f.Matcher.Facts.Of(ev), func(w string) bool { return slices.Contains(m.shared, w) }
	switch s.Same {
	case "":
		return true
	case "below":
		again := s.Blocked && shared(shortDigest("below", linesOf(ev))) // the same line is no other way
		return len(m.shared) > 0 && !again && f.anyAbove(facts, shared)
	case "run":
		return above(f.runFiles(facts), func(name string) bool { return shared(shortDigest("run", name)) })
	}
	return slices.ContainsFunc(sharedWords(facts, s.Same), shared)
}

// markOf returns the mark of an event, without any steps set.
func (f *After) markOf(ev *grapnel.Event) mark {
	return mark{at: f.now().UnixNano(), kind: moment(ev.Kind), call: callOf(ev)}
}

// moment maps kinds that describe the same moment of an action to one kind.
func moment(kind grapnel.Kind) grapnel.Kind {
	switch kind {
	case grapnel.PermissionBefore:
		return grapnel.ToolBefore
	case grapnel.ToolFailed:
		return grapnel.ToolAfter
	default:
		return kind
	}
}

// A mark records an event that satisfied a step. It stores event content only as digests.
type mark struct {
	at     int64 // nanoseconds since 1970
	kind   grapnel.Kind
	call   call
	steps  uint64   // bit set of the hook's steps
	shared []string // digests of properties that a later event may share
}

// about reports whether both marks describe the same moment of the same action.
func (m *mark) about(now *mark) bool {
	return m.kind == now.kind && now.at-m.at < int64(sameCall) && now.call.is(m.call)
}

// writeMarks encodes each mark as one line with tab-separated fields.
func writeMarks(marks []mark) []byte {
	b := []byte{}
	for i := range marks {
		m := &marks[i]
		b = strconv.AppendInt(b, m.at, 10)
		for _, word := range []string{string(m.kind), m.call.ID, m.call.What, strconv.FormatUint(m.steps, 16), strings.Join(m.shared, " ")} {
			b = append(append(b, '\t'), word...)
		}
		b = append(b, '\n')
	}
	return b
}

// readMarks decodes the marks of a hook with the given number of steps.
func readMarks(kept []byte, steps int) ([]mark, error) {
	var marks []mark
	for line := range strings.Lines(string(kept)) {
		words := strings.Split(line, "\t")
		if len(words) != 6 || !strings.HasSuffix(line, "\n") || len(marks) == maxMarks {
			return nil, fmt.Errorf("line %d is invalid", len(marks)+1)
		}
		m := mark{kind: grapnel.Kind(words[1]), shared: strings.Fields(words[5])}
		var err error
		m.call.ID, m.call.What = words[2], words[3]
		if m.at, err = strconv.ParseInt(words[0], 10, 64); err == nil {
			m.steps, err = strconv.ParseUint(words[4], 16, 64)
		}
		bits := steps + 1 // one for announcements
		if err != nil || m.at < 0 || m.steps == 0 || m.steps>>bits != 0 || len(m.shared) > 4*maxShared+2 {
			return nil, fmt.Errorf("line %d has an invalid number", len(marks)+1)
		}
		marks = append(marks, m)
	}
	return marks, nil
}

// age drops marks that are too old for their steps. A mark in the future, after the clock was set
// back, gets the current time: it must neither count forever nor be lost.
func (f *After) age(marks []mark) []mark {
	now := f.now().UnixNano()
	left := marks[:0]
	for _, m := range marks {
		m.at = min(m.at, now)
		for i := range f.steps {
			if within := f.steps[i].Within; within > 0 && now-m.at >= int64(within) {
				m.steps &^= 1 << i
			}
		}
		if m.steps != 0 {
			left = append(left, m)
		}
	}
	return left
}

// A Marker records events for a Sequence.
type Marker struct{ of Sequence }

// Handle returns an empty outcome. It is for callers that do not support Marker.
func (*Marker) Handle(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
	return grapnel.Outcome{}, nil
}

// ReadsID marks that the hook reads the event's ID: an action that is reported twice is recorded
// once.
func (*Marker) ReadsID() {}

// Match reports whether an event begins or cancels a step.
func (k *Marker) Match(ev *grapnel.Event, v *grapnel.Verdict) (bool, error) {
	if !k.of.MayMark(ev, v) {
		return false, nil
	}
	f, err := k.of.Made()
	if err != nil {
		return false, err
	}
	begins, ends, err := f.bears(ev, v)
	return begins|ends != 0 || err == nil && f.announces(ev), err
}

// announces reports whether an event announces a call whose result may cancel a step that has begun.
func (f *After) announces(ev *grapnel.Event) bool {
	if !f.announced || ev.Kind != grapnel.ToolBefore {
		return false
	}
	kept, err := counted(f.counter, f.owner(ev), f.key(ev))
	return err != nil || len(kept) > 0
}

// Explain returns the purpose of the hook.
func (k *Marker) Explain(*grapnel.Event, *grapnel.Verdict) string {
	f, err := k.of.Made()
	if err != nil {
		return ""
	}
	return fmt.Sprintf("stored for %q, which runs after it", f.name)
}

// happened returns the event that really took place. An action that was announced takes place as
// the hooks changed it. An action that is over is returned as it came, even if a hook changed its
// result.
func happened(came *grapnel.Event, v *grapnel.Verdict) *grapnel.Event {
	if v != nil && v.Event != nil && Stops(came) {
		return v.Event
	}
	return came
}

// Stops reports whether the announced action can still be stopped.
func Stops(ev *grapnel.Event) bool {
	c := ev.Contract()
	return c.Blocks == grapnel.BlockingAction || c.Blocks == grapnel.BlockingStop
}

// bears returns the steps that an event begins and the steps that it cancels, as bit sets. If a
// hook changed a result, the changed event is read too. For a blocking hook, the change can add
// steps that begin, but it can neither remove such steps nor cancel steps. For an `allow`, the
// change can only remove steps that begin and add steps that are canceled.
func (f *After) bears(came *grapnel.Event, v *grapnel.Verdict) (begins, ends uint64, err error) {
	ev := happened(came, v)
	begins, ends, err = f.reads(ev, v)
	if err != nil || v == nil || v.Event == nil || v.Event == ev {
		return begins, ends, err
	}
	alsoBegins, alsoEnds, err := f.reads(v.Event, v)
	if f.allow {
		return begins & alsoBegins, ends | alsoEnds, err
	}
	return begins | alsoBegins, ends & alsoEnds, err
}

// reads does the work of bears for one version of an event.
func (f *After) reads(ev *grapnel.Event, v *grapnel.Verdict) (begins, ends uint64, err error) {
	for i := range f.steps {
		ok, wrong := f.steps[i].event.fits(ev, v)
		if ok {
			begins |= 1 << i
		}
		if until := f.steps[i].until; until != nil && wrong == nil {
			if ok, wrong = until.fits(ev, v); ok {
				ends |= 1 << i
			}
		}
		if wrong != nil && err == nil {
			err = wrong
		}
	}
	return begins, ends, err
}

// Mark records the steps that the event begins and removes steps that it cancels or that are too
// old. It does not record a blocked action. If the verdict was ask, Mark treats the action as done,
// because agents do not report the user's answer.
func (k *Marker) Mark(_ context.Context, came *grapnel.Event, v *grapnel.Verdict) error { //nolint:gocognit // the steps of a sequence share the mark that is being made
	f, err := k.of.Made()
	if err != nil {
		return err
	}
	begins, ends, err := f.bears(came, v)
	if err != nil {
		return err
	}
	ev := happened(came, v)
	stopped := blocked(ev, v)
	begins &= f.counting(stopped)
	if !stopped && f.announces(ev) {
		begins |= f.announcement()
	}
	now := f.markOf(ev)
	now.steps = begins
	for i := range f.steps {
		if begins&(1<<i) != 0 && f.steps[i].Same != "" {
			for _, word := range sharedWords(f.Facts.Of(ev), f.steps[i].Same) {
				if !slices.Contains(now.shared, word) {
					now.shared = append(now.shared, word)
				}
			}
		}
	}
	if begins&f.announcement() != 0 {
		now.shared = append(now.shared, callDigest(came), callDigest(ev))
	}
	key := f.key(ev)
	var broken error
	err = f.counter.Count(f.owner(ev), key, func(kept []byte) ([]byte, time.Duration) {
		var marks []mark
		if marks, broken = readMarks(kept, len(f.steps)); broken != nil {
			broken = fmt.Errorf("the earlier events are unknown: %w", broken)
		}
		before := len(marks)
		marks = f.age(marks)
		if ends != 0 && moment(ev.Kind) == grapnel.ToolAfter && f.announced {
			if i := f.announcing(marks, &now, callDigest(ev)); i < 0 {
				ends = 0
			} else if marks[i].steps &^= f.announcement(); marks[i].steps == 0 { // one result for each call
				marks = without(marks, i)
			}
		}
		same := find(marks, &now)
		if stopped && begins == 0 {
			if same < 0 && before == len(marks) && broken == nil {
				return nil, 0
			}
			if same >= 0 { // another rule's failure made the verdict stricter, or the agent reported the action again
				marks = without(marks, same)
			}
			return writeMarks(marks), f.keep()
		}
		if ends != 0 && !stopped {
			marks = f.end(marks, ends)
			same = find(marks, &now)
		}
		switch {
		case begins == 0:
			if before == 0 && broken == nil {
				return nil, 0 // no step to cancel
			}
		case same >= 0:
			marks[same].steps |= begins
			marks[same].shared = now.shared
		default:
			marks = f.bound(append(marks, now))
		}
		return writeMarks(marks), f.keep()
	})
	if err != nil {
		return err
	}
	return broken
}

// announcement is the bit of a mark for a call that was announced.
func (f *After) announcement() uint64 {
	if !f.announced {
		return 0
	}
	return 1 << len(f.steps)
}

// announcing returns the index of the mark that announced the call of a result, or -1.
func (f *After) announcing(marks []mark, now *mark, call string) int {
	return slices.IndexFunc(marks, func(m mark) bool {
		sameID := m.call.ID == now.call.ID || m.call.What == "" || now.call.What == "" // without What, the ID is one of the event
		return m.steps&f.announcement() != 0 && sameID && slices.Contains(m.shared, call)
	})
}

// callDigest identifies a call by its content, since some agents have no IDs, or other names and other
// spellings of the input in a result than in the announcement.
func callDigest(ev *grapnel.Event) string {
	t := match.OrZero(ev.Tool)
	if len(t.Commands) > 0 {
		return shortDigest(append([]string{"call", ev.Session.ID}, t.Commands...)...)
	}
	input, err := rawjson.Sorted(t.Input)
	if err != nil {
		input = string(t.Input)
	}
	return shortDigest("call", ev.Session.ID, t.CanonicalName(), input)
}

// counting returns the steps, as a bit set, that count an event that was blocked, or one that was
// not.
func (f *After) counting(blocked bool) (steps uint64) {
	for i := range f.steps {
		if f.steps[i].Blocked == blocked {
			steps |= 1 << i
		}
	}
	return steps
}

// blocked reports whether the verdict stopped the action that the event announces.
func blocked(ev *grapnel.Event, v *grapnel.Verdict) bool {
	return v != nil && v.Decision == grapnel.Block && Stops(ev)
}

// end removes the given steps from all marks.
func (f *After) end(marks []mark, steps uint64) []mark {
	left := marks[:0]
	for _, m := range marks {
		if m.steps &^= steps; m.steps != 0 {
			left = append(left, m)
		}
	}
	return left
}

// bound limits the number of marks. Of consecutive marks that differ only in their time, only the
// newest matter, as many as the steps require. Above maxMarks, the oldest mark of the most frequent
// step is dropped.
func (f *After) bound(marks []mark) []mark {
	last := len(marks) - 1
	alike := 0
	for i := last; i >= 0 && marks[i].steps == marks[last].steps && slices.Equal(marks[i].shared, marks[last].shared); i-- {
		alike++
	}
	most := 0
	for i := range f.steps {
		if marks[last].steps&(1<<i) != 0 {
			most += f.steps[i].Times
		}
	}
	if alike > most+1 { // one extra: the current event does not count for itself
		marks = without(marks, last-alike+1)
	}
	if len(marks) <= maxMarks {
		return marks
	}
	var counts [MaxSteps + 1]int
	most = 0
	for i := range marks {
		for s := range len(f.steps) + 1 { // and announcements
			if marks[i].steps&(1<<s) != 0 {
				if counts[s]++; counts[s] > counts[most] {
					most = s
				}
			}
		}
	}
	oldest := 0
	for marks[oldest].steps&(1<<most) == 0 {
		oldest++
	}
	return without(marks, oldest)
}

// find returns the index of the mark of the same event, or -1.
func find(marks []mark, now *mark) int {
	for i := range marks {
		if marks[i].about(now) {
			return i
		}
	}
	return -1
}

func without(marks []mark, i int) []mark {
	return append(marks[:i], marks[i+1:]...)
}

// keep returns how long the marks must be stored.
func (f *After) keep() time.Duration {
	keep := sameCall
	for i := range f.steps {
		if f.steps[i].Within == 0 {
			return MaxPer
		}
		keep = max(keep, time.Duration(f.steps[i].Within))
	}
	return keep
}

// Explain returns the matching parts of the hook, and the steps that happened before.
func (f *After) Explain(ev *grapnel.Event, v *grapnel.Verdict) string {
	text := f.Matcher.Explain(ev, v)
	if text != "" {
		text += ", "
	}
	return text + f.history(ev)
}

// history describes which steps happened, and when.
func (f *After) history(ev *grapnel.Event) string {
	marks, err := f.marks(ev)
	if err != nil {
		return err.Error()
	}
	self := f.markOf(ev)
	missing := f.missing(marks, ev)
	var words []string
	for i := range f.steps {
		s := &f.steps[i]
		what := s.describe()
		if i == missing {
			return strings.Join(append(words, "not after "+what), ", ")
		}
		for j := len(marks) - 1; j >= 0; j-- {
			if f.counts(&marks[j], i, &self, ev) {
				ago := time.Duration(self.at - marks[j].at).Truncate(time.Second)
				kind, about, _ := strings.Cut(what, ":")
				if len(s.Event) > 1 {
					kind = string(marks[j].kind)
				}
				word := fmt.Sprintf("after %s %s ago", kind, policyfile.FormatDuration(ago))
				if about != "" {
					word += ":" + about
				}
				words = append(words, word)
				break
			}
		}
	}
	return strings.Join(words, ", ")
}

// describe returns the requirements of a step, such as "tool.after: path **/.env".
func (s *step) describe() string {
	var kinds []string
	for _, k := range s.Event {
		kinds = append(kinds, string(k))
	}
	text := strings.Join(kinds, " or ")
	var about []string
	add := func(format string, args ...any) { about = append(about, fmt.Sprintf(format, args...)) }
	if s.Match != nil {
		about = match.Describe(s.Match)
	}
	if s.When != "" {
		add("when %s", match.Shorten(s.When))
	}
	if s.Blocked {
		add("blocked")
	}
	switch s.Same {
	case "":
	case "below":
		add("a path at or above")
	case "run":
		add("a file that is run")
	default:
		add("the same %s", s.Same)
	}
	if s.Times > 1 {
		add("%d times", s.Times)
	}
	if s.Within > 0 {
		add("within %s", policyfile.FormatDuration(time.Duration(s.Within)))
	}
	if len(about) > 0 {
		text += ": " + strings.Join(about, ", ")
	}
	return text
}

// NotYet returns why a hook does not match an event if only its `after:` steps are missing.
// Otherwise it returns "".
func NotYet(s *grapnel.Spec, ev *grapnel.Event) string {
	flow, ok := s.Match.(Sequence)
	if !ok || !slices.Contains(s.On, ev.Kind) {
		return ""
	}
	f, err := flow.Made()
	if err != nil {
		return ""
	}
	if ok, err := f.Matcher.Match(ev, nil); !ok || err != nil {
		return ""
	}
	if marks, err := f.marks(ev); err != nil || f.missing(marks, ev) < 0 {
		return ""
	}
	return f.history(ev)
}

// Checks returns one check for each `after:` step.
func (f *After) Checks(ev *grapnel.Event) []match.Check {
	kept, err := counted(f.counter, f.owner(ev), f.key(ev))
	if err != nil {
		return nil
	}
	marks, err := readMarks(kept, len(f.steps))
	if err != nil {
		return nil
	}
	marks = f.age(marks)
	missing := f.missing(marks, ev)
	var checks []match.Check
	for i := range f.steps {
		checks = append(checks, match.Check{
			Key: "after[" + strconv.Itoa(i) + "]", Want: []string{f.steps[i].describe()}, Got: f.happenings(marks, i, ev), OK: missing < 0 || i < missing,
		})
	}
	return checks
}

// happenings returns, for each mark of a step, how long ago the event was.
func (f *After) happenings(marks []mark, i int, ev *grapnel.Event) (got []string) {
	self := f.markOf(ev)
	for j := range marks {
		if f.counts(&marks[j], i, &self, ev) {
			ago := policyfile.FormatDuration(time.Duration(self.at - marks[j].at).Truncate(time.Second))
			got = append(got, strings.Join([]string{string(marks[j].kind), ago, "ago"}, " "))
		}
	}
	return got
}
