package journal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// VerifyOptions are the options of [Verify].
type VerifyOptions struct {
	Heads  []Head           // that were stored elsewhere
	Limits Limits           // of the policies that are in force; for each, 0 is the default
	Now    func() time.Time // nil = time.Now
}

// A Report is the result of [Verify].
type Report struct {
	Records  int64         `json:"records"`           // complete lines that exist
	Segments int           `json:"segments"`          // that exist
	Bytes    int64         `json:"bytes"`             // in them
	First    int           `json:"first,omitempty"`   // the first segment that exists
	Last     int           `json:"last,omitempty"`    // the last one
	Head     Head          `json:"head"`              // of the first segment that is not sealed
	Saved    *Head         `json:"saved,omitempty"`   // the saved head; nil = it cannot be read
	Removed  []Removal     `json:"removed,omitempty"` // by retention
	Limits   []LimitChange `json:"limits,omitempty"`  // changes of the limits of retention
	Torn     int64         `json:"torn,omitempty"`    // lines that were cut because their process was killed, or changed before their segment was sealed
	Findings []Finding     `json:"findings"`          // problems
	More     int           `json:"more,omitempty"`    // number of findings that are not listed
	Unknown  []Head        `json:"unknown,omitempty"` // heads of segments that retention has removed: they cannot be compared
}

// OK reports whether the list of findings is empty.
func (r *Report) OK() bool { return len(r.Findings) == 0 }

// A Finding is a problem of a segment, which begins at an offset. Segment 0 is the manifest or the saved head.
type Finding struct {
	Segment int    `json:"segment,omitempty"`
	Offset  int64  `json:"offset,omitempty"`
	What    string `json:"what"`
}

// String returns "segment 7: problem", "segment 7, offset 99: problem", or only the problem.
func (f Finding) String() string {
	switch {
	case f.Segment == 0:
		return f.What
	case f.Offset == 0:
		return fmt.Sprintf("segment %d: %s", f.Segment, f.What)
	}
	return fmt.Sprintf("segment %d, offset %d: %s", f.Segment, f.Offset, f.What)
}

// maxFindings is the maximum number of listed findings.
const maxFindings = 100

// ErrNothing is the error of [Verify] if nothing shows that a log existed.
var ErrNothing = errors.New("no log found to verify")

// Verify checks that the segments exist unchanged and match the manifest, the saved head and the given heads.
// It reads the whole log, on as many processors as the program may use, and changes nothing. It returns an
// error only if reading fails, [ErrNothing], or the error of ctx. Problems of the data are in the Report.
//
// It notices each change of a sealed segment, of a complete line of the manifest, and of the part of the open
// segment that a head covers. A process of the same user can rebuild all files: against that, only a head
// that was stored elsewhere helps. Other processes can append, seal and remove meanwhile.
func Verify(ctx context.Context, dir string, opts VerifyOptions) (Report, error) {
	opts.Limits = opts.Limits.OrDefault()
	if opts.Now == nil {
		opts.Now = time.Now
	}
	const tries = 10 // retention removes segments a few times a day
	for try := 1; ; try++ {
		v := &verifier{dir: dir, opts: opts, report: Report{Findings: []Finding{}}}
		err := v.verify(ctx)
		if errors.Is(err, ErrNothing) {
			return v.report, err
		}
		if err != nil {
			return v.report, fmt.Errorf("cannot verify the journal: %w", err)
		}
		if m, _ := ReadManifest(dir); v.report.OK() || try == tries || m == nil || m.RemovedTo() == v.manifest.RemovedTo() {
			return v.report, nil // otherwise, retention removed segments meanwhile
		}
	}
}

var errOther = errors.New("its key differs from the manifest")

type verifier struct {
	dir      string
	opts     VerifyOptions
	report   Report
	manifest *Manifest
	found    bool // a manifest
	numbers  []int
	claims   []claim
}

// claim is a head with the file or argument that states it.
type claim struct {
	Head
	who string
}

func (v *verifier) find(segment int, offset int64, format string, args ...any) {
	v.list(Finding{segment, offset, fmt.Sprintf(format, args...)})
}

