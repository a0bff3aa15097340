package journal_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/journal"
)

const day = 24 * time.Hour

// first returns the number of the first segment that exists.
func first(t testing.TB, dir string) int {
	t.Helper()
	numbers, err := journal.Numbers(dir)
	if err != nil || len(numbers) == 0 {
		t.Fatal(numbers, err)
	}
	return numbers[0]
}

func TestRetire(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		limits journal.Limits
		at     time.Time
		reason string
	}{
		"nothing":    {journal.Limits{}, now, ""},
		"age":        {journal.Limits{MaxAge: 60}, now.Add(time.Hour), "age"},
		"not of age": {journal.Limits{MaxAge: 60}, now.Add(-time.Hour), ""},
		"number":     {journal.Limits{MaxRecords: 7}, now, "number"},
		"one record": {journal.Limits{MaxRecords: 1}, now, "number"},
		"size":       {journal.Limits{MaxBytes: 700}, now, "size"},
		"no size":    {journal.Limits{MaxBytes: -1}, now, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := small(t.TempDir())
			addMany(t, w, 21)
			removed := retire(t, w.Dir, c.limits, c.at)
			m := readManifest(t, w.Dir)
			if diff := cmp.Diff(m.Removals, removed); diff != "" {
				t.Errorf("(-manifest +result):\n%s", diff)
			}
			if (len(removed) > 0) != (c.reason != "") {
				t.Fatalf("removed %+v", removed)
			}
			opts := journal.VerifyOptions{Limits: c.limits, Now: func() time.Time { return c.at }}
			if c.reason == "" {
				sound(t, w.Dir, opts)
				return
			}
			r := removed[0]
			if r.First != 1 || r.Reason != c.reason || first(t, w.Dir) != r.Last+1 {
				t.Errorf("removed %+v, the first segment is %d", r, first(t, w.Dir))
			}
			var lines, bytes int64
			for _, s := range m.Segments[r.Last:] {
				lines, bytes = lines+s.Lines, bytes+s.Bytes
			}
			next := journal.Sealed{}
			if r.Last < len(m.Segments) {
				next = m.Segments[r.Last]
			}
			switch n, size := int64(r.MaxRecords), r.MaxBytes; {
			case c.reason == "number" && (lines < n || lines-next.Lines >= n), c.reason == "size" && (bytes < size || bytes-next.Bytes >= size):
				t.Errorf("%d lines, %d bytes stay", lines, bytes)
			}
			got := sound(t, w.Dir, opts)
			if got.Records+r.Lines != 21 || len(got.Removed) != 1 || len(got.Limits) != 1 {
				t.Errorf("%+v", got)
			}
			if again := retire(t, w.Dir, c.limits, c.at); len(again) > 0 || len(readManifest(t, w.Dir).Limits) != 1 {
				t.Errorf("removed again: %+v", again)
			}
		})
	}
}

// A segment with a time in the future is removed by age together with a later one that has an age.
func TestRetireWrongClock(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ages := func(days ...int) (dir string) {
		dir = t.TempDir()
		var statements []string
		for i, d := range days {
			w := &journal.Writer{Dir: dir, MaxSize: 1}
			if i == 0 {
				add(t, w, "a")
			}
			add(t, w, "b")
			seal(t, dir)
			s := readManifest(t, dir).Segments[i]
			s.Ended = now.Add(time.Duration(-d) * day).UTC()
			statements = append(statements, sealedStatement(t, s))
		}
		write(t, filepath.Join(dir, manifest), []byte(chained(statements...)))
		if err := os.Remove(filepath.Join(dir, head)); err != nil {
			t.Fatal(err)
		}
		save(t, &journal.HeadKeeper{Dir: dir})
		return dir
	}
	for _, c := range []struct {
		days []int
		want int // the first segment that stays
	}{
		{[]int{100, 100, 80}, 3},
		{[]int{80, 100, 100}, 1},
		{[]int{-500, 100, 80}, 3},
		{[]int{100, -500, 80}, 2},
		{[]int{100, -500, -500}, 2},
		{[]int{-500, -500, 100, -500}, 4},
	} {
		dir := ages(c.days...)
		retire(t, dir, journal.Limits{}, now)
		if got := first(t, dir); got != c.want {
			t.Errorf("%v: segment %d is the first, want %d", c.days, got, c.want)
		}
		sound(t, dir, journal.VerifyOptions{})
	}
}

