package index

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// Segments that another program removes, replaces or truncates are counted and told, and the index is made again:
// no reader gets their rows any more, and new lines are not missed.
func TestSegmentsChanged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*place) error{
		"the first":        func(p *place) error { return os.Remove(p.segment(1)) },
		"the second":       func(p *place) error { return os.Remove(p.segment(2)) },
		"the newest":       func(p *place) error { return os.Remove(p.segment(3)) },
		"truncated":        func(p *place) error { return os.Truncate(p.segment(2), 3000) },
		"newest truncated": func(p *place) error { return os.Truncate(p.segment(3), 3000) },
		"replaced": func(p *place) error {
			other, err := os.ReadFile(p.segment(1))
			return errors.Join(err, os.WriteFile(p.segment(2)+".other", other, 0o600), os.Rename(p.segment(2)+".other", p.segment(2)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := begin(t)
			list := entries(90)
			for i := range 3 {
				if i > 0 {
					p.next()
				}
				p.put(list[30*i : 30*i+30]...)
			}
			var noted notes
			came := make(chan string, 100)
			x := p.keep(&Options{Note: noted.add, Appended: func(line *spool.Line) { came <- line.Entry.ID }})
			p.run(x)
			p.all()
			p.ok(change(p))
			await.Until(t, "it is noticed", func() bool { return x.Condition().Removed == 1 })
			p.ok(p.w.Close())
			time.Sleep(2 * lookEvery) // lines of a segment that is removed a moment later would be lost
			p.put(at("new", 500))
			if id := await.Receive(t, "the new line", came); id != "new" {
				t.Errorf("%s came, want only the new line", id)
			}
			await.Until(t, "the index is made again", func() bool { return strings.Contains(noted.String(), "making it again") })
			p.all()
			p.agree("after the change", x.Reader, Query{})
			if n := strings.Count(noted.String(), "another program has changed the log: "); n != 1 || x.Condition().Removed != 1 {
				t.Errorf("told %d times: %s; condition %+v", n, &noted, x.Condition())
			}
		})
	}
}

// A damaged line does not hide others, and does not stop a daemon that begins with it.
func TestLineChanged(t *testing.T) {
	t.Parallel()
	p := begin(t)
	p.put(entries(20)...)
	p.index()
	data, err := os.ReadFile(p.segment(1))
	p.ok(err)
	i := bytes.Index(data, []byte(`"id":"007"`))
	data[i+7] ^= 1
	j := bytes.Index(data, []byte(`"id":"011"`))
	data[j+bytes.IndexByte(data[j:], '\n')] = ' '
	f, err := os.OpenFile(p.segment(1), os.O_WRONLY, 0)
	p.ok(err)
	_, err = f.WriteAt(data, 0)
	p.ok(errors.Join(err, f.Close()))
	check := func(when string, all int) {
		t.Helper()
		torn := 0
		rows := p.rows(Query{Oldest: true})
		for _, row := range rows {
			if row.Event == spool.Torn {
				if torn++; !strings.Contains(row.Error, "changed in the journal") || !strings.Contains(string(row.Line), "native.grapnel.torn") {
					t.Errorf("%s: %+v", when, row)
				}
			}
		}
		c, err := p.Count(t.Context(), time.Time{})
		if n := c.Totals(); len(rows) != all || torn != 2 || err != nil || n.Unreadable != 2 || n.Firings != len(rows)-2 {
			t.Errorf("%s: %d rows, %d of them torn; counts %+v, %v", when, len(rows), torn, n, err)
		}
	}
	check("with the index", 20)
	p.put(at("more", 100))
	p.index()
	check("continued", 21)
}

// An index of another log, for example from a backup, is not used.
func TestOtherLog(t *testing.T) {
	t.Parallel()
	p, other := begin(t), begin(t)
	for i, e := range entries(40) {
		if i%2 == 0 {
			e.Session = "other"
		}
		p.put(e)
	}
	other.put(entries(60)...)
	p.index()
	other.index()
	p.ok(errors.Join(os.RemoveAll(p.Index), os.Rename(other.Index, p.Index)))
	r := p.Open()
	defer r.Close()
	p.agree("with another index", r, Query{}, Query{Filter: spool.Filter{Session: "other"}})
	var noted notes
	x := p.keep(&Options{Note: noted.add})
	p.run(x)
	p.all()
	if !strings.Contains(noted.String(), "has the index of another log") {
		t.Errorf("Note = %s", &noted)
	}
	p.agree("made again", r, Query{}, Query{Filter: spool.Filter{Session: "other"}})
	if n := p.sql(x.Reader, "SELECT count(*) FROM record"); n != 40 {
		t.Errorf("%d rows, want 40", n)
	}
}