func (v *verifier) list(f Finding) {
	if len(v.report.Findings) == maxFindings {
		v.report.More++
		return
	}
	v.report.Findings = append(v.report.Findings, f)
}

func (v *verifier) verify(ctx context.Context) (err error) {
	// The saved head is first, then the manifest: what is written meanwhile makes the log only longer.
	errHead := v.readSaved()
	if err := v.readManifest(); err != nil {
		return err
	}
	if errors.Is(errHead, fs.ErrNotExist) && files.Exists(filepath.Join(v.dir, headFile)) {
		errHead = nil // it was saved meanwhile, and before the first line of the manifest
	}
	if v.numbers, err = Numbers(v.dir); err != nil {
		return err
	}
	switch {
	case len(v.numbers) == 0 && !v.found && errors.Is(errHead, fs.ErrNotExist) && len(v.claims) == 0:
		return ErrNothing
	case errHead != nil && (v.found || !errors.Is(errHead, fs.ErrNotExist)):
		v.find(0, 0, "cannot check the end of the log: %v", errHead)
	}
	if len(v.numbers) == 0 {
		v.find(0, 0, "the log was removed: no segment exists")
	}
	v.report.Removed, v.report.Limits = v.manifest.Removals, v.manifest.Limits
	v.checkStatements()
	v.checkNumbers()
	return v.readSegments(ctx)
}

func (v *verifier) readSaved() error {
	h, err := ReadHead(v.dir)
	if err == nil {
		v.report.Saved = &h
		v.claim(h, "the saved head "+h.String())
	}
	for _, h := range v.opts.Heads {
		v.claim(h, "the head "+h.String())
	}
	return err
}

// claim adds a claim. The zero Head claims nothing.
func (v *verifier) claim(h Head, who string) {
	if h != (Head{}) {
		v.claims = append(v.claims, claim{h, who})
	}
}

