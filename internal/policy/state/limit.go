package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/counts"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// limitBy lists the values of `by:`, which select separate counters, in the order in which messages
// list them.
var limitBy = []struct {
	name string
	of   func(*grapnel.Event) string
}{
	{bySession, func(ev *grapnel.Event) string { return ev.Session.ID }},
	{"tool", func(ev *grapnel.Event) string { return match.OrZero(ev.Tool).CanonicalName() }},
	{"agent", func(ev *grapnel.Event) string { return ev.Agent.Name }},
	{"user", func(ev *grapnel.Event) string { return ev.Session.User }},
}

const bySession = "session"

// ByWords returns the values of `by:`.
func ByWords() (words []string) {
	for _, by := range limitBy {
		words = append(words, by.name)
	}
	return words
}

// The shortest and the longest period of a limit.
const (
	MinPer = time.Second
	MaxPer = 31 * 24 * time.Hour
)

// Limit is the hook of a compiled policyfile.Limit.
type Limit struct {
	policyfile.Limit
	name    string // name of its hook
	unit    string // prefix of its keys: what is counted, and for which hook
	sum     match.Expression
	Facts   *match.FactCache
	message string
	now     func() time.Time

	// Set by Together, for all Specs in force.
	counter Counter
	blocks  []grapnel.Spec // the other rules that can block
}

// NewLimit returns the hook of a `limit:`. It counts once it is part of [Together].
func NewLimit(h *policyfile.Hook, source grapnel.Source, cache *match.FactCache) *Limit {
	l := &Limit{Limit: *h.Limit, name: h.Name, Facts: cache, message: h.Message, now: cache.Now()}
	l.sum.Key, l.sum.Source = match.KeySum, l.Sum
	l.unit = strings.Join([]string{"limit", source.Name, h.Name, l.Sum}, "\x00")
	return l
}

// Together connects the Specs that are in force: it gives each limit the counter and the other
// blocking rules. It adds the hooks that record events for `after:`.
func Together(specs []grapnel.Spec, counter Counter) []grapnel.Spec {
	var limits []*Limit
	var blocks, marks []grapnel.Spec
	for i := range specs {
		s := &specs[i]
		if f, ok := s.Match.(Sequence); ok {
			marks = append(marks, markerOf(s, f))
		}
		if l, ok := s.Hook.(*Limit); ok {
			limits = append(limits, l)
		}
	}
	for i := range specs {
		if limits != nil && !specs[i].Observe && blocksAlways(&specs[i]) {
			blocks = append(blocks, specs[i])
		}
	}
	if len(limits)+len(marks) > 0 && counter == nil {
		counter = &counts.Memory{}
	}
	for _, l := range limits {
		l.counter, l.blocks = counter, blocks
	}
	for i := range marks {
		marks[i].Hook.(*Marker).of.CountIn(counter)
	}
	return append(specs, marks...)
}

// AcrossSessions reports whether any hook counts events of several sessions together. For such
// hooks, the order of events between sessions matters.
func AcrossSessions(specs []grapnel.Spec) bool {
	return slices.ContainsFunc(specs, func(s grapnel.Spec) bool {
		if l, ok := s.Hook.(*Limit); ok && !slices.Contains(l.By, bySession) {
			return true
		}
		if flow, ok := s.Match.(Sequence); ok {
			f, err := flow.Made()
			return err == nil && len(f.steps[0].By) > 0 && !slices.Contains(f.steps[0].By, bySession)
		}
		return false
	})
}

// blocksAlways reports whether a rule blocks every event that it matches.
func blocksAlways(s *grapnel.Spec) bool {
	hook, ok := s.Hook.(Decider)
	return ok && hook.Always() == grapnel.Block
}

// A Decider is a hook that decides the same about each event that it matches.
type Decider interface {
	Always() grapnel.Decision // none = it decides nothing
}

// ReadsID marks that the hook reads the event's ID: an action that is reported twice in one firing
// is counted once.
func (l *Limit) ReadsID() {}

