package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// A Report is the result of Verify.
type Report struct {
	Rows     int           `json:"rows"`              // number of rows that exist
	First    int64         `json:"first,omitempty"`   // the first of them
	Head     Head          `json:"head"`              // the end of the chain
	Anchor   *Head         `json:"anchor,omitempty"`  // from the file next to the database; nil = no anchor found
	Removed  []Removal     `json:"removed,omitempty"` // by retention; the last covers all rows before First
	Limits   []LimitChange `json:"limits,omitempty"`  // changes of the limits of retention
	Findings []Finding     `json:"findings"`          // problems
	More     int           `json:"more,omitempty"`    // number of findings that are not listed
	Unknown  []Head        `json:"unknown,omitempty"` // heads of rows that retention has removed: they cannot be compared
}

// OK reports whether the list of findings is empty.
func (r *Report) OK() bool { return len(r.Findings) == 0 }

// A Finding is a problem that begins at a row.
type Finding struct {
	Seq  int64  `json:"seq"`
	What string `json:"what"`
}

// String returns "row 7: problem", or only the problem for row 0, which does not exist.
func (f Finding) String() string {
	if f.Seq == 0 {
		return f.What
	}
	return fmt.Sprintf("row %d: %s", f.Seq, f.What)
}

// A gap is a range of rows that were missing when the store was opened.
type gap struct {
	first, last int64
	hash        Hash
}

// maxFindings is the maximum number of listed findings.
const maxFindings = 100

// Verify checks that all rows exist unchanged and in order, up to the anchor, and that they match
// the given heads. It reads the whole store. It returns an error only if reading fails; problems
// of the data are in the Report.
//
// See the package comment for the limits of this check.
func (r *Reader) Verify(ctx context.Context, heads ...Head) (Report, error) {
	v := verifier{report: Report{Findings: []Finding{}}, limits: r}
	// Read the anchor first: rows that are put meanwhile only make the log longer than the
	// anchor.
	anchor, err := readAnchor(r.dir)
	switch {
	case err == nil:
		v.report.Anchor = &anchor
		v.claims = append(v.claims, claim{anchor, headFile})
	case !errors.Is(err, fs.ErrNotExist):
		v.find(0, "cannot check the end of the log: %v", err)
	default:
		v.find(0, "cannot check the end of the log: %s is missing", headFile)
	}
	for _, h := range heads {
		v.claims = append(v.claims, claim{h, "the head " + h.String()})
	}
	err = r.read(ctx, v.read)
	if broken(err) {
		v.find(v.head.Seq, "cannot read the database from this row on: %v", err)
		err = nil
	}
	v.report.Head = v.head
	if err != nil {
		return v.report, fmt.Errorf("cannot verify the log: %w", err)
	}
	return v.report, nil
}

// VerifyAbsent verifies a directory without a database. If an anchor exists or a head is given, the
// database was removed, which is a finding. Otherwise the error is ErrNothing.
func VerifyAbsent(dir string, heads ...Head) (Report, error) {
	r := Report{Findings: []Finding{}}
	last, who := Head{}, ""
	switch anchor, err := readAnchor(dir); {
	case err == nil:
		r.Anchor = &anchor
		last, who = anchor, headFile
	case !errors.Is(err, fs.ErrNotExist):
		r.Findings = append(r.Findings, Finding{0, fmt.Sprintf("the database does not exist, and its end is unknown: %v", err)})
	}
	for _, h := range heads {
		if h.Seq > last.Seq {
			last, who = h, "the head "+h.String()
		}
	}
	if last.Seq > 0 {
		r.Findings = append(r.Findings, Finding{1, fmt.Sprintf("rows 1 to %d are missing: the database does not exist, but %s covers them", last.Seq, who)})
	}
	if len(r.Findings) == 0 {
		return r, ErrNothing
	}
	return r, nil
}

// ErrNothing is the error of VerifyAbsent if nothing shows that a log existed.
var ErrNothing = errors.New("no log found to verify")

// claim is the hash that the anchor or a given head states for a row.
type claim struct {
	Head
	who string
}

type verifier struct {
	report   Report
	claims   []claim
	limits   *Reader
	removals []removalRow // not reached yet
	gaps     []gap        // not reached yet
	floor    int64        // retention removed all rows up to here
	below    int          // rows up to floor that still exist
	latest   *Removal     // the last Removal, which removed the rows up to floor
	behind   int64        // bytes of lines that latest has left
	head     Head         // of the rows that were read
	known    bool         // the hash of head is correct
}

