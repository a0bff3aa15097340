package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/loss"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/shell"
)

// sessionPast knows the actions of the calls of a session on files. Rules about commands then also see the
// commands of a script that was changed since the session began, when a later call runs it, and rules
// about deletions know which files the session made.
//
// Most of this is in the file system: whether a file was changed, and its text. Stored are the facts that the file
// system does not show: when the session began, which directories it made, and its links and moves.
// The text that a call writes is stored for a short time, because the next call may begin before the
// file is there.
//
// Nothing that a guard needs is dropped to make room. If a session has no room, the call that needs it is
// an error of the recorder, which asks a person.
type sessionPast struct {
	counter Counter
	now     func() time.Time
}

// Limits for the stored facts of a session.
const (
	maxPastBytes = 96 << 10 // all paths
	maxPastPath  = 1 << 10  // one path
	maxFormer    = 64       // former names of a file
	keepPast     = 31 * 24 * time.Hour
	justMoved    = time.Minute           // how long a move counts although its target does not exist
	coarseClock  = 20 * time.Millisecond // how far the clock of a file system may be behind
)

// pastFiles is the stored value of a session. Each entry is one line, because each shell line of the
// session reads it. All paths are absolute, and real if they exist.
type pastFiles struct {
	Began   time.Time   // the first call that may change files, by the real clock, as the times of files
	Decided []string    // written files that decide about deletions, such as .gitignore
	Made    []string    // directories that did not exist, the newest last
	Moves   []movedPath // the newest last

	Databases []pastDatabase // the newest last
}

type movedPath struct {
	From, To string
	At       time.Time
	Copied   bool // or unpacked: From is still there
}

// readPast decodes a stored value.
func readPast(kept []byte) (past pastFiles, err error) {
	for line := range strings.Lines(string(kept)) {
		switch fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); {
		case fields[0] == "database":
			database, wrong := readDatabase(fields)
			past.Databases, err = append(past.Databases, database), errors.Join(err, wrong)
		case len(fields) == 2 && fields[0] == "began":
			at, wrong := strconv.ParseInt(fields[1], 10, 64)
			past.Began, err = time.Unix(0, at), errors.Join(err, wrong)
		case len(fields) == 2 && fields[0] == "decided":
			past.Decided = append(past.Decided, fields[1])
		case len(fields) == 2 && fields[0] == "made":
			past.Made = append(past.Made, fields[1])
		case len(fields) == 3 || len(fields) == 4 && fields[3] == "copied":
			at, wrong := strconv.ParseInt(fields[0], 10, 64)
			past.Moves, err = append(past.Moves, movedPath{fields[1], fields[2], time.Unix(0, at), len(fields) == 4}), errors.Join(err, wrong)
		default:
			err = errors.Join(err, errors.New("a line has the wrong number of fields"))
		}
	}
	return past, err
}

// storable reports whether a path fits into a line of the stored value.
func storable(path string) bool {
	return path != "" && len(path) <= maxPastPath && !strings.ContainsAny(path, "\t\n")
}

func (p *sessionPast) key(ev *grapnel.Event, more ...string) string {
	return strings.Join(append([]string{"past", ev.Agent.Name}, more...), "\x00")
}

// read returns the stored facts of the session of an event; ok = anything valid.
func (p *sessionPast) read(ev *grapnel.Event) (past pastFiles, ok bool) {
	kept, err := counted(p.counter, sessionOwner(ev), p.key(ev))
	if err == nil && len(kept) > 0 {
		past, err = readPast(kept)
	}
	return past, err == nil && !past.Began.IsZero()
}

// of implements match.PastOf. If the stored value cannot be read, the recorder reports it.
func (p *sessionPast) of(ev *grapnel.Event, scripts func() []*shell.Script) *shell.Past {
	files, ok := p.read(ev)
	if !ok {
		return nil
	}
	lines := scripts()
	past := &shell.Past{
		Texts: func(name string) []shell.Text { return p.texts(ev, &files, name) },
		Unchanged: func(name string) bool {
			info, err := os.Stat(name)
			return err == nil && !files.changed(info)
		},
	}
	past.Moved, past.Copied = p.moved(ev, files.Moves, lines)
	runs := func(name string) bool { return len(past.Texts(name)) > 0 }
	if len(past.Moved)+len(past.Copied) == 0 && !slices.ContainsFunc(lines, func(s *shell.Script) bool { return slices.ContainsFunc(s.Runs(), runs) }) {
		return nil
	}
	return past
}

