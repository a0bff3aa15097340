package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/loss"
	"github.com/grapnel-dev/grapnel/internal/match"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/readfile"
	"github.com/grapnel-dev/grapnel/internal/secret"
	"github.com/grapnel-dev/grapnel/internal/shell"
)

// sessionPast remembers which files the calls of a session wrote, which directories they made, and what
// they linked and moved. Rules about commands then also see the commands of a script that the session
// wrote, when a later call runs it, and rules about deletions know what was not there before the session.
//
// It stores paths. Commands come from the file itself when it is run. The text that a call writes
// is stored for a short time only, because the next call may begin before the file is there.
type sessionPast struct {
	counter Counter
	now     func() time.Time
}

// Limits for what is stored of a session. The oldest entries are dropped first.
const (
	maxPastBytes  = 48 << 10 // all paths
	maxPastText   = 32 << 10 // one text
	maxPastPath   = 1 << 10  // one path
	maxPastMoves  = 64
	maxPastLinked = 12 // moves that one line is read with
	keepPast      = 7 * 24 * time.Hour
	keepText      = 10 * time.Minute // how long a text is stored
	justMoved     = time.Minute      // how long a move counts although its target does not exist
)

// writtenPaths is the stored value of a session. Each entry is one line, because each shell line of
// the session reads it.
type writtenPaths struct {
	Files []string    // real paths, the newest last
	Made  []string    // real paths of directories that did not exist, the newest last
	Moves []movedPath // the newest last
}

type movedPath struct {
	From, To string
	At       time.Time
}

// readPaths decodes a stored value.
func readPaths(kept []byte) (paths writtenPaths, err error) {
	paths.Files = make([]string, 0, bytes.Count(kept, []byte("\n"))+1)
	for line := range strings.Lines(string(kept)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.IndexByte(line, '\t') < 0 {
			paths.Files = append(paths.Files, line)
			continue
		}
		switch fields := strings.Split(line, "\t"); len(fields) {
		case 2:
			paths.Made = append(paths.Made, fields[1])
		case 3:
			at, wrong := strconv.ParseInt(fields[0], 10, 64)
			paths.Moves, err = append(paths.Moves, movedPath{fields[1], fields[2], time.Unix(0, at)}), errors.Join(err, wrong)
		default:
			err = errors.Join(err, errors.New("a line has the wrong number of fields"))
		}
	}
	return paths, err
}

// storable reports whether a path fits into a line of the stored value.
func storable(path string) bool {
	return path != "" && len(path) <= maxPastPath && !strings.ContainsAny(path, "\t\n")
}

// writtenText is the stored text of one file.
type writtenText struct {
	shell.Text
	At time.Time `json:"at"`
}

func (p *sessionPast) key(ev *grapnel.Event, more ...string) string {
	return strings.Join(append([]string{"past", ev.Agent.Name, ev.Session.ID}, more...), "\x00")
}

// of implements match.PastOf. If the stored value cannot be read, the recorder reports it.
func (p *sessionPast) of(ev *grapnel.Event, scripts func() []*shell.Script) *shell.Past {
	kept, err := counted(p.counter, p.key(ev))
	if err != nil || len(kept) == 0 {
		return nil
	}
	if !concern(kept, scripts()) {
		return nil
	}
	paths, err := readPaths(kept)
	if err != nil {
		return nil
	}
	past := &shell.Past{Texts: func(name string) []shell.Text { return p.texts(ev, &paths, name) }}
	for _, m := range slices.Backward(paths.Moves) {
		if len(past.Moved) >= maxPastLinked {
			break
		}
		if p.now().Sub(m.At) > justMoved && gone(m.To) {
			continue
		}
		past.Moved = append(past.Moved, shell.Move{From: m.From, To: m.To})
		if from, to := relativeTo(ev.Session.CWD, m.From), relativeTo(ev.Session.CWD, m.To); to != m.To {
			past.Moved = append(past.Moved, shell.Move{From: from, To: to})
		}
	}
	slices.Reverse(past.Moved) // as in a line: what was moved first comes first
	return past
}