func (v *verifier) readManifest() error {
	v.manifest = &Manifest{}
	name := filepath.Join(v.dir, manifestFile)
	f, err := files.OpenRegular(name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := content(f)
	v.found = len(data) > 0
	v.manifest = parseManifest(data, func(line int, problem error) {
		v.find(0, 0, "%s, line %d: %v", manifestFile, line, problem)
	})
	return err
}

// unlimited returns why the limits of a removal are not the limits of the policies, or "". The limits may have
// been less before: then a later line states a change.
func (v *verifier) unlimited(s *statement) string {
	why := s.Removed.stricter(s.Removed.Reason, v.opts.Limits)
	if why == "" || slices.ContainsFunc(v.manifest.statements, func(later statement) bool { return later.line > s.line && later.Limits != nil }) {
		return ""
	}
	return why + ` (if you have just changed "retention" in the policy, run "grapnel drain" and verify again)`
}

// checkStatements checks the lines of the manifest about retention.
func (v *verifier) checkStatements() {
	now := v.opts.Now()
	var before Manifest
	for _, s := range v.manifest.statements {
		if s.Removed != nil {
			what := cmp.Or(before.implausible(s.Removed, now), v.unlimited(&s))
			if what != "" {
				v.find(0, 0, "%s, line %d: retention cannot have removed segments %d to %d: %s", manifestFile, s.line, s.Removed.First, s.Removed.Last, what)
			}
		}
		if s.Limits != nil && s.Limits.Time.After(now.Add(maxAhead)) {
			v.find(0, 0, "%s, line %d: its time, %s, is in the future", manifestFile, s.line, s.Limits.Time.Format(time.RFC3339))
		}
		before.add(s)
	}
}

// implausible returns why retention with the limits that a removal states cannot have made it, or "". The
// manifest has the lines before.
func (m *Manifest) implausible(r *Removal, now time.Time) string {
	list, last := m.kept(), m.sealed(r.Last)
	if last == nil || r.First != m.RemovedTo()+1 || r.Last < r.First {
		return fmt.Sprintf("the segments %d to %d were sealed then", m.RemovedTo()+1, m.sealedTo())
	}
	var lines int64
	n := 0
	for n < len(list) && list[n].Segment <= r.Last {
		lines += list[n].Lines
		n++
	}
	switch {
	case lines != r.Lines:
		return fmt.Sprintf("they had %d lines, and it states %d", lines, r.Lines)
	case r.Time.After(now.Add(maxAhead)):
		return fmt.Sprintf("its time, %s, is in the future", r.Time.Format(time.RFC3339))
	case !slices.Contains(reasons(), r.Reason):
		return fmt.Sprintf("unknown reason %q", r.Reason)
	case r.Reason == bySize && r.MaxBytes <= 0:
		return "it states no limit of the size"
	case n <= due(list, r.Reason, r.Limits, r.Time) && r.Limits != m.limits():
		return fmt.Sprintf("it states the limits %v, and %v were in force", r.Limits, m.limits())
	case n <= due(list, r.Reason, r.Limits, r.Time):
		return ""
	case r.Reason == byAge:
		return fmt.Sprintf("segment %d ended on %s, and one of them was not older than %v on %s", r.Last, last.Ended.Format(time.RFC3339), r.Age(), r.Time.Format(time.RFC3339))
	case r.Reason == byNumber:
		return fmt.Sprintf("the sealed segments behind them had less than %d records", r.MaxRecords)
	}
	return fmt.Sprintf("the sealed segments behind them had less than %d bytes", r.MaxBytes)
}

// checkNumbers reports segments that are missing or that the manifest does not know, and heads that cannot be
// compared. It drops the files that retention has left.
func (v *verifier) checkNumbers() {
	removed, sealed := v.manifest.RemovedTo(), v.manifest.sealedTo()
	v.numbers = slices.DeleteFunc(v.numbers, func(n int) bool {
		left, err := v.manifest.left(v.dir, n)
		if n <= removed && !left {
			v.find(n, 0, "retention has removed this segment, and this file is another one (%v)", cmp.Or(err, errOther))
		}
		return n <= removed
	})
	exist := removed
	missing := func(next int) {
		switch {
		case next == exist+2:
			v.find(exist+1, 0, "it is missing")
		case next > exist+2:
			v.find(exist+1, 0, "it is missing, and all up to segment %d", next-1)
		}
	}
	for _, n := range v.numbers {
		if n <= sealed && v.manifest.sealed(n) == nil {
			v.find(n, 0, "the manifest does not know it, but a later one")
		}
		missing(n)
		exist = max(exist, n)
	}
	missing(max(sealed, exist) + 1)
	v.claims = slices.DeleteFunc(v.claims, func(c claim) bool {
		switch {
		case c.Segment <= removed:
			v.report.Unknown = append(v.report.Unknown, c.Head)
			return true
		case !slices.Contains(v.numbers, c.Segment):
			v.find(c.Segment, 0, "it is missing, but %s names it", c.who)
			return true
		}
		return false
	})
}

// readSegments reads the segments at the same time, and reports their findings in order.
func (v *verifier) readSegments(ctx context.Context) error {
	parts := make([]part, len(v.numbers))
	jobs := make(chan int)
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(parts)) {
		all.Go(func() {
			for i := range jobs {
				parts[i].verifier = v
				parts[i].err = parts[i].read(ctx, i)
			}
		})
	}
	for i := range parts {
		jobs <- i
	}
	close(jobs)
	all.Wait()
	for i := range parts {
		p := &parts[i]
		if p.err != nil {
			return p.err
		}
		for _, f := range p.findings {
			v.list(f)
		}
		if !p.exists {
			continue
		}
		if v.report.Segments++; v.report.Segments == 1 {
			v.report.First = p.number
		}
		v.report.Last = p.number
		v.report.Records += p.lines
		v.report.Torn += p.torn
		v.report.Bytes += p.bytes
		if v.report.Head == (Head{}) && p.number > v.manifest.sealedTo() {
			v.report.Head = headOf(p.number, p.bytes, v.manifest.Last, p.sum)
		}
	}
	return nil
}

// A part is the result of one segment.
type part struct {
	*verifier
	counts

	number   int
	exists   bool
	sum      []byte // of the file
	findings []Finding
	err      error
}

func (p *part) find(offset int64, format string, args ...any) {
	p.findings = append(p.findings, Finding{p.number, offset, fmt.Sprintf(format, args...)})
}