// changed reports whether a file may have changed since the session began.
func (f *pastFiles) changed(info fs.FileInfo) bool {
	return !files.Changed(info).Before(f.Began.Add(-coarseClock))
}

// moved returns the moves and the copies that concern names in lines, in the order in which they happened.
func (p *sessionPast) moved(ev *grapnel.Event, moves []movedPath, lines []*shell.Script) (moved, copied []shell.Move) {
	if len(moves) == 0 {
		return nil, nil
	}
	names, all := namesIn(lines)
	for element := range elements(ev.Session.CWD) {
		names[element] = true
	}
	for _, m := range slices.Backward(moves) {
		named := all
		for element := range elements(m.To) { // the line may name a directory above it
			named = named || names[element]
		}
		if !named || p.now().Sub(m.At) > justMoved && gone(m.To) {
			continue
		}
		names[filepath.Base(m.From)] = true // which may have been moved before
		if m.Copied {
			copied = append(copied, shell.Move{From: m.From, To: m.To})
			continue
		}
		moved = append(moved, shell.Move{From: m.From, To: m.To})
		if from, to := relativeTo(ev.Session.CWD, m.From), relativeTo(ev.Session.CWD, m.To); to != m.To {
			moved = append(moved, shell.Move{From: from, To: to})
		}
	}
	slices.Reverse(moved)
	slices.Reverse(copied)
	return moved, copied
}

func elements(path string) iter.Seq[string] {
	return strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == filepath.Separator })
}

// namesIn returns the elements of all paths that lines may name; all = it may be any name.
func namesIn(lines []*shell.Script) (names map[string]bool, all bool) {
	names = map[string]bool{}
	add := func(path string) {
		for element := range elements(path) {
			names[element] = true
		}
	}
	for _, script := range lines {
		for _, list := range [][]string{script.Reads, script.Writes, script.Runs()} {
			for _, name := range list {
				add(name)
			}
		}
		for i := range script.Commands {
			c := &script.Commands[i]
			add(c.Path)
			for _, a := range c.Args {
				_, value, _ := strings.Cut(a.Text, "=") // --file=x
				add(a.Text)
				add(value)
				all = all || strings.ContainsAny(a.Text, "*?[$`")
			}
		}
	}
	return names, all
}

// files implements match.SessionOf. A file that was moved into a directory existed before.
func (p *sessionPast) files(ev *grapnel.Event) match.SessionFiles {
	past, ok := p.read(ev)
	if !ok {
		return match.SessionFiles{}
	}
	return match.SessionFiles{
		Made: func(path string) bool {
			return slices.ContainsFunc(past.Made, func(made string) bool { return within(made, path) }) &&
				!slices.ContainsFunc(past.Moves, func(m movedPath) bool { return !m.Copied && (within(path, m.To) || within(m.To, path)) })
		},
		Wrote:   func(path string) bool { return slices.Contains(past.Decided, path) },
		Created: func(key string) bool { return p.created(ev, &past, key) },
	}
}

// within reports whether a path is a directory or below it.
func within(dir, path string) bool {
	_, ok := files.Below(dir, path)
	return ok
}

// relativeTo returns a path relative to dir, if the path is inside of it.
func relativeTo(dir, name string) string {
	if rel, ok := files.Below(dir, name); ok {
		return filepath.FromSlash(rel)
	}
	return name
}

// gone reports whether a file does not exist in a directory that does.
func gone(name string) bool {
	_, err := os.Lstat(filepath.Dir(name))
	return err == nil && absent(name)
}