// files implements match.SessionOf. What was moved into a directory existed before.
func (p *sessionPast) files(ev *grapnel.Event) match.SessionFiles {
	kept, err := counted(p.counter, p.key(ev))
	if err != nil || len(kept) == 0 {
		return match.SessionFiles{}
	}
	paths, err := readPaths(kept)
	if err != nil {
		return match.SessionFiles{}
	}
	return match.SessionFiles{
		Made: func(path string) bool {
			return slices.ContainsFunc(paths.Made, func(made string) bool { return within(made, path) }) &&
				!slices.ContainsFunc(paths.Moves, func(m movedPath) bool { return within(path, m.To) || within(m.To, path) })
		},
		Wrote: func(path string) bool { return slices.Contains(paths.Files, path) },
	}
}

// within reports whether a path is a directory or below it.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// relativeTo returns a path relative to dir, if the path is inside of it.
func relativeTo(dir, name string) string {
	if rel, err := filepath.Rel(dir, name); dir != "" && err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return name
}

// gone reports whether a file does not exist in a directory that does.
func gone(name string) bool {
	_, err := os.Lstat(filepath.Dir(name))
	return err == nil && absent(name)
}

// runBy lists files that programs run although the line does not name them.
var runBy = map[string][]string{
	"make": {"Makefile", "makefile", "GNUmakefile"}, "just": {"justfile", "Justfile", ".justfile"},
	"npm": {"package.json"}, "pnpm": {"package.json"}, "yarn": {"package.json"}, "bun": {"package.json"},
	"pytest": {"conftest.py"}, "go": {"main.go"},
}

// concern reports whether one of the lines may run a file of the session, or names a moved one. It
// does not decode the stored value, because few lines do.
func concern(kept []byte, scripts []*shell.Script) bool {
	names, glob := map[string]bool{}, false
	for _, script := range scripts {
		for _, name := range script.Reads {
			names[filepath.Base(name)] = true
		}
		for i := range script.Commands {
			c := &script.Commands[i]
			names[filepath.Base(c.Path)] = true
			for _, file := range runBy[c.Name] {
				names[file] = true
			}
			for _, a := range c.Args {
				_, value, _ := strings.Cut(a.Text, "=") // --file=x
				names[filepath.Base(a.Text)], names[filepath.Base(value)] = true, true
				glob = glob || strings.ContainsAny(a.Text, "*?[$`")
			}
		}
	}
	for len(kept) > 0 {
		line, rest, _ := bytes.Cut(kept, []byte("\n"))
		if name := line[bytes.LastIndexByte(line, filepath.Separator)+1:]; names[string(name)] || glob && bytes.IndexByte(line, '\t') >= 0 {
			return true
		}
		kept = rest
	}
	return false
}

// texts returns the texts that a file may have, if the session wrote it.
func (p *sessionPast) texts(ev *grapnel.Event, paths *writtenPaths, name string) (texts []shell.Text) {
	path := match.RealPath(home.Absolute(name, ev.Session.CWD))
	for range maxPastLinked { // a file that was moved or linked is read under its former names, too
		if slices.Contains(paths.Files, path) {
			texts = append(texts, p.textsOf(ev, path)...)
		}
		i := slices.IndexFunc(paths.Moves, func(m movedPath) bool { return m.To == path })
		if i < 0 {
			break
		}
		path = paths.Moves[i].From
	}
	return texts
}

// textsOf returns the content of a file and the text that a call has just written to it.
func (p *sessionPast) textsOf(ev *grapnel.Event, path string) (texts []shell.Text) {
	content, err := readfile.Regular(path, maxPastRead)
	if err == nil {
		texts = append(texts, shell.Text{Text: string(content)})
	}
	kept, err := counted(p.counter, p.key(ev, path))
	var written writtenText
	if err == nil && json.Unmarshal(kept, &written) == nil && p.now().Sub(written.At) < keepText && written.Text.Text != string(content) {
		texts = append(texts, written.Text)
	}
	return texts
}

// maxPastRead is the maximum number of bytes of a file that are read.
const maxPastRead = 256 << 10

// pastRecorder is the hook that records what a call does. It decides nothing.
type pastRecorder struct {
	past   *sessionPast
	facts  *match.FactCache
	source *grapnel.Source // of the first policy with rules about commands; nil = nothing needs to be recorded
}

