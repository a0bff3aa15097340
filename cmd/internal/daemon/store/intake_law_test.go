//go:build system

package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// For all actions of writers and all interruptions of intakes, a reader of the log sees each
// Record once at every moment, and at the end the store contains each Record once.
//
// chaos: daemons
func TestIntakeLaw(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	cases := 0
	rapid.Check(t, func(t *rapid.T) {
		cases++
		dir := filepath.Join(base, fmt.Sprint(cases))
		l := Log{}
		l.Spool, l.Store = places(dir)
		s, err := Open(l.Store, &Options{unsafe: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		defer s.Close()
		w, err := spool.Open(l.Spool, &spool.Options{MaxAge: 1 << 62, KeepFiles: 1000})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		var want []string
		next := func() spool.Entry {
			e := fresh(fmt.Sprintf("r%03d", len(want)))
			want = append(want, e.ID)
			return e
		}
		fail := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		raw := func(text string) { // into the newest segment
			log, err := spool.OpenLog(l.Spool, time.Time{})
			fail(err)
			files := log.Files()
			fail(log.Close())
			if len(files) == 0 {
				return
			}
			f, err := os.OpenFile(filepath.Join(l.Spool, "journal", files[len(files)-1].Name()), os.O_APPEND|os.O_WRONLY, 0o600)
			fail(err)
			_, err = f.WriteString(text)
			fail(errors.Join(err, f.Close()))
		}
		pass := func(stopAt int) {
			in := &Intake{Spool: l.Spool, Store: s, age: 1}
			defer in.release()
			defer func() {
				if r := recover(); r != nil && r != (stop{}) {
					panic(r)
				}
			}()
			steps := 0
			in.step = func(string) {
				if steps++; steps == stopAt {
					panic(stop{})
				}
			}
			for range 2 {
				_, err := patient(in.once)
				fail(err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(*rapid.T) {
				e := next()
				w.Observe(context.Background(), &e.Record)
				fail(w.Err())
			},
			"tear": func(t *rapid.T) {
				raw(rapid.SampledFrom([]string{"{torn", "\n", "\n\n{}\n", "\x00\x00\x00", `{"id":"`}).Draw(t, "text"))
			},
			"end": func(*rapid.T) {
				log, err := spool.OpenLog(l.Spool, time.Time{})
				fail(err)
				fail(errors.Join(log.End(), log.Close()))
			},
			"pass": func(*rapid.T) { pass(0) },
			"stop": func(t *rapid.T) { pass(rapid.IntRange(1, 8).Draw(t, "step")) },
			"": func(t *rapid.T) {
				var got []string
				for k, err := range l.Read(context.Background(), Query{}) {
					if err == nil {
						got = append(got, k.ID)
					}
				}
				slices.Sort(got)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("shown (-want +got):\n%s", diff)
				}
			},
		})
		for range 3 {
			pass(0)
		}
		var got []string
		for row, err := range s.Records(context.Background(), Query{Oldest: true, Lean: true}) {
			fail(err)
			if row.Event != spool.Torn {
				got = append(got, row.ID)
			}
		}
		slices.Sort(got)
		var there []string
		for k, err := range l.Read(context.Background(), Query{}) { // an incomplete last line stays in the spool
			if err == nil {
				there = append(there, k.ID)
			}
		}
		slices.Sort(there)
		if diff := cmp.Diff(want, there); diff != "" {
			t.Fatalf("shown in the end (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("in the store (-want +got):\n%s", diff)
		}
	})
}
