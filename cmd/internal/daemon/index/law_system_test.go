//go:build system

package index

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// lawful makes the test of a law look like a test.
type lawful struct {
	testing.TB
	law *rapid.T
}

func (l lawful) Helper()                           {}
func (l lawful) Cleanup(f func())                  { l.law.Cleanup(f) }
func (l lawful) Context() context.Context          { return l.law.Context() }
func (l lawful) Errorf(format string, args ...any) { l.law.Errorf(format, args...) }
func (l lawful) Error(args ...any)                 { l.law.Error(args...) }
func (l lawful) Fatalf(format string, args ...any) { l.law.Fatalf(format, args...) }
func (l lawful) Fatal(args ...any)                 { l.law.Fatal(args...) }
func (l lawful) Logf(format string, args ...any)   { l.law.Logf(format, args...) }

// For all actions of writers, of retention and of an index that is stopped, removed, or made again at any moment,
// readers get exactly the same with the index as without, and as the lines of the journal say.
//
// chaos: daemons
func TestIndexLaw(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	cases := 0
	rapid.Check(t, func(r *rapid.T) {
		cases++
		dir := filepath.Join(base, fmt.Sprint(cases))
		defer func() { _ = os.RemoveAll(dir) }()
		p := in(lawful{law: r}, dir)
		writers := []*journal.Writer{p.w, {Dir: p.journal()}, {Dir: p.journal()}}
		defer writers[1].Close()
		defer writers[2].Close()
		retention := rapid.Bool().Draw(r, "retention")
		reader := p.Open()
		defer func() { _ = reader.Close() }()
		var x *Index
		defer func() {
			if x != nil {
				_ = x.Close()
			}
		}()
		n, first := 0, 0 // number of IDs, and the first of the newest segment
		put := func(r *rapid.T, e spool.Entry) {
			w := rapid.SampledFrom(writers).Draw(r, "writer")
			_, err := w.Append(lineOf(e))
			p.ok(err)
		}
		id := func(r *rapid.T) string {
			from := first
			if !retention { // a second answer becomes a Record if retention removes the first one: see package
				from = 0
			}
			if from == n {
				r.Skip("there is no Record")
			}
			return fmt.Sprintf("r%03d", rapid.IntRange(from, n-1).Draw(r, "id"))
		}
		keep := func() {
			if x == nil {
				var err error
				x, err = p.Keep(nil)
				p.ok(err)
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"write": func(r *rapid.T) {
				for range rapid.IntRange(1, 5).Draw(r, "lines") {
					e := at(fmt.Sprintf("r%03d", n), time.Duration(rapid.IntRange(0, 10).Draw(r, "time")))
					e.Decision = rapid.SampledFrom([]grapnel.Decision{grapnel.None, grapnel.Block}).Draw(r, "decision")
					put(r, e)
					n++
				}
			},
			"again": func(r *rapid.T) {
				e := at(id(r), 3)
				e.MS = float64(rapid.IntRange(0, 3).Draw(r, "ms"))
				put(r, e)
			},
			"late": func(r *rapid.T) {
				e := at(id(r), 4)
				e.Late, e.MS = true, float64(rapid.IntRange(0, 3).Draw(r, "ms"))
				put(r, e)
			},
			"tear": func(r *rapid.T) {
				if len(p.numbers()) == 0 {
					r.Skip("there is no segment")
				}
				p.raw("\n" + rapid.SampledFrom([]string{"{torn", "\n", "\n\n{}\n", "\x00\x00\x00", `{"id":"`, "\n{\"id\":\"r000\",\n"}).Draw(r, "text"))
			},
			"end": func(r *rapid.T) {
				if len(p.numbers()) == 0 {
					r.Skip("there is no segment")
				}
				p.next()
				first = n
			},
			"retire": func(r *rapid.T) {
				if !retention {
					r.Skip("without retention")
				}
				p.retire(rapid.IntRange(1, 20).Draw(r, "left"))
			},
			"index": func(*rapid.T) { keep(); p.catchUp(x) },
			"stop": func(*rapid.T) {
				if x != nil {
					p.ok(x.Close())
					x = nil
				}
			},
			"remove": func(*rapid.T) {
				p.ok(os.RemoveAll(p.Index))
			},
			"": func(r *rapid.T) {
				if rapid.IntRange(0, 9).Draw(r, "check") > 0 {
					return // to save time
				}
				p.agree("another reader", reader, Query{Oldest: true, Limit: 3}, Query{Filter: spool.Filter{Decisions: []grapnel.Decision{grapnel.Block}}},
					Query{Filter: spool.Filter{Since: epoch.Add(3 * time.Second)}}, Query{Text: "wintermute"}, Query{ID: "r001"},
					Query{After: journal.Position(2, 0), Before: journal.Position(4, 0)})
				if x != nil {
					p.agree("the daemon", x.Reader, Query{Limit: 2})
				}
			},
		})
	})
}
