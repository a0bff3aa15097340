package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// aged stores a record with the given age.
func aged(t testing.TB, s *Store, id string, age time.Duration) {
	t.Helper()
	e := entry(id)
	e.Time = time.Now().Add(-age).UTC()
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), Item{Line: raw}); err != nil {
		t.Fatal(err)
	}
}

const day = 24 * time.Hour

// tampering deletes rows and appends a removal that is chained to the end of the log, like an
// attacker with access to the database and knowledge of the format. lie changes the removal.
func tampering(t testing.TB, dir string, first, last int64, lie func(*Removal)) {
	t.Helper()
	db, err := sql.Open("sqlite", source(dir, "mode=rw"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	head, err := loadHead(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	hash := func(seq int64) Hash {
		h, err := hashAt(t.Context(), conn, seq)
		if err != nil {
			t.Fatal(err)
		}
		if h == nil {
			return Hash{}
		}
		return *h
	}
	r := Removal{
		First: first, Last: last, Records: last - first + 1, Reason: byAge, Time: time.Now().UTC(),
		Limits: DefaultLimits, Before: hash(first - 1), After: hash(last), Prior: hash(last - 1),
	}
	var digest []byte
	var at int64
	if err := conn.QueryRowContext(t.Context(), "SELECT digest, time FROM record WHERE seq = ?", last).Scan(&digest, &at); err != nil {
		t.Fatal(err)
	}
	copy(r.Digest[:], digest)
	r.Wrote = unstamp(at)
	if lie != nil {
		lie(&r)
	}
	for _, table := range []string{"record", "line", "hook"} {
		if _, err := conn.ExecContext(t.Context(), "DELETE FROM "+table+" WHERE seq BETWEEN ? AND ?", first, last); err != nil {
			t.Fatal(err)
		}
	}
	b := &base{ctx: context.Background(), db: db, conn: conn, stmts: map[string]*sql.Stmt{}}
	c := &change{base: b, head: head}
	if err := c.putRemoval(&r); err != nil {
		t.Fatal(err)
	}
	for _, stmt := range b.stmts {
		if err := stmt.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := writeAnchor(dir, c.head); err != nil {
		t.Fatal(err)
	}
}

// "log verify" accepted a deletion that an attacker had entered as retention, even with a head
// that the user had stored elsewhere.
func TestForgedRetention(t *testing.T) {
	t.Parallel()
	forged := func(first, last int64, lie func(*Removal)) func(*testing.T, string) {
		return func(t *testing.T, dir string) { tampering(t, dir, first, last, lie) }
	}
	script := func(text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { tamper(t, dir, text) }
	}
	remove := func(cond string) string {
		return "DELETE FROM record WHERE " + cond + "; DELETE FROM line WHERE " + cond + "; DELETE FROM hook WHERE " + cond + ";"
	}
	const cannot = "retention cannot have removed "
	// Rows 1 to 10 were 100 days old and are removed, row 21 says so. Row 11 is 80 days old.
	for name, test := range map[string]struct {
		do   func(*testing.T, string)
		want []string // parts of findings; all must occur
	}{
		"nothing": {func(*testing.T, string) {}, nil},

		"a row in between":      {forged(14, 14, nil), []string{"row 22: " + cannot + "rows 14 to 14: the previous removal, in row 21, ended at row 10", "rows up to this one exist"}},
		"rows at the end":       {forged(18, 20, nil), []string{"row 22: " + cannot + "rows 18 to 20: the previous removal, in row 21", "rows up to this one exist"}},
		"all rows":              {forged(11, 20, nil), []string{"row 22: " + cannot + "rows 11 to 20: row 20 was written on"}},
		"young rows at a start": {forged(11, 14, nil), []string{"row 22: " + cannot + "rows 11 to 14: row 14 was written on"}},
		"a forged age": {
			forged(11, 14, func(r *Removal) { r.Wrote = r.Wrote.Add(-100 * day) }), []string{"it does not prove when row 14 was written"},
		},
		"a forged digest": {
			forged(11, 14, func(r *Removal) { r.Digest[0]++ }), []string{"it does not prove when row 14 was written"},
		},
		"another chain": { // its hash does not lead to row 15
			forged(11, 14, func(r *Removal) {
				r.Wrote = r.Wrote.Add(-100 * day)
				r.After = Head{Seq: r.Last - 1, Hash: r.Prior}.next(r.Last, stamp(r.Wrote), r.Digest).Hash
			}), []string{"row 15: its hash does not match the previous row"},
		},
		"a forged time": {
			forged(11, 14, func(r *Removal) { r.Time = r.Time.Add(100 * day) }), []string{"is in the future"},
		},
		"a forged limit of age": {
			forged(11, 14, func(r *Removal) { r.MaxAge = 3600 }), []string{"it states a retention of 1h0m0s, but the limit is 2160h0m0s"},
		},
		"by number": {
			forged(11, 14, func(r *Removal) { r.Reason = byNumber }), []string{"the log had only 7 rows after row 14, but retention keeps 1000000 records"},
		},
		"a forged limit of number": {
			forged(11, 14, func(r *Removal) { r.Reason, r.MaxRecords = byNumber, 5 }), []string{"it states a retention of 5 records, but the limit is 1000000"},
		},
		"another reason": {forged(11, 14, func(r *Removal) { r.Reason = "tidy" }), []string{`unknown reason "tidy"`}},
		"more than it says": {
			forged(11, 14, func(r *Removal) { r.Last = 13 }), []string{"this is not a valid range of earlier rows", "row 14: rows 14 to 14 are missing"},
		},
		"itself": {forged(11, 20, func(r *Removal) { r.Last = 25 }), []string{"this is not a valid range of earlier rows"}},
		"nothing at all": {
			forged(11, 14, func(r *Removal) { r.First, r.Records = 15, 9 }), []string{"this is not a valid range of earlier rows"},
		},
		"two removals": {
			func(t *testing.T, dir string) {
				tampering(t, dir, 11, 12, nil)
				tampering(t, dir, 13, 14, nil)
			}, []string{"row 22: " + cannot, "row 23: " + cannot + "rows 13 to 14: row 14 was written on"},
		},
		"a former removal": {
			script("UPDATE removal SET line = CAST(replace(CAST(line AS TEXT), '\"last\":10', '\"last\":11') AS BLOB)"),
			[]string{"row 21: the removal entry of retention was changed"},
		},
		"a former removal and its columns": {
			script(remove("seq = 11") + "UPDATE removal SET last = 11, line = CAST(replace(CAST(line AS TEXT), '\"last\":10', '\"last\":11') AS BLOB)"),
			[]string{"row 21: the removal entry of retention was changed", "it does not prove when row 11"},
		},
		"a removal that is gone": {script("DELETE FROM removal"), []string{"row 1: rows 1 to 10 are missing"}},
		"unreadable":             {script("UPDATE removal SET line = x'00'"), []string{"row 21: cannot read the removal entry of retention"}},
		"not chained": {
			script(remove("seq = 14") + "INSERT INTO removal SELECT 14, time, 14, after, replace(line, '\"seq\":21', '\"seq\":14'), digest, hash FROM removal"),
			[]string{"row 14: its hash does not match the previous row"},
		},
		"a copy": {
			script("INSERT INTO removal SELECT 22, time, last, after, line, digest, hash FROM removal"),
			[]string{"row 22: the removal entry of retention was changed", "row 22: its hash does not match the previous row"},
		},
		"on a row's number": {
			script("INSERT INTO removal SELECT 15, time, last, after, replace(line, '\"seq\":21', '\"seq\":15'), digest, hash FROM removal"),
			[]string{"row 15: two rows have this number"},
		},
		"a removed row that came back": {
			script("INSERT INTO record SELECT 5, 'back', late, digest, hash, time, agent, session, event, tool, decision, would, error FROM record WHERE seq = 12"),
			[]string{"1 rows up to this one exist, although the log states that retention removed them"},
		},
		"the anchor's row": {
			func(t *testing.T, dir string) {
				if err := writeAnchor(dir, Head{Seq: 9}); err != nil {
					t.Fatal(err)
				}
			}, []string{"the log states that retention removed the rows up to 10, but grapnel.head names an earlier row"},
		},
		"a gap": {
			script(remove("seq = 14") + "INSERT INTO gap SELECT 14, 14, hash, 0 FROM record WHERE seq = 13"), []string{"row 14: rows 14 to 14 are missing"},
		},
		"a gap that is none": {
			script("INSERT INTO gap SELECT 14, 14, hash, 0 FROM record WHERE seq = 14"), []string{"row 14: the log lists rows 14 to 14 as missing, but some of them exist"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := openTest(t, dir, &Options{unsafe: true})
			for i := range 10 {
				aged(t, s, fmt.Sprint("old", i), 100*day)
			}
			for i := range 10 {
				aged(t, s, fmt.Sprint("new", i), 80*day-time.Duration(i)*time.Hour)
			}
			kept, err := s.Head(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Prune(t.Context(), time.Now()); err != nil {
				t.Fatal(err)
			}
			closeTest(t, s)
			test.do(t, dir)
			r := readerTest(t, dir)
			for _, heads := range [][]Head{nil, {kept}} {
				report, err := r.Verify(t.Context(), heads...)
				if err != nil {
					t.Fatal(err)
				}
				var found []string
				for _, f := range report.Findings {
					found = append(found, f.String())
				}
				all := strings.Join(found, "\n")
				if report.OK() != (len(test.want) == 0) {
					t.Errorf("with heads %v: Verify found %q", heads, found)
				}
				for _, want := range test.want {
					if !strings.Contains(all, want) {
						t.Errorf("with heads %v: Verify found\n%s\nwant %q", heads, all, want)
					}
				}
			}
		})
	}
}

// stated appends a row that states limits to the end of the log, like an attacker.
func stated(t testing.TB, dir string, limits Limits) {
	t.Helper()
	db, err := sql.Open("sqlite", source(dir, "mode=rw"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	head, err := loadHead(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	b := &base{ctx: context.Background(), db: db, conn: conn, stmts: map[string]*sql.Stmt{}}
	c := &change{base: b, head: head}
	if err := errors.Join(c.putRemoval(&Removal{Time: time.Now().UTC(), Reason: newLimits, Limits: limits}), writeAnchor(dir, c.head), b.close()); err != nil {
		t.Fatal(err)
	}
}

// The limits that a removal states must be the limits of the policy, or must have been in force
// before. With a head, nobody can add limits of their own for rows before it.
func TestForgedLimits(t *testing.T) {
	t.Parallel()
	hour := Limits{MaxAge: 3600, MaxRecords: DefaultLimits.MaxRecords}
	few := Limits{MaxAge: DefaultLimits.MaxAge, MaxRecords: 5}
	small := Limits{MaxAge: DefaultLimits.MaxAge, MaxRecords: DefaultLimits.MaxRecords, MaxBytes: 100}
	by := func(reason string, l Limits) func(*Removal) {
		return func(r *Removal) { r.Reason, r.Limits = reason, l }
	}
	both := func(what ...string) [2][]string { return [2][]string{what, what} }
	for name, test := range map[string]struct {
		policy Limits
		do     func(*testing.T, string)
		want   [2][]string // without a head, with a head
	}{
		"age": {DefaultLimits, func(t *testing.T, dir string) { tampering(t, dir, 1, 4, by(byAge, hour)) }, both("it states a retention of 1h0m0s, but the limit is 2160h0m0s (if you have just changed")},
		"age of a policy for longer": {
			Limits{MaxAge: 365 * 24 * 3600}, func(t *testing.T, dir string) { tampering(t, dir, 1, 4, nil) }, both("row 4 was written on"),
		},
		"size": {DefaultLimits, func(t *testing.T, dir string) { tampering(t, dir, 1, 4, by(bySize, small)) }, both("it states a retention of 100 bytes, but there is no such limit")},
		"size that was not reached": {
			Limits{MaxBytes: 50e6}, func(t *testing.T, dir string) {
				tampering(t, dir, 1, 4, by(bySize, Limits{MaxAge: DefaultLimits.MaxAge, MaxRecords: DefaultLimits.MaxRecords, MaxBytes: 50e6}))
			}, both("but retention keeps 50000000 bytes"),
		},
		"a statement before": {
			DefaultLimits, func(t *testing.T, dir string) { stated(t, dir, few); tampering(t, dir, 1, 4, by(byNumber, few)) },
			both("it states a retention of 5 records, but the limit is 1000000"),
		},
		"another statement before": {
			DefaultLimits, func(t *testing.T, dir string) { stated(t, dir, small); tampering(t, dir, 1, 4, by(byAge, hour)) },
			both("it states a retention of 1h0m0s, but the limit is 2160h0m0s"),
		},
		// Without a head, a process of this user can rebuild the whole log too.
		"statements before and after": {
			DefaultLimits, func(t *testing.T, dir string) {
				stated(t, dir, few)
				tampering(t, dir, 1, 4, by(byNumber, few))
				stated(t, dir, DefaultLimits)
			}, [2][]string{nil, {"does not cover a change of the limit: use a newer head"}},
		},
		"a statement that removes": {
			DefaultLimits, func(t *testing.T, dir string) { tampering(t, dir, 1, 4, by(newLimits, DefaultLimits)) },
			both("a change of the limits of retention cannot remove rows", "rows 1 to 4 are missing"),
		},
		"the rows at the end": {
			DefaultLimits, func(t *testing.T, dir string) { tampering(t, dir, 1, 10, by(byAge, hour)) }, both("it states a retention of 1h0m0s"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := openTest(t, dir, &Options{unsafe: true})
			for i := range 10 {
				aged(t, s, fmt.Sprint(i), 2*time.Hour)
			}
			kept, err := s.Head(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			closeTest(t, s)
			test.do(t, dir)
			r := readerTest(t, dir)
			r.SetLimits(test.policy)
			for i, heads := range [][]Head{nil, {kept}} {
				report, err := r.Verify(t.Context(), heads...)
				if err != nil {
					t.Fatal(err)
				}
				all := fmt.Sprint(report.Findings)
				if report.OK() != (len(test.want[i]) == 0) {
					t.Errorf("with heads %v: Verify found %s", heads, all)
				}
				for _, want := range test.want[i] {
					if !strings.Contains(all, want) {
						t.Errorf("with heads %v: Verify found\n%s\nwant %q", heads, all, want)
					}
				}
			}
		})
	}
}

// Changes of the limits cause no findings, whether they become more or less.
func TestChangedLimits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, dir, nil)
	n := 0
	put := func(many int, age time.Duration) {
		for range many {
			n++
			aged(t, s, fmt.Sprint(n), age)
		}
	}
	text, err := json.Marshal(entry("1"))
	if err != nil {
		t.Fatal(err)
	}
	put(10, 100*day)
	put(40, 40*day)
	put(50, time.Hour)
	var heads []Head
	for _, step := range []struct {
		limits  Limits
		want    int // number of Records
		changes int // number of stated changes
	}{
		{Limits{}, 90, 0},
		{Limits{MaxAge: 30 * 24 * 3600}, 50, 1},
		{Limits{MaxAge: 365 * 24 * 3600}, 50, 2},
		{Limits{MaxAge: 365 * 24 * 3600}, 50, 2},
		{Limits{MaxRecords: 20}, 20, 3},
		{Limits{MaxRecords: 1000}, 20, 4},
		{Limits{MaxBytes: int64(len(text)) * 11}, 10, 5},
		{Limits{}, 10, 6},
	} {
		s.SetLimits(step.limits)
		if err := s.Prune(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		if n := count(t, s.Reader); n != step.want {
			t.Errorf("%+v: %d Records, want %d", step.limits, n, step.want)
		}
		head, err := s.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, head)
		report, err := s.Verify(t.Context(), heads[len(heads)-1])
		if err != nil || !report.OK() || len(report.Limits) != step.changes {
			t.Errorf("%+v: Verify = %+v, %v", step.limits, report, err)
		}
	}
	closeTest(t, s)
	if report, err := readerTest(t, dir).Verify(t.Context()); err != nil || !report.OK() {
		t.Errorf("Verify = %+v, %v", report, err)
	}
}

// A removal that goes beyond the user's stored head cannot be compared with it. Verify must not
// report the log as good, even if the removal is well formed.
func TestRemovedHead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, dir, nil)
	for i := range 10 {
		aged(t, s, fmt.Sprint(i), 80*day)
	}
	kept, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	aged(t, s, "as if it was old", 100*day) // this row hides the others
	closeTest(t, s)
	tampering(t, dir, 1, 11, nil)
	r := readerTest(t, dir)
	report, err := r.Verify(t.Context(), kept)
	if err != nil || len(report.Unknown) != 1 || report.Unknown[0] != kept {
		t.Errorf("Verify = %+v, %v, want that nothing is known of the head", report, err)
	}
	kept.Seq, kept.Hash = 11, Hash{1}
	if report, err := r.Verify(t.Context(), kept); err != nil || report.OK() {
		t.Errorf("Verify with another head of the last removed row = %+v, %v", report, err)
	}
}

// Honest retention causes no findings, for any clock at the time of writing.
func TestRetention(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ages []time.Duration
		opts Options
		want int // number of remaining records
	}{
		"by age":                            {[]time.Duration{100 * day, 91 * day, 89 * day, 0}, Options{}, 2},
		"nothing":                           {[]time.Duration{89 * day, 0}, Options{}, 2},
		"by number":                         {[]time.Duration{3, 2, 1, 0}, Options{Limits: Limits{MaxRecords: 2}}, 2},
		"by both":                           {[]time.Duration{100 * day, 3, 2, 1}, Options{Limits: Limits{MaxRecords: 2}}, 2},
		"all":                               {[]time.Duration{100 * day, 91 * day}, Options{}, 0},
		"a clock that was behind at first":  {[]time.Duration{20000 * day, 20000 * day, 1, 0}, Options{}, 2},
		"a clock that was ahead at first":   {[]time.Duration{-1000 * day, -1000 * day, 100 * day, 1}, Options{}, 1},
		"a clock that was ahead for a time": {[]time.Duration{100 * day, -1000 * day, 99 * day, 1}, Options{}, 1},
		"a clock that was ahead until now":  {[]time.Duration{100 * day, -1000 * day, 1}, Options{}, 2},
		"old lines of a spool":              {[]time.Duration{100 * day, 1, 95 * day}, Options{}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := openTest(t, dir, &test.opts)
			for i, age := range test.ages {
				aged(t, s, fmt.Sprint(i), age)
			}
			for range 2 {
				if err := s.Prune(t.Context(), time.Now()); err != nil {
					t.Fatal(err)
				}
				if n := count(t, s.Reader); n != test.want {
					t.Errorf("%d records are kept, want %d", n, test.want)
				}
				if report, err := s.Verify(t.Context()); err != nil || !report.OK() {
					t.Errorf("Verify = %+v, %v", report, err)
				}
			}
			closeTest(t, s)
			var reported notes
			s = openTest(t, dir, &Options{Note: reported.add, Limits: test.opts.Limits})
			aged(t, s, "after", 0)
			if report, err := s.Verify(t.Context()); err != nil || !report.OK() || reported.String() != "" {
				t.Errorf("opened again: Verify = %+v, %v; told: %s", report, err, &reported)
			}
		})
	}
}
