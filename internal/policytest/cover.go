package policytest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A Coverage lists the parts of policies that their tests reach.
type Coverage struct {
	Total    Shares          `json:"total"`
	Policies []PolicyCovered `json:"policies"`
}

// PolicyCovered is the Coverage of one policy.
type PolicyCovered struct {
	Policy string        `json:"policy"` // the file, or "pack NAME"
	Total  Shares        `json:"total"`
	Hooks  []HookCovered `json:"hooks"`
}

// HookCovered is the Coverage of one hook.
type HookCovered struct {
	Name   string  `json:"name"`
	Line   int     `json:"line"`
	Events int     `json:"events"` // number of events that matched it
	Points []Point `json:"points"`
}

// A Point is one part of a policy that a test can reach.
type Point struct {
	Group   Group  `json:"group"`
	At      string `json:"at,omitempty"` // the part, in the notation of [match.Check], with an index for an element of a list; empty = the hook
	Text    string `json:"text,omitempty"`
	Line    int    `json:"line"`
	Col     int    `json:"col"`
	Reached bool   `json:"reached"`

	// For a point that is not reached: the missing result, and a test that would reach it.
	Never string `json:"never,omitempty"`
	Test  string `json:"test,omitempty"`
}

// Group is the group of a Point in the statistics.
type Group string

// The groups.
const (
	RuleGroup    Group = "rule"    // a hook acted
	MatcherGroup Group = "matcher" // a word of a match matched; or a single key or exception excluded an event
	BranchGroup  Group = "branch"  // a condition of a `when` was true, or was false
)

// A Share is the number of all points in a group and the number of reached points.
type Share struct {
	Reached int `json:"reached"`
	All     int `json:"all"`
}

// Percent returns the share in percent. It returns 100 for a share of zero points.
func (s Share) Percent() float64 {
	if s.All == 0 {
		return 100
	}
	return 100 * float64(s.Reached) / float64(s.All)
}

func (s *Share) add(o Share) { s.Reached, s.All = s.Reached+o.Reached, s.All+o.All }

// Shares are the shares of all groups.
type Shares struct {
	Rules    Share `json:"rules"`
	Matchers Share `json:"matchers"`
	Branches Share `json:"branches"`
}

// All returns the sum of the groups.
func (s Shares) All() Share {
	var all Share
	for _, share := range []Share{s.Rules, s.Matchers, s.Branches} {
		all.add(share)
	}
	return all
}

func (s *Shares) add(o Shares) {
	s.Rules.add(o.Rules)
	s.Matchers.add(o.Matchers)
	s.Branches.add(o.Branches)
}

// String formats the shares: 83 % (rules 5/6, matchers 17/20, branches 3/4).
func (s Shares) String() string {
	return fmt.Sprintf("%.0f %% (rules %d/%d, matchers %d/%d, branches %d/%d)", s.All().Percent(),
		s.Rules.Reached, s.Rules.All, s.Matchers.Reached, s.Matchers.All, s.Branches.Reached, s.Branches.All)
}

// A Cover observes tests and records which parts of their policies they reach. It ignores the
// packs that a policy uses, because packs have separate tests. It is safe for concurrent use.
type Cover struct {
	keys []stageKey
	all  map[stageKey]*covering
}

// NewCover reads the policies of tests. instead is Options.Policy of the run.
func NewCover(tests []*Test, instead string) (*Cover, error) {
	keys, subjects, err := subjects(tests, instead)
	if err != nil {
		return nil, err
	}
	c := &Cover{keys: keys, all: map[stageKey]*covering{}}
	for key, s := range subjects {
		of := &covering{subject: s, reached: map[pointID]bool{}, events: map[int]int{}}
		for i := range s.hooks {
			points, err := s.points(i)
			if err != nil {
				return nil, err
			}
			of.points = append(of.points, points)
		}
		c.all[key] = of
	}
	return c, nil
}

// Coverage returns the coverage so far.
func (c *Cover) Coverage() *Coverage {
	all := &Coverage{}
	for _, key := range c.keys {
		of := c.all[key].coverage()
		all.Total.add(of.Total)
		all.Policies = append(all.Policies, of)
	}
	return all
}

// covering is the state of a Cover for one policy.
type covering struct {
	*subject
	points [][]point // by hook

	mu        sync.Mutex
	reasoners sync.Map // *grapnel.Spec -> *policy.Reasoner
	reached   map[pointID]bool
	events    map[int]int // number of matched events, by hook
}

