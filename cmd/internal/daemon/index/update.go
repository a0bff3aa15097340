package index

import (
	"context"
	"fmt"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/database"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/stats"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// tables are all tables with rows of Records.
var tables = []string{"record", "label", "again", "ran", "hook", "words", "summary"}

// batch adds the next lines of a log to the index. It reports whether there may be more. The lines and the
// position after them are one commit. The lines are flushed before: after a power cut, the index must not have
// lines that the journal has lost.
func (x *Index) batch(ctx context.Context, log *spool.Log) (more bool, err error) {
	var after int64
	err = x.file.Write(ctx, func(tx *database.Tx) error {
		u := update{Tx: tx, x: x, log: log}
		old, err := u.begin()
		if err != nil {
			return err
		}
		after, more, err = u.next()
		more = more || old
		return err
	})
	if err != nil {
		x.committed = -1
		return false, fmt.Errorf("cannot update the index: %w", err)
	}
	x.committed, x.changed = after, false
	x.reached.Store(after)
	return more, nil
}

// update is one change of the index.
type update struct {
	*database.Tx
	x   *Index
	log *spool.Log
	at  spool.Position
}

// begin reads the position. It removes all rows if they are not of this log, and rows of removed segments. It
// reports whether there may be more of them.
func (u *update) begin() (more bool, err error) {
	if _, err := u.Row("SELECT seq, key FROM position", nil, &u.at.At, &u.at.Key); err != nil {
		return false, err
	}
	same, err := u.log.Has(u.at)
	if err != nil {
		return false, err
	}
	if !same || u.x.changed {
		u.x.opts.Note(fmt.Errorf("%s has the index of another log: making it again", u.x.Log.Index))
		for _, table := range tables {
			if err := u.Run("DELETE FROM " + table); err != nil {
				return false, err
			}
		}
		u.at = spool.Position{}
	}
	if u.at.At == 0 || u.at.At != u.x.committed { // it is another index
		u.x.numbers = map[[3]string]int64{}
		if err := u.x.counts.resume(u.Tx, u.x.Reader); err != nil {
			return false, err
		}
	}
	return u.forget()
}

// forgetRows is how many rows of removed segments are removed in one commit, so that it stays short.
const forgetRows = 2048

// forget removes rows of segments that retention has removed.
func (u *update) forget() (more bool, err error) {
	base, err := base(u.log)
	if err != nil {
		return false, err
	}
	var last, n int64
	if _, err := u.Row("SELECT coalesce(max(seq), 0), count(*) FROM (SELECT seq FROM record WHERE seq < ? ORDER BY seq LIMIT ?)", []any{base, forgetRows}, &last, &n); err != nil || n == 0 {
		return false, err
	}
	if u.x.counts.first <= last {
		u.x.counts = summarizer{counter: stats.NewCounter(time.Time{})}
	}
	for _, query := range []string{
		"DELETE FROM again WHERE id IN (SELECT id FROM record WHERE seq <= ? AND late = 0)",
		"DELETE FROM words WHERE rowid IN (SELECT seq FROM record WHERE seq <= ?)",
		"DELETE FROM ran WHERE seq <= ?",
		"DELETE FROM summary WHERE first <= ?",
		"DELETE FROM record WHERE seq <= ?",
	} {
		if err := u.Run(query, last); err != nil {
			return false, err
		}
	}
	return n == forgetRows, nil
}

// next adds the next lines.
func (u *update) next() (after int64, more bool, err error) {
	batch, err := u.log.Next(u.at, batchLines, batchBytes)
	if err != nil {
		return 0, false, err
	}
	for i := range batch.Lines {
		line := &batch.Lines[i]
		line.Decode()
		if err := u.add(line); err != nil {
			return 0, false, err
		}
	}
	return batch.At, batch.More, u.Run("UPDATE position SET seq = ?, key = ?", batch.At, batch.Key)
}

// add adds a line, unless its event has a Record with this decision.
func (u *update) add(line *spool.Line) error {
	e := &line.Entry
	torn := ""
	if line.Torn != nil {
		torn = e.Error
	}
	values := []any{line.At, line.End - line.Begin, e.ID, e.Late, []byte(line.Name().Digest), sumOf(line.Text), database.Stamp(e.Time), int64(e.Decision), int64(e.Would), torn}
	for _, text := range []string{e.Agent, e.Session, string(e.Event)} {
		num, err := u.label(text)
		if err != nil {
			return err
		}
		values = append(values, num)
	}
	n, err := u.Change(`INSERT INTO record(seq, size, id, late, digest, sum, time, decision, would, torn, agent, session, event)
		VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING`, values...)
	switch {
	case err != nil:
		return err
	case n > 0:
		return u.detail(line)
	case e.Late:
		return nil // it was the same line
	}
	return u.Run("INSERT INTO again(seq, id, decision) SELECT ?, id, decision FROM record WHERE id = ? AND late = 0 AND decision = ? AND sum <> ?", line.At, e.ID, int64(e.Decision), sumOf(line.Text))
}

// detail adds the hooks, the words and the counts of a line.
func (u *update) detail(line *spool.Line) error {
	for i := range line.Entry.Hooks {
		run := &line.Entry.Hooks[i]
		num, err := u.hook(run.Name, run.Source)
		if err == nil {
			err = u.Run("INSERT INTO ran(hook, seq) VALUES (?,?) ON CONFLICT DO NOTHING", num, line.At)
		}
		if err != nil {
			return err
		}
	}
	words, err := wordsOf(line, u.x.State)
	if err == nil {
		err = u.Run("INSERT INTO words(rowid, text) VALUES (?,?)", line.At, words)
	}
	if err != nil {
		return err
	}
	u.x.counts.add(u.x.Reader, line)
	return u.x.counts.store(u.Tx)
}

// hook returns the number of a hook.
func (u *update) hook(name, source string) (int64, error) {
	return u.number([3]string{"hook", name, source}, "INSERT INTO hook(name, source) VALUES (?,?) ON CONFLICT DO NOTHING", "SELECT num FROM hook WHERE name = ? AND source = ?", name, source)
}

// label returns the number of a label.
func (u *update) label(text string) (int64, error) {
	return u.number([3]string{"label", text}, "INSERT INTO label(text) VALUES (?) ON CONFLICT DO NOTHING", "SELECT num FROM label WHERE text = ?", text)
}

// maxNumbers is how many numbers an Index remembers. A machine has few agents, events and hooks, and many sessions.
const maxNumbers = 4096

// number returns the number that a table has for texts, which it adds if they are new.
func (u *update) number(key [3]string, add, find string, texts ...any) (num int64, err error) {
	if num, known := u.x.numbers[key]; known {
		return num, nil
	}
	if err := u.Run(add, texts...); err != nil {
		return 0, err
	}
	if _, err := u.Row(find, texts, &num); err != nil {
		return 0, err
	}
	if len(u.x.numbers) >= maxNumbers {
		clear(u.x.numbers)
	}
	u.x.numbers[key] = num
	return num, nil
}