// Handle counts an event, unless another rule blocks it or the limit is reached. It reads and
// writes no state for events that do not match.
func (l *Limit) Handle(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	for i := range l.blocks {
		s := &l.blocks[i]
		if !slices.Contains(s.On, ev.Kind) {
			continue
		}
		if s.Match == nil {
			return grapnel.Outcome{}, nil
		}
		if ok, err := s.Match.Match(ev, nil); ok && err == nil {
			return grapnel.Outcome{}, nil
		}
	}
	amount, most, err := l.amount(ev)
	if err != nil {
		return grapnel.Outcome{}, err
	}
	now := l.now()
	var broken error
	var used float64
	var wait time.Duration
	free := true
	err = l.counter.Count(l.owner(ev), l.key(ev), func(kept []byte) ([]byte, time.Duration) {
		var u usage
		if u, broken = readUsage(kept); broken != nil {
			broken = fmt.Errorf("limit: the counts are lost, counting restarts at 0: %w", broken)
		}
		changed := u.age(now, time.Duration(l.Per))
		used = u.total()
		wait, free = u.take(now, time.Duration(l.Per), most, amount, callOf(ev))
		if !free && !changed && broken == nil {
			return nil, 0
		}
		return u.bytes(), max(time.Duration(l.Per), sameCall)
	})
	if err = errors.Join(err, broken); err != nil {
		return grapnel.Outcome{}, err
	}
	if free {
		return grapnel.Outcome{}, nil
	}
	out := grapnel.Outcome{Decision: grapnel.Block, Reason: l.Reason, Message: l.message}
	if l.Then == "ask" {
		out.Decision = grapnel.Ask
	}
	if out.Reason == "" {
		out.Reason = l.explain(used, amount, now, wait)
	}
	return out, nil
}

// amount returns the amount of an event, and the maximum sum.
func (l *Limit) amount(ev *grapnel.Event) (amount, most float64, err error) {
	if l.Sum == "" {
		return 1, float64(l.Count), nil
	}
	value, err := l.sum.Run(l.Facts.Of(ev), nil)
	if err != nil {
		why, _, _ := strings.Cut(err.Error(), "\n") // the first line, without the position marker
		return 0, 0, fmt.Errorf("sum: %s is not a number for this event (%s)", l.Sum, why)
	}
	amount, ok := value.(float64)
	if !ok || math.IsNaN(amount) || math.IsInf(amount, 0) || amount < 0 { // a negative amount would raise the limit for later events
		return 0, 0, fmt.Errorf("sum: %s is %v for this event, want a number from 0 on", l.Sum, value)
	}
	return amount, l.Max, nil
}

// key returns the storage key of the counter for an event.
func (l *Limit) key(ev *grapnel.Event) string {
	parts := []string{l.unit}
	for _, by := range limitBy {
		if slices.Contains(l.By, by.name) {
			parts = append(parts, by.name, by.of(ev))
		}
	}
	return strings.Join(parts, "\x00")
}

func (l *Limit) owner(ev *grapnel.Event) string {
	if slices.Contains(l.By, bySession) {
		return sessionOwner(ev)
	}
	return l.unit
}

// explain returns the default reason for a reached limit.
func (l *Limit) explain(used, amount float64, now time.Time, wait time.Duration) string {
	text := fmt.Sprintf("The limit %q is reached: %v.", l.name, &l.Limit)
	if l.Sum != "" {
		text += fmt.Sprintf(" %s is used, and this needs %s.", policyfile.FormatNumber(used), policyfile.FormatNumber(amount))
		if wait == 0 {
			return text + " This alone exceeds the limit."
		}
	}
	wait = (wait + time.Second - 1).Truncate(time.Second)
	at := now.Add(wait)
	clock := at.Format("15:04:05")
	if wait > 12*time.Hour {
		clock = at.Format("Mon 2 Jan 15:04")
	}
	return fmt.Sprintf("%s Try again in %s, at %s.", text, policyfile.FormatDuration(wait), clock)
}

// callOf returns the identity of the action that an event is about, as far as the event has one. An
// action that is reported twice is counted once.
func callOf(ev *grapnel.Event) call {
	t := match.OrZero(ev.Tool)
	var c call
	switch {
	case t.ID != "":
		c.ID = shortDigest(ev.Session.ID, t.ID)
		if ev.ID != "" {
			c.Event = shortDigest(ev.ID)
		}
	case ev.ID != "":
		c.ID = shortDigest(ev.ID)
	}
	if t.ID != "" || ev.Kind == grapnel.PermissionBefore {
		c.What = shortDigest(ev.Session.ID, t.Name, string(t.Input))
	}
	c.asked = ev.Kind == grapnel.PermissionBefore
	c.prompt = t.ID == "" && c.asked
	return c
}

func shortDigest(parts ...string) string {
	return files.Digest([]byte(strings.Join(parts, "\x00")))[:16]
}

// A usage is the state stored under a key: the amounts within the period, oldest first, and the
// last calls.
type usage struct {
	Used  []used `json:"used,omitempty"`
	Calls []call `json:"calls,omitempty"` // the newest calls, which may be reported again
}

// used is an amount with its time.
type used struct {
	At     int64   `json:"at"` // nanoseconds since 1970; for several merged amounts, the time of the last
	Amount float64 `json:"amount"`
}

// call identifies one action. Permission prompts of Claude Code have no call ID, so What, a digest
// of tool and input, identifies the call.
type call struct {
	used
	ID     string `json:"id"`
	Event  string `json:"event,omitempty"` // ID of the event that reported the call; in that event, a hook may change What
	What   string `json:"what,omitempty"`
	asked  bool   // reported after the call's own event; a hook may have changed the input in between
	prompt bool   // a permission prompt without an ID
}

