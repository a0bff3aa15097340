package agenthooks

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/bridge/agenthooks"
	"github.com/grapnel-dev/grapnel/cmd/proofs/conformance"
)

// A comparison collects the differences between the result and the vector's expectations.
type comparison struct{ diffs []conformance.Diff }

func (c *comparison) differ(path string, got, want any) {
	c.diffs = append(c.diffs, conformance.Diff{Key: path, Got: got, Want: want})
}

// same compares a value with the value that the vector expects.
func (c *comparison) same(path string, got any, want json.RawMessage) {
	if !equalRaw(want, got) {
		c.differ(path, got, want)
	}
}

// compare checks every expectation of the vector and the invariants that hold for all vectors.
func (s *stage) compare(got *ran, posture agenthooks.Posture) []conformance.Diff {
	var c comparison
	want := s.vector.Expect
	s.interceptions(&c)
	for _, name := range want.Absent {
		if slices.Contains(s.points(), name) {
			c.differ("interceptions_absent", s.points(), "no "+name)
		}
	}
	outcome := want.RunOutcome
	if want.ByPosture != nil {
		outcome = want.ByPosture.Outcomes[string(posture)]
	}
	if got.outcome != outcome {
		c.differ("run_outcome", got.outcome, outcome)
	}
	if want.FinalOutput != nil {
		c.same("final_output", got.output, want.FinalOutput)
	}
	s.invocations(&c)
	s.recorded(&c)
	if want.Released != nil && s.released.String() != *want.Released {
		c.differ("released_output", s.released.String(), *want.Released)
	}
	for _, text := range want.NotPersisted {
		if strings.Contains(s.persisted(), text) {
			c.differ("persisted_must_not_contain", s.persisted(), "nothing of "+text)
		}
	}
	s.sequences(&c)
	return c.diffs
}

// points returns the names of the interception points that the first interceptor saw, in order.
func (s *stage) points() []string {
	names := []string{}
	for _, seen := range s.seen {
		name, _ := find(seen, "interception_point")
		names = append(names, fmt.Sprint(name))
	}
	return names
}

func (s *stage) interceptions(c *comparison) {
	want := *s.vector.Expect.Interceptions
	names := []string{}
	for _, w := range want {
		names = append(names, w.Point)
	}
	got := s.points()
	if strict := s.vector.Expect.SequenceStrict; strict == nil || *strict {
		if !slices.Equal(names, got) {
			c.differ("interceptions", got, names)
			return // the lists differ, so indexes do not match
		}
	}
	next := 0
	for i, w := range want {
		for next < len(got) && got[next] != w.Point {
			next++
		}
		path := fmt.Sprintf("interceptions[%d]", i)
		if next == len(got) {
			c.differ(path, got, w.Point)
			return
		}
		w.compare(c, path, s.seen[next])
		next++
	}
}

func (w *interception) compare(c *comparison, path string, seen any) {
	for _, at := range slices.Sorted(maps.Keys(w.Context)) {
		got, has := find(seen, at)
		if !has {
			c.differ(path+".context."+at, "nothing there", w.Context[at])
			continue
		}
		c.same(path+".context."+at, got, w.Context[at])
	}
	text := compact(seen)
	if w.MustValidate {
		if err := agenthooks.CheckContext(json.RawMessage(text)); err != nil {
			c.differ(path+".context_must_validate", err.Error(), "a valid context")
		}
	}
	for _, part := range w.MustContain {
		if !strings.Contains(text, part) {
			c.differ(path+".context_must_contain", text, part)
		}
	}
	for _, part := range w.MustNotContain {
		if strings.Contains(text, part) {
			c.differ(path+".context_must_not_contain", text, "nothing of "+part)
		}
	}
}

func (s *stage) invocations(c *comparison) {
	want := s.vector.Expect
	if want.Invocations != nil {
		wanted, got := plain(*want.Invocations), plain(append([]invocation{}, s.calls...))
		if !equal(wanted, got) {
			c.differ("tool_invocations", got, wanted)
		}
	}
	for _, name := range want.NotInvoked {
		if slices.ContainsFunc(s.calls, func(i invocation) bool { return i.Name == name }) {
			c.differ("tool_not_invoked", plain(s.calls), "no "+name)
		}
	}
}

func (s *stage) recorded(c *comparison) {
	records := make([]any, len(s.records))
	for i, r := range s.records {
		records[i] = plain(r)
	}
	if want := s.vector.Expect.Records; want != nil {
		if len(records) == 0 {
			c.differ("records", "none", "some")
		}
		next := 0
		for i, w := range *want {
			path := fmt.Sprintf("records[%d]", i)
			found, from := false, next
			var missed []conformance.Diff
			for ; next < len(records) && !found; next++ {
				var diffs []conformance.Diff
				if found, diffs = w.matches(path, records[next]); diffs != nil {
					missed = append(missed, diffs...)
				}
			}
			switch {
			case found:
			case len(missed) > 0:
				c.diffs = append(c.diffs, missed...)
				return
			default:
				c.differ(path, fmt.Sprintf("%d records from %d on, none at %s", len(records), from, w.Point), w.Point)
				return
			}
		}
	}
	if want := s.vector.Expect.IdentitiesEqual; want != nil {
		equalEverywhere := len(s.records) > 0
		for _, r := range records {
			in, _ := find(r, "input_identity")
			out, _ := find(r, "enforced_identity")
			equalEverywhere = equalEverywhere && in == out
		}
		if len(records) == 0 || equalEverywhere != *want {
			c.differ("identities_equal", equalEverywhere, *want)
		}
	}
}

// matches reports whether the record is the one that the pattern describes. If the record is
// for the same point but does not match, diffs lists the differences.
func (w *recordPattern) matches(path string, record any) (bool, []conformance.Diff) {
	if name, _ := find(record, "interception_point"); name != w.Point {
		return false, nil
	}
	var c comparison
	for _, at := range slices.Sorted(maps.Keys(w.Assert)) {
		got, has := find(record, at)
		if !has {
			c.differ(path+"."+at, "nothing there", w.Assert[at])
			continue
		}
		c.same(path+"."+at, got, w.Assert[at])
	}
	for _, at := range w.Present {
		if _, has := find(record, at); !has {
			c.differ(path+"."+at, "nothing there", "something")
		}
	}
	for _, at := range w.Absent {
		if got, has := find(record, at); has {
			c.differ(path+"."+at, got, "nothing")
		}
	}
	return len(c.diffs) == 0, c.diffs
}

// sequences checks that the sequence numbers rise. This check applies to every vector.
func (s *stage) sequences(c *comparison) {
	last := int64(-1)
	for i, seen := range s.seen {
		n := sequenceOf(seen)
		if n <= last {
			got, _ := find(seen, "sequence")
			c.differ(fmt.Sprintf("interceptions[%d].context.sequence", i), got, fmt.Sprintf("an integer above %d", last))
		}
		last = n
	}
}

// sequenceOf returns the sequence number of a context, or -1 if it has no valid one.
func sequenceOf(seen any) int64 {
	got, _ := find(seen, "sequence")
	number, _ := got.(json.Number)
	n, err := number.Int64()
	if err != nil {
		return -1
	}
	return n
}