// texts returns the texts that a file may have, if it was changed since the session began, or a call is
// about to write it. A file that was moved or linked is read under its former names, too.
func (p *sessionPast) texts(ev *grapnel.Event, past *pastFiles, name string) (texts []shell.Text) {
	path := match.RealPath(home.Absolute(name, ev.Session.CWD))
	for range maxFormer {
		texts = append(texts, p.textsOf(ev, past, path)...)
		i := slices.IndexFunc(past.Moves, func(m movedPath) bool { return m.To == path })
		if i < 0 {
			break
		}
		path = past.Moves[i].From
	}
	return texts
}

// textsOf returns the content of a changed file, and the text that a call has just written to it.
func (p *sessionPast) textsOf(ev *grapnel.Event, past *pastFiles, path string) (texts []shell.Text) {
	written, pending := p.pending(ev, path)
	info, err := os.Stat(path)
	if err == nil && info.Mode().IsRegular() && (pending || past.changed(info)) {
		if content, err := files.Read(path, maxPastRead); err == nil && !isBinary(content) {
			texts = append(texts, shell.Text{Text: string(content)})
		}
	}
	if pending && (len(texts) == 0 || written.Text != texts[0].Text) {
		texts = append(texts, written)
	}
	return texts
}

// isBinary reports whether a shell refuses to read a file as a script: its first line has a NUL byte.
func isBinary(content []byte) bool {
	line, _, _ := bytes.Cut(content[:min(len(content), 80)], []byte("\n"))
	return bytes.IndexByte(line, 0) >= 0
}

// maxPastRead is the maximum number of bytes of a file that are read.
const maxPastRead = 256 << 10

// Recorder is the hook that records the actions of a call. It decides nothing.
type Recorder struct {
	past   *sessionPast
	facts  *match.FactCache
	Source *grapnel.Source // of the first policy with rules about commands; nil = nothing needs to be recorded
}

// NewRecorder returns a recorder whose knowledge the facts use, too.
func NewRecorder(counter Counter, facts *match.FactCache) *Recorder {
	r := &Recorder{past: &sessionPast{counter, facts.Now()}, facts: facts}
	facts.Past, facts.Session = r.past.of, r.past.files
	return r
}

// Spec returns the Spec of the recorder. If it fails before a call, a person is asked: an action that is not recorded
// could hide the effect of a later call from a guard.
func (r *Recorder) Spec() grapnel.Spec {
	return grapnel.Spec{
		Name: "session-files", Source: notice.OwnSource(*r.Source), On: []grapnel.Kind{grapnel.ToolBefore, grapnel.ToolAfter, grapnel.ToolFailed},
		Match: r, Hook: r, Phase: grapnel.PhaseObserve, OnError: grapnel.OnErrorAsk,
	}
}

// Handle returns an empty outcome. It is for callers that do not support Marker.
func (*Recorder) Handle(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
	return grapnel.Outcome{}, nil
}

// Explain returns the purpose of the hook.
func (*Recorder) Explain(*grapnel.Event, *grapnel.Verdict) string {
	return "remembers what the session does with files and databases"
}

// Match reports whether the call writes, links or moves files or may create a database, and is not blocked, or
// whether it ends a call that may have. The first call that may change files marks the start of the session.
func (r *Recorder) Match(came *grapnel.Event, v *grapnel.Verdict) (bool, error) {
	if came.Kind != grapnel.ToolBefore {
		return r.past.awaits(came), nil
	}
	ev := happened(came, v)
	if ev.Tool == nil || blocked(ev, v) {
		return false, nil
	}
	if len(ev.Tool.Commands) == 0 && slices.Contains([]grapnel.Class{grapnel.ClassRead, grapnel.ClassSearch, grapnel.ClassFetch}, ev.Tool.Class) {
		return false, nil
	}
	if slices.ContainsFunc(ev.Tool.Commands, mayWrite) || slices.ContainsFunc(ev.Tool.Commands, mayCreate) {
		return true, nil
	}
	if ev.Tool.Content != "" && slices.ContainsFunc(ev.Tool.Paths, func(p grapnel.Path) bool { return p.Use == grapnel.UseWrite }) {
		return true, nil
	}
	past, ok := r.past.read(ev)
	return !ok || len(past.Databases) > 0 && len(ev.Tool.Commands) > 0, nil
}

