//go:build system

package index

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/database"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/internal/testhelp/notes"
)

// The index is damaged while an idle daemon has it open: the daemon notices without a new line, and readers that have the
// index open are never wrong.
func TestIndexDamagedMeanwhile(t *testing.T) {
	t.Parallel()
	for name := range damages(nil, nil) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, former := worn(t)
			var noted notes.Notes
			x := p.keep(&Options{Note: noted.Add})
			p.run(x)
			p.all()
			r := p.Open()
			defer r.Close()
			p.agree("before", r, Query{})
			p.ok(damages(p, former)[name]())
			p.agree("another process", r, Query{}, Query{Limit: 150})
			p.agree("the daemon", x.Reader, Query{}, Query{Limit: 150})
			await.Until(t, "the index is made again", func() bool {
				found := false
				n := int64(0)
				reader, err := database.OpenReader(options(p.Index))
				if err != nil {
					return false
				}
				defer reader.Close()
				err = reader.Read(t.Context(), func(v *database.View) error {
					found, err = v.Row("SELECT count(*) FROM record", nil, &n)
					return err
				})
				return err == nil && found && n == 200
			})
			p.put(at("more", 1000))
			p.all()
			p.agree("made again", r, Query{})
			p.agree("made again, the daemon", x.Reader, Query{})
			p.one(201)
			await.Until(t, "the condition is good", func() bool { return x.Condition() == Condition{} })
			if name == "nothing" && noted.String() != "" {
				t.Errorf("Note = %s", &noted)
			}
			if _, err := p.Keep(nil); !errors.Is(err, ErrLocked) {
				t.Errorf("another Keep = %v, want ErrLocked", err)
			}
			if info, err := os.Lstat(p.db()); err != nil || info.Mode() != 0o600 {
				t.Errorf("%v, %v", info, err)
			}
		})
	}
}

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
			var noted notes.Notes
			came := make(chan string, 100)
			x := p.keep(&Options{Note: noted.Add, Other: func(line *spool.Line) { came <- line.Entry.ID }})
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

// Follow shows each line once, in order, with an index that is there, behind, made later or removed, while
// segments are closed.
func TestLogFollow(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"absent", "behind", "complete", "made meanwhile", "removed meanwhile"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			p := begin(t)
			list := entries(60)
			p.put(list[:10]...)
			if state != "absent" && state != "made meanwhile" {
				p.index()
			}
			p.put(list[10:20]...)
			if state == "complete" {
				p.index()
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			came := make(chan string, 100)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for k, err := range p.Follow(ctx, Query{}) {
					if err != nil {
						k.ID = "! " + err.Error()
					}
					came <- k.ID
				}
			}()
			want := func(ids ...string) {
				t.Helper()
				for _, id := range ids {
					select {
					case got := <-came:
						if got != id {
							t.Fatalf("%s came, want %s", got, id)
						}
					case <-ctx.Done():
						t.Fatalf("%s did not come", id)
					}
				}
			}
			all := idsOf(list)
			want(all[:20]...)
			for i := 20; i < len(list); i += 4 {
				p.put(list[i])
				p.next()
				p.put(list[i+1], list[i], list[i+2])
				if state != "removed meanwhile" { // then it is not known that this line was shown
					p.put(list[0])
				}
				switch {
				case i == 20 && state == "made meanwhile", i == 40 && state != "absent":
					p.index()
				case i == 28 && state == "removed meanwhile":
					p.ok(os.RemoveAll(p.Index))
				}
				p.put(list[i+3])
				want(all[i : i+4]...)
			}
			time.Sleep(3 * followPoll) // no line is shown twice
			if len(came) > 0 {
				t.Errorf("%s came, too", <-came)
			}
			cancel()
			<-ended
		})
	}
}