// A point is a Point with a key that identifies it within its hook.
type point struct {
	Point
	key string
}

type pointID struct {
	hook int
	key  string
}

// Prefixes of the keys of points. The key of a word is its position in the policy.
const (
	keptBy  = "kept by "
	isTrue  = "true "
	isFalse = "false "
)

// points returns the points of a hook.
func (s *subject) points(i int) ([]point, error) {
	h := s.hooks[i]
	// The effect of a hook does not change when it matches, except for an `allow`.
	bare := policyfile.Hook{Name: h.Name, On: h.On, Match: h.Match, Except: h.Except, When: h.When, After: h.After, Decide: "block"}
	if h.Decide == "allow" {
		bare.Decide = h.Decide
	}
	specs, err := policy.Build((&policyfile.Policy{Hooks: []policyfile.Hook{bare}}), grapnel.Source{Name: s.name, File: s.name}, nil)
	if err != nil {
		return nil, err
	}
	var all []point
	add := func(group Group, key, at, text, never, test string) {
		p := point{Point{Group: group, At: at, Text: text, Never: never, Test: test}, key}
		p.Line, p.Col = s.place(h.Name, at)
		all = append(all, p)
	}
	add(RuleGroup, "", "", "", "acts", "an event that the rule matches, with want: {rule: "+h.Name+"}")
	words := func(c *match.Check, test string) {
		for j, word := range c.Want {
			add(MatcherGroup, wordKey(c.Key, j), wordKey(c.Key, j), word, "matches", fmt.Sprintf(test, word))
		}
	}
	why := load.NewReasoner(&specs[0]).Why(&grapnel.Event{}, nil)
	for i := range why.Checks {
		c := &why.Checks[i]
		const not = ", with want: {not: {rule: %s}}"
		switch {
		case c.Key == "when":
			add(MatcherGroup, keptBy+c.Key, c.Key, "", "excludes an event", fmt.Sprintf("an event that matches everything else"+not, h.Name))
			leaves(c, func(n int, leaf *match.Check) {
				for _, is := range []string{isTrue, isFalse} {
					add(BranchGroup, fmt.Sprint(is, n), c.Key, leaf.Want[0], "is "+strings.TrimSpace(is), "an event that matches everything else, for which this is "+strings.TrimSpace(is))
				}
			})
		case strings.HasPrefix(c.Key, "after"):
			add(MatcherGroup, c.Key, c.Key, c.Want[0], "happens before the event", "an event with that in `before:`")
			add(MatcherGroup, keptBy+c.Key, c.Key, c.Want[0], "excludes an event", fmt.Sprintf("an event that matches everything else, without that in `before:`"+not, h.Name))
		case len(c.Of) > 0:
			add(MatcherGroup, keptBy+c.Key, c.Key, "", "excludes an event", fmt.Sprintf("an event that matches everything else, and this too"+not, h.Name))
			for j := range c.Of {
				if of := &c.Of[j]; len(of.Want) > 1 { // a single word matches when the whole condition does
					words(of, "an event that matches the hook, and %q of this key")
				}
			}
		case len(c.Want) > 0:
			words(c, "an event that matches %q")
			add(MatcherGroup, keptBy+c.Key, c.Key, "", "excludes an event", fmt.Sprintf("an event that matches everything else"+not, h.Name))
		}
	}
	return all, nil
}

func wordKey(key string, i int) string { return fmt.Sprintf("%s[%d]", key, i) }

// leaves calls each for each condition without operands, with its number.
func leaves(c *match.Check, each func(int, *match.Check)) {
	n := 0
	var walk func(*match.Check)
	walk = func(c *match.Check) {
		if c.Op == "" {
			each(n, c)
			n++
		}
		for i := range c.Of {
			walk(&c.Of[i])
		}
	}
	walk(c)
}

