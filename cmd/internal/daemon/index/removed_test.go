package index

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/notes"
)

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
	var noted notes.Notes
	x := p.keep(&Options{Note: noted.Add})
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