// writers are parts of shell lines that write, make, link, move, copy or delete files without a redirection.
var writers = []string{"tee", "mv", "ln", "cp", "mount", "curl", "wget", "install", "rm", "sed -i", "mkdir", "clone", "worktree", "move", "rename", "tar ", "zip", "7z", "xz", "rsync", "dd "}

// mayWrite reports whether a shell line may write, link, move or delete a file. It may report true
// for a line that does not. Most lines are ruled out here without parsing them.
func mayWrite(line string) bool {
	if strings.Count(line, ">") > strings.Count(line, ">&")+strings.Count(line, ">/dev/null") {
		return true
	}
	return slices.ContainsFunc(writers, func(word string) bool { return strings.Contains(line, word) }) || loss.Mentions(line)
}

// Mark records the call.
func (r *Recorder) Mark(_ context.Context, came *grapnel.Event, v *grapnel.Verdict) error {
	if came.Kind != grapnel.ToolBefore {
		r.end(came)
		return nil
	}
	ev := happened(came, v)
	did := r.did(ev)
	did.call, did.did = callOf(ev), [2]string{callDigest(came), callDigest(ev)}
	err := r.past.store(ev, did.texts)
	past, ok := r.past.read(ev)
	must := !did.none() || len(past.Databases) > 0
	if ok && !past.add(&did, r.past.now()) { // usually nothing changes
		return err
	}
	var broken error
	wrong := r.past.counter.Count(sessionOwner(ev), r.past.key(ev), func(kept []byte) ([]byte, time.Duration) {
		past, err := readPast(kept)
		if err != nil {
			broken = fmt.Errorf("some of what the session did with files before is unknown: %w", err)
		}
		before := kept
		past.add(&did, r.past.now())
		if past.Began.IsZero() {
			past.Began = time.Now()
		}
		kept = past.encode()
		if len(kept) > maxPastBytes {
			broken = errors.Join(broken, fmt.Errorf("%w: the session has moved too many files", files.ErrFull))
			return before, keepPast
		}
		return kept, keepPast
	})
	if !must {
		wrong = nil // without a place for its state, Grapnel only knows the call itself, and each event says so
	}
	return errors.Join(err, wrong, broken)
}

// deeds are the actions of one call on files. The paths of texts are real, all others absolute.
type deeds struct {
	cwd     string
	decided []string
	made    []string // directories that do not exist yet, the topmost one of each path
	deleted []string
	moves   []movedPath
	texts   map[string]shell.Text

	databases []databaseDeed
	call      call
	did       [2]string
}

func (d *deeds) none() bool {
	return len(d.decided)+len(d.made)+len(d.moves)+len(d.texts) == 0
}

// did returns the actions of a call on files.
func (r *Recorder) did(ev *grapnel.Event) deeds {
	d := deeds{texts: map[string]shell.Text{}, cwd: ev.Session.CWD}
	scripts := r.facts.Of(ev).Scripts()
	for _, script := range scripts {
		d.line(script)
	}
	d.databaseDeeds(ev, scripts)
	if len(ev.Tool.Commands) > 0 {
		return d
	}
	var files []string
	for _, p := range ev.Tool.Paths {
		if p.Use != grapnel.UseWrite {
			continue
		}
		if path := d.write(p.Path); path != "" && !slices.Contains(files, path) {
			files = append(files, path)
		}
	}
	whole := ev.Tool.Class == grapnel.ClassWrite && len(files) == 1
	for _, path := range files {
		d.texts[path] = shell.Text{Text: ev.Tool.Content, Part: !whole}
	}
	return d
}