// is reports whether c and an earlier call are the same action. An equal ID is not sufficient: some
// agents number the calls of each turn from 0, and in other agents the model chooses the ID.
func (c call) is(before call) bool {
	switch {
	case c.Event != "" && c.Event == before.Event:
		return true
	case c.ID != "" && c.ID == before.ID:
		return c.asked || c.What == before.What || c.What == "" || before.What == ""
	default:
		return c.prompt && c.What == before.What
	}
}

// A usage is exact up to the number of entries in exact. Above that, entries in the same of the
// coarse slots of the period are merged and expire with the last of them. So the limit never
// permits too much.
const (
	exact  = 64
	coarse = 60
)

// A call that is reported again within sameCall, among the last keepCalls calls, is the same call.
// The time is short because some agents number the calls of each turn from 0.
const (
	sameCall  = 2 * time.Minute
	keepCalls = 64
)

// readUsage decodes stored state. Invalid state gives an empty usage and an error.
func readUsage(kept []byte) (usage, error) {
	if kept == nil {
		return usage{}, nil
	}
	var u usage
	if err := json.Unmarshal(kept, &u); err != nil {
		return usage{}, err
	}
	if len(u.Used) > exact+coarse+1 || len(u.Calls) > keepCalls {
		return usage{}, errors.New("it is longer than any valid file")
	}
	least, ordered := 0.0, true
	for i, e := range u.Used {
		least = min(least, float64(e.At), e.Amount)
		ordered = ordered && (i == 0 || u.Used[i-1].At <= e.At)
	}
	for _, c := range u.Calls {
		least = min(least, float64(c.At), c.Amount)
	}
	switch {
	case least < 0:
		return usage{}, errors.New("it has negative numbers")
	case !ordered:
		return usage{}, errors.New("it is out of order")
	}
	return u, nil
}

func (u *usage) bytes() []byte {
	data, _ := json.Marshal(u) // only valid numbers and hexadecimal text, so Marshal cannot fail
	return data
}

// age removes expired entries, and reports whether the clock was set back. Entries in the future
// then get the current time, so that they do not count forever.
func (u *usage) age(now time.Time, per time.Duration) (turnedBack bool) {
	at := now.UnixNano()
	back := func(e *used) {
		if e.At > at {
			e.At, turnedBack = at, true
		}
	}
	for i := range u.Used {
		back(&u.Used[i])
	}
	for i := range u.Calls {
		back(&u.Calls[i].used)
	}
	used, calls := u.Used[:0], u.Calls[:0]
	for _, e := range u.Used {
		if at-e.At < int64(per) {
			used = append(used, e)
		}
	}
	for _, c := range u.Calls {
		if at-c.At < int64(sameCall) {
			calls = append(calls, c)
		}
	}
	u.Used, u.Calls = used, calls
	return turnedBack
}

func (u *usage) total() float64 {
	total := 0.0
	for _, e := range u.Used {
		total += e.Amount
	}
	return total
}

// take adds an amount if the total stays within most. Otherwise it changes nothing and returns how
// long to wait; 0 = the amount never fits. A call that is reported again only adds the difference
// to its earlier amount.
func (u *usage) take(now time.Time, per time.Duration, most, amount float64, c call) (wait time.Duration, free bool) {
	more := amount
	again := -1
	for i := range u.Calls {
		if again < 0 && c.is(u.Calls[i]) {
			again = i
		}
	}
	if again >= 0 {
		more = max(0, amount-u.Calls[again].Amount)
	}
	most *= 1 + 1e-9 // tolerance for rounding, so that ten times 0.1 is 1
	left := u.total()
	if left+more > most && more > 0 {
		for _, e := range u.Used {
			if left -= e.Amount; left+more <= most {
				return time.Duration(e.At + int64(per) - now.UnixNano()), false
			}
		}
		return 0, false
	}
	at := now.UnixNano()
	if more > 0 {
		part := max(1, int64(per)/coarse)
		last := len(u.Used) - 1
		if len(u.Used) >= exact && u.Used[last].At/part == at/part {
			u.Used[last] = used{at, u.Used[last].Amount + more}
		} else {
			u.Used = append(u.Used, used{at, more})
		}
	}
	switch {
	case again >= 0:
		was := &u.Calls[again]
		was.Amount += more
		if was.Event == c.Event && was.What != "" {
			was.What = c.What // as a hook changed it
		}
	case c.ID != "":
		if c.used = (used{at, amount}); c.prompt {
			c.What = "" // a later prompt with the same input is a new action
		}
		u.Calls = append(u.Calls, c)
		u.Calls = u.Calls[max(0, len(u.Calls)-keepCalls):]
	}
	return 0, true
}
