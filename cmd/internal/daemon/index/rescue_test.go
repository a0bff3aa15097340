package index

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/internal/testhelp/notes"
)

// replace puts another file in the place of the database.
func (p *place) replace(content []byte) error {
	return errors.Join(os.WriteFile(p.db()+".other", content, 0o600), os.Rename(p.db()+".other", p.db()))
}

// damages are what other programs do to an index. They can happen while it is open.
func damages(p *place, former []byte) map[string]func() error {
	return map[string]func() error{
		"nothing":      func() error { return nil },
		"the database": func() error { return os.Remove(p.db()) },
		"all files": func() error {
			_ = errors.Join(os.Remove(p.db()+"-wal"), os.Remove(p.db()+"-shm"), os.Remove(p.Index+"/index.lock"))
			return os.Remove(p.db())
		},
		"the directory":      func() error { return errors.Join(os.Rename(p.Index, p.Index+".gone"), os.RemoveAll(p.Index+".gone")) },
		"moved away":         func() error { return os.Rename(p.db(), p.db()+".moved") },
		"replaced":           func() error { return p.replace(bytes.Repeat([]byte("no database "), 1000)) },
		"a former one":       func() error { return p.replace(former) },
		"truncated":          func() error { return os.Truncate(p.db(), 5000) },
		"empty":              func() error { return os.Truncate(p.db(), 0) },
		"another version":    func() error { return p.replaceChanged(former, "PRAGMA user_version = 99") },
		"words of no format": func() error { return p.replaceChanged(former, "DELETE FROM words_config") },
	}
}

// replaceChanged puts a database in the place of the index after a statement has changed it.
func (p *place) replaceChanged(content []byte, statement string) error {
	other := p.db() + ".changed"
	if err := os.WriteFile(other, content, 0o600); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", other)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(context.Background(), statement)
	return errors.Join(err, db.Close(), os.Rename(other, p.db()))
}

// worn returns a log of which the index has a part, and what the index was before.
func worn(t *testing.T) (p *place, former []byte) {
	t.Helper()
	p = begin(t)
	list := entries(200)
	p.put(list[:30]...)
	p.index()
	former, err := os.ReadFile(p.db())
	p.ok(err)
	p.put(list[30:100]...)
	p.next()
	p.put(list[100:]...)
	return p, former
}

// Whatever happens to the index while nothing runs: results stay complete, and the next daemon makes it again.
func TestIndexDamagedBefore(t *testing.T) {
	t.Parallel()
	for name := range damages(nil, nil) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, former := worn(t)
			p.index()
			p.ok(damages(p, former)[name]())
			check := func(when string) {
				t.Helper()
				r := p.Open()
				defer r.Close()
				p.agree(when, r, Query{}, Query{Limit: 7}, Query{Oldest: true, After: 1<<32 | 5000})
				p.want(Query{Text: "wintermute", Limit: 3}, "199", "198", "197")
			}
			check("damaged")
			p.index()
			check("made again")
			p.one(200)
		})
	}
}

// one checks that the index has each of n lines once.
func (p *place) one(n int64) {
	p.t.Helper()
	r := p.Open()
	defer r.Close()
	for _, query := range []string{"SELECT count(*) FROM record", "SELECT count(DISTINCT id) FROM record", "SELECT count(*) FROM ran", "SELECT count(*) FROM words WHERE words MATCH 'wintermute'"} {
		if got := p.sql(r, query); got != n {
			p.t.Errorf("%s = %d, want %d", query, got, n)
		}
	}
}

// An index that goes away between two pages does not end a result early, and repeats nothing.
func TestIndexGoneBetweenPages(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"removed", "made again in part"} {
		for _, oldest := range []bool{true, false} {
			t.Run(fmt.Sprint(what, oldest), func(t *testing.T) {
				t.Parallel()
				p, former := worn(t)
				p.index()
				p.put(at("new", 700), entries(1)[0], entries(200)[199])
				var got []string
				r := p.Open()
				defer r.Close()
				for row, err := range r.Records(t.Context(), Query{Oldest: oldest, Lean: true}) {
					if err != nil {
						t.Fatal(err)
					}
					if got = append(got, row.ID); len(got) == 10 {
						p.ok(os.RemoveAll(p.Index))
						if what != "removed" {
							p.ok(os.Mkdir(p.Index, 0o700))
							p.ok(os.WriteFile(p.db(), former, 0o600))
						}
					}
				}
				want := []string{}
				for _, row := range p.naive(Query{Oldest: oldest}) {
					want = append(want, row.ID)
				}
				if strings.Join(got, " ") != strings.Join(want, " ") {
					t.Errorf("got %d rows %v, want %d %v", len(got), got, len(want), want)
				}
			})
		}
	}
}

// Readers of IDs and counts that began with an index end without it.
func TestIndexGoneForIDs(t *testing.T) {
	t.Parallel()
	p, _ := worn(t)
	p.index()
	ids := p.IDs(t.Context())
	defer ids.Close()
	r := p.Open()
	defer r.Close()
	v := r.look(t.Context(), Query{})
	defer v.leave()
	p.ok(os.RemoveAll(p.Index))
	if found, err := ids.Find(t.Context(), "19", 20); err != nil || len(found) != 10 {
		t.Errorf("Find = %v, %v, want 10", found, err)
	}
	if short := ids.Short(t.Context(), "199"); short != "199" {
		t.Errorf("Short = %s", short)
	}
	if rows, err := v.first(t.Context(), "r.time, r.seq"); err != nil || rows != nil || v.head != 0 || v.done != 0 {
		t.Errorf("first = %d rows, %v, head %d", len(rows), err, v.head)
	}
}

// While the whole state is away, the condition says so, and nothing is made.
func TestStateAway(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	p := in(t, dir)
	p.put(entries(20)...)
	var noted notes.Notes
	x := p.keep(&Options{Note: noted.Add})
	p.run(x)
	p.all()
	p.ok(p.w.Close())
	p.ok(os.Rename(dir, dir+".away"))
	await.Until(t, "the loss is noticed", func() bool { return x.Condition().Removed == 1 })
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that another program removed was made again: %v", err)
	}
	p.ok(os.Rename(dir+".away", dir))
	p.put(at("back", 100))
	p.all()
	await.Until(t, "the condition is good", func() bool { return x.Condition().Err == nil })
	p.want(Query{Limit: 2}, "back", "019")
	p.agree("back", x.Reader, Query{})
	if n := strings.Count(noted.String(), "another program has changed the log"); n != 1 {
		t.Errorf("the loss is told %d times: %s", n, &noted)
	}
}