// line adds the actions of a shell line.
func (d *deeds) line(script *shell.Script) {
	for _, name := range script.Writes {
		d.write(name)
	}
	for i := range script.Commands {
		for _, file := range script.Files(i) {
			switch {
			case file.Glob || strings.ContainsAny(file.Path, "*?["):
			case file.Use == shell.UseDelete:
				d.deleted = append(d.deleted, home.Absolute(file.Path, d.cwd))
			case file.Use == shell.UseWrite:
				d.write(file.Path)
				if !moves(&script.Commands[i]) {
					d.make(match.RealPath(home.Absolute(file.Path, d.cwd)))
				}
			}
		}
		for _, c := range script.Copies(i) {
			d.move(c, true)
		}
	}
	for _, w := range script.Wrote() {
		if path := d.write(w.Name); path != "" && w.Text.Text != "" { // some of the text is known
			d.texts[path] = w.Text
		}
	}
	for _, m := range script.Moved() {
		d.move(m, false)
	}
}

func (d *deeds) move(m shell.Move, copied bool) {
	if from, to := home.Absolute(m.From, d.cwd), home.Absolute(m.To, d.cwd); storable(from) && storable(to) {
		d.moves = append(d.moves, movedPath{From: from, To: to, Copied: copied})
	}
}

// moves reports whether a command may move files from before the session.
func moves(c *shell.Command) bool {
	return slices.Contains([]string{"mv", "rsync", "ln"}, c.Name) || c.Name == "git" && slices.ContainsFunc(c.Args, func(w shell.Word) bool { return w.Text == "mv" })
}

// write adds a written file and returns its real path, or "" if it cannot be stored.
func (d *deeds) write(name string) string {
	path := match.RealPath(home.Absolute(name, d.cwd))
	d.make(filepath.Dir(path))
	if !storable(path) {
		return ""
	}
	if loss.Decides(filepath.Base(path)) && !slices.Contains(d.decided, path) {
		d.decided = append(d.decided, path)
	}
	return path
}

// make adds the topmost directory that does not exist of a path that is written. The agent's directory
// exists, so that a session makes nothing above it.
func (d *deeds) make(path string) {
	top := ""
	for dir := path; absent(dir); dir = filepath.Dir(dir) {
		top = dir
	}
	if top != "" && !within(top, d.cwd) && storable(top) && !slices.Contains(d.made, top) {
		d.made = append(d.made, top)
	}
}

// absent reports whether a file certainly does not exist.
func absent(name string) bool {
	_, err := os.Lstat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// add adds the actions of a call, and reports whether anything changed.
func (f *pastFiles) add(d *deeds, now time.Time) (changed bool) {
	drop := func(m movedPath) bool {
		return slices.Contains(d.deleted, m.To) || slices.ContainsFunc(d.moves, func(n movedPath) bool {
			return n.To == m.To && (n.From == m.From || !n.Copied && !m.Copied)
		})
	}
	moves := len(f.Moves)
	f.Moves = slices.DeleteFunc(f.Moves, drop)
	changed = len(f.Moves) < moves
	for _, m := range d.moves {
		m.At = now
		f.Moves, changed = append(f.Moves, m), true
	}
	for _, path := range d.made {
		if !slices.Contains(f.Made, path) {
			f.Made, changed = append(f.Made, path), true
		}
	}
	for _, path := range d.decided {
		if !slices.Contains(f.Decided, path) {
			f.Decided, changed = append(f.Decided, path), true
		}
	}
	return f.addDatabases(d, now) || changed
}

// encode returns the stored form. If it would be too long, it omits the oldest directories that the
// session made: then their deletion is only asked about.
func (f *pastFiles) encode() []byte {
	for {
		b := fmt.Appendf(nil, "began\t%d\n", f.Began.UnixNano())
		for _, m := range f.Moves {
			b = fmt.Appendf(b, "%d\t%s\t%s", m.At.UnixNano(), m.From, m.To)
			if m.Copied {
				b = append(b, "\tcopied"...)
			}
			b = append(b, '\n')
		}
		for _, path := range f.Decided {
			b = fmt.Appendf(b, "decided\t%s\n", path)
		}
		for i := range f.Databases {
			b = f.Databases[i].encode(b)
		}
		for _, path := range f.Made {
			b = fmt.Appendf(b, "made\t%s\n", path)
		}
		if len(b) <= maxPastBytes || len(f.Made) == 0 {
			return b
		}
		f.Made = f.Made[(len(f.Made)+3)/4:]
	}
}