// spec returns the Spec of the recorder. If it fails, the failure is reported, and the call
// continues: rules that look at the call itself work without it.
func (r *pastRecorder) spec() grapnel.Spec {
	return grapnel.Spec{
		Name: "session-files", Source: notice.OwnSource(*r.source), On: []grapnel.Kind{grapnel.ToolBefore},
		Match: r, Hook: r, Phase: grapnel.PhaseObserve, OnError: grapnel.OnErrorOpen,
	}
}

// Handle returns an empty outcome. It is for callers that do not support Marker.
func (*pastRecorder) Handle(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
	return grapnel.Outcome{}, nil
}

// Explain returns the purpose of the hook.
func (*pastRecorder) Explain(*grapnel.Event, *grapnel.Verdict) string {
	return "remembers which files the session writes"
}

// Match reports whether the call writes, links or moves files, and is not blocked.
func (r *pastRecorder) Match(came *grapnel.Event, v *grapnel.Verdict) (bool, error) {
	ev := happened(came, v)
	if ev.Tool == nil || blocked(ev, v) {
		return false, nil
	}
	if len(ev.Tool.Commands) == 0 {
		return ev.Tool.Content != "" && slices.ContainsFunc(ev.Tool.Paths, func(p grapnel.Path) bool { return p.Use == grapnel.UseWrite }), nil
	}
	return slices.ContainsFunc(ev.Tool.Commands, mayWrite), nil
}

// writers are parts of shell lines that write, make, link, move or delete files without a redirection.
var writers = []string{"tee", "mv", "ln", "cp", "mount", "curl", "wget", "install", "rm", "sed -i", "mkdir", "clone", "worktree", "move", "rename"}

// mayWrite reports whether a shell line may write, link, move or delete a file. It may report true
// for a line that does not. Most lines are ruled out here without parsing them.
func mayWrite(line string) bool {
	if strings.Count(line, ">") > strings.Count(line, ">&")+strings.Count(line, ">/dev/null") {
		return true
	}
	return slices.ContainsFunc(writers, func(word string) bool { return strings.Contains(line, word) }) || loss.Mentions(line)
}

// Mark records the call.
func (r *pastRecorder) Mark(_ context.Context, came *grapnel.Event, v *grapnel.Verdict) error {
	ev := happened(came, v)
	did := r.did(ev)
	if len(did.files)+len(did.made)+len(did.moves)+len(did.deleted) == 0 {
		return nil
	}
	var errs []error
	for path, text := range did.texts {
		if len(text.Text) > maxPastText {
			continue
		}
		text.Text = secret.Hide(text.Text)
		data, _ := json.Marshal(writtenText{text, r.past.now()}) // a text and a time can always be marshaled
		errs = append(errs, r.past.counter.Count(r.past.key(ev, path), func([]byte) ([]byte, time.Duration) { return data, keepText }))
	}
	if kept, err := counted(r.past.counter, r.past.key(ev)); err == nil { // usually nothing changes
		if paths, err := readPaths(kept); err == nil && !paths.add(did, r.past.now()) {
			return errors.Join(errs...)
		}
	}
	var broken error
	errs = append(errs, r.past.counter.Count(r.past.key(ev), func(kept []byte) ([]byte, time.Duration) {
		paths, err := readPaths(kept)
		if err != nil {
			broken = fmt.Errorf("some files that the session wrote before are unknown: %w", err)
		}
		if !paths.add(did, r.past.now()) && broken == nil {
			return nil, 0
		}
		return paths.encode(), keepPast
	}), broken)
	return errors.Join(errs...)
}

// deeds is what one call does with files. The written files are real paths, all others absolute
// paths.
type deeds struct {
	cwd     string
	files   []string
	made    []string // directories that do not exist yet, the topmost one of each path
	deleted []string
	moves   []movedPath
	texts   map[string]shell.Text
}

// did returns what a call does with files.
func (r *pastRecorder) did(ev *grapnel.Event) deeds {
	d := deeds{texts: map[string]shell.Text{}, cwd: ev.Session.CWD}
	for _, script := range r.facts.Of(ev).Scripts() {
		d.line(script)
	}
	if len(ev.Tool.Commands) > 0 {
		return d
	}
	for _, p := range ev.Tool.Paths {
		if p.Use == grapnel.UseWrite {
			d.write(p.Path)
		}
	}
	whole := ev.Tool.Class == grapnel.ClassWrite && len(d.files) == 1
	for _, path := range d.files {
		d.texts[path] = shell.Text{Text: ev.Tool.Content, Part: !whole}
	}
	return d
}