// removalRow is a Removal with the columns of its row.
type removalRow struct {
	Removal
	time         int64
	digest, hash []byte
	line         []byte
}

func (v *verifier) find(seq int64, format string, args ...any) {
	if len(v.report.Findings) == maxFindings {
		v.report.More++
		return
	}
	v.report.Findings = append(v.report.Findings, Finding{seq, fmt.Sprintf(format, args...)})
}

func (v *verifier) read(view *view) error {
	// The word index is left out: it proves nothing, and its own check uses the data that the
	// connection has cached instead of the current content.
	for _, table := range tables {
		err := view.each("PRAGMA integrity_check("+table+")", nil, func(scan func(into ...any) error) error {
			var what string
			err := scan(&what)
			if err == nil && what != "ok" {
				v.find(0, "the database is damaged: %s: %s", table, what)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := view.each("SELECT seq, what, time FROM finding ORDER BY time, seq", nil, func(scan func(into ...any) error) error {
		var seq, at int64
		var what string
		err := scan(&seq, &what, &at)
		if err == nil {
			v.find(seq, "%s (seen when the store was opened on %s)", what, unstamp(at).Format(time.RFC3339))
		}
		return err
	}); err != nil {
		return err
	}
	if err := v.readRemovals(view); err != nil {
		return err
	}
	if err := view.each("SELECT first, last, hash FROM gap ORDER BY first", nil, func(scan func(into ...any) error) error {
		var g gap
		var hash []byte
		err := scan(&g.first, &g.last, &hash)
		copy(g.hash[:], hash)
		v.gaps = append(v.gaps, g)
		return err
	}); err != nil {
		return err
	}
	hooks, err := newHookReader(view)
	if err != nil {
		return err
	}
	defer hooks.close()
	err = view.each(`SELECT r.seq, r.id, r.late, r.digest, r.hash, r.time, r.agent, r.session, r.event, r.tool, r.decision, r.would, r.error, l.line
		FROM record r LEFT JOIN line l ON l.seq = r.seq ORDER BY r.seq`, nil, func(scan func(into ...any) error) error {
		var s stored
		if err := scan(&s.seq, &s.id, &s.late, &s.digest, &s.hash, &s.time, &s.agent, &s.session, &s.event, &s.tool, &s.decision, &s.would, &s.error, &s.line); err != nil {
			return err
		}
		var err error
		if s.hooks, err = hooks.of(s.seq); err != nil {
			return err
		}
		v.row(&s)
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := hooks.of(1 << 62); err != nil {
		return err
	}
	if hooks.lone > 0 {
		v.find(0, "%d hooks refer to rows that do not exist", hooks.lone)
	}
	v.upTo(1 << 62)
	if r := v.latest; r != nil && r.Reason == bySize && v.behind+MaxLine <= r.MaxBytes {
		v.find(r.Seq, "retention cannot have removed rows %d to %d: the log had only %d bytes after row %d, but retention keeps %d bytes", r.First, r.Last, v.behind, r.Last, r.MaxBytes)
	}
	if v.below > 0 {
		v.find(v.floor, "%d rows up to this one exist, although the log states that retention removed them", v.below)
	}
	for _, c := range v.claims {
		if c.Seq > v.head.Seq {
			v.find(v.head.Seq+1, "rows %d to %d are missing at the end, but %s covers them", v.head.Seq+1, c.Seq, c.who)
		}
	}
	return nil
}

// stored is a row with its columns in the tables.
type stored struct {
	seq             int64
	id              string
	late            bool
	digest, hash    []byte
	time            int64
	agent, session  string
	event, tool     string
	decision, would grapnel.Decision
	error           string
	line            []byte
	hooks           []grapnel.HookRun
}

// readRemovals reads and checks the Removals. The rows of a Removal are checked with the chain,
// when upTo reaches them.
func (v *verifier) readRemovals(view *view) error {
	if err := view.each("SELECT seq, time, line, digest, hash FROM removal ORDER BY seq", nil, func(scan func(into ...any) error) error {
		var r removalRow
		var seq int64
		if err := scan(&seq, &r.time, &r.line, &r.digest, &r.hash); err != nil {
			return err
		}
		if err := json.Unmarshal(r.line, &r.Removal); err != nil {
			v.find(seq, "cannot read the removal entry of retention: %v", err)
		} else if r.Seq != seq || stamp(r.Time) != r.time {
			v.find(seq, "the removal entry of retention was changed")
		}
		r.Seq = seq
		v.removals = append(v.removals, r)
		return nil
	}); err != nil {
		return err
	}
	var before *Removal
	var limits *Limits // the last statement about the limits in force
	for i := range v.removals {
		r := &v.removals[i].Removal
		if r.Reason == newLimits {
			v.report.Limits = append(v.report.Limits, LimitChange{r.Seq, r.Time, r.Limits})
			if r.First != 0 || r.Last != 0 {
				v.find(r.Seq, "a change of the limits of retention cannot remove rows")
			}
			limits = &r.Limits
			continue
		}
		v.report.Removed = append(v.report.Removed, *r)
		why := r.implausible(before, v.limits.now())
		if why == "" {
			why = v.unlimited(r, limits, v.removals[i+1:])
		}
		if why != "" {
			v.find(r.Seq, "retention cannot have removed rows %d to %d: %s", r.First, r.Last, why)
		}
		before, limits = r, &r.Limits
	}
	v.latest = before
	v.known = true
	if before == nil {
		return nil
	}
	v.floor = before.Last
	v.head = Head{Seq: before.Last, Hash: before.After}
	for _, c := range v.claims {
		switch {
		case c.Seq >= v.floor:
		case c.who == headFile:
			// Prune writes the anchor before it removes rows, possibly after the anchor was read
			// here.
			if now, err := readAnchor(v.limits.dir); err == nil && now.Seq >= v.floor {
				continue
			}
			v.find(c.Seq, "the log states that retention removed the rows up to %d, but %s names an earlier row", v.floor, headFile)
		default:
			v.report.Unknown = append(v.report.Unknown, c.Head)
		}
	}
	v.claimed()
	return nil
}

// unlimited returns why the limits that a Removal states were not in force, or "". stated is the
// statement before it, or nil if the log has none any more; later are the rows after it.
func (v *verifier) unlimited(r *Removal, stated *Limits, later []removalRow) string {
	if stated != nil && *stated != r.Limits {
		return cmp.Or(r.stricter(r.Reason, *stated), "it states other limits than the last row before it that states any")
	}
	why := r.stricter(r.Reason, *v.limits.limits.Load())
	if why == "" {
		return ""
	}
	// The limits may have been less before. Then a later row states a change.
	if !slices.ContainsFunc(later, func(l removalRow) bool { return l.Limits != r.Limits }) {
		return why + ` (if you have just changed "retention" in the policy, start the daemon and verify again)`
	}
	// Rows up to a given head are genuine if it matches, and such a row must state the limits.
	for _, c := range v.claims {
		if c.who == headFile || c.Seq >= r.Seq || c.Seq <= r.Last {
			continue
		}
		known := slices.ContainsFunc(v.removals, func(s removalRow) bool { return s.Seq <= c.Seq && s.Limits == r.Limits })
		if !known {
			return fmt.Sprintf("%s, and %s does not cover a change of the limit: use a newer head", why, c.who)
		}
	}
	return ""
}

// upTo processes the removals, gaps and missing rows before a row.
func (v *verifier) upTo(seq int64) {
	for {
		next := v.head.Seq + 1
		for len(v.removals) > 0 && v.removals[0].Seq < next {
			if r := v.removals[0]; r.Seq <= v.floor {
				v.below++
			} else {
				v.find(r.Seq, "two rows have this number")
			}
			v.removals = v.removals[1:]
		}
		for len(v.gaps) > 0 && (v.gaps[0].first < next || v.gaps[0].last < v.gaps[0].first || v.gaps[0].first < seq && v.gaps[0].last >= seq) {
			v.find(v.gaps[0].first, "the log lists rows %d to %d as missing, but some of them exist", v.gaps[0].first, v.gaps[0].last)
			v.gaps = v.gaps[1:]
		}
		end := seq
		if len(v.removals) > 0 {
			end = min(end, v.removals[0].Seq)
		}
		if len(v.gaps) > 0 {
			end = min(end, v.gaps[0].first)
		}
		switch {
		case next >= seq, end == 1<<62:
			return
		case next < end:
			v.find(next, "rows %d to %d are missing", next, end-1)
			v.head, v.known = Head{Seq: end - 1}, false
		case len(v.gaps) > 0 && v.gaps[0].first == next:
			g := v.gaps[0]
			v.find(g.first, "rows %d to %d are missing", g.first, g.last)
			v.head, v.known = Head{Seq: g.last, Hash: g.hash}, true
			v.claimed()
			v.gaps = v.gaps[1:]
		default:
			r := &v.removals[0]
			if sum := sha256.Sum256(r.line); !bytes.Equal(sum[:], r.digest) {
				v.find(r.Seq, "the removal entry of retention was changed")
			}
			v.chain(r.Seq, r.time, r.digest, r.hash)
			v.removals = v.removals[1:]
		}
	}
}

// chain checks that a row is chained to the row before it.
func (v *verifier) chain(seq, time int64, digest, hash []byte) {
	var sum Hash
	copy(sum[:], digest)
	want := v.head.next(seq, time, sum)
	if v.known && !bytes.Equal(want.Hash[:], hash) {
		v.find(seq, "its hash does not match the previous row: the row was changed, inserted or moved")
	}
	v.head, v.known = Head{Seq: seq}, true
	copy(v.head.Hash[:], hash)
	v.claimed()
}

// claimed compares the current row with the claims about it.
func (v *verifier) claimed() {
	for _, c := range v.claims {
		if c.Seq == v.head.Seq && c.Hash != v.head.Hash {
			v.find(c.Seq, "the row does not match %s: this row or an earlier row was changed, and the chain was rebuilt", c.who)
		}
	}
}

func (v *verifier) row(s *stored) {
	if s.seq <= v.floor {
		v.below++
		return
	}
	v.upTo(s.seq)
	if s.seq <= v.head.Seq {
		v.find(s.seq, "two rows have this number")
		return
	}
	v.report.Rows++
	if v.report.First == 0 {
		v.report.First = s.seq
	}
	if sum := sha256.Sum256(s.line); s.line == nil {
		v.find(s.seq, "its line is missing")
	} else if !bytes.Equal(sum[:], s.digest) {
		v.find(s.seq, "its line was changed")
	} else if what := s.differs(); what != "" {
		v.find(s.seq, "columns differ from the line: %s", what)
	}
	v.chain(s.seq, s.time, s.digest, s.hash)
	if v.latest != nil && s.seq < v.latest.Seq {
		v.behind += int64(len(s.line))
	}
}

// differs returns the names of the columns that do not match the line.
func (s *stored) differs() string {
	l, err := parse(s.line)
	if err != nil {
		return "all"
	}
	var names []string
	for _, c := range []struct {
		name string
		same bool
	}{
		{"id", s.id == l.ID},
		{"late", s.late == l.Late},
		{"time", s.time == stamp(l.Time)},
		{"agent", s.agent == l.Agent},
		{"session", s.session == l.Session},
		{"event", s.event == string(l.Event)},
		{"tool", s.tool == l.Tool},
		{"decision", s.decision == l.Decision},
		{"would", s.would == l.Would},
		{"error", s.error == l.Error},
		{"hooks", sameHooks(s.hooks, l.Hooks)},
	} {
		if !c.same {
			names = append(names, c.name)
		}
	}
	return strings.Join(names, ", ")
}

func sameHooks(have, line []grapnel.HookRun) bool {
	if len(have) != len(line) {
		return false
	}
	for i := range have {
		h, l := &have[i], &line[i]
		if h.Name != l.Name || h.Source != l.Source || h.Decision != l.Decision || h.Cause != l.Cause || h.Error != l.Error ||
			h.FailOpen != l.FailOpen || h.Async != l.Async || h.MS != l.MS {
			return false
		}
	}
	return true
}

// hookReader reads the rows of table hook in parallel to the rows of the chain.
type hookReader struct {
	rows *sql.Rows
	next int64 // the row that contains run; 0 = all runs were read
	run  grapnel.HookRun
	lone int // hooks of rows that do not exist
}

func newHookReader(v *view) (*hookReader, error) {
	rows, err := v.tx.QueryContext(v.ctx, "SELECT seq, name, source, decision, cause, error, fail_open, async, ms FROM hook ORDER BY seq, n")
	if err != nil {
		return nil, err
	}
	h := &hookReader{rows: rows}
	if err := h.advance(); err != nil {
		return nil, errors.Join(err, rows.Close())
	}
	return h, nil
}

func (h *hookReader) advance() error {
	h.next, h.run = 0, grapnel.HookRun{}
	if !h.rows.Next() {
		return h.rows.Err()
	}
	return h.rows.Scan(&h.next, &h.run.Name, &h.run.Source, &h.run.Decision, &h.run.Cause, &h.run.Error, &h.run.FailOpen, &h.run.Async, &h.run.MS)
}

// of returns the hooks of a row. Rows must be requested in order.
func (h *hookReader) of(seq int64) (runs []grapnel.HookRun, err error) {
	for h.next != 0 && h.next <= seq && err == nil {
		if h.next == seq {
			runs = append(runs, h.run)
		} else {
			h.lone++
		}
		err = h.advance()
	}
	return runs, err
}

func (h *hookReader) close() { _ = h.rows.Close() }