// fired records the points that an event reached.
func (c *covering) fired(specs []grapnel.Spec, f *Firing) {
	runs := f.Runs()
	for i := range specs {
		s := &specs[i]
		hook := c.hook(s)
		if hook < 0 || len(s.On) > 0 && !slices.Contains(s.On, f.Record.Input.Kind) {
			continue
		}
		found, _ := c.reasoners.LoadOrStore(s, sync.OnceValue(func() *load.Reasoner { return load.NewReasoner(s) }))
		reasoner := found.(func() *load.Reasoner)()
		keys := []string{}
		if slices.ContainsFunc(runs, func(run grapnel.HookRun) bool {
			return run.Name == s.Name && run.Source == s.Source.Name && acted(s, &run)
		}) {
			keys = append(keys, "")
		}
		var why load.Reasoning
		if s.Phase == grapnel.PhaseObserve {
			why = reasoner.Why(f.now(), &f.Verdict)
		} else {
			why = reasoner.Why(f.Record.Input, nil)
		}
		keys = append(keys, reachedBy(&why)...)
		if len(f.Record.Changed) > 0 && s.Phase != grapnel.PhaseObserve {
			changed := reasoner.Why(f.now(), nil)
			keys = append(keys, reachedBy(&changed)...)
			why.Matched = why.Matched || changed.Matched
		}
		c.mu.Lock()
		for _, key := range keys {
			c.reached[pointID{hook, key}] = true
		}
		if why.Matched {
			c.events[hook]++
		}
		c.mu.Unlock()
	}
}

// acted reports whether a hook had an effect.
func acted(s *grapnel.Spec, run *grapnel.HookRun) bool {
	if run.Error != "" {
		return false
	}
	if s.Phase == grapnel.PhaseStep || s.Phase == grapnel.PhaseObserve {
		return true // it ran; a program may have no opinion
	}
	o := run.Outcome
	return run.Decision > grapnel.None || run.Halt || len(run.Changed) > 0 || o != nil && (len(o.Context) > 0 || o.Message != "")
}

// reachedBy returns the keys of the points of a hook that an event reaches.
func reachedBy(why *load.Reasoning) (keys []string) {
	if why.Err != nil {
		return nil
	}
	var kept *match.Check // the only check that excludes the event
	for i := range why.Checks {
		if c := &why.Checks[i]; !c.OK {
			if kept != nil {
				return nil
			}
			kept = c
		}
	}
	fits := func(c *match.Check) {
		for _, i := range c.Fits {
			keys = append(keys, wordKey(c.Key, i))
		}
	}
	for i := range why.Checks {
		switch c := &why.Checks[i]; {
		case c.Key == "when" && (kept == nil || kept == c):
			leaves(c, func(n int, leaf *match.Check) {
				if leaf.OK {
					keys = append(keys, fmt.Sprint(isTrue, n))
				} else {
					keys = append(keys, fmt.Sprint(isFalse, n))
				}
			})
		case kept == nil && strings.HasPrefix(c.Key, "after"):
			keys = append(keys, c.Key)
		case kept == nil:
			fits(c)
		}
	}
	if kept != nil {
		keys = append(keys, keptBy+kept.Key)
		for i := range kept.Of {
			if kept.Key != "when" {
				fits(&kept.Of[i])
			}
		}
	}
	return keys
}

func (c *covering) coverage() PolicyCovered {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := PolicyCovered{Policy: c.name, Hooks: []HookCovered{}}
	for i := range c.hooks {
		h := HookCovered{Name: c.hooks[i].Name, Line: c.hooks[i].Line, Events: c.events[i]}
		for _, p := range c.points[i] {
			share := Share{All: 1}
			if p.Reached = c.reached[pointID{i, p.key}]; p.Reached {
				p.Never, p.Test = "", ""
				share.Reached = 1
			}
			switch p.Group {
			case RuleGroup:
				of.Total.Rules.add(share)
			case MatcherGroup:
				of.Total.Matchers.add(share)
			case BranchGroup:
				of.Total.Branches.add(share)
			}
			h.Points = append(h.Points, p.Point)
		}
		of.Hooks = append(of.Hooks, h)
	}
	return of
}

// Missing returns a line for each point that is not reached, in the format of editors:
// FILE:LINE:COL, the hook, the missing result, and a test that would reach it. For a hook that
// never matched it returns only one line, for the hook itself.
func (c *PolicyCovered) Missing() []string {
	var lines []string
	for _, h := range c.Hooks {
		for _, p := range h.Points {
			if p.Reached || h.Events == 0 && p.Group != RuleGroup {
				continue
			}
			what := h.Name
			if p.At != "" {
				what += ": " + p.At
			}
			if p.Text != "" {
				what += fmt.Sprintf(" %q", p.Text)
			}
			lines = append(lines, fmt.Sprintf("%s:%d:%d: %s never %s; test %s", c.Policy, p.Line, p.Col, what, p.Never, p.Test))
		}
	}
	return lines
}