// line adds what a shell line does.
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
	}
	for _, w := range script.Wrote() {
		if path := d.write(w.Name); path != "" {
			d.texts[path] = w.Text
		}
	}
	for _, m := range script.Moved() {
		if from, to := home.Absolute(m.From, d.cwd), home.Absolute(m.To, d.cwd); storable(from) && storable(to) {
			d.moves = append(d.moves, movedPath{From: from, To: to})
		}
	}
}

// moves reports whether a command may move what was there before the session.
func moves(c *shell.Command) bool {
	return slices.Contains([]string{"mv", "rsync", "ln"}, c.Name) || c.Name == "git" && slices.ContainsFunc(c.Args, func(w shell.Word) bool { return w.Text == "mv" })
}

// write adds a written file and returns its real path, or "" if it is not stored.
func (d *deeds) write(name string) string {
	d.make(filepath.Dir(match.RealPath(home.Absolute(name, d.cwd))))
	if !runnable(name) {
		return ""
	}
	path := match.RealPath(home.Absolute(name, d.cwd))
	if !storable(path) {
		return ""
	}
	if !slices.Contains(d.files, path) {
		d.files = append(d.files, path)
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

// dataFiles are the ends of names of files that programs write all the time and that are never run.
var dataFiles = []string{
	".log", ".md", ".css", ".scss", ".html", ".htm", ".svg", ".png", ".jpg", ".jpeg", ".gif", ".pdf", ".csv", ".tsv", ".lock", ".xml", ".out",
	".toml", ".ini", ".tmp", ".gz", ".tgz", ".zip", ".json", ".jsonl",
}

// runnable reports whether a file may be run as code later, or decides about deletions, by its name.
func runnable(name string) bool {
	return !strings.HasPrefix(name, "/dev/") &&
		(filepath.Base(name) == "package.json" || loss.Decides(filepath.Base(name)) || !slices.Contains(dataFiles, strings.ToLower(filepath.Ext(name))))
}

// add adds what a call did, and reports whether anything changed.
func (w *writtenPaths) add(d deeds, now time.Time) (changed bool) {
	drop := func(m movedPath) bool {
		return slices.Contains(d.deleted, m.To) || slices.ContainsFunc(d.moves, func(n movedPath) bool { return n.To == m.To })
	}
	moves := len(w.Moves)
	w.Moves = slices.DeleteFunc(w.Moves, drop)
	changed = len(w.Moves) < moves
	for _, m := range d.moves {
		m.At = now
		w.Moves, changed = append(w.Moves, m), true
	}
	w.Moves = w.Moves[max(0, len(w.Moves)-maxPastMoves):]
	for _, path := range d.made {
		if !slices.Contains(w.Made, path) {
			w.Made, changed = append(w.Made, path), true
		}
	}
	for _, path := range d.files {
		if i := slices.Index(w.Files, path); i < 0 {
			w.Files, changed = append(w.Files, path), true
		} else if i < len(w.Files)/2 { // keep what is still in use
			w.Files, changed = append(slices.Delete(w.Files, i, i+1), path), true
		}
	}
	return changed
}

// encode returns the stored form, without the oldest entries if it would be too long.
func (w *writtenPaths) encode() []byte {
	for {
		b := []byte{}
		for _, m := range w.Moves {
			b = fmt.Appendf(b, "%d\t%s\t%s\n", m.At.UnixNano(), m.From, m.To)
		}
		for _, path := range w.Made {
			b = fmt.Appendf(b, "\t%s\n", path)
		}
		for _, path := range w.Files {
			b = append(append(b, path...), '\n')
		}
		if len(b) <= maxPastBytes {
			return b
		}
		w.Files = w.Files[(len(w.Files)+3)/4:]
		w.Made = w.Made[(len(w.Made)+3)/4:]
		w.Moves = w.Moves[(len(w.Moves)+3)/4:]
	}
}