// Limits are stated when they change.
func TestLimitChanges(t *testing.T) {
	t.Parallel()
	w := small(t.TempDir())
	add(t, w, "a")
	for _, l := range []journal.Limits{{}, journal.DefaultLimits, {MaxAge: 99}, {MaxAge: 99}, {MaxBytes: -1}, {}} {
		retire(t, w.Dir, l, time.Now())
	}
	var got []string
	for _, l := range readManifest(t, w.Dir).Limits {
		got = append(got, l.Limits.String())
	}
	want := []string{"0 days, 1000000 Records, 1 GB", "90 days, 1000000 Records", "90 days, 1000000 Records, 1 GB"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	sound(t, w.Dir, journal.VerifyOptions{})
}

func TestLimitsString(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]journal.Limits{
		"90 days, 1000000 Records, 1 GB": {},
		"1 day, 1 Record, 50 MB":         {MaxAge: 24 * 60 * 60, MaxRecords: 1, MaxBytes: 50e6},
		"2 days, 3 Records":              {MaxAge: 2 * 24 * 60 * 60, MaxRecords: 3, MaxBytes: -1},
	} {
		if got := l.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Retire removes what a killed process left, and nothing else.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	w := small(t.TempDir())
	addMany(t, w, 12)
	data := read(t, file(w.Dir, 1))
	limits := journal.Limits{MaxRecords: 3}
	retire(t, w.Dir, limits, time.Now())
	sizes := len(readManifest(t, w.Dir).Segments)
	write(t, file(w.Dir, 1), data)
	r := sound(t, w.Dir, journal.VerifyOptions{Limits: limits})
	if r.First == 1 || r.Records >= 12 {
		t.Errorf("the left file is a part of the log: %+v", r)
	}
	if removed := retire(t, w.Dir, limits, time.Now()); len(removed) > 0 || first(t, w.Dir) == 1 || len(readManifest(t, w.Dir).Segments) != sizes {
		t.Errorf("removed %+v, the first segment is %d", removed, first(t, w.Dir))
	}
	other := []byte(strings.Replace(string(data), `"key":"`, `"key":"X`, 1))
	write(t, file(w.Dir, 1), other)
	retire(t, w.Dir, limits, time.Now())
	if first(t, w.Dir) != 1 {
		t.Error("a file with another key was removed")
	}
	found(t, verify(t, w.Dir, journal.VerifyOptions{Limits: limits}), "segment 1: retention has removed this segment, and this file is another one")
}

// An attacker who knows the format removes segments, states it as retention, and computes all hashes and the
// head again. Statements that retention cannot have made are found.
func TestForgedRemoval(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	old := func(s *journal.Sealed) { s.Ended = now.Add(-100 * day) }
	young := func(s *journal.Sealed) { s.Ended = now.Add(-80 * day) }
	policy := journal.Limits{MaxAge: 90 * 24 * 60 * 60, MaxRecords: 6, MaxBytes: 600}
	for name, c := range map[string]struct {
		age  func(*journal.Sealed)
		lie  func(*journal.Removal)
		want string
	}{
		"true, by age":        {old, func(r *journal.Removal) { r.Reason = "age" }, ""},
		"true, by number":     {young, func(r *journal.Removal) { r.Reason = "number" }, ""},
		"true, by size":       {young, func(r *journal.Removal) { r.Reason = "size" }, ""},
		"too young":           {young, func(r *journal.Removal) { r.Reason = "age" }, "was not older than 2160h0m0s on"},
		"a shorter age":       {young, func(r *journal.Removal) { r.Reason, r.MaxAge = "age", 3600 }, "it states the limits 0 days"},
		"a later time":        {young, func(r *journal.Removal) { r.Reason, r.Time = "age", now.Add(20*day) }, "is in the future"},
		"too many":            {young, func(r *journal.Removal) { r.Reason, r.Last, r.Lines = "number", 5, 10 }, "behind them had less than 6 records"},
		"a smaller number":    {young, func(r *journal.Removal) { r.Reason, r.MaxRecords = "number", 1 }, "it states the limits 90 days, 1 Record"},
		"too large":           {young, func(r *journal.Removal) { r.Reason, r.Last, r.Lines = "size", 5, 10 }, "behind them had less than 600 bytes"},
		"a smaller size":      {young, func(r *journal.Removal) { r.Reason, r.MaxBytes = "size", 1 }, "it states the limits 90 days, 6 Records, 0 MB"},
		"no size":             {young, func(r *journal.Removal) { r.Reason, r.MaxBytes = "size", -1 }, "it states no limit of the size"},
		"no lines":            {young, func(r *journal.Removal) { r.Reason, r.Lines = "number", 0 }, "they had 4 lines, and it states 0"},
		"no reason":           {young, func(r *journal.Removal) { r.Reason = "fun" }, `unknown reason "fun"`},
		"not the first":       {young, func(r *journal.Removal) { r.Reason, r.First, r.Lines = "number", 2, 2 }, "the segments 1 to 7 were sealed then"},
		"nothing":             {young, func(r *journal.Removal) { r.Reason, r.Last = "number", 0 }, "the segments 1 to 7 were sealed then"},
		"a segment not there": {young, func(r *journal.Removal) { r.Reason, r.Last = "number", 99 }, "the segments 1 to 7 were sealed then"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := small(t.TempDir())
			addMany(t, w, 15)
			seal(t, w.Dir)
			var statements []string
			segments := readManifest(t, w.Dir).Segments
			if len(segments) != 7 {
				t.Fatalf("%d segments", len(segments))
			}
			for _, s := range segments {
				c.age(&s)
				statements = append(statements, sealedStatement(t, s))
			}
			limits, err := json.Marshal(journal.LimitChange{Time: now, Limits: policy})
			if err != nil {
				t.Fatal(err)
			}
			statements = append(statements, fmt.Sprintf(`{"limits":%s}`, limits))
			r := journal.Removal{First: 1, Last: 2, Lines: 4, Time: now, Limits: policy}
			c.lie(&r)
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			for n := range r.Last {
				_ = os.Remove(file(w.Dir, n+1))
			}
			write(t, filepath.Join(w.Dir, manifest), []byte(chained(append(statements, fmt.Sprintf(`{"removed":%s}`, text))...)))
			if err := os.Remove(filepath.Join(w.Dir, head)); err != nil {
				t.Fatal(err)
			}
			if err := (&journal.HeadKeeper{Dir: w.Dir}).Save(); err != nil {
				t.Log(err)
			}
			got := verify(t, w.Dir, journal.VerifyOptions{Limits: policy})
			if c.want == "" {
				if !got.OK() {
					t.Errorf("findings: %v", got.Findings)
				}
				return
			}
			found(t, got, c.want)
			found(t, got, "manifest.jsonl, line 9: retention cannot have removed segments")
		})
	}
}

// A removal stays plausible after the limits were raised, and not while a policy has other limits that no line states.
func TestRaisedLimits(t *testing.T) {
	t.Parallel()
	w := small(t.TempDir())
	addMany(t, w, 15)
	few, many := journal.Limits{MaxRecords: 4}, journal.Limits{MaxRecords: 400}
	retire := func(l journal.Limits) {
		t.Helper()
		if _, err := journal.Retire(w.Dir, l, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	retire(few)
	if got := verify(t, w.Dir, journal.VerifyOptions{Limits: few}); len(got.Removed) != 1 || !got.OK() {
		t.Fatalf("removed %v, findings %v", got.Removed, got.Findings)
	}
	found(t, verify(t, w.Dir, journal.VerifyOptions{Limits: many}), `run "grapnel drain" and verify again`)
	retire(many)
	if got := verify(t, w.Dir, journal.VerifyOptions{Limits: many}); !got.OK() {
		t.Errorf("findings %v", got.Findings)
	}
}