// read reads a segment, which is the i-th of the log.
func (p *part) read(ctx context.Context, i int) (err error) {
	p.number = p.numbers[i]
	f, err := files.OpenRegular(segment(p.dir, p.number), os.O_RDONLY)
	switch {
	case errors.Is(err, fs.ErrNotExist): // it was removed meanwhile
		p.find(0, "it is missing")
		return nil
	case errors.Is(err, files.ErrPlace):
		p.find(0, "it cannot be read: %v", err)
		return nil
	case err != nil:
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	p.exists = true
	in := &prefixes{in: io.LimitReader(f, info.Size()), ctx: ctx, sum: sha256.New(), offsets: p.offsets()}
	said := p.manifest.sealed(p.number)
	if said == nil {
		p.counts, err = count(f.Name(), in, i < len(p.numbers)-1)
	} else {
		p.lines, p.torn = said.Lines, said.Torn
		if _, err = io.CopyBuffer(io.Discard, onlyReader{in}, make([]byte, min(256<<10, info.Size()+1))); err != nil {
			err = fmt.Errorf("cannot read %s: %w", f.Name(), err)
		}
	}
	if err != nil {
		return err
	}
	p.bytes, p.sum = in.at, in.sum.Sum(nil)
	if said != nil && Hash(p.sum) != said.SHA256 {
		if err := p.differs(f, said); err != nil {
			return err
		}
	}
	p.checkHeads(in)
	return nil
}

// onlyReader hides all but Read, so that a copy uses its buffer.
type onlyReader struct{ io.Reader }

// differs reports how a segment differs from its line in the manifest.
func (p *part) differs(f *os.File, said *Sealed) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	h, err := headerOf(f)
	if err != nil {
		p.find(0, "%v", err)
		return nil
	}
	if said.Bytes == 0 && p.bytes == int64(h.length) {
		return nil // the process that made it was stopped before it wrote the header, and was continued later
	}
	if h.key != said.Key {
		p.find(0, "its header was changed, or it is another segment: the key is %q, and the manifest states %q", h.key, said.Key)
		return nil
	}
	n, err := count(f.Name(), f, true)
	switch {
	case err != nil:
		return err
	case p.bytes != said.Bytes:
		p.find(n.firstTorn, "it has %d bytes and %d lines, and the manifest states %d bytes and %d lines", p.bytes, n.lines, said.Bytes, said.Lines)
	default:
		p.find(n.firstTorn, "its content was changed: the SHA-256 differs from the manifest")
	}
	return nil
}

// offsets returns the offsets of the heads of this segment, in order.
func (p *part) offsets() (list []int64) {
	for _, c := range p.claims {
		if c.Segment == p.number {
			list = append(list, c.Offset)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// checkHeads compares the segment with the heads that name it.
func (p *part) checkHeads(in *prefixes) {
	for _, c := range p.claims {
		sum, ok := in.sums[c.Offset]
		switch {
		case c.Segment != p.number:
		case !ok:
			p.find(in.at, "it ends here, but %s covers %d bytes", c.who, c.Offset)
		case !p.manifest.matches(c.Head, sum):
			p.find(0, "%s does not match: the first %d bytes were changed, an earlier segment was changed and sealed again, or the end of the manifest was cut off", c.who, c.Offset)
		}
	}
}

// prefixes hashes what is read, and keeps the sums at some offsets.
type prefixes struct {
	in      io.Reader
	ctx     context.Context
	sum     hash.Hash
	at      int64
	offsets []int64 // not reached yet, in order
	sums    map[int64][]byte
}

func (p *prefixes) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, context.Cause(p.ctx)
	}
	n, err := p.in.Read(b)
	p.hash(b[:n])
	return n, err
}

func (p *prefixes) hash(b []byte) {
	for len(p.offsets) > 0 && p.offsets[0] <= p.at+int64(len(b)) {
		upTo := p.offsets[0] - p.at
		p.sum.Write(b[:upTo])
		p.at, b = p.offsets[0], b[upTo:]
		if p.sums == nil {
			p.sums = map[int64][]byte{}
		}
		p.sums[p.at] = p.sum.Sum(nil)
		p.offsets = p.offsets[1:]
	}
	p.sum.Write(b)
	p.at += int64(len(b))
}
